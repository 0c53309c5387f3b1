# SPDX-License-Identifier: MIT
"""The timeline of a trace file, as HTML for the report's page."""
import html

import reasons
from common import duration, plural, printable

WIDTH, HIGH, LOW, COLUMNS = 1000, 38, 13, 300  # of a drawing: units; of it, columns
KEYS = (("good", "replayed", "launched as a part of a graph"),
        ("held", "held, then one by one", "kept back for a graph, and launched without"),
        ("eager", "eager", "launched at once, as without the library"),
        ("call", "calls", "calls of the program that end sequences, as a wait does"),
        ("blank", "blank", "the program launched nothing"))


def escape(text):
    return html.escape(printable(text))


def class_of(op):
    return "good" if op.replayed else "eager" if op.submit is None else "held"


def rect(x, y, w, h, kind, title=None):
    inner = f"<title>{escape(title)}</title></rect>" if title else "</rect>"
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" class="{kind}">{inner}'


def lane(label, height, parts):
    """A row: a name, and a drawing as wide as there is room."""
    return (f'<div class="lane"><span>{escape(label)}</span><svg viewBox="0 0 {WIDTH} {height}" '
            f'preserveAspectRatio="none" style="height:{height}px" role="img" aria-label="{escape(label)}">'
            + "".join(parts) + "</svg></div>")


def ticks(ns, number):
    """Times below the lanes."""
    times = "".join(f"<span>{duration(ns / 1e3 * k / (number - 1)) if k else 0}</span>" for k in range(number))
    return f'<div class="lane"><span></span><div class="ticks">{times}</div></div>'


def overview(trace):
    """The whole run: ops of each stream over time, by how they were submitted."""
    begin, end = trace.ops[0].time, trace.ops[-1].time + 1
    numbers = sorted({op.stream for op in trace.ops})[:12]
    bins = {n: [dict.fromkeys(("good", "held", "eager"), 0) for _ in range(COLUMNS)] for n in numbers}
    for op in trace.ops:
        if op.stream in bins:
            bins[op.stream][(op.time - begin) * COLUMNS // (end - begin)][class_of(op)] += 1
    most = max(sum(b.values()) for row in bins.values() for b in row)
    step, lanes = WIDTH / COLUMNS, []
    for n in numbers:
        parts = []
        for column, kinds in enumerate(bins[n]):
            y = HIGH
            for kind in ("good", "held", "eager"):
                h = kinds[kind] * HIGH / most
                if h:
                    y -= h
                    parts.append(rect(column * step, y, step, h, kind))
        lanes.append(lane(f"stream {n}", HIGH, parts))
    return "".join(lanes) + ticks(end - begin, 3)


def moment(trace, most=160):
    """A short time in the last quarter, op by op, with the launches that submitted them."""
    at = max(0, len(trace.ops) * 3 // 4 - most // 2)
    ops = trace.ops[at:at + most]
    begin, end = ops[0].time, max(ops[-1].time, ops[0].time + 1000)
    end += (end - begin) // 50
    scale = WIDTH / (end - begin)
    lanes = []

    def box(time, took, kind, title):
        """What began within the moment, if it is wide enough to see."""
        x = (min(max(time, begin), end) - begin) * scale
        return rect(x, 0, min(max(2, took * scale), WIDTH - x), LOW, kind, title)

    for n in sorted({op.stream for op in ops})[:8]:
        lanes.append(lane(f"stream {n}", LOW, [
            box(op.time, op.took or 0, class_of(op),
                f"{trace.what(op)}: {reasons.explained(trace.how(op), op.word())}")
            for op in ops if op.stream == n]))
        lanes.append(lane("submitted", LOW, [
            box(s.time, s.took, "good" if s.replayed else "held",
                f"{plural(s.replayed, 'operation')} by graph {s.trace}, {s.patches} patched, "
                f"{s.held - s.replayed} one by one: {reasons.explained(reasons.words(s.word()), s.word())}")
            for s in trace.submits if s.stream == n and begin <= s.time <= end]))
    lanes.append(lane("calls", LOW, [box(b.time, b.took, "call", trace.string(b.name))
                                     for b in trace.barriers if begin <= b.time <= end]))
    return "".join(lanes) + ticks(end - begin, 2)


def show(trace):
    if trace is None:
        return ('<h2>Timeline</h2><p class="soft">For a timeline, run the program with '
                "<code>autograph --report --trace ./app</code>.</p>")
    if not trace.ops:
        return '<h2>Timeline</h2><p class="soft">There is none: the trace file has no operations in it.</p>'
    keys = "".join(f'<li><span class="key {kind}"></span><abbr title="{escape(means)}">{name}</abbr></li>'
                   for kind, name, means in KEYS)
    flaws = "".join(f'<p class="soft">The trace file: {escape(f)}.</p>' for f in trace.flaws)
    return (f'<h2>Timeline</h2><p class="soft">The whole run, a row for each stream. The higher a column, the more '
            f"operations were issued at that time. A blank is a time in which the program launched nothing.</p>"
            f'<ul class="keys inline">{keys}</ul>{overview(trace)}'
            f'<h2>A moment of it</h2><p class="soft">A row has the operations when the program issued them. '
            f'"Submitted" is when the GPU got them: one graph launch for many operations.</p>'
            f"{moment(trace)}{flaws}")

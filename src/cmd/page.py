# SPDX-License-Identifier: MIT
"""The report as one HTML file: no script, nothing loaded from elsewhere, light and dark."""
import html

import report
import tracefile
from common import Failure, count, duration, noun, plural, printable, share

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2127; --soft: #5f6b7a; --line: #dde2e8;
        --card: #f5f7f9; --good: #16866b; --held: #c9463d; --eager: #d9a02b; --call: #6b5bd2; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181d; --text: #e6e9ed; --soft: #98a3b0; --line: #303842; --card: #1c2229;
          --good: #35b893; --held: #ee6e66; --eager: #e3b04b; --call: #9b8df0; } }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--back);
       color: var(--text); font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
hr { border: 0; border-top: 1px solid var(--line); margin: 3rem 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .7rem;
         margin: 1rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
        padding: .6rem 1rem; }
.card b { display: block; font-size: 1.5rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { text-align: left; color: var(--soft); font-weight: 500; white-space: nowrap; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { width: 1%; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font: .9em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
code.one { white-space: nowrap; }
.bar { display: flex; min-width: 7rem; height: .8rem; margin-top: .3rem; background: var(--line);
       border-radius: 3px; overflow: hidden; }
.bar i { display: block; background: var(--good); } .bar i.bad { background: var(--held); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .3rem 0 1rem;
       vertical-align: -.08rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.good { fill: var(--good); background: var(--good); }
.held { fill: var(--held); background: var(--held); }
.eager { fill: var(--eager); background: var(--eager); }
.call { fill: var(--call); background: var(--call); }
.axis { stroke: var(--line); }
"""


def escape(text):
    return html.escape(printable(text))


def bar(part, bad=False):
    kind = ' class="bad"' if bad else ""
    return f'<div class="bar"><i{kind} style="width:{100 * part:.1f}%"></i></div>'


def rows_of(header, rows, right=()):
    """A table; cells are HTML already."""
    def line(tag, cells):
        return "<tr>" + "".join(f'<{tag}{" class=n" if i in right else ""}>{c}</{tag}>'
                                for i, c in enumerate(cells)) + "</tr>"
    return ('<div class="scroll"><table>' + line("th", header)
            + "".join(line("td", r) for r in rows) + "</table></div>")


# -- Parts ------------------------------------------------------------------------

def cards(data):
    ops = data["ops"]
    us = report.saved(data)
    counted = [(ops["total"], "op"), (data["replays"], "graph launch"), (data["traces"], "trace"),
               (data["patches"], "patch")]
    shown = [(share(ops["replayed"], ops["total"]), "of ops replayed"),
             *((count(n), noun(n, word)) for n, word in counted)]
    if us is not None:
        shown.insert(1, (duration(us), "saved (estimate)"))
    if data.get("duels"):
        shown.append((count(data["duels"]), f"{noun(data['duels'], 'duel')}, {count(data['duels_lost'])} lost"))
    if data["errors"]:
        shown.append((count(data["errors"]), noun(data["errors"], "error")))
    return '<div class="cards">' + "".join(
        f'<div class="card"><b>{a}</b>{b}</div>' for a, b in shown) + "</div>"


def streams(data):
    rows = []
    for s in sorted(data["streams"], key=lambda s: -s["ops"]):
        rows.append([count(s["number"]), escape(report.words(s["kind"])), count(s["ops"]),
                     share(s["replayed"], s["ops"]),
                     bar(s["replayed"] / s["ops"] if s["ops"] else 0), count(s["replays"]),
                     count(s["traces"])])
    return "<h2>Streams</h2>" + rows_of(
        ["stream", "kind", "ops", "replayed", "", "launches", "traces"], rows, (0, 2, 3, 5, 6))


def traces(data):
    most = max((t["saved_us"] for t in data["trace_list"]), default=0) or 1
    rows = []
    for t in report.replayed_traces(data)[:100]:
        rows.append([count(t["number"]), count(t["stream"]), count(t["length"]),
                     count(t["replays"]), count(t["patches"]), duration(t["saved_us"]),
                     bar(max(0, t["saved_us"]) / most),
                     f"<code>{escape(report.kernels(data, t, 6))}</code>"])
    left = report.others(data, 100)
    return "<h2>Traces</h2>" + rows_of(
        ["trace", "stream", "ops", "replays", "patches", "saved", "", "what"],
        rows, (0, 1, 2, 3, 4, 5)) + (
            f'<p class="soft">and {plural(left, "other")}, which did less or nothing</p>' if left else "")


def stands(data):
    found = report.obstacles(data)
    head = "<h2>What stands in the way</h2>"
    if not found or data["ops"]["total"] == 0:
        return head + f"<p>{escape(report.stands(data)[0])}</p>"
    with_ops = found[0][0] is not None
    weight = [f[0] if with_ops else f[1] for f in found]
    rows = [[*([count(f[0])] if with_ops else []), count(f[1]) if f[1] else "",
             bar(w / (weight[0] or 1), bad=True), f'<code class="one">{escape(f[2])}</code>',
             escape(f[3])] for f, w in zip(found[:30], weight)]
    header = [*(["ops lost"] if with_ops else []), "times", "", "because of", "what to do"]
    head += "".join(f"<p>{escape(line)}</p>" for line in report.stopped(data) + report.little(data))
    return head + rows_of(header, rows, (0, 1) if with_ops else (0,))


def callsites(data):
    rows = []
    for c in sorted(data["callsites"], key=lambda c: -c["samples"])[:30]:
        rows.append([count(c["samples"]), f"<code>{escape(c['function'] or '?')}</code>",
                     f"<code>{escape(report.place(data, c))}</code>"])
    return "<h2>Where these calls come from</h2>" + rows_of(["samples", "call", "from"], rows, (0,))


def regions(data):
    rows = [[escape(r["name"]), count(r["count"]), f"{r['seconds']:.3f}", count(r["ops"]),
             share(r["replayed"], r["ops"]), bar(r["replayed"] / r["ops"] if r["ops"] else 0)]
            for r in data["regions"]]
    return "<h2>Regions</h2>" + rows_of(["region", "times", "seconds", "ops", "replayed", ""], rows,
                                        (1, 2, 3, 4))


# -- Timeline -----------------------------------------------------------------------

WIDTH, LEFT, ROW, COLUMNS = 1000, 90, 46, 300
KEYS = (("good", "replayed"), ("held", "held, then one by one"), ("eager", "eager"),
        ("call", "calls that cut sequences"))


def class_of(op):
    return "good" if op.replayed else "eager" if op.submit is None else "held"


def rect(x, y, w, h, kind, title=None):
    inner = f"<title>{escape(title)}</title></rect>" if title else "</rect>"
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" class="{kind}">{inner}'


def svg(height, parts, label):
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
            + "".join(parts) + "</svg>")


def overview(trace):
    """The whole run: ops of each stream over time, by how they were submitted."""
    begin, end = trace.ops[0].time, trace.ops[-1].time + 1
    numbers = sorted({op.stream for op in trace.ops})[:12]
    bins = {n: [dict.fromkeys(("good", "held", "eager"), 0) for _ in range(COLUMNS)] for n in numbers}
    for op in trace.ops:
        if op.stream in bins:
            bins[op.stream][(op.time - begin) * COLUMNS // (end - begin)][class_of(op)] += 1
    most = max(sum(b.values()) for row in bins.values() for b in row)
    step = (WIDTH - LEFT) / COLUMNS
    parts = []
    for i, n in enumerate(numbers):
        base = (i + 1) * ROW
        parts.append(f'<text x="0" y="{base - 4}">stream {n}</text>'
                     f'<line x1="{LEFT}" x2="{WIDTH}" y1="{base}" y2="{base}" class="axis"/>')
        for column, kinds in enumerate(bins[n]):
            y = base
            for kind in ("good", "held", "eager"):
                h = kinds[kind] * (ROW - 8) / most
                if h:
                    y -= h
                    parts.append(rect(LEFT + column * step, y, step, h, kind))
    bottom = len(numbers) * ROW + 16
    span = (end - begin) / 1e3
    for k, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        parts.append(f'<text x="{LEFT + (WIDTH - LEFT) * k / 4:.0f}" y="{bottom}" '
                     f'text-anchor="{anchor}">{duration(span * k / 4) if k else 0}</text>')
    return svg(bottom + 6, parts, "ops over time")


def moment(trace, most=160):
    """A short time in the last quarter, op by op, with the launches that submitted them."""
    at = max(0, len(trace.ops) * 3 // 4 - most // 2)
    ops = trace.ops[at:at + most]
    begin, end = ops[0].time, max(ops[-1].time, ops[0].time + 1000)
    end += (end - begin) // 50
    scale = (WIDTH - LEFT) / (end - begin)
    numbers = sorted({op.stream for op in ops})[:8]
    parts = []

    def x(time):
        return LEFT + (min(max(time, begin), end) - begin) * scale

    for i, n in enumerate(numbers):
        top = i * ROW
        parts.append(f'<text x="0" y="{top + 16}">stream {n}</text>'
                     f'<text x="0" y="{top + 34}">submitted</text>')
        for op in ops:
            if op.stream == n:
                parts.append(rect(x(op.time), top + 6, max(1.5, (op.took or 0) * scale), 13,
                                  class_of(op), f"{trace.what(op)}: {trace.how(op)}"))
        for s in trace.submits:
            if s.stream == n and begin <= s.time <= end:
                parts.append(rect(x(s.time), top + 24, max(2, s.took * scale), 13,
                                  "good" if s.replayed else "held",
                                  f"{plural(s.replayed, 'op')} by trace {s.trace}, {s.patches} patched, "
                                  f"{s.held - s.replayed} one by one: "
                                  f"{tracefile.name_of(tracefile.REASONS, s.reason)}"))
    top = len(numbers) * ROW
    parts.append(f'<text x="0" y="{top + 16}">calls</text>')
    for b in trace.barriers:
        if begin <= b.time <= end:
            parts.append(rect(x(b.time), top + 6, max(1.5, b.took * scale), 13, "call",
                              trace.string(b.name)))
    parts.append(f'<text x="{LEFT}" y="{top + 38}">0</text><text x="{WIDTH}" y="{top + 38}" '
                 f'text-anchor="end">{duration((end - begin) / 1e3)}</text>')
    return svg(top + 44, parts, "some ops in detail")


def timeline(trace):
    if trace is None:
        return ('<h2>Timeline</h2><p class="soft">For a timeline, run the program with '
                "<code>autograph --report --trace</code>.</p>")
    if not trace.ops:
        return '<h2>Timeline</h2><p class="soft">The trace file has no ops in it.</p>'
    keys = "".join(f'<span class="key {c}"></span>{t}' for c, t in KEYS)
    flaws = "".join(f'<p class="soft">The trace file: {escape(f)}.</p>' for f in trace.flaws)
    return (f"<h2>Timeline</h2><p class=soft>{keys}</p>{overview(trace)}"
            f"<h2>A moment of it</h2>{moment(trace)}{flaws}")


# -- Page ---------------------------------------------------------------------------

def body(data, trace):
    facts = [f"process {data.get('pid', '?')}", f"libautograph {data.get('version', '?')}"]
    if data["seconds"]:
        facts.append("ran for " + duration(data["seconds"] * 1e6))
    if data.get("config"):
        facts.append(f"options from {data['config']}")
    facts += [f"{k} = {v}" for k, v in (data.get("options") or {}).items()]
    parts = [f"<h1>{escape(data.get('program', '?'))}</h1>",
             f'<p class="soft">{escape(", ".join(facts))}</p>', cards(data), stands(data)]
    parts += [part(data) for part, name in ((callsites, "callsites"), (streams, "streams"),
                                            (traces, "trace_list"), (regions, "regions"))
              if data[name]]
    return "".join(parts) + timeline(trace)


def write(name, bodies):
    """Writes the page of one or more reports."""
    text = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>libautograph</title><style>{STYLE}</style></head><body>"
            + "<hr>".join(bodies) + "</body></html>\n")
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as e:
        raise Failure(f"{name}: {e.strerror}") from None

# SPDX-License-Identifier: MIT
"""The report as one HTML file: no script, nothing loaded from elsewhere, light and dark, for a phone and on paper."""
import html
import re

import report
import timeline
import verdict
from common import PAGE, count, destination, duration, plural, printable, share

LIGHT = """--back: #fff; --text: #1c2127; --soft: #5a6675; --line: #d9dfe6; --card: #f4f6f8;
  --good: #16866b; --held: #c9463d; --eager: #d9a02b; --call: #6b5bd2; --rest: #a9b4c0;"""
STYLE = ":root { color-scheme: light dark; " + LIGHT + """ }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181d; --text: #e6e9ed; --soft: #a3aebb; --line: #323b46; --card: #1c2229;
          --good: #35b893; --held: #ee6e66; --eager: #e3b04b; --call: #9b8df0; --rest: #66717e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem; background: var(--back);
       color: var(--text); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .verdict { font-size: 1.15rem; }
hr { border: 0; border-top: 1px solid var(--line); margin: 3rem 0; }
abbr[title] { text-decoration: underline dotted var(--soft); text-underline-offset: .2em; cursor: help; }
.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: .8rem; margin: 1.2rem 0; }
.tile, .next { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
               padding: .7rem 1rem; }
.tile b { display: block; font-size: 1.9rem; line-height: 1.3; font-weight: 600; }
.tile small { display: block; color: var(--soft); }
.next { border-left: 4px solid var(--call); }
pre { margin: .4rem 0 0; padding: .4rem .7rem; background: var(--card); border-radius: 4px;
      white-space: pre-wrap; overflow-wrap: anywhere; }
.next pre { background: var(--back); }
pre, code { font: .9em ui-monospace, "DejaVu Sans Mono", monospace; } code { overflow-wrap: anywhere; }
.cause { margin: .9rem 0 1.2rem; }
.cause > div { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { text-align: left; color: var(--soft); font-weight: 500; white-space: nowrap; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { width: 1%; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: .7rem; margin: .35rem 0; background: var(--line); border-radius: 3px;
       overflow: hidden; }
td .bar { min-width: 5rem; } .bar.all { height: 1.4rem; margin: .6rem 0; }
.bar i { display: block; flex: none; }
.keys { list-style: none; padding: 0; margin: .4rem 0; } .keys li { margin: .15rem 0; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .45rem;
       vertical-align: -.08rem; }
.inline li { display: inline-block; margin-right: 1.2rem; }
.lane { display: grid; grid-template-columns: 5.5rem 1fr; align-items: end; color: var(--soft);
        font-size: .8rem; margin-top: .4rem; }
.lane svg { display: block; width: 100%; border-bottom: 1px solid var(--line); }
.ticks { display: flex; justify-content: space-between; }
dl { columns: 22rem; } dt { font-weight: 600; break-after: avoid; } dd { margin: 0 0 .4rem; color: var(--soft); }
.good { fill: var(--good); background: var(--good); } .held { fill: var(--held); background: var(--held); }
.eager { fill: var(--eager); background: var(--eager); } .call { fill: var(--call); background: var(--call); }
.rest { fill: var(--rest); background: var(--rest); }
.blank { background: var(--back); border: 1px solid var(--line); }
@media (max-width: 40rem) {
  body { padding: 1rem; font-size: 14px; }
  .tiles { gap: .5rem; } .tile { padding: .5rem .6rem; } .tile b { font-size: 1.25rem; }
  .tile small { font-size: .75rem; }
  th, td { padding-right: .5rem; } .wide { display: none; }
  .lane { grid-template-columns: 1fr; } }
@media print {
  :root { color-scheme: light; """ + LIGHT + """ }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { break-after: avoid; } .tile, .next, .cause, .lane, .scroll, dd { break-inside: avoid; }
  .scroll { overflow: visible; break-before: avoid; } abbr[title] { text-decoration: none; } }
"""

WORDS = {
    "operation": "Something for the GPU to do in a stream: a kernel, a memset, a copy, a record of an event or a wait.",
    "graph": "A CUDA graph: operations that came several times in one order, and are launched by a single call.",
    "graph launch": "Takes the place of the launches of all operations of a graph.",
    "replayed": "Launched as a part of a graph.",
    "first rounds": "A graph is made of work that has come before, so its first rounds are launched as always.",
    "trials": "Now and then the library launches everything as the program does, to see which way is faster.",
    "not watched": "Where nothing repeats, or graphs are no faster, the library looks away for a while.",
    "not repeated": "Work that came too seldom for a graph, as before and behind a loop. Nothing is wrong with it.",
    "patches": "Arguments that had changed since a graph's last launch, and were set in the graph.",
    "patched": "An argument had changed since a graph's last launch, and was set in the graph.",
    "stream": "A CUDA stream: its operations run in the order in which the program launches them.",
    "kind": "Blocking streams wait for the legacy default stream, and it for them. Non-blocking streams do not.",
    "saved": "Time that launches would have taken longer than graphs, less the time for making the graphs.",
    "region": "A part of the program to which it gave a name with autograph_region_begin().",
    "samples": "The library looks where in the program each N-th of these calls comes from (report.callsites).",
    "sequence": "Operations of one stream that the library takes together. One that comes often becomes a graph.",
    "watchdog": "The library held operations back for as long as it may, and then launched them one by one.",
    "side exit": "The program left a sequence that the library held back: its operations went out one by one.",
    "trial": "Both ways in turn. The way that is faster stays.",
}


def escape(text):
    return html.escape(printable(text))


def word(name):
    """A technical word, which tells on hover what it means."""
    means = next((WORDS[w] for w in (name, name[:-1], name[:-2]) if w in WORDS), None)
    return f'<abbr title="{escape(means)}">{escape(name)}</abbr>' if means else escape(name)


def explained(text, *names):
    """The text, as HTML; the first of each of these words tells what it means."""
    text = escape(text)
    for name in names:
        text = re.sub(rf"\b{name}(?:e?s)?\b", lambda found: word(found[0]), text, count=1)
    return text


def bar(*parts, kind=""):
    """Parts are (share, class)."""
    inner = "".join(f'<i class="{c}" style="width:{100 * part:.1f}%"></i>' for part, c in parts)
    return f'<div class="bar {kind}">{inner}</div>'


def rows_of(header, rows, right=(), wide=()):
    """A table; cells are HTML already. Columns in `wide` are left out on a narrow screen."""
    def line(tag, cells):
        classes = (" ".join(["n"] * (i in right) + ["wide"] * (i in wide)) for i in range(len(cells)))
        return "<tr>" + "".join(f'<{tag}{f" class={chr(34)}{c}{chr(34)}" if c else ""}>{cell}</{tag}>'
                                for c, cell in zip(classes, cells)) + "</tr>"
    return ('<div class="scroll"><table>' + line("th", [word(h) for h in header])
            + "".join(line("td", r) for r in rows) + "</table></div>")


# -- On top -----------------------------------------------------------------------

UNKNOWN = "\u2013"
TILES = (("Faster", "How many times as long the run would have taken without graphs, as trials in this run showed."),
         ("In graphs", "The share of the program's operations that went out in graphs."),
         ("Time saved", WORDS["saved"]))


def gain(data):
    """What two tiles say: how much faster, and how much time; each a figure and what stands below it."""
    found = verdict.saving(data)
    if found is None:
        why = ("nothing went out in graphs" if not data["ops"]["replayed"] else
               "the driver is simulated" if verdict.is_simulated(data) else "autograph bench -- ./app measures it")
        return (UNKNOWN, why), (UNKNOWN, why)
    if found.high <= 0:
        return ("1.00x", "graphs saved nothing here"), ("0", "graphs saved nothing here")
    low, times, high = (f"{verdict.faster(data, max(0, us)):.2f}x" for us in found)
    part = verdict.of_the_run(data, found.us)
    return ((times, f"{low} to {high}" if low != high else "times as fast as without"),
            (duration(max(0, found.us)), f"{verdict.interval(found.low, found.high)}; {part} of the time without"))


def tiles(data):
    ops, (fast, time) = data["ops"], gain(data)
    part = (share(ops["replayed"], ops["total"]) if ops["total"] else UNKNOWN, f"of {plural(ops['total'], 'operation')}")
    return '<div class="tiles">' + "".join(
        f'<div class="tile"><abbr title="{escape(means)}">{name}</abbr><b>{escape(value)}</b>'
        f"<small>{escape(below)}</small></div>"
        for (name, means), (value, below) in zip(TILES, (fast, part, time))) + "</div>"


def next_box(data):
    step, code = verdict.next_step(data)
    code = f"<pre>{escape(code)}</pre>" if code else ""
    return f'<div class="next"><b>Next:</b> {escape(step)}{code}</div>'


# -- Parts ------------------------------------------------------------------------

def key(kind, words, means):
    return f'<li><span class="key {kind}"></span>{word(words)}: {escape(means)}</li>'


def went(data):
    """All ops, by what became of them."""
    total = data["ops"]["total"]
    if not total:
        return ""
    blamed = sum(c.ops or 0 for c in verdict.obstacles(data))
    rows = [("good", data["ops"]["replayed"], "replayed", "launched as a part of a graph")]
    if blamed:
        rows.append(("held", blamed, "kept out by calls", "see below"))
    rows += [("rest", n, name, why) for n, name, why in verdict.elsewhere(data)]
    return ("<h2>Where the operations went</h2>"
            + bar(*((n / total, kind) for kind, n, *_ in rows), kind="all") + '<ul class="keys">'
            + "".join(key(kind, name, f"{count(n)} ({share(n, total)}), {why}") for kind, n, name, why in rows)
            + "</ul>")


def cause(data, found):
    numbers = ", ".join(([] if found.ops is None else [plural(found.ops, "operation")])
                        + ([plural(found.calls, "time")] if found.calls else []))
    part = 0 if found.ops is None else found.ops / data["ops"]["total"]
    told = found == verdict.first(data)
    return (f'<div class="cause"><div><code>{word(found.name)}</code><span class="soft">{numbers}</span></div>'
            + bar((part, "held"))
            + (f'<p class="soft">{escape(report.capital(found.why))}</p>' if found.why else "")
            + (f"<p>{escape(found.todo)}</p>" + (f"<pre>{escape(found.code)}</pre>" if found.code else "")
               if not told else '<p class="soft">See "Next" above.</p>') + "</div>")


def stands(data):
    found, general = verdict.obstacles(data), verdict.in_general(data)
    text = "".join(f"<p>{escape(line)}</p>" for line in general)
    if found:
        means = "Operations that were not replayed for a call, and how often the call ended a sequence."
        text += f'<p class="soft">{explained(means, "sequence")}</p>'
    elif not general:
        text += "<p>Nothing.</p>" if data["ops"]["total"] else "<p>Nothing was launched.</p>"
    return "<h2>What stands in the way</h2>" + text + "".join(cause(data, c) for c in found[:30])


def streams(data):
    rows = []
    for s in sorted(data["streams"], key=lambda s: -s["ops"]):
        rows.append([count(s["number"]), escape(verdict.words(s["kind"])), count(s["ops"]),
                     share(s["replayed"], s["ops"]),
                     bar((s["replayed"] / s["ops"] if s["ops"] else 0, "good")), count(s["replays"]),
                     count(s["traces"])])
    return "<h2>Streams</h2>" + rows_of(
        ["stream", "kind", "operations", "replayed", "", "graph launches", "graphs"], rows, (0, 2, 3, 5, 6), (4, 6))


def traces(data):
    saving = verdict.saving(data)
    parts = [verdict.part_of(data, t) if saving else 0 for t in report.replayed_traces(data)[:100]]
    header = ["graph", "stream", "operations", "graph launches", "patches", *(["saved", ""] if saving else []), "what"]
    rows = []
    for t, saved in zip(report.replayed_traces(data), parts):
        rows.append([count(t["number"]), count(t["stream"]), count(t["length"]),
                     count(t["replays"]), count(t["patches"]),
                     *([duration(saved), bar((max(0, saved) / (max(parts) or 1), "good"))] if saving else []),
                     f"<code>{escape(report.kernels(data, t, 6))}</code>"])
    left = report.others(data, 100)
    return "<h2>Graphs</h2>" + (rows_of(header, rows, range(6 if saving else 5), (1, 4, 6) if saving else (1, 4))
                                if rows else "") + (
            f'<p class="soft">and {plural(left, "other")}, which did less or nothing</p>' if left else "")


def callsites(data):
    rows = [[count(n), *(f"<code>{escape(word)}</code>" for word in found)]
            for found, n in report.places(data).most_common(30)]
    return f"<h2>{report.CALLSITES}</h2>" + rows_of(["samples", "call", "from"], rows, (0,))


def regions(data):
    rows = [[escape(r["name"]), count(r["count"]), f"{r['seconds']:.3f}", count(r["ops"]),
             share(r["replayed"], r["ops"]), bar((r["replayed"] / r["ops"] if r["ops"] else 0, "good"))]
            for r in data["regions"]]
    return "<h2>Regions</h2>" + rows_of(["region", "times", "seconds", "operations", "replayed", ""], rows,
                                        (1, 2, 3, 4), (5,))


# -- Page ---------------------------------------------------------------------------

def body(data, trace):
    parts = [f"<h1>{escape(report.program(data))}</h1>",
             f'<p class="verdict">{explained(verdict.verdict(data), "operation", "graph")}</p>',
             tiles(data), next_box(data)]
    if data.get("complete") is False:
        parts.append('<p class="soft">This is how it stood while the program ran, which goes on, was killed, or ended by the system call.</p>')
    parts += [went(data), stands(data)]
    if data["callsites"]:
        parts.append(callsites(data))
    if trace or data["ops"]["total"]:
        parts.append(timeline.show(trace))
    parts += [part(data) for part, name in ((streams, "streams"), (traces, "trace_list"), (regions, "regions"))
              if data[name]]
    facts = (explained(fact, "operation", "patched", "side exit", "trial") for fact in report.facts(data))
    parts.append("<h2>Run</h2>" + "".join(f'<p class="soft">{fact}</p>' for fact in facts))
    return "".join(parts)


def words(text):
    """The words that the page explains on hover, for who has no pointer."""
    return ("<h2>Words</h2><dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(means)}</dd>"
                                           for name, means in sorted(WORDS.items())
                                           if f'title="{escape(means)}"' in text) + "</dl>")


def write(name, title, bodies):
    """Writes the page of one or more reports, and returns its file."""
    inner = "<hr>".join(bodies)
    text = (PAGE.beginning + '<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
            + inner + words(inner) + "</body></html>\n")
    with destination(name, PAGE) as file:
        file.write(text)
    return file

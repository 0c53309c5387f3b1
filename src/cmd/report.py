# SPDX-License-Identifier: MIT
"""autograph report FILE...: the exit report for a person to read."""
import collections
import functools
import glob
import json
import os
import shlex
import subprocess
import sys
import time

import page
import tracefile
import verdict
from common import (OK, Failure, Parser, brief_name, count, demangle, duration, plural, printable,
                    share, shortened, table, warn, width, wrapped)

EPILOG = """\
Without FILE: the autograph-report-*.json here, which autograph --report writes.
Status: 0, or 2 if a file is no report.
"""
FORMATS = (1, 2)
CALLSITES = "Where calls that end graphs come from"
MOST_CAUSES = 5  # that a terminal shows
OWN_TRACE_MOST = 64 << 20  # bytes: reading more takes too long unasked


# -- Reading --------------------------------------------------------------------

FIELDS = ("streams", "trace_list", "cuts", "callsites", "regions", "trace_file", "seconds", "gpus", "pool", "eager_ops",
          "waited", "run", "date", "arguments")


def completed(data):
    """The report; what older ones do not have is None."""
    for name in FIELDS:
        data.setdefault(name, None)
    return data


def load(path):
    """A report, checked; what older ones do not have is None."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}") from None
    except (ValueError, RecursionError):
        raise Failure(f"{path}: is no report (not valid JSON)") from None
    if not isinstance(data, dict) or not isinstance(data.get("ops"), dict):
        raise Failure(f"{path}: is no report of libautograph")
    if data.setdefault("format", 1) not in FORMATS:
        raise Failure(f"{path}: has format {data['format']}, this command reads up to {FORMATS[-1]}\n"
                      "  use the autograph of the library that wrote it")
    completed(data)
    data["path"] = path
    shown(path, lambda: began(data))
    data["names"] = shown(path, lambda: demangle(
        [k["name"] for t in data["trace_list"] or () for k in t["kernels"] if k["name"]] +
        [f["symbol"] for c in data["callsites"] or () for f in c["frames"] if f["symbol"]]))
    return data


def began(data):
    """When the run began, s since 1970; None in older reports. A run of `autograph` has its time in its name."""
    if data["date"] is None:
        return None
    ended = data["date"] + 0.0
    return float(data["run"].partition("-")[0]) if data["run"] else ended - data["seconds"]


def newest_run(reports):
    """The reports of the newest run, and those that do not say of which they are. The processes of a run have its
    name, or were at work at one time, as those that a launcher of parallel programs starts one by one."""
    dated = sorted((r for r in reports if r["date"] is not None), key=lambda r: -r["date"])
    since = began(dated[0]) if dated else 0
    ours = [r for r in dated if r["date"] >= since or r["run"] and r["run"] == dated[0]["run"]]
    return [r for r in reports if r in ours or r["date"] is None]


def check_runs(reports, named):
    """The reports to show. Says which are of another run, or another program."""
    ours = newest_run(reports)
    others = [r["path"] for r in reports if r not in ours]
    if others and named:
        warn(f"of earlier runs: {', '.join(others)}", "report")
    elif others:
        warn(f"of earlier runs, and left out: {', '.join(others)}\n  name them to see them", "report")
    programs = sorted({program(r) for r in ours})
    if len(programs) > 1 and not all(r["run"] and r["run"] == ours[0]["run"] for r in ours):
        warn(f"these are of different programs: {', '.join(programs)}", "report")
    return reports if named else ours


def replayed_traces(data):
    return [t for t in data["trace_list"] if t["replays"]]


def others(data, most):
    """The number of traces that are not among the first `most` that were replayed."""
    return len(data["trace_list"]) + (data.get("trace_list_left_out") or 0) - min(
        most, len(replayed_traces(data)))


def kernels(data, entry, most=3):
    """The ops of a trace, most frequent first."""
    parts = []
    for k in sorted(entry["kernels"], key=lambda k: (not k["name"], -k["count"])):
        name = k["name"] or "others"
        if name not in (*tracefile.KINDS[1:], "others"):
            name = brief_name(data["names"][name])
        parts.append(f"{k['count']} {name}" if k["count"] > 1 else name)
    left = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {left} more" if left > 0 else "")


def place(data, callsite):
    """The innermost frame of the program in words."""
    for frame in callsite["frames"][:1]:
        module = frame["module"].rpartition("/")[2]
        line = source_line(frame["module"], frame["offset"])
        if line:
            return f"{line} in {module}"
        if frame["symbol"]:
            name = brief_name(data["names"][frame["symbol"]])
            return f"{name} + {frame['symbol_offset']:#x} in {module}"
        return f"{module} + {frame['offset']:#x}"
    return "?"


@functools.lru_cache(maxsize=None)
def source_line(module, offset):
    """"function (file:line)", or "" if the module has no debugging information."""
    try:
        done = subprocess.run(["addr2line", "-Cfse", module, f"{offset - 1:#x}"], text=True,
                              capture_output=True, timeout=60, check=True)
        name, line = done.stdout.splitlines()[:2]
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return "" if "?" in name + line else f"{brief_name(name)} ({line.split(' (discriminator')[0]})"


# -- Terminal ---------------------------------------------------------------------

def section(title, lines):
    return ["", title, *("  " + line for line in lines)]


def lines_of(words, indent="", first=None):
    """Lines of the terminal's width, indented; the first by something else if that is given."""
    lines = wrapped(printable(words), columns=width() - len(indent)) if words else []
    return [(first if first and i == 0 else indent) + line for i, line in enumerate(lines)]


def head(data):
    """The verdict, and what to do next."""
    lines = lines_of(f"{program(data)}: {verdict.verdict(data)}")
    step, code = verdict.next_step(data)
    lines += lines_of(f"Next: {step}") + lines_of(code, "    ")
    if data.get("complete") is False:
        lines += lines_of("This is how it stood while the program ran, which goes on, was killed, or ended by the system call.")
    return lines


def program(data):
    return str(data.get("program", "?")).rpartition("/")[2] or "?"


def capital(text):
    """A sentence of its own."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


def stands(data):
    ops, others = data["ops"], verdict.elsewhere(data)
    found, more = verdict.obstacles(data)[:MOST_CAUSES], verdict.obstacles(data)[MOST_CAUSES:]
    lines = [line for sentence in verdict.in_general(data) for line in lines_of(sentence, "  ")]
    if found and ops["eager"] <= verdict.MUCH * ops["total"]:
        lines.append(f"  Little: only {share(ops['eager'], ops['total'])} of the operations were not replayed.")
    if found:
        rows = table([["operations lost", "times", "because of"],
                      *(["" if c.ops is None else count(c.ops), count(c.calls) if c.calls else "", c.name]
                        for c in found)], right=(0, 1), name=2)
        lines.append("  " + rows[0])
        for row, cause in zip(rows[1:], found):
            lines.append("  " + row + ("  (see above)" if cause == verdict.first(data) else ""))
            lines += lines_of(capital(cause.why), " " * 10)
            if cause != verdict.first(data):
                lines += lines_of(cause.todo, " " * 10) + lines_of(cause.code, " " * 12)
    if more:
        lines.append(f"  ... and {plural(len(more), 'other')}, which cost less: the report's \"cuts\"")
    if not lines:
        lines.append("  Nothing." if ops["total"] else "  Nothing was launched.")
    if others:
        lines.append("  These were not replayed either, and no call is to blame:" if found else
                     "  These operations were not replayed:")
    for n, name, why in others:
        lines += lines_of(f"{name}: {why}", " " * 12, f"  {count(n):>8}  ")
    return lines


def places(data):
    """How many samples each call has from each place."""
    found = collections.Counter()
    for c in data["callsites"]:
        found[verdict.name_of(c["function"] or "?"), place(data, c)] += c["samples"]
    return found


def sites(data):
    return [line for (name, where), n in places(data).most_common(10)
            for line in lines_of(f"{name}, from {where}", " " * 12, f"  {count(n):>8}  ")]


def facts(data):
    """Facts of the run."""
    lines = [f"{data.get('program', '?')}, process {data.get('pid', '?')}, libautograph {data.get('version', '?')}"]
    if data["arguments"]:
        lines.append(f"arguments: {' '.join(map(shlex.quote, data['arguments']))}")
    if data["date"] is not None:
        lines.append(time.strftime("written on %Y-%m-%d at %H:%M:%S", time.localtime(data["date"]))
                     + (f", run {data['run']}" if data["run"] else ""))
    if data["gpus"]:
        lines.append("on " + ", ".join(data["gpus"]))
    if data["seconds"]:
        lines.append(f"ran for {duration(data['seconds'] * 1e6)}")
    lines.append(", ".join([
        plural(data["ops"]["total"], "operation"), plural(data["replays"], "graph launch"),
        plural(data["traces"], "graph") + (f" made in {duration(data['making_us'])}" if data.get("making_us") else ""),
        plural(data["patches"], "argument") + " patched", plural(data["side_exits"], "side exit"),
        plural(data["errors"], "error")]))
    if data.get("duels"):
        lines.append(f"{plural(data['duels'], 'trial')} of both ways, {count(data['duels_lost'])} lost by graphs"
                     + (f"; the last: {duration(data['held_ns'] / 1e3)} for an operation with graphs, "
                        f"{duration(data['eager_ns'] / 1e3)} without" if data.get("eager_ns") is not None else ""))
    if data.get("options"):
        lines.append("options: " + ", ".join(f"{k} = {str(v).lower() if isinstance(v, bool) else v}"
                                             for k, v in data["options"].items()))
    trace = data["trace_file"]
    if trace:
        lines.append(f"trace file {trace['file']}, {trace['bytes'] / 1e6:,.1f} MB"
                     + (f", {plural(trace['lost'], 'record')} lost" if trace["lost"] else "")
                     + (f"; {trace['error']}" if trace["error"] else ""))
    return lines


def streams(data):
    rows = [["stream", "kind", "operations", "replayed", "", "graph launches", "graphs"]]
    for s in sorted(data["streams"], key=lambda s: -s["ops"]):
        part = s["replayed"] / s["ops"] if s["ops"] else 0
        rows.append([str(s["number"]), verdict.words(s["kind"]), count(s["ops"]), share(s["replayed"], s["ops"]),
                     "#" * round(10 * part) + "." * (10 - round(10 * part)), count(s["replays"]), count(s["traces"])])
    return table(rows, right=(2, 3, 5, 6), spare=(4, 1, 6, 5))


def traces(data):
    found, saving = replayed_traces(data)[:20], verdict.saving(data)
    columns = [("graph", lambda t: str(t["number"])), ("stream", lambda t: str(t["stream"])),
               ("operations", lambda t: count(t["length"])), ("graph launches", lambda t: count(t["replays"])),
               ("patches", lambda t: count(t["patches"])), ("what", lambda t: kernels(data, t))]
    if saving:
        columns.insert(5, ("saved", lambda t: duration(verdict.part_of(data, t))))
    rows = [[name for name, _ in columns], *([show(t) for _, show in columns] for t in found)]
    left = others(data, 20)
    return [*(table(rows, range(len(columns) - 1), spare=(1, 4, 2, 5)[:4 if saving else 3], name=len(columns) - 1) if found else []),
            *([f"... and {plural(left, 'other')}, which did less or nothing"] if left else [])]


def text(data):
    lines = [*head(data), "", "What stands in the way", *stands(data)]
    if data["callsites"]:
        lines += ["", CALLSITES, *sites(data)]
    if data["streams"]:
        lines += section("Streams", streams(data))
    if data["trace_list"]:
        lines += section("Graphs", traces(data))
    if data["regions"]:
        rows = [["region", "times", "seconds", "operations", "replayed"]]
        for r in data["regions"]:
            rows.append([r["name"], count(r["count"]), f"{r['seconds']:.3f}", count(r["ops"]),
                         share(r["replayed"], r["ops"])])
        lines += section("Regions", table(rows, right=(1, 2, 3, 4), spare=(1, 2), name=0))
    return [*(shortened(line, width()) for line in lines),
            "", "Run", *(line for fact in facts(data) for line in lines_of(fact, "  "))]  # paths stay whole


def timeline_of(data, named):
    """The trace for the page's timeline: the one named, or the report's own if it is still there."""
    if named:
        return tracefile.Trace(named)
    path = (data["trace_file"] or {}).get("file")
    try:
        if path and os.path.getsize(path) <= OWN_TRACE_MOST:
            trace = tracefile.Trace(path)
            return trace if trace.process == data["pid"] else None
    except (OSError, Failure):
        pass
    return None


def shown(name, show):
    """What show() returns; Failure if the report lacks what it needs."""
    try:
        return show()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError):
        raise Failure(f"{name}: is no complete report") from None


def main(arguments):
    parser = Parser("report", usage="autograph report [option]... [FILE]...",
                    description="Shows what the library did and what stands in its way.",
                    epilog=EPILOG)
    parser.add_argument("files", metavar="FILE", nargs="*")
    parser.add_argument("--html", metavar="OUT", help="write a page for a browser instead")
    parser.add_argument("--trace", metavar="FILE",
                        help="take the page's timeline from this trace file, not from the one that the report names")
    given = parser.parse_args(arguments)
    if given.trace and not given.html:
        raise Failure("--trace is for the page: give --html too")
    files = given.files or sorted(glob.glob("autograph-report-*.json"))
    if not files:
        if os.environ.get("AUTOGRAPH_DISABLE", "0") not in ("", "0"):
            raise Failure("there is no report: AUTOGRAPH_DISABLE is set, and the library does nothing")
        raise Failure("which report? autograph --report COMMAND writes one")
    reports = check_runs(list(map(load, files)), given.files)
    parts = [shown(data["path"], lambda: page.body(data, timeline_of(data, given.trace))
                   if given.html else "\n".join(text(data))) for data in reports]
    if given.html:
        if page.write(given.html, f"{program(reports[0])} - autograph report", parts) is not sys.stdout:
            print(f"{given.html}: open it in a browser")
    else:
        print("\n\n".join(parts))
    return OK

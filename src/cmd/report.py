# SPDX-License-Identifier: MIT
"""autograph report FILE...: the exit report for a person to read."""
import functools
import glob
import json
import os
import subprocess

import page
import tracefile
from common import (OK, Failure, Parser, brief_name, count, demangle, duration, plural, printable,
                    share, shortened, spare, table, width)

EPILOG = """\
Without FILE: the autograph-report-*.json here, which autograph --report writes.
Status: 0, or 2 if a file is no report.
"""
FORMATS = (1, 2)
OWN_TRACE_MOST = 64 << 20  # bytes: reading more takes too long unasked
OTHER_OPS = ("memset", "copy", "record", "wait", "value")

# What ends a sequence, and what to do about it: by driver function (beginning of its name), then by
# reason. The first that fits counts.
ADVICE = [
    ("cuMemcpyHtoDAsync", "more than 1 KiB of pageable memory? allocate it with cudaMallocHost (pinned)"),
    ("cuMemcpyDtoH", "copy results to the host less often, or from another stream"),
    ("cuMemcpyAsync", "a copy to the host, or of more than 1 KiB of pageable memory: pin it "
                      "(cudaMallocHost), or copy less often"),
    ("cuMemcpy2DAsync", "a copy to the host, of arrays or of pageable memory: pin it (cudaMallocHost)"),
    ("cuMemcpy3DAsync", "a copy to the host, of arrays or of pageable memory: pin it (cudaMallocHost)"),
    ("cuMemcpyPeer", "copies between GPUs end a sequence: gather them at the end of an iteration"),
    ("cuMemcpy", "a copy that the host waits for: use cudaMemcpyAsync with pinned memory"),
    ("cuMemsetD", "a graph can set memory of the device, in one allocation: other memory ends a sequence"),
    ("cuMemAllocAsync", "allocate before the loop and use the memory again"),
    ("cuMemFreeAsync", "free after the loop"),
    ("cuMemAlloc", "allocate before the loop, or with cudaMallocAsync"),
    ("cuMemFree", "free after the loop, or with cudaFreeAsync"),
    ("cuMemHostAlloc", "allocate pinned memory before the loop"),
    ("cuMemPrefetch", "prefetch before the loop"),
    ("cuStreamSynchronize", "wait once in an iteration, not after each step"),
    ("cuCtxSynchronize", "wait for the stream that is needed, once in an iteration"),
    ("cuEventSynchronize", "wait once in an iteration, not after each step"),
    ("cuEventQuery", "ask less often: each question submits what is held"),
    ("cuStreamQuery", "ask less often: each question submits what is held"),
    ("cuEventElapsedTime", "read times after the loop"),
    ("cuEventCreate", "create events before the loop and use them again"),
    ("cuEventDestroy", "destroy events after the loop"),
    ("cuStreamCreate", "create streams before the loop"),
    ("cuStreamDestroy", "destroy streams after the loop"),
    ("cuStreamWaitEvent", "streams wait for each other here: fewer waits, with more work between them"),
    ("cuEventRecord", "other streams wait for this, or its time is taken: fewer events, cudaEventDisableTiming"),
    ("cuLaunchHostFunc", "host functions end a sequence: one at the end of an iteration"),
    ("cuStreamAddCallback", "callbacks end a sequence: one at the end of an iteration"),
    ("cuGraphLaunch", "the program's own graph: it runs as it is"),
    ("cuGraph", "the program makes graphs: make them before the loop"),
    ("cuModule", "load code before the loop, or at the start (CUDA_MODULE_LOADING=EAGER)"),
    ("cuLibrary", "load code before the loop, or at the start (CUDA_MODULE_LOADING=EAGER)"),
    ("cuFuncSet", "set a kernel's attributes before the loop"),
    ("cuKernelSet", "set a kernel's attributes before the loop"),
    ("side_exit", "the operations change from one iteration to the next; nothing to do if they must"),
    ("stream_barrier", "a call that cannot be part of a graph: move it to the iteration's end"),
    ("host_wait", "wait once in an iteration, not after each step"),
    ("barrier", "allocate, create and load before the loop"),
    ("legacy_order", "default and other streams are mixed: use cudaStreamNonBlocking, or nvcc "
                     "--default-stream per-thread"),
    ("watchdog", "the program is slow between launches: --set hold.bound_us=3000, unless it watches "
                 "memory"),
    ("event", "events in held work are queried or used again: use more events, ask less often"),
    ("capture", "the program captures graphs of its own: nothing to do"),
    ("destroy", "destroy streams and contexts after the loop"),
    ("attributes", "set attributes of functions and streams before the loop"),
    ("failure", "the driver refused a graph: please report it, with --set log.level=3"),
    ("exit", "the program ended: nothing to do"),
    ("request", "the program asked for it (autograph_flush, autograph_pause): nothing to do"),
    ("sequence_end", "the library ended a sequence where a loop begins anew, or where it was full: nothing "
                     "to do"),
    ("shared_queue", "more streams than queues of the device: use fewer streams, issue several operations "
                     "to one before the next, or set CUDA_DEVICE_MAX_CONNECTIONS=32"),
]


def advice(function, reason):
    for key, text in ADVICE:
        if function and function.startswith(key):
            return text
    return dict(ADVICE).get(reason, "")


# -- Reading --------------------------------------------------------------------

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
    for name in ("streams", "trace_list", "cuts", "callsites", "regions", "trace_file", "seconds"):
        data.setdefault(name, None)
    data["path"] = path
    data["names"] = shown(path, lambda: demangle(
        [k["name"] for t in data["trace_list"] or () for k in t["kernels"] if k["name"]] +
        [f["symbol"] for c in data["callsites"] or () for f in c["frames"] if f["symbol"]]))
    return data


def obstacles(data):
    """[(ops, calls, what, advice)], most ops first; ops is None in older reports, calls where no call
    is to blame."""
    if data["cuts"] is not None:
        rows = [(c["ops"], c["calls"], c["function"] or words(c["reason"]),
                 advice(c["function"], c["reason"])) for c in data["cuts"] if c["ops"]]
        others = data["ops"]["eager"] - sum(r[0] for r in rows)
        if others > 0.02 * data["ops"]["total"]:
            rows.append((others, None, "not repeated",
                         "the start of a run, or work that does not come again: a longer run "
                         "replays more") if not data.get("duels_lost") else
                        (others, None, "given up, or not repeated",
                         "launches were no slower than replays: nothing to do; or work that does "
                         "not come again"))
        return sorted(rows, key=lambda r: -r[0])
    rows = [(None, n, words(name), advice(None, name)) for name, n in data["flushes"].items() if n]
    return sorted(rows, key=lambda r: -r[1])


def words(name):
    return name.replace("_", " ")


def saved(data):
    if data["trace_list"] is None:
        return None
    return sum(t["saved_us"] for t in data["trace_list"])


def source(data):
    """Where saved() has its numbers from."""
    return "by the costs of launches on an H200" if data.get("eager_ns") is None else "as a duel measured it"


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
        name = "others" if not k["name"] else k["name"] if k["name"] in OTHER_OPS else brief_name(data["names"][k["name"]])
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


def headline(data):
    ops = data["ops"]
    text = f"{share(ops['replayed'], ops['total'])} of {plural(ops['total'], 'op', ('was', 'were'))} replayed"
    if data["replays"]:
        text += (f", in {plural(data['replays'], 'graph launch')} "
                 f"({ops['replayed'] / data['replays']:.1f} ops each)")
    return text


# -- Terminal ---------------------------------------------------------------------

def section(title, lines):
    return ["", title, *("  " + line for line in lines)]


def text(data):
    lines = [f"{printable(data.get('program', '?'))} (process {printable(data.get('pid', '?'))}, libautograph "
             f"{printable(data.get('version', '?'))})", headline(data)]
    us = saved(data)
    if us:
        lines.append(f"about {duration(us)} of launching saved, {source(data)}"
                     + (f"; it ran for {duration(data['seconds'] * 1e6)}" if data["seconds"] else ""))
    making = f" made in {duration(data['making_us'])}" if data.get("making_us") else ""
    lines.append(", ".join([plural(data["traces"], "trace") + making,
                            plural(data["patches"], "argument") + " patched",
                            plural(data["side_exits"], "side exit"), plural(data["errors"], "error")]
                           + ([f"{plural(data['duels'], 'duel')} ({count(data['duels_lost'])} lost)"]
                              if data.get("duels") else [])))
    if data.get("eager_ns") is not None:
        lines.append(f"the last duel: {duration(data['held_ns'] / 1e3)} for an op with graphs, "
                     f"{duration(data['eager_ns'] / 1e3)} without")
    if data.get("options"):
        lines.append("options: " + ", ".join(printable(f"{k} = {v}")
                                             for k, v in data["options"].items()))
    if data.get("complete") is False:
        lines.append("The program goes on: this is how it stood.")

    if data["streams"]:
        rows = [["stream", "kind", "ops", "replayed", "", "launches", "traces"]]
        for s in sorted(data["streams"], key=lambda s: -s["ops"]):
            part = s["replayed"] / s["ops"] if s["ops"] else 0
            rows.append([str(s["number"]), words(s["kind"]), count(s["ops"]),
                         share(s["replayed"], s["ops"]),
                         "#" * round(20 * part) + "." * (20 - round(20 * part)),
                         count(s["replays"]), count(s["traces"])])
        lines += section("Streams", table(rows, right=(2, 3, 5, 6)))

    if data["trace_list"]:
        rows = [["trace", "stream", "ops", "replays", "patches", "saved", "what"]]
        for t in replayed_traces(data)[:20]:
            rows.append([str(t["number"]), str(t["stream"]), count(t["length"]), count(t["replays"]),
                         count(t["patches"]), duration(t["saved_us"]), kernels(data, t)])
        left = others(data, 20)
        rows = table(rows, right=range(6))
        lines += section("Traces", [shortened(row, width() - 2) for row in rows]
                         + ([f"... and {plural(left, 'other')}, which did less or nothing"] if left else []))

    if data["regions"]:
        rows = [["region", "times", "seconds", "ops", "replayed"]]
        for r in data["regions"]:
            rows.append([r["name"], count(r["count"]), f"{r['seconds']:.3f}", count(r["ops"]),
                         share(r["replayed"], r["ops"])])
        lines += section("Regions", table(rows, right=(1, 2, 3, 4)))

    lines += section("What stands in the way", stands(data))
    if data["callsites"]:
        rows = [["samples", "call", "from"]]
        for c in sorted(data["callsites"], key=lambda c: -c["samples"])[:10]:
            rows.append([count(c["samples"]), c["function"] or "?", place(data, c)])
        lines += section("Where these calls come from", table(rows, right=(0,)))
    trace = data["trace_file"]
    if trace:
        lines.append("")
        lines.append(f"Trace file: {printable(trace['file'])}, {trace['bytes'] / 1e6:,.1f} MB"
                     + (f", {plural(trace['lost'], 'record')} lost" if trace["lost"] else "")
                     + (f"; {printable(trace['error'])}" if trace["error"] else ""))
    return lines


def stands(data):
    ops = data["ops"]
    found = obstacles(data)
    if ops["total"] == 0 and not stopped(data):
        return ["the program launched nothing itself (graphs of its own are not counted)"]
    if not found:
        return stopped(data) or ["nothing" if ops["replayed"] else
                                 "no sequence came often enough: a short run?"]
    with_ops = found[0][0] is not None
    rows = [["ops lost"] * with_ops + ["times", "because of", "what to do"]]
    for lost, calls, what, todo in found[:16]:
        rows.append(([count(lost)] if with_ops else []) + [count(calls) if calls else "", what, todo])
    return stopped(data) + little(data) + table(rows, right=(0, 1) if with_ops else (0,))


def stopped(data):
    """A line that says why the library held nothing any more."""
    return [printable(f"the library stopped holding: {data['stopped']}")] if data.get("stopped") else []


def little(data):
    """A line that puts the obstacles into proportion, if they are small."""
    ops = data["ops"]
    if ops["eager"] > 0.05 * ops["total"]:
        return []
    return [f"little: only {share(ops['eager'], ops['total'])} of the ops were not replayed"]


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
        raise Failure("which report? autograph --report COMMAND writes one")
    if given.html:
        spare(given.html, [*files, *filter(None, [given.trace])])
    parts = []
    for name in files:
        data = load(name)
        parts.append(shown(name, lambda: page.body(data, timeline_of(data, given.trace))
                           if given.html else "\n".join(text(data))))
    if given.html:
        page.write(given.html, parts)
        print(f"{given.html}: open it in a browser")
    else:
        print("\n\n".join(parts))
    return OK

# SPDX-License-Identifier: MIT
"""autograph trace FILE: a trace file as text, or in the Chrome trace format."""
import json
import sys

import reasons
import simulated
import tracefile
from common import (CHROME, OK, UNUSABLE, Failure, Parser, destination, fitted, plural, printable, shortened, warn, width,
                    wrapped)

EPILOG = """\
The Chrome trace format opens in Perfetto (https://ui.perfetto.dev) and in chrome://tracing: a track
for the calls of each thread, one for what each stream held and submitted. An arrow leads from
a held call to the launch that submitted it.
Status: 0, or 2 if FILE is no trace or not complete; what is there is written all the same.
"""


# -- Text -----------------------------------------------------------------------

def text_events(trace, stream, room):
    """(time, thread, stream or "", text) of everything; names of ops leave that many columns room."""
    for op in trace.ops:
        how = f"  [{trace.how(op)}]"
        what = trace.what(op)
        yield op.time, op.thread, op.stream, (shortened(what, max(room - len(how), 12)) if room else what) + how
    for s in trace.submits:
        eager = s.held - s.replayed
        parts = []
        if s.replayed:
            parts.append(f"launch of graph {s.trace}: {plural(s.replayed, 'operation')}, "
                         f"{s.patches} patched")
        if eager:
            parts.append(f"{plural(eager, 'operation')} one by one: {reasons.words(s.word())}")
        yield s.time, s.thread, s.stream, "-- " + "; ".join(parts or ["nothing submitted"])
    if stream is not None:
        return
    for b in trace.barriers:
        yield b.time, b.thread, "", f"== {trace.string(b.name)}"
    for m in trace.memory:
        text = f"free {m.address:#x}" if m.bytes is None else \
            f"alloc {m.address:#x}, {plural(m.bytes, 'byte')}"
        yield m.time, "", "", text
    for r in trace.regions:
        yield r.time, r.thread, "", f"{'<<' if r.ends else '>>'} {trace.string(r.name)}"


def meanings(trace, stream):
    """A line for each reason that is in the text, which has a few words of it."""
    told = [e for e in (*trace.ops, *trace.submits) if stream in (None, e.stream)]
    return [f"{reasons.words(word)}: {reasons.sentence(word)}" for word in sorted({e.word() for e in told})
            if reasons.sentence(word)]


def write_text(trace, stream, out):
    """A line for each event; where a terminal shows them, of the terminal's width."""
    room = width() - 31 if out.isatty() else None
    title = (f"# {printable(trace.path)}: process {trace.process}, library {printable(trace.library)}, "
             f"{trace.operations()}")
    note = [f"# {simulated.NO_TIMES}"] if simulated.is_one(trace.gpus.values()) else []
    for head in (title, *note, *(f"# {line}" for line in meanings(trace, stream))):
        out.write("".join(f"{line}\n" for line in (wrapped(head, "# ") if room else [head])))
    out.write(f"# {'ms':>11} {'thread':>8} {'stream':>6}\n")
    for time, thread, number, text in sorted(text_events(trace, stream, room), key=lambda e: e[0]):
        if stream is None or number == stream:
            text = printable(text)
            out.write(f"{(time - trace.start) / 1e6:13.4f} {thread:>8} {number:>6} "
                      f"{shortened(text, room) if room else text}\n")


# -- Chrome trace format ----------------------------------------------------------

# A track is a thread number of its process. Perfetto takes 32 bits of it: streams are numbered anew,
# above all numbers of threads (Linux has them below 2^22).
STREAM_TRACKS = 1 << 22
HELD_NS = 1  # ns: how wide a held call is drawn. An arrow begins in a slice, and how long the call took is not known


def stream_tracks(trace):
    """{stream: its track}"""
    numbers = {*trace.streams, *(s.stream for s in trace.submits)}
    return {number: STREAM_TRACKS + i for i, number in enumerate(sorted(numbers))}


def track_names(trace, tracks):
    """(track, its name)"""
    for thread in sorted({e.thread for e in (*trace.ops, *trace.barriers, *trace.regions)}):
        yield thread, f"calls of thread {thread}" + (f" ({trace.threads[thread]})" if thread in trace.threads else "")
    for number, track in tracks.items():
        kind = trace.streams.get(number)
        yield track, f"stream {number}" + (
            "" if kind is None else f" ({tracefile.name_of(tracefile.STREAM_KINDS, kind)})")


def submissions(trace):
    """(submission, when the hold before it began, if any). Slices of a track may not overlap: where
    threads share a stream, an op may come while the one before it is still on its way."""
    first_of, over = {}, {}
    for op in trace.ops:
        if op.submit is not None:
            first_of.setdefault(op.submit, op)
    for s in sorted(trace.submits, key=lambda s: s.time):
        since = None
        if s in first_of:
            since = min(max(first_of[s].time, over.get(s.stream, 0)), s.time)
        over[s.stream] = s.time + s.took + 1  # ns: see below
        yield s, since


def why(told):
    """What the reason of an op or a submission means, as arguments of an event."""
    return {"why": reasons.sentence(told.word())} if reasons.sentence(told.word()) else {}


def metadata(trace):
    """What processes and tracks are called."""
    def named(kind, name, **place):
        return {"ph": "M", "name": kind, "pid": trace.process, **place, "args": {"name": printable(name)}}

    program = (trace.program or "").rpartition("/")[2]
    yield named("process_name", f"{program} (process {trace.process})" if program else f"process {trace.process}")
    for track, name in track_names(trace, stream_tracks(trace)):
        yield named("thread_name", name, tid=track)


def timed_events(trace):
    """What happened, in no order."""
    def event(phase, name, category, time, track, took=None, fields=(), **arguments):
        e = {"ph": phase, "name": printable(name), "cat": category, "pid": trace.process,
             "tid": track, "ts": (time - trace.start) / 1e3, **dict(fields)}
        if took is not None:
            e["dur"] = took / 1e3
        if arguments:
            e["args"] = arguments
        return e

    def arrow(number, op):
        """From within the held call to within the launch."""
        yield event("s", "submitted", "flow", op.time, op.thread, fields={"id": number})
        yield event("f", "submitted", "flow", op.submit.time, tracks[op.submit.stream], fields={"id": number, "bp": "e"})

    tracks = stream_tracks(trace)
    for number, op in enumerate(trace.ops, 1):
        arguments = {"stream": op.stream, "sequence": op.sequence, "how": trace.how(op), **why(op)}
        if op.submit is not None:
            yield event("X", trace.what(op), "held", op.time, op.thread, op.took or HELD_NS, **arguments)
            yield from arrow(number, op)
        else:
            yield event("X", trace.what(op), "eager", op.time, op.thread, op.took or 0, **arguments)
    for s, since in submissions(trace):
        track = tracks[s.stream]
        if since is not None:  # 1 ns less: who rounds both times down shall see no overlap
            yield event("X", "hold", "hold", since, track, max(s.time - since - 1, 0), operations=s.held)
        yield event("X", f"launch of graph {s.trace}" if s.replayed else f"one by one: {reasons.words(s.word())}",
                    "submit", s.time, track, max(s.took, 1), held=s.held, replayed=s.replayed,
                    patches=s.patches, reason=s.word(), **why(s))
    for b in trace.barriers:
        yield event("X", trace.string(b.name), "barrier", b.time, b.thread, b.took)
    for r in trace.regions:
        yield event("E" if r.ends else "B", trace.string(r.name), "region", r.time, r.thread)


def write_chrome(trace, out):
    events = sorted(timed_events(trace), key=lambda e: (e["ts"], -e.get("dur", 0)))
    out.write(f'{CHROME.beginning}"displayTimeUnit": "ns", "traceEvents": [')
    for i, event in enumerate((*metadata(trace), *events)):
        out.write(",\n" if i else "\n")
        out.write(json.dumps(event))
    out.write("\n]}\n")


def main(arguments):
    parser = Parser("trace", usage="autograph trace [option]... FILE",
                    description="Writes a trace file as text, or for Perfetto.", epilog=EPILOG)
    parser.add_argument("file", metavar="FILE")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--text", action="store_true",
                       help="a line for each event on standard output; this is the default")
    group.add_argument("--chrome", metavar="OUT",
                       help="the Chrome trace format (- is standard output)")
    parser.add_argument("--stream", metavar="N", type=int, help="text of this stream only")
    given = parser.parse_args(arguments)
    trace = tracefile.Trace(given.file)
    if given.stream is not None and given.stream not in trace.streams:
        streams = shortened(", ".join(map(str, sorted(trace.streams))), 30) or "none"
        raise Failure(f"{given.file}: has no stream {given.stream}; its streams are {streams}")
    with destination(given.chrome or "-", CHROME) as out:
        if given.chrome:
            write_chrome(trace, out)
        else:
            write_text(trace, given.stream, out)
    if given.chrome and simulated.is_one(trace.gpus.values()):
        warn(simulated.NO_TIMES, "trace")
    if out is not sys.stdout:
        print("\n".join(fitted([f"{given.chrome}: {trace.operations()}; open it in https://ui.perfetto.dev"])))
    for flaw in trace.flaws:
        warn(f"{given.file}: {flaw}")
    return UNUSABLE if trace.end is None else OK

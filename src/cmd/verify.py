# SPDX-License-Identifier: MIT
"""autograph verify -- command: does a program do the same with the library as without?"""
import difflib
import os
import re
import shlex
import shutil
import sys
import tempfile

import compare
import launch
import options
import runs
import times
import tracefile
import verdict
from common import (DIFFERENT, OK, UNUSABLE, Failure, Parser, fitted, pattern, plural, printable, share,
                    shortened, width)

EPILOG = """\
Compared are: how the program ends, its standard output, and each --output FILE, which is put back to
what it was before each run; with --traces also all that it asked of the GPU (two more runs, or more if
their buffer loses records).
When only times differ, the command that leaves them out is printed. When something else differs, the
program runs once more without the library: of what differs then as well, nothing can be said.
Status: 0 the same, 1 different, 2 not to be told.
"""
BINARY = re.compile(rb"[\0-\x08\x0e-\x1a]")


class Outputs:
    """The files that a program writes: put back before a run, kept after it."""

    def __init__(self, names, scratch):
        self.names, self.scratch, self.stamps = names, scratch, {}
        for i, name in enumerate(names):
            if os.path.exists(name):
                if not os.path.isfile(name):
                    raise Failure(f"--output {name}: is not a regular file; name files, one by one")
                shutil.copy2(name, self._before(i))

    def _before(self, i):
        return os.path.join(self.scratch, f"before-{i}")

    def restore(self):
        for i, name in enumerate(self.names):
            if name not in self.stamps or self.stamps[name] == self._stamp(name):
                pass  # nothing has written it yet
            elif os.path.exists(self._before(i)):
                shutil.copy2(self._before(i), name)
            elif os.path.exists(name):
                os.unlink(name)
            self.stamps[name] = self._stamp(name)

    @staticmethod
    def _stamp(name):
        """Another one when the file was written."""
        if not os.path.exists(name):
            return None
        status = os.stat(name)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def keep(self, label):
        """[path of the copy of each, or None if the program did not write it]."""
        kept = []
        for i, name in enumerate(self.names):
            copy = os.path.join(self.scratch, f"{label}-{i}")
            written = self._stamp(name) not in (None, self.stamps[name])
            kept.append(shutil.copy2(name, copy) if written else None)
        return kept


def content(path, filters):
    if path is None:
        return None
    with open(path, "rb") as file:
        data = file.read()
    if filters and not BINARY.search(data):
        text = data.decode("utf-8", "surrogateescape")
        for expression in filters:
            text = expression.sub("", text)
        data = text.encode("utf-8", "surrogateescape")
    return data


def show(data):
    return data.decode("utf-8", "backslashreplace").splitlines()


def difference(name, a, b):
    """Lines that show the first difference of two contents."""
    if a is None or b is None:
        return [f"{name}: written only {runs.kind(a is None)}"]
    if BINARY.search(a) or BINARY.search(b):
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return [f"{name}: {len(a):,} and {plural(len(b), 'byte')}, the first difference is at byte {at:,}"]
    out = [f"{name}:"]
    a, b = show(a), show(b)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    near = slice(max(0, at - 2), at + 200)  # difflib takes minutes for much
    for line in list(difflib.unified_diff(a[near], b[near], lineterm="", n=2))[2:]:
        if line.startswith("@@") and len(out) > 1 or len(out) > 12:
            out.append("  ...")
            break
        if not line.startswith("@@"):
            out.append("  " + shortened(printable(line), width() - 2))
    return out if len(out) > 1 else [f"{name}: line ends differ"]


class Result:
    """What a run left."""

    def __init__(self, run, outputs, label, filters):
        self.run = run
        self.parts = {"standard output": content(run.stdout, filters)}
        for name, path in zip(outputs.names, outputs.keep(label)):
            self.parts[name] = content(path, filters)

    def differences(self, other):
        """{part, None for the end: lines about what differs in it}."""
        out = {}
        if self.run.status != other.run.status:
            out[None] = [f"ends with {runs.ending(self.run.status)} without the library, with "
                          f"{runs.ending(other.run.status)} under it"]
        for name, a in self.parts.items():
            if a != other.parts[name]:
                out[name] = difference(name, a, other.parts[name])
        return out


def say(*lines):
    print("\n".join(fitted(lines)))


def time_filters(plain, ours, found):
    """What --filter needs, if `found`, what differs, is times alone; else None."""
    pairs = [(plain.parts.get(part), ours.parts.get(part)) for part in found]
    if any(data is None or BINARY.search(data) for pair in pairs for data in pair):
        return None
    return times.filters([[data.decode("utf-8", "surrogateescape") for data in pair] for pair in pairs])


def say_filters(filters, words, command):
    """Prints the command once more, with these filters, over as many lines as the terminal needs."""
    name = sys.argv[0]
    there = shutil.which("autograph")
    if there and os.path.exists(name) and os.path.samefile(there, name):
        name = "autograph"
    said = [shlex.quote(word) for word in [name, "verify", *words]]
    said += [f"--filter {shlex.quote(expression)}" for expression in filters] + ["--", *map(shlex.quote, command)]
    lines = [" "]
    for word in said:
        if len(lines[-1]) + len(word) + 3 > width() and lines[-1].strip():
            lines[-1] += " \\"
            lines.append("     ")
        lines[-1] += " " + word
    say("Only times differ, as in any two runs. To leave them out:")
    print("\n".join(lines))


def main(arguments):
    parser = Parser("verify", usage="autograph verify [option]... -- command [argument]...",
                    description="Compares what a program does with and without the library.",
                    epilog=EPILOG)
    runs.add_arguments(parser)
    parser.add_argument("--output", metavar="FILE", action="append", default=[],
                        help="compare this file, which the program writes; may be repeated")
    parser.add_argument("--filter", metavar="REGEX", action="append", default=[], type=pattern,
                        help="leave matches out of what is compared (times, dates); may be repeated")
    parser.add_argument("--traces", action="store_true",
                        help="compare trace files too, of runs with and without graphs")
    words, command = launch.split_command(arguments, parser)
    given = parser.parse_args(words)

    with tempfile.TemporaryDirectory(prefix="autograph-") as scratch:
        run = runs.Runner(given, command, scratch)
        outputs = Outputs(given.output, scratch)

        def result(with_library, label):
            outputs.restore()
            runs.progress(f"verify: running {runs.kind(with_library)} ...")
            return Result(run(with_library), outputs, label, given.filter)

        plain = result(False, "plain")
        for name in given.output:
            if plain.parts[name] is None:
                raise Failure(f"--output {name}: the program does not write it "
                              f"(it ended with {runs.ending(plain.run.status)})")
        ours = result(True, "ours")
        found = plain.differences(ours)
        filters = time_filters(plain, ours, found)
        if filters:
            say(*(line for lines in found.values() for line in lines))
            say_filters(filters, words, command)
            return UNUSABLE
        if found:
            again = plain.differences(result(False, "again"))
            sure = [line for part, lines in found.items() if part not in again for line in lines]
            if not sure:
                say("Two runs without the library differ as well:",
                    *(line for lines in again.values() for line in lines),
                    "Nothing can be said: leave out what changes with --filter REGEX, or fix the program's seeds.")
                return UNUSABLE
            say(*sure, "Different with the library. Please report it, with the output of autograph doctor and this.")
            return DIFFERENT

        ops, replayed = runs.totals(ours.run.reports)
        compared = [f"ends with {runs.ending(plain.run.status)}",
                    plural(len(plain.parts["standard output"]), "byte") + " of standard output",
                    *(f"{name} ({plural(len(plain.parts[name]), 'byte')})" for name in given.output)]
        say("The same: " + ", ".join(compared) + ".")
        if not ours.run.reports:
            said = runs.last_lines(ours.run.stderr, 1) if ours.run.status else []
            say("But the library saw no CUDA in it, or the program ended without its exit: "
                + (printable(said[0]) if said else "autograph doctor says what it can see."))
            return UNUSABLE
        say((f"{share(replayed, ops)} of {plural(ops, 'operation', ('was', 'were'))} replayed" if ops else
             "It launched nothing")
            + ("." if replayed else ": so this says little; autograph report says why.")
            + (" The driver is the simulated one." if verdict.is_of_simulated(ours.run.reports) else ""))
        return compare_traces(run, outputs) if given.traces else OK


class Traced:
    """Runs with a trace. Where its buffer has lost records, one with a larger buffer follows."""

    LARGER, MOST = 8, 128 << 10  # KiB: each thread has such a buffer

    def __init__(self, run, outputs):
        self.run, self.outputs, self.larger = run, outputs, {}

    def __call__(self, extra):
        """The trace files of a run with these variables."""
        while True:
            self.outputs.restore()
            runs.progress(f"verify: running with a trace {'of graph launches' if not extra else ''} ...")
            done = self.run(True, {**extra, **self.larger})
            lost = [r for r in done.reports if (r.get("trace_file") or {}).get("lost")]
            if not lost:
                return done.traces
            default = options.table()["trace.buffer_kb"].default
            size = int(lost[0].get("options", {}).get("trace.buffer_kb", default))
            records = sum(report["trace_file"]["lost"] for report in lost)
            said = f"{plural(records, 'record', ('was', 'were'))} lost with trace.buffer_kb={size}"
            if size >= self.MOST:
                raise Failure(f"{said}: nothing can be said of the traces")
            size = min(self.LARGER * size, self.MOST)
            self.larger = {"AUTOGRAPH_TRACE_BUFFER_KB": str(size)}
            say(f"{said}: running again with {size}.")


def compare_traces(run, outputs):
    """Two more runs, whose trace files are compared process by process."""
    traced = Traced(run, outputs)
    eager, ours = traced(runs.EAGER), traced({})
    if len(eager) != len(ours) or not ours:
        say(f"{plural(len(eager), 'process')} wrote a trace without graphs, {len(ours)} with: "
            "nothing can be said of the traces.")
        return UNUSABLE
    alone = []
    for a in eager:  # processes may have ended in another order
        for b in ours:
            lines, same = judge(a, b)
            if same:
                say(*lines)
                ours.remove(b)
                break
        else:
            alone.append(a)
    for a, b in zip(alone, ours):
        say(*judge(a, b)[0])
    return DIFFERENT if alone else OK


def judge(a, b):
    """(lines about two trace files, whether they did the same work)."""
    lines, sentence, same = compare.judge(tracefile.Trace(a), tracefile.Trace(b))
    return [*lines, f"{'The same' if same else 'Different'} work in the traces: {sentence}."], same

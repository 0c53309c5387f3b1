# SPDX-License-Identifier: MIT
"""autograph verify -- command: does a program do the same with the library as without?"""
import difflib
import os
import re
import shutil
import tempfile

import compare
import launch
import runs
import tracefile
from common import DIFFERENT, OK, UNUSABLE, Failure, Parser, pattern, plural, printable, share, shortened

EPILOG = """\
Compared are: how the program ends, its standard output, and each --output FILE, which is put back to
what it was before each run; with --traces also all that it asked of the GPU (two more runs). When
something differs, the program runs once more without the library: of what differs then as well, nothing
can be said.
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
            out.append("  " + shortened(printable(line), 120))
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
    given, command = launch.split_command(arguments, parser)
    given = parser.parse_args(given)

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
        if found:
            again = plain.differences(result(False, "again"))
            sure = [line for part, lines in found.items() if part not in again for line in lines]
            if not sure:
                print("\n".join(["Two runs without the library differ as well:",
                                 *(line for lines in again.values() for line in lines)]))
                print("Nothing can be said: leave out what changes with --filter REGEX, or fix the "
                      "program's seeds.")
                return UNUSABLE
            print("\n".join(sure))
            print("Different with the library. Please report it, with the output of autograph "
                  "doctor and this.")
            return DIFFERENT

        ops, replayed = runs.totals(ours.run.reports)
        compared = [f"ends with {runs.ending(plain.run.status)}",
                    plural(len(plain.parts["standard output"]), "byte") + " of standard output",
                    *(f"{name} ({plural(len(plain.parts[name]), 'byte')})" for name in given.output)]
        print("The same: " + ", ".join(compared) + ".")
        if not ours.run.reports:
            said = runs.last_lines(ours.run.stderr, 1) if ours.run.status else []
            print("But the library saw no CUDA in it, or the program ended without its exit: "
                  + (printable(said[0]) if said else "autograph doctor says what it can see."))
            return UNUSABLE
        print(f"{share(replayed, ops)} of {plural(ops, 'op', ('was', 'were'))} replayed"
              + ("." if replayed else ": so this says little; autograph report says why."))
        return compare_traces(run, outputs) if given.traces else OK


def compare_traces(run, outputs):
    """Two more runs, whose trace files are compared process by process."""
    traces = []
    for extra in (runs.EAGER, {}):
        outputs.restore()
        runs.progress(f"verify: running with a trace {'of replays' if not extra else ''} ...")
        traces.append(run(True, extra).traces)
    eager, ours = traces
    if len(eager) != len(ours) or not ours:
        print(f"{plural(len(eager), 'process')} wrote a trace without graphs, {len(ours)} with: "
              "nothing can be said of the traces.")
        return UNUSABLE
    alone = []
    for a in eager:  # processes may have ended in another order
        for b in ours:
            lines, same = judge(a, b)
            if same:
                print("\n".join(lines))
                ours.remove(b)
                break
        else:
            alone.append(a)
    for a, b in zip(alone, ours):
        print("\n".join(judge(a, b)[0]))
    return DIFFERENT if alone else OK


def judge(a, b):
    """(lines about two trace files, whether they did the same work)."""
    lines, sentence, same = compare.judge(tracefile.Trace(a), tracefile.Trace(b))
    return [*lines, f"{'The same' if same else 'Different'} work in the traces: {sentence}."], same

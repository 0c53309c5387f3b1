#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The benchmark: loops eagerly, under the library, and as graphs written by hand, in turn.

usage: tests/bench/benchmark.py [--build DIR] [--out DIR] [--shapes REGEX] [--rounds N] [--ms N] [--quick]
                            [--no-extras] [--pairs N] [--library FILE] [--set AUTOGRAPH_NAME=VALUE] [--sim]

For each loop two processes run, one of them with the library preloaded, and take turns in each round;
fifteen such pairs or forty one after the other, for fewer rounds each, where little is won; each of the two is the
first to start in every other pair. Loops of one thread run on one processor, the same for both.
Prints a table, and what was asked of the loops with what was measured; --out keeps both, with all
figures (bench.json) and a plot (bench.svg). Status 1: results differed. Status 2: it could not run,
or not all of it.
"""
import argparse
import collections
import contextlib
import json
import math
import os
import pathlib
import random
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import extras  # noqa: E402  (needs the path above)
import plot  # noqa: E402
import shapes  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 60  # seconds for one answer
PAIR_ROUNDS = 3  # at most, of a pair of processes that is one of several


class CannotRun(Exception):
    pass


class Setup:
    """Where the programs are, and their environment."""

    def __init__(self, build, sim, library=None, settings=()):
        self.build, self.sim = build.resolve(), sim
        self.library = (library or self.build / ".libs/libautograph.so").resolve()
        self.settings = dict(setting.split("=", 1) for setting in settings)
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("AUTOGRAPH_", "AGSIM_")) and k != "LD_PRELOAD"}
        self.environment.update(AUTOGRAPH_CONFIG="", AGSIM_DELAY_US="0")
        configured = self.build / "tests/build.json"
        if not configured.exists():
            raise CannotRun(f"{self.build} is no build directory: give another one by --build")
        # The shared runtime: the simulated one, or where the toolkit was when this was built.
        paths = [str(self.build / "tests/sim")] if sim else []
        paths += [os.environ.get("LD_LIBRARY_PATH"), json.loads(configured.read_text())["cuda_libdir"]]
        self.environment["LD_LIBRARY_PATH"] = ":".join(p for p in paths if p)

    def program(self, name, cudart):
        path = self.build / f"tests/bench/{name}-{'sim' if self.sim else cudart}"
        for needed in (path, self.library):
            if not needed.exists():
                raise CannotRun(f"{needed} is not there: make bench builds it")
        return str(path)

    def preloaded(self, **more):
        return {**self.environment, **self.settings, "LD_PRELOAD": str(self.library), **more}

    def machine(self):
        if self.sim:
            return "simulated driver: no figure below means anything"
        try:
            name, driver = subprocess.run(
                ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
            return f"{name}, driver {driver}"
        except (OSError, subprocess.CalledProcessError, IndexError, ValueError) as error:
            raise CannotRun(f"nvidia-smi finds no GPU ({error}); --sim runs without") from error


class Worker:
    """A process that measures when it is told to, and sleeps otherwise."""

    def __init__(self, setup, cudart, report=None):
        environment = setup.environment
        if report:
            environment = setup.preloaded(AUTOGRAPH_REPORT=str(report))
        self.report = report
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([setup.program("worker", cudart)], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, bufsize=1)

    def fail(self, what):
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        said = " ".join(self.errors.read().split())
        raise CannotRun(f"{'with the library' if self.report else 'without the library'}: {what}"
                        + (f": {said}" if said else ""))

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
        except BrokenPipeError:
            self.fail(f"the worker ended before '{line}'")
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.fail(f"no answer to '{line}' within {PATIENCE} s")
        answer = self.process.stdout.readline().split()
        if not answer:
            self.fail(f"the worker ended at '{line}'")
        return answer

    def measure(self, variant, words):
        """Microseconds per iteration, checksum."""
        us, checksum = self.ask(f"{variant} {words}")
        return float(us), checksum

    def pin(self, cpu):
        """Lets the program's own thread run on this processor only, once there are all others."""
        self.ask("ready")
        os.sched_setaffinity(self.process.pid, {cpu})

    def finish(self):
        """Tells the process to end, and does not wait for it."""
        self.process.stdin.close()

    def end(self):
        """Ends the process; its exit report, if it was to write one."""
        self.finish()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail(f"the worker did not end within {PATIENCE} s")
        if status != 0:
            self.fail(f"the worker ended with status {status}")
        return json.loads(self.report.read_text()) if self.report else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # nothing, where it has ended
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


# -- One shape ------------------------------------------------------------------

NUMERATORS = {"by_hand": ("library", "graph"), "eager": ("library", "eager"),
              "speedup": ("eager", "library")}


def ratios(row, of):
    """For each round; a ratio within a round does not see the machine's drift."""
    above, below = NUMERATORS[of]
    times = row["times"]
    return [a / b for a, b in zip(times[above], times.get(below, ()))]


def is_open(row, shape):
    """Whether some target lies among the middle half of the rounds' ratios."""
    for target in shapes.TARGETS:
        values = ratios(row, target.of) if target.of in NUMERATORS and target.applies(shape) else []
        if len(values) >= 4:
            low, _, high = statistics.quantiles(values, n=4)
            if low < target.limit < high:
                return True
    return False


def take_turns(shape, words, rounds, ms, workers):
    """Times and checksums of all variants, in turn. One pair of processes takes more rounds where a
    target lies within the noise."""
    row = {"name": shape.name, "shape": dict(shape), "times": collections.defaultdict(list),
           "first": {}, "equal": True}
    us, _ = workers["eager"].measure("eager", f"{words} warmup=8 iterations=8")
    iterations = row["iterations"] = max(4, round(ms * 1000 / us))
    done = -1  # the first round is not counted: the library learns
    most = 3 * rounds if shape.processes == 1 else rounds
    while done < rounds or (done < most and is_open(row, shape)):
        warmup = max(24, 4000 // shape["n"]) if done < 0 else max(4, iterations // 8)
        order = collections.deque(workers)
        order.rotate(done)
        checksums = set()
        for variant in order:
            us, checksum = workers[variant].measure(
                "graph" if variant == "graph" else "eager",
                f"{words} warmup={warmup} iterations={iterations} seed={done + 1}")
            checksums.add(checksum)
            if done < 0:
                row["first"][variant] = us
            else:
                row["times"][variant].append(us)
        row["equal"] &= len(checksums) == 1
        done += 1
    return row


def first_launches(shape, words, workers):
    """Of processes that have done nothing else yet."""
    iterations = math.ceil(shapes.FIRST_LAUNCHES / shape["n"])
    found = {variant: worker.measure("eager", f"{words} warmup=0 iterations={iterations}")
             for variant, worker in workers.items()}
    return {"name": shape.name, "shape": dict(shape), "iterations": iterations,
            "times": {variant: [us] for variant, (us, _) in found.items()}, "first": {},
            "equal": len({checksum for _, checksum in found.values()}) == 1}


def measure_pair(shape, setup, us_per_round, rounds, ms, library_first=False):
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        started = {}
        for kind in ("library", "plain") if library_first else ("plain", "library"):
            report = pathlib.Path(scratch, "report.json") if kind == "library" else None
            started[kind] = stack.enter_context(Worker(setup, shape["cudart"], report))
        plain, library = started["plain"], started["library"]
        if shape["threads"] == 1:
            # What else goes on at a processor, and its twin, makes it up to twice as slow as another.
            cpu = random.choice(sorted(os.sched_getaffinity(0)))
            plain.pin(cpu)
            library.pin(cpu)
        # The graph by hand runs in the process with the library, which passes it through: how fast the
        # GPU executes the same kernels differs by up to 10 % from process to process.
        workers = {"eager": plain, "library": library, "graph": library}
        if not shape.by_hand:
            del workers["graph"]
        words = shape.words(us_per_round)
        row = first_launches(shape, words, workers) if shape["first"] else take_turns(
            shape, words, rounds, ms, workers)
        library.finish()
        plain.end()
        row["report"] = library.end()
    return row


def measure(shape, setup, us_per_round, rounds, ms, pairs):
    """Pairs of processes, one after the other, as if they were one: rounds, and the last one's report.
    Each is the first to be started in every other pair."""
    pairs = pairs or shape.processes
    if pairs > 1:
        rounds = min(rounds, PAIR_ROUNDS)
    row = measure_pair(shape, setup, us_per_round, rounds, ms)
    for pair in range(1, pairs):
        more = measure_pair(shape, setup, us_per_round, rounds, ms, library_first=pair % 2 == 1)
        for variant, times in more["times"].items():
            row["times"][variant] += times
        row["equal"] &= more["equal"]
        row["report"] = more["report"]
    return row


# -- Output ---------------------------------------------------------------------

def processor():
    models = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{len(models)} x {models[0]}" if models else os.uname().machine


def middle(values):
    return statistics.median(values) if values else None


def spread(values):
    """Half of the middle half's width, in percent of the median."""
    if len(values) < 2:
        return 0.0
    low, median, high = statistics.quantiles(values, n=4)
    return 50 * (high - low) / median


def show(value, form):
    return "-" if value is None else format(value, form)


HEAD = """\
| loop | eager, us | library, us | by hand, us | eager / library | library / by hand | +- % | replayed | checksums |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def replayed(row):
    ops = row["report"]["ops"]
    return f"{100 * ops['replayed'] / ops['total']:.1f} %" if ops["total"] else "-"


def table_row(row):
    times = row["times"]
    return (f"| {row['name']} | {middle(times['eager']):.2f} | {middle(times['library']):.2f} "
            f"| {show(middle(times.get('graph')), '.2f')} "
            f"| {middle(ratios(row, 'speedup')):.2f}x "
            f"| {show(middle(ratios(row, 'by_hand')), '.3f')} "
            f"| {spread(ratios(row, 'eager')):.1f} | {replayed(row)} "
            f"| {'equal' if row['equal'] else 'DIFFERENT'} |")


def figure(row, of, rows):
    """The number that a target limits, or None."""
    us = middle(row["times"]["library"])
    if of == "us":
        return us
    if of != "regular":
        return middle(ratios(row, of))
    shape = shapes.Shape(**row["shape"])
    regular = [middle(other["times"]["library"]) / shape.regular.kernels
               for other in rows if other["name"] == shape.regular.name]
    return us / shape.kernels / regular[0] if regular else None


def judge(target, rows):
    """The line of the table of targets, or None without a measured shape."""
    values = {row["name"]: figure(row, target.of, rows) for row in rows
              if target.applies(shapes.Shape(**row["shape"]))}
    values = {name: value for name, value in values.items() if value is not None}
    if not values:
        return None
    most = target.bound == "most"
    missed = {name: value for name, value in values.items()
              if (value > target.limit if most else value < target.limit)}
    worst = (max if most else min)(values, key=values.get)
    missed_text = "; ".join(f"{name}: {value:.3f}" for name, value in missed.items())
    return {"target": target.name, "limit": f"{'<=' if most else '>='} {target.limit:g}",
            "worst": f"{values[worst]:.3f} ({worst})", "met": not missed,
            "verdict": "met" if not missed else f"MISSED by {len(missed)} of {len(values)}: {missed_text}"}


def verdicts(lines):
    out = ["| target | limit | worst | |", "| --- | --- | --- | --- |"]
    return out + [f"| {v['target']} | {v['limit']} | {v['worst']} | {v['verdict']} |" for v in lines]


def points(rows):
    """For the plot: constant arguments, no synchronize."""
    lines = {"eager": {}, "graph": {}, "library": {}}
    for row in rows:
        shape = shapes.Shape(**row["shape"])
        if shapes.plain(shape, "n") and shape["cudart"] == "static":
            for variant, line in lines.items():
                line[shape["n"]] = middle(row["times"][variant]) / shape["n"]
    return lines


def write(out, text, rows, targets, more, machine):
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.md").write_text("\n".join(text) + "\n")
    (out / "bench.json").write_text(json.dumps(
        {"machine": machine, "shapes": rows, "targets": targets, "extras": more}, indent=1))
    lines = points(rows)
    if lines["library"]:
        (out / "bench.svg").write_text(plot.svg(lines, f"Time per kernel, {machine}"))


def setting(text):
    if not re.match(r"AUTOGRAPH_\w+=", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not AUTOGRAPH_NAME=VALUE")
    return text


def main():
    parser = argparse.ArgumentParser(
        usage=re.sub(r"\s+", " ", __doc__.split("usage: ")[1].split("\n\n")[0]))
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("AG_BUILD") or ROOT / "build"))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--shapes", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=float, default=30, help="length of one measurement")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 10 ms")
    parser.add_argument("--pairs", type=int, default=0, metavar="N",
                        help="pairs of processes for each loop")
    parser.add_argument("--no-extras", action="store_true", help="only the loops")
    parser.add_argument("--library", type=pathlib.Path, help="another one than that of the build")
    parser.add_argument("--set", action="append", default=[], metavar="AUTOGRAPH_NAME=VALUE",
                        type=setting, help="an option of the library")
    parser.add_argument("--sim", action="store_true", help="on the simulated driver")
    options = parser.parse_args()
    rounds, ms = (3, 10) if options.quick else (options.rounds, options.ms)
    setup = Setup(options.build, options.sim, options.library, options.set)
    chosen = [s for s in shapes.SHAPES if re.search(options.shapes, s.name)]
    if not chosen:
        raise CannotRun(f"no loop's name matches '{options.shapes}'")

    machine = setup.machine()
    text = []

    def say(line):
        print(line, flush=True)
        text.append(line)

    say(f"{machine}; {processor()}; {rounds} rounds in turn, medians; +- is of library / eager"
        + "".join(f"; {setting}" for setting in options.set) + "\n")
    began = time.monotonic()
    with Worker(setup, "static") as worker:
        us_per_round = float(worker.ask("calibrate")[0])
        worker.end()
    say(HEAD)
    rows, failed = [], []
    for shape in chosen:
        try:
            rows.append(measure(shape, setup, us_per_round, rounds, ms, options.pairs))
            say(table_row(rows[-1]))
        except CannotRun as error:
            failed.append(f"{shape.name}: {error}")
            say(f"| {shape.name} | FAILED | | | | | | | |")
    more = []
    if not options.no_extras:
        try:
            more = extras.measure(setup, options.quick)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            failed.append(str(error))
    targets = [v for v in (judge(t, rows) for t in shapes.TARGETS) if v] + more
    say("")
    for line in verdicts(targets):
        say(line)
    errors = [row["name"] for row in rows if row["report"].get("errors")]
    different = [row["name"] for row in rows if not row["equal"]]
    for what, names in (("Errors of the library", errors), ("DIFFERENT RESULTS", different),
                        ("FAILED", failed)):
        if names:
            say(f"\n{what}: {'; '.join(names)}")
    say(f"\nMeasured in {time.monotonic() - began:.0f} s.")
    if options.out:
        write(options.out, text, rows, targets, more, machine)
    return 1 if different else 2 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)

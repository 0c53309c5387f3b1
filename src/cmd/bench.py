# SPDX-License-Identifier: MIT
"""autograph bench -- command: how much faster is a program with the library?"""
import json
import math
import os
import statistics
import tempfile

import launch
import runs
import simulated
import verdict
from common import (FIGURES, OK, Failure, Parser, destination, fitted, look, number, pattern, plural, printable, share,
                    shortened, table, warn)

EPILOG = """\
Runs with and without the library take turns, so that a machine that gets slower does not favour one.
The speed-up is the median over the pairs of runs; its interval holds the true median with the
probability that is given (order statistics: no distribution is assumed).
Fewer than five runs give no speed-up.
Status: 0 measured, 2 a run failed or gave no number, or the library had nothing to do in it.
"""


def interval(ratios, wanted=0.95):
    """(low, high, probability): the narrowest pair of order statistics around the median that holds
    it with the wanted probability, or the whole range when there are too few values."""
    ordered, n = sorted(ratios), len(ratios)
    best, below = 0, 0.0
    for k in range(n // 2):
        below += choose(n, k) / 2 ** n  # the median lies below value k + 1
        if k == 0 or 1 - 2 * below >= wanted:
            best, probability = k, 1 - 2 * below
    if n < 2:
        return ordered[0], ordered[-1], 0.0
    return ordered[best], ordered[n - 1 - best], probability


def choose(n, k):
    """Binomial coefficient; math.comb is not in Python 3.7."""
    return math.factorial(n) // math.factorial(k) // math.factorial(n - k)


def spread(values):
    """Half the range of the middle half, as a part of the median."""
    ordered = sorted(values)

    def quantile(part):
        at = part * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    return (quantile(0.75) - quantile(0.25)) / 2 / quantile(0.5)


def measure(run, given):
    """The number that a run gives: its duration, or what its output says."""
    if run.status != 0:
        tail = "\n".join(f"  {line}" for line in runs.last_lines(run.stderr))
        raise Failure(f"a run ended with {runs.ending(run.status)}" + (f":\n{tail}" if tail else ""))
    if given.time_from is None:
        return run.seconds
    text = ""
    for name in (run.stdout, run.stderr):
        with open(name, encoding="utf-8", errors="replace") as file:
            text = file.read()
        found = [next(filter(None, m.groups() or [m.group()]), None)
                 for m in given.time_from.finditer(text)]
        found = [value for value in found if value]  # of (a)|(b) one takes no part
        if found:
            value = found[-1]
            try:
                value = float(value)
            except ValueError:
                raise Failure(f"--time-from found '{shortened(value, 40)}', which is no number\n"
                              "  put the number in parentheses") from None
            if not 0 < value < math.inf:
                raise Failure(f"--time-from found {value:g}: the number must be above 0")
            return value
    raise Failure(f"--time-from {given.time_from.pattern}: no line of the output matches")


ENOUGH = 0.9  # probability below which an interval says nothing: of fewer than 5 runs


def judge(ratio, low, high, probability, no_gpu):
    """A sentence: one, whatever can be said."""
    if no_gpu:
        return simulated.NO_TIMES
    if probability < ENOUGH:
        return "Too few runs to tell: --runs 9."
    equal = low <= 1 <= high
    if high / low > (1.1 if equal else 1.2):
        return ("The runs differ too much to tell: stop other work on the machine, make runs longer, or take more of "
                "them (--runs).")
    return "No difference could be seen." if equal else f"{'Faster' if ratio > 1 else 'Slower'} with the library."


def something_to_compare(reports):
    """Failure if the library had nothing to do in a run: what differs then is not its doing."""
    if not reports:
        raise Failure("nothing to compare: the library saw no CUDA in this program, or it was killed\n"
                      "  autograph doctor says what the library can see")
    if runs.totals(reports)[0] == 0:
        reasons = [f"it stopped holding: {r['stopped']}" for r in reports if r.get("stopped")]
        raise Failure("nothing to compare: the library saw no operations in this program\n  "
                      + printable((reasons or ["autograph report says why"])[0]))


def take_turns(run, given):
    """({with the library: [figure of each run]}, the reports of the last run with the library)."""
    figures, reports = {False: [], True: []}, []
    total = given.warmup + given.runs
    for i in range(total):
        for with_library in ((False, True), (True, False))[i % 2]:
            runs.progress(f"bench: pair {i + 1} of {total}, {runs.kind(with_library)} ...")
            done = run(with_library)
            value = measure(done, given)
            if i >= given.warmup:
                figures[with_library].append(value)
            if with_library:
                something_to_compare(done.reports)
                reports = done.reports
    return figures, reports


def show(without, ours, unit, speedup, replayed, no_gpu):
    """Prints the figures, and what can be said of them; that the machine is busy goes to stderr."""
    rows = [[f"{plural(len(ours), 'run')} each", "median", "least", "most", "spread"]]
    for name, values in (("without", without), ("with", ours)):
        rows.append([name, *(f"{f(values):.4g}{unit}" for f in (statistics.median, min, max)),
                     f"{100 * spread(values):.1f} %"])
    lines, (ratio, low, high, probability) = table(rows, right=(1, 2, 3, 4)), speedup
    if probability >= ENOUGH:
        lines.append(f"speed-up {ratio:.2f}x, {low:.2f} to {high:.2f} with a probability of {100 * probability:.0f} %")
    print("\n".join([*lines, replayed, *fitted([judge(*speedup, no_gpu)])]))
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        warn(f"the machine is busy: load {load:.1f} on {plural(cores, 'core')}")


def main(arguments):
    parser = Parser("bench", usage="autograph bench [option]... -- command [argument]...",
                    description="Measures a program with and without the library.", epilog=EPILOG)
    runs.add_arguments(parser)
    parser.add_argument("--runs", metavar="N", type=number(1), default=9,
                        help="measured runs of each kind (9)")
    parser.add_argument("--warmup", metavar="N", type=number(0), default=1,
                        help="runs of each kind before those (1)")
    parser.add_argument("--time-from", metavar="REGEX", type=pattern,
                        help="take the number in parentheses from the last match in the output, "
                             "instead of the run's duration")
    parser.add_argument("--rate", action="store_true",
                        help="that number is a rate: more is better")
    parser.add_argument("--json", metavar="FILE", help="write all figures there (-: nothing else, on standard output)")
    given, command = launch.split_command(arguments, parser)
    given = parser.parse_args(given)
    if given.rate and not given.time_from:
        raise Failure("--rate needs --time-from")
    if given.json:
        look(given.json, FIGURES)  # before the runs, which take long

    with tempfile.TemporaryDirectory(prefix="autograph-") as scratch:
        try:
            figures, reports = take_turns(runs.Runner(given, command, scratch), given)
        except Failure:
            if simulated.is_found(os.environ):
                warn(simulated.NOTE, "bench")
            raise
    without, ours = figures[False], figures[True]
    ops, replayed = runs.totals(reports)
    ratios = [b / a if given.rate else a / b for a, b in zip(without, ours)]
    ratio = statistics.median(ratios)
    low, high, probability = interval(ratios)
    if given.json != "-":
        show(without, ours, "" if given.time_from else " s", (ratio, low, high, probability),
             f"{share(replayed, ops)} of {plural(ops, 'operation')} replayed", any(map(verdict.is_simulated, reports)))
    if given.json:
        with destination(given.json, FIGURES) as file:
            json.dump({"writer": "autograph bench", "command": command, "without": without, "with": ours,
                       "speedup": ratio, "interval": [low, high], "probability": probability,
                       "ops": ops, "replayed": replayed,
                       "gpus": sorted({name for r in reports for name in r.get("gpus") or ()})}, file, indent=1)
            file.write("\n")
    return OK

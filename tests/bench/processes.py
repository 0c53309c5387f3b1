#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what preloading costs a shell script that starts many short processes, which use no CUDA.

usage: tests/bench/processes.py [--processes N] [--rounds N] [LIBRARY]...

A round runs the script in each of the ways, in turn. Printed are medians over the rounds, for a process: its
time, and how much more it is than in the same round without a library; the same of the time of the CPU, which
a busy machine changes less. A LIBRARY besides that of build/ is measured as it is.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = "i=0; while [ $i -lt {} ]; do /bin/true; i=$((i+1)); done"


def ways(libraries, scratch):
    """{what: environment}"""
    file = pathlib.Path(scratch, "autograph.ini")
    file.write_text("[general]\nexclude = sh true ls cp\n[program:sh]\ntrace.hot = 5\n")
    own = {"LD_PRELOAD": str(libraries[0]), "AUTOGRAPH_CONFIG": ""}
    return {"without": {}, "with the library": own,
            "with a file that excludes sh and true": {**own, "AUTOGRAPH_CONFIG": str(file)},
            "with AUTOGRAPH_DISABLE=1": {**own, "AUTOGRAPH_DISABLE": "1"},
            **{f"with {library}": {"LD_PRELOAD": str(library)} for library in libraries[1:]}}


def run(processes, environment):
    """Microseconds of a process: time, and time of the CPU."""
    def now():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), used.ru_utime + used.ru_stime
    began = now()
    subprocess.run(["/bin/sh", "-c", SCRIPT.format(processes)], check=True,
                   env={"PATH": os.environ["PATH"], **environment})
    return [1e6 * (end - begin) / processes for begin, end in zip(began, now())]


def column(found, plain):
    more = statistics.median(a - b for a, b in zip(found, plain))
    return f"{statistics.median(found):6.0f} {more:+6.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("libraries", nargs="*", type=pathlib.Path, metavar="LIBRARY")
    given = parser.parse_args()
    libraries = [ROOT / "build/.libs/libautograph.so", *(library.resolve() for library in given.libraries)]
    with tempfile.TemporaryDirectory() as scratch:
        runs = ways(libraries, scratch)
        times = {what: [] for what in runs}
        for _ in range(given.rounds):
            for what, environment in runs.items():
                times[what].append(run(given.processes, environment))
    print(f"{'us a process':<42}   time   more    CPU   more")
    for what, found in times.items():
        print(f"{what:<42}", *map(column, zip(*found), zip(*times["without"])))


main()

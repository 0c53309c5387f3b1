#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the CPU instructions that the library adds to a call, by callgrind on the simulated driver.

usage: tests/bench/instructions.py [--build DIR] [--only REGEX] [--functions] [--keep DIR] [--json FILE]

For each path through the library (tests/bench/paths.cu): instructions of the library itself and of
what it calls in libc, per call; not those of driver, runtime and program. And which functions of the
driver it called meanwhile; their numbers are averages of the whole run, warm-up included. --functions lists where they are spent; --keep leaves the files for callgrind_annotate.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

LENGTH, WARMUP, ITERATIONS = 32, 24, 24  # as in paths.cu
NO_TRACES = {"AUTOGRAPH_TRACE_HOT": "1000"}
FIXED = {"AUTOGRAPH_GRAPH_SHAPES": "false"}  # what has another size is another op
RESTING = {**FIXED, "AUTOGRAPH_TRACE_MEMORY": "256"}  # full before the measurement, and the recorder rests
SET = {"AUTOGRAPH_GRAPH_VARIANTS": "1"}  # it is not looked whether arguments come back, as 1,000 times of 1,024
DISABLED = {"AUTOGRAPH_DISABLE": "1"}

Case = collections.namedtuple("Case", "path environment calls what", defaults=[{}, LENGTH - 2, ""])

# What is measured, and how many calls stand in one measured window.
CASES = {
    "held-runtime": Case("held-runtime", what="held, constant arguments"),
    "held-runtime-changing": Case("held-runtime-changing", what="held, all arguments change"),
    "held-kernels": Case("held-kernels", what="held, 32 kernels in turn"),
    "setters": Case("setters", what="held, and a setter of its function before it"),
    "held-runtime13": Case("held-runtime13", what="held, <<<>>> of nvcc 13"),
    "held-driver": Case("held-driver", what="held, constant arguments"),
    "held-driver-changing": Case("held-driver-changing", what="held, all arguments change"),
    "held-memset": Case("held-memset", what="held, cuMemsetD8Async"),
    "held-copy": Case("held-copy", what="held, device to device"),
    "held-upload": Case("held-upload", what="held, four bytes of pageable memory"),
    "held-event": Case("held-event", what="held, cuEventRecord"),
    "whole-runtime": Case("whole-runtime", {}, LENGTH, "with replay and synchronize"),
    "whole-runtime-changing": Case("whole-runtime-changing", SET, LENGTH, "the same, arguments change"),
    "whole-driver": Case("whole-driver", {}, LENGTH, "with replay and synchronize"),
    "whole-driver-changing": Case("whole-driver-changing", SET, LENGTH, "the same, arguments change"),
    "recorded-runtime": Case("held-runtime", NO_TRACES, what="recorded, no trace yet"),
    "recorded-driver": Case("held-driver", NO_TRACES, what="recorded, no trace yet"),
    "novel-runtime": Case("novel-runtime", FIXED, LENGTH, "recorded, never seen before"),
    "novel-driver": Case("novel-driver", FIXED, LENGTH, "recorded, never seen before"),
    "novel-events": Case("novel-events", FIXED, LENGTH, "recorded, one of 300, behind what was never seen"),
    "await": Case("await", {}, LENGTH, "recorded, a wait for what another thread's open sequence has recorded"),
    "resting-runtime": Case("novel-runtime", RESTING, LENGTH, "passed through, recorder rests"),
    "resting-driver": Case("novel-driver", RESTING, LENGTH, "passed through, recorder rests"),
    "resting-after": Case("novel-after", RESTING, LENGTH, "the same, after a loop"),
    "resting-memset": Case("novel-memset", RESTING, LENGTH, "passed through, recorder rests"),
    "resting-copy": Case("novel-copy", RESTING, LENGTH, "passed through, recorder rests"),
    "resting-upload": Case("novel-upload", RESTING, LENGTH, "passed through, recorder rests"),
    "resting-event": Case("novel-event", RESTING, LENGTH, "passed through, recorder rests"),
    "foreign": Case("foreign", {}, LENGTH, "copies of managed memory, which cannot be held"),
    "later": Case("later", {}, LENGTH, "passed through, or what began a loop once, recorded in vain"),
    "token": Case("token", what="the program's own graph, and six uploads that are waited for"),
    "disabled-runtime": Case("held-runtime", DISABLED, what="AUTOGRAPH_DISABLE=1"),
    "disabled-driver": Case("held-driver", DISABLED, what="AUTOGRAPH_DISABLE=1"),
    "query": Case("query", what="barrier, nothing held (cuEventQuery)"),
    "poll": Case("poll", what="the same beside 300 streams of other threads that are not waited for"),
    "alone": Case("alone", what="replayed by itself, and a synchronize"),
    "beside": Case("beside", what="the same beside 300 streams that are not waited for"),
    "stream": Case("stream", what="a stream created and destroyed for each launch"),
    "young": Case("stream", NO_TRACES, what="the same, where such streams have gained nothing"),
    "crowd": Case("crowd", what="the same among 300 other streams"),
    "fork": Case("fork", {}, LENGTH, "in two streams that fork and join every eight launches"),
    "uploads": Case("uploads", what="a stream created and destroyed for 32 such copies"),
}

LIBRARY = "libautograph.so"
OTHERS = re.compile(r"libcuda(rt)?\.so|paths-sim")  # whose instructions are not the library's


class Count:
    """What the measured windows of one case cost."""

    def __init__(self):
        self.functions = collections.Counter()  # the library's own, and "name (libc)"
        self.driver = collections.Counter()     # calls of the driver and the runtime


def parse(lines):
    """Reads a file that callgrind wrote without compression."""
    count, owner, function, callee = Count(), "", "", None
    lines = iter(lines)
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        if key == "ob":
            owner = os.path.basename(value)
        elif key == "fn":
            function = value
            callee = owner
        elif key == "cob":
            callee = os.path.basename(value)
        elif key == "cfn":
            called = value
        elif key == "calls":
            cost = int(next(lines).split()[1])
            target, callee = callee, owner  # cob holds for one call
            if owner != LIBRARY or target == LIBRARY:
                continue
            if OTHERS.search(target):
                count.driver[called] += int(value.split()[0])
            else:
                count.functions[f"{called} (libc)"] += cost
        elif line[:1].isdigit() and owner == LIBRARY:
            count.functions[function] += int(line.split()[1])
    return count


def measure(case, build, keep=None, name=None):
    """Runs one case; per call: instructions (own, libc), functions, driver calls."""
    case = CASES[case] if isinstance(case, str) else case
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("AUTOGRAPH_", "AGSIM_")) and k != "LD_PRELOAD"}
    library = build / ".libs" / LIBRARY
    paths = [str(build / "tests/sim"), os.environ.get("LD_LIBRARY_PATH")]
    environment["AUTOGRAPH_TRACE_LENGTH"] = "fixed"  # callgrind makes a program look slow
    environment.update(
        AUTOGRAPH_CONFIG="", AUTOGRAPH_TRACE_DUEL="false", AUTOGRAPH_HOLD_BOUND_US="100000", AGSIM_DELAY_US="0",
        LD_PRELOAD=str(library), LD_LIBRARY_PATH=":".join(p for p in paths if p), **case.environment)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=measured",
                   f"--callgrind-out-file={out}", "--compress-strings=no", "--compress-pos=no",
                   str(build / "tests/bench/paths-sim"), case.path]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120,
                              check=False)
        if done.returncode != 0 or not out.exists():
            sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
        with open(out, encoding="utf-8") as lines:
            count = parse(lines)
        if keep:
            shutil.copy(out, keep / f"callgrind.{name}")
    calls = ITERATIONS * case.calls
    functions = {name: n / calls for name, n in count.functions.most_common()}
    libc = sum(n for name, n in functions.items() if name.endswith(" (libc)"))
    # Callgrind counts calls outside the windows as well.
    launches = LENGTH * (WARMUP + ITERATIONS)
    return {"own": sum(functions.values()) - libc, "libc": libc, "functions": functions,
            "driver": {name: n / launches for name, n in count.driver.most_common()}}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("AG_BUILD") or ROOT / "build"))
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not there: scripts/setup installs it")
    if not (build / "tests/bench/paths-sim").exists():
        sys.exit(f"{build}/tests/bench/paths-sim is not there: make check-programs")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)

    print(f"{'instructions per call':24}{'library':>9}{'libc':>7}{'sum':>7}  driver calls per call")
    results = {}
    for name, case in CASES.items():
        if not re.search(options.only, name):
            continue
        result = results[name] = measure(case, build, options.keep, name)
        calls = ", ".join(f"{n:.3g} {function}" for function, n in result["driver"].items())
        print(f"{name:24}{result['own']:9.1f}{result['libc']:7.1f}"
              f"{result['own'] + result['libc']:7.1f}  {case.what}: {calls or 'none'}", flush=True)
        if options.functions:
            for function, n in result["functions"].items():
                print(f"{'':24}{n:9.1f}  {function}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

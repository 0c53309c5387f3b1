# SPDX-License-Identifier: MIT
"""What the benchmark measures beside loops: one launch, the first replay, the start of a process."""
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import shapes

# Iterations of a steady loop: the first replay comes among them, or it is late.
FIRST_REPLAY = 20
SEARCHED = 512


def run(command, environment, text=""):
    done = subprocess.run(command, env=environment, input=text, capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def verdict(target, limit, worst, met):
    return {"target": target, "limit": limit, "worst": worst, "met": met,
            "verdict": "met" if met else "MISSED"}


# -- One launch -----------------------------------------------------------------

LAUNCHES = [("runtime door (cudaLaunchKernel, shared)", "shared", "held-runtime", 60),
            ("<<<>>> of nvcc 13, the runtime's own part with it", "shared", "held-runtime13", None),
            ("driver door (cuLaunchKernel)", "static", "held-driver", 100),
            ("a function that does nothing instead", "shared", "nothing", None)]


def launches(setup, runs):
    result = []
    for name, cudart, path, limit in LAUNCHES:
        command = [setup.program("paths", cudart), path]
        # Sequences as long as the pace says would be replayed among the launches that are timed.
        held = setup.preloaded(AUTOGRAPH_TRACE_LENGTH="fixed")
        ns = statistics.median(float(run(command, held).split()[1]) for _ in range(runs))
        eager = float(run(command, setup.environment).split()[1])
        line = verdict(f"one matched launch, {name}", f"<= {limit} ns" if limit else "-",
                       f"{ns:.0f} ns (eager {eager:.0f})", limit is None or ns <= limit)
        result.append(line if limit else {**line, "verdict": "-"})
    return result


# -- A launch that passes ---------------------------------------------------------

MOST_PASSING = 1.01


def passing(setup, runs):
    """Launches that never repeat, through the library and past it in one process: between processes
    there is more noise than is allowed. They differ in shared memory, which is an argument otherwise."""
    environment = setup.preloaded(AUTOGRAPH_GRAPH_SHAPES="false")
    ratios = {}
    for cudart in ("shared", "static"):
        program = [setup.program("passing", cudart)]
        for _ in range(runs):
            for line in run(program, environment).splitlines():
                name, through, past, *same = line.split()
                if same:
                    raise RuntimeError(f"{program[0]}: {name} is not the library's")
                ratios.setdefault(f"{name}, {cudart}", []).append(float(through) / float(past))
    found = {name: statistics.median(values) for name, values in ratios.items()}
    return [verdict("a launch that never repeats, through the library / past it, in one process",
                    f"<= {MOST_PASSING}", "; ".join(f"{name}: {ratio:.3f}" for name, ratio in found.items()),
                    max(found.values()) <= MOST_PASSING)]


# -- First replay -----------------------------------------------------------------

def replays(setup, shape, iterations):
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.json")
        run([setup.program("worker", shape["cudart"])],
            setup.preloaded(AUTOGRAPH_REPORT=str(report)),
            f"eager {shape.words(1)} warmup=0 iterations={iterations}\n")
        return json.loads(report.read_text())["replays"]


def first_replay(setup, shape):
    """The least number of iterations that end with a replay; None if SEARCHED are too few."""
    low, high = 0, SEARCHED
    if replays(setup, shape, high) == 0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if replays(setup, shape, middle):
            high = middle
        else:
            low = middle
    return high


def first_replays(setup):
    found = {shape.name: first_replay(setup, shape)
             for shape in shapes.every(n=[1, 4, 16, 64], sync=[0, 1])}
    met = all(n is not None and n <= FIRST_REPLAY for n in found.values())
    return [verdict("first replay, iterations of a steady loop", f"<= {FIRST_REPLAY}",
                    "; ".join(f"{name}: {n}" for name, n in found.items()), met)]


# -- Start of a process -------------------------------------------------------------

def start(command, setup, runs):
    """Milliseconds without the library, with it, and half the width of the middle half of the
    differences, in turn."""
    times = {False: [], True: []}
    for i in range(2 * runs):
        preload = bool(i % 2)
        begin = time.monotonic()
        run(command, setup.preloaded() if preload else setup.environment)
        times[preload].append(1000 * (time.monotonic() - begin))
    low, difference, high = statistics.quantiles(
        [a - b for a, b in zip(times[True], times[False])], n=4)
    return statistics.median(times[False]), difference, (high - low) / 2


def starts(setup, quick):
    result = []
    for name, command, runs, most in (
            ("a process without CUDA (/bin/true)", ["/bin/true"], 20 if quick else 200, 0.5),
            ("start of a process with CUDA", [setup.program("worker", "static")],
             4 if quick else 60, 5)):
        plain, difference, uncertain = start(command, setup, runs)
        result.append(verdict(name, f"<= {most} ms more",
                              f"{difference:+.2f} ms, +- {uncertain:.2f} ms (without {plain:.2f} ms)",
                              difference <= most))
    return result


def measure(setup, quick):
    return [*launches(setup, 1 if quick else 5), *passing(setup, 1 if quick else 3), *first_replays(setup),
            *starts(setup, quick)]

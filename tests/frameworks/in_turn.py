# SPDX-License-Identifier: MIT
"""The time of a step, and then again in turn with the library paused, in the same process: one process
is faster than another by more than there is to win."""
import ctypes
import statistics
import sys
import time

PAIRS = 8


def switches():
    """What pauses the library, and what has it go on; both do nothing where it is not loaded."""
    process = ctypes.CDLL(None)
    try:
        return process.autograph_pause, process.autograph_resume
    except AttributeError:
        return (lambda: None), (lambda: None)


def measure(step, iterations, wait):
    """Microseconds for a step, and what the last one returned."""
    wait()
    start = time.perf_counter()
    for _ in range(iterations):
        result = step()
    wait()
    return (time.perf_counter() - start) / iterations * 1e6, result


def timed(name, step, iterations, wait):
    """Prints the times; returns what the last step returned. With and without the library there are as
    many steps."""
    for _ in range(20):
        step()
    us, _ = measure(step, iterations, wait)
    print(f"time {name} {us:.1f} us", file=sys.stderr)
    pause, resume = switches()
    times = {"active": [], "paused": []}
    for i in range(2 * PAIRS):
        paused = (i + i // 2) % 2  # neither is always behind the other
        if paused:
            pause()
        us, result = measure(step, max(1, iterations // PAIRS), wait)
        if paused:
            resume()
        times["paused" if paused else "active"].append(us)
    for kind, all_us in times.items():
        print(f"time {name}, in turn, {kind} {statistics.median(all_us):.1f} us", file=sys.stderr)
    return result

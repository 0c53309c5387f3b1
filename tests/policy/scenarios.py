#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs written by hand, as if they had been recorded.

usage: scenarios.py NAME

Prints one. tests/policy/test_policy.py plays them.
"""
import random
import sys

DEVICE, HOST = 0x7f0000000000, 0x550000001000


class Program:
    """A recorded program in the making: one context, one thread, and stream 1."""

    def __init__(self, name, functions=4, kind=1):
        self.lines = [f"program {name}", "gpu none", "context 1", "thread 1 1", f"stream 1 1 {kind} {kind % 2} 1"]
        self.lines += [f"function {f} 0 0 8,8,4 kernel{f}" for f in range(1, functions + 1)]
        self.lines += [f"memory {DEVICE:x} 2 {DEVICE:x} 1048576 7"]

    def call(self, *words, gap=300, thread=1):
        self.lines.append(" ".join(map(str, (gap, thread, *words))))

    def kernel(self, function=1, values=(0, 0, 0), gap=300, grid=1, stream=1, gpu=1030, thread=1):
        listed = ",".join(map(str, values))
        self.call("k", function, stream, grid, 1, 1, 32, 1, 1, 0, 0, listed, f"@{gpu}", gap=gap, thread=thread)

    def wait(self, gap=300):
        self.call("s", 1, gap=gap)

    def text(self):
        return "\n".join(self.lines) + "\n"


def sync(steps=400, kernels=16):
    """A loop of kernels with a wait in each step."""
    p = Program("sync")
    for _ in range(steps):
        for k in range(kernels):
            p.kernel(1 + k % 4, (0, 0, k))
        p.wait()
    return p.text()


def plain(steps=400, kernels=16):
    """The same without a wait."""
    p = Program("plain")
    for _ in range(steps):
        for k in range(kernels):
            p.kernel(1 + k % 4, (0, 0, k))
    p.wait()
    return p.text()


def questions(steps=400, kernels=16):
    """A loop of kernels, with a question behind each whether the stream is idle."""
    p = Program("questions")
    for _ in range(steps):
        for k in range(kernels):
            p.kernel(1 + k % 4, (0, 0, k))
            p.call("q", 1, 600)
    p.wait()
    return p.text()


def read(steps=400, kernels=16):
    """A loop of kernels with 8 bytes to pageable memory in each step."""
    p = Program("read")
    p.lines.append(f"memory {HOST:x} 0 0 0 0")
    for _ in range(steps):
        for k in range(kernels):
            p.kernel(1 + k % 4, (0, 0, k))
        p.call("r", 1, f"{HOST:x}", f"{DEVICE:x}", 8, 0)
    return p.text()


def upload(steps=2000, kernels=16):
    """A loop of 64 bytes from pageable memory, and kernels."""
    p = Program("upload")
    p.lines.append(f"memory {HOST:x} 0 0 0 0")
    for _ in range(steps):
        p.call("c", 1, 4, f"{DEVICE:x}", 4, f"{HOST:x}", 64, 1, 1, 0, 0, 0)
        for k in range(kernels):
            p.kernel(1 + k % 4, (0, 0, k))
    p.wait()
    return p.text()


def never(ops=6400):
    """Kernels of which no sequence comes again, with waits."""
    chance = random.Random(1)
    p = Program("never", functions=2000)
    for i in range(ops):
        p.kernel(chance.randrange(1, 2001), (0, 0, i))
        if i % 16 == 15:
            p.wait()
    return p.text()


def threads(steps=200, kernels=16, count=4):
    """Threads with a stream each, and a wait in each step."""
    p = Program("threads")
    p.lines += [line for t in range(2, count + 1) for line in (f"thread {t} 1", f"stream {t} 1 1 1 {t}")]
    for _ in range(steps):
        for k in range(kernels):
            for t in range(1, count + 1):
                p.kernel(1 + k % 4, (0, 0, k), stream=t, thread=t)
        for t in range(1, count + 1):
            p.call("s", t, thread=t)
    for t in range(count, 0, -1):
        p.call("end", thread=t)
    return p.text()


def fork(steps=400, kernels=4, streams=3, waits=False, name="fork"):
    """A stream forks to others by an event, each has kernels, and is joined by an event of its own."""
    p = Program(name)
    p.lines += [f"stream {s} 1 1 1 1" for s in range(2, streams + 1)]
    p.lines += [f"event {e} 0" for e in range(1, streams + 1)]
    for _ in range(steps):
        p.call("e", 1, 1)
        for s in range(2, streams + 1):
            p.call("w", s, 1)
        for s in range(1, streams + 1):
            for k in range(kernels):
                p.kernel(1 + k % 4, (s, 0, k), stream=s)
        for s in range(2, streams + 1):
            p.call("e", s, s)
            p.call("w", 1, s)
        if waits:
            p.wait()
    p.wait()
    return p.text()


def fork_sync():
    """The same with a wait in each step."""
    return fork(waits=True, name="fork_sync")


def fork_single():
    """The same with one kernel in each stream."""
    return fork(kernels=1, name="fork_single")


def phases(turns=16, rounds=48):
    """Three loops in turn, for some rounds each."""
    p = Program("phases")
    for _ in range(turns):
        for loop in (1, 2, 3), (1, 2, 2, 4, 3), (1, 2, 2, 2, 4, 4, 3):
            for _ in range(rounds):
                for k, function in enumerate(loop):
                    p.kernel(function, (0, 0, k))
    p.wait()
    return p.text()


def steps(count=500, kernels=8):
    """A copy, and launches of one kernel."""
    p, place = Program("steps"), DEVICE + 4096
    p.lines.append(f"memory {place:x} 2 {DEVICE:x} 1048576 7")
    for _ in range(count):
        p.call("c", 1, 4, f"{place:x}", 4, f"{DEVICE:x}", 64, 1, 1, 0, 0, 0)
        for k in range(kernels):
            p.kernel(1, (0, 0, k))
    p.wait()
    return p.text()


def choice(seed=1, count=500):
    """Steps of eight kernels, the fourth of which is one of two by chance."""
    chance = random.Random(seed)
    p = Program("choice")
    for _ in range(count):
        for k in range(8):
            p.kernel(2 if k == 3 and chance.randrange(4) == 0 else 1, (0, 0, k))
    p.wait()
    return p.text()


LAYER = (1, 2, 14, 4, 2, 14, 2, 14, 5, 6, 20, 21, 2, 12, 1, 2, 12, 2, 13)  # functions of its kernels, as llama.cpp has them


def tokens(layers=28, count=200, gap=1000, gpu=3900):
    """A language model, layer by layer, with a wait for each token. Arguments differ from layer to layer, not from
    token to token. The inputs come by a stream of their own, and 128,000 bytes go to the host."""
    p = Program("tokens", functions=22)
    p.lines += [f"memory {HOST:x} 1 {HOST:x} 1048576 8", "stream 2 1 3 0 1"]
    for _ in range(count):
        for size in (4096, 4, 8, 8, 1536, 4):
            p.call("c", 2, 4, f"{DEVICE:x}", 4, f"{HOST:x}", size, 1, 1, 0, 0, 0, gap=100)
            p.call("s", 2, gap=100)
        for layer in range(layers):
            for k, function in enumerate(LAYER):
                p.kernel(function, (layer, k, 0), gap=gap, gpu=gpu)
        for k, function in enumerate((1, 2, 12)):
            p.kernel(function, (layers, k, 0), gap=gap, gpu=gpu)
        p.call("r", 1, f"{HOST:x}", f"{DEVICE:x}", 128000, 0)
        p.wait()
    return p.text()


def own_clock(iterations=60, ops=16, waits=True):
    """tests/programs/own_clock.c."""
    p = Program("own_clock", functions=0)
    p.lines += ["stream 2 1 2 0 1", "function 1 0 kernel 8,4,4 mix", f"memory {HOST:x} 0 0 0 0"]
    p.call("b", "most", "barrier", "cuMemAlloc_v2")
    p.call("m", 2, f"{DEVICE:x}", 2, 1, 0, 1, 4, 1)
    p.call("created", 1)
    for _ in range(iterations):
        for k in range(ops):
            p.kernel(values=(0, 0, k))
        if waits:
            p.wait()
    p.wait()
    p.call("r", 2, f"{HOST:x}", f"{DEVICE:x}", 8, 1)
    return p.text()


SCENARIOS = {make.__name__: make for make in (sync, plain, questions, read, upload, never, threads, fork, fork_sync,
                                                fork_single, phases, steps, choice, tokens, own_clock)}

if __name__ == "__main__":
    print(SCENARIOS[sys.argv[1]](), end="")

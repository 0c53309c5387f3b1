#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch in the ways in which people speed it up, in turn within one process, as a table.

usage: variants.py [--size tiny|small|full] [--rounds N] [--device cuda|cpu] [--json FILE] [NAME...]

The networks are those of workloads.py, in inference and training. Columns: eager; torch.compile;
torch.compile(mode="reduce-overhead"); a graph made by hand; and eager and torch.compile with the library, where
it is preloaded: it is paused in all others. A figure is the median of the rounds, in microseconds a step, and in
brackets the speed-up over eager. "driver" is the share of an eager step's CPU time that is spent in calls of
CUDA: what could be gained at most where launches bound the speed.

Each variant trains a network of its own from the same start. With the library results have to be those without,
but for the order of sums; other variants may differ by 2 %. Ends with 1 if any is DIFFERENT. A variant that does
not work is left out, and the reason is said.
"""
import argparse
import contextlib
import copy
import ctypes
import json
import math
import os
import random
import statistics
import sys

import torch

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import in_turn  # noqa: E402
import workloads  # noqa: E402  (they need the path above)

WARM = {"tiny": 5, "small": 100, "full": 30}  # steps before the first round: the library learns them
STEPS = {"tiny": 3, "small": 60, "full": 5}   # of a round
SAME, ALIKE = 1e-4, 2e-2  # relative difference with the library, and of other variants
MODES = {"compile": "default", "compile + library": "default", "reduce-overhead": "reduce-overhead"}
COLUMNS = ["eager", "eager + library", "compile", "compile + library", "reduce-overhead", "graph"]


class Variant:
    """A network of its own, a step of it, and the times of steps."""

    def __init__(self, name, network, training, options):
        module, inputs, target = (part.to(options.device) if hasattr(part, "to") else part for part in network)
        self.name, self.options = name, options
        self.module = copy.deepcopy(module).train(training)
        self.inputs = [part.to(options.device).clone() for part in inputs]
        self.target, self.times, self.results = target, [], []
        self.called = self.module if name not in MODES else torch.compile(self.module, mode=MODES[name])
        more = {"capturable": True} if name == "graph" else {}
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=1e-5, **more) if training else None
        self.step = self.train if training else self.infer
        if name == "graph":
            self.step = self.captured(self.step)

    def infer(self):
        self.begin()
        with torch.no_grad():
            return self.called(*self.inputs)

    def begin(self):
        """What the last step returned is needed no more."""
        if self.name == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()

    def train(self):
        self.begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(self.called(*self.inputs), self.target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def captured(self, step):
        """The step as a graph; the work that comes first is done beside, as PyTorch's manual says."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.results.append(self.outcome(step()))
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step()

        def replay():
            graph.replay()
            return result
        return replay

    def outcome(self, result):
        """A number or a token: the host waits for a token, as it does in use."""
        if self.target is None:
            return result.item()
        return result if self.optimizer else None

    def whole(self):
        """A step as its user has it."""
        result = self.step()
        return result.item() if self.target is None else result

    def warm(self):
        """The same number of steps for all: what has been captured counts those before. Of tokens all are
        results, of losses the last, of outputs the sum."""
        with self.in_use():
            while len(self.results) < WARM[self.options.size]:
                self.results.append(self.outcome(self.step()))
            if self.optimizer:
                self.results = [float(self.results[-1])]
            elif self.target is not None:
                self.results = [self.step().double().abs().sum().item()]

    @contextlib.contextmanager
    def in_use(self):
        """The library is paused except here. Pauses nest, so each has one end."""
        pause, resume = in_turn.switches() if "library" in self.name else (lambda: None, lambda: None)
        resume()
        try:
            yield
        finally:
            pause()

    def wait(self):
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def measure(self):
        with self.in_use():
            us, _ = in_turn.measure(self.whole, STEPS[self.options.size], self.wait)
        self.times.append(us)


def possible(device):
    if device != "cuda":
        return COLUMNS[:1]
    loaded = hasattr(ctypes.CDLL(None), "autograph_pause")
    return [name for name in COLUMNS if loaded or "library" not in name]


def difference(one, other):
    """The largest relative one; tokens are equal or not."""
    if any(not math.isfinite(value) for value in [*one, *other]):
        return math.inf
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) if a != b else 0.0 for a, b in zip(one, other))


def verdict(variants):
    """What differs from the variant that does the same in another way."""
    wrong = []
    for name, variant in variants.items():
        base, allowed = (name.removesuffix(" + library"), SAME) if "library" in name else ("eager", ALIKE)
        if variant.target is None and allowed == ALIKE:
            continue    # a token that is almost as likely may come first, and then all others differ
        if base in variants and difference(variants[base].results, variant.results) > allowed:
            wrong.append(name)
    return f"DIFFERENT: {', '.join(wrong)}" if wrong else "alike"


def driver_share(variant):
    """Of the CPU time of eager steps, less waits: what the profiler saw in calls of CUDA."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(STEPS[variant.options.size]):
            variant.whole()
    within = everything = 0
    for event in profile.key_averages():
        if "Synchronize" in event.key:
            continue
        everything += event.self_cpu_time_total
        within += event.self_cpu_time_total if event.key.startswith(("cuda", "cu")) else 0
    return within / everything if everything else None


def row_of(name, training, options):
    torch.manual_seed(1)
    if hasattr(torch, "compiler"):
        torch.compiler.reset()      # or it gives up after some networks that call the same functions
    network = workloads.WORKLOADS[name](options.size)
    variants, left = {}, []
    for column in possible(options.device):
        try:
            variant = Variant(column, network, training, options)
            variant.warm()
            variants[column] = variant
        except Exception as problem:  # pylint: disable=broad-except  (whatever a compiler throws)
            if column == "eager":
                raise
            left.append(f"{column}: {type(problem).__name__}: {str(problem).strip().splitlines()[:1]}")
    for _ in range(options.rounds):
        for variant in random.sample(list(variants.values()), len(variants)):
            variant.measure()
    try:
        share = driver_share(variants["eager"]) if options.device == "cuda" else None
    except RuntimeError as problem:
        share = None
        left.append(f"driver: {problem}")
    return {"workload": f"{name}, {'training' if training else 'inference'}", "size": options.size,
            "times": {column: variant.times for column, variant in variants.items()}, "driver": share,
            "results": verdict(variants), "left": left}


def line(row):
    eager = statistics.median(row["times"]["eager"])
    cells = [f"{statistics.median(row['times'][column]):.1f} ({eager / statistics.median(row['times'][column]):.2f}x)"
             if column in row["times"] else "-" for column in COLUMNS]
    share = f"{100 * row['driver']:.0f} %" if row["driver"] is not None else "-"
    return f"| {row['workload']} | {' | '.join(cells)} | {share} | {row['results']} |"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--size", choices=workloads.SIZES, default="small")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if unknown := set(options.names) - set(workloads.WORKLOADS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: {', '.join(workloads.WORKLOADS)}")
    in_turn.switches()[0]()     # but for where a variant has it in use
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.deterministic = True   # or the sums of a ResNet's training depend on chance
    head = ["workload", *COLUMNS, "driver", "results"]
    print(f"| {' | '.join(head)} |\n{'| --- ' * len(head)}|", flush=True)
    rows = []
    for name in options.names or workloads.WORKLOADS:
        for training in (False, True)[:1 if name == "generation" else 2]:
            rows.append(row_of(name, training, options))
            print("\n".join([line(rows[-1]), *(f"left out: {text}" for text in rows[-1]["left"])]), flush=True)
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
    return int(any(row["results"] != "alike" for row in rows))


if __name__ == "__main__":
    sys.exit(main())

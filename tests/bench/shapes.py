# SPDX-License-Identifier: MIT
"""The loops that the benchmark measures, and what is asked of them.

Each axis is varied around sensible centres: 16 short kernels (a warp that reads and writes a word for
each thread), constant arguments, one stream, no synchronize. An empty kernel does nothing at all.
"""
import collections

ARGUMENTS = ["constant", "one", "all", "two"]
MIX = ["kernels", "memset", "copy", "upload", "event"]
BODIES = ["short", "empty"]
LOOPS = ["steady", "period 2", "nested", "never repeats"]

CENTRE = {"n": 16, "args": "constant", "sync": 0, "us": 0, "cpu": 0, "mix": "kernels", "streams": 1,
          "threads": 1, "loop": "steady", "body": "short", "cudart": "static"}

WORDS = {
    "n": "N={}",
    "loop": {"period 2": "period 2", "nested": "nested loops", "never repeats": "never repeats"},
    "args": {"one": "one argument changes", "all": "all arguments change", "two": "two sets"},
    "sync": {1: "sync", 10: "sync every 10"},
    "us": "{} us kernels",
    "body": "{} kernels",
    "cpu": "{} us CPU",
    "mix": {"memset": "memsets", "copy": "copies", "upload": "uploads", "event": "events"},
    "streams": "{} streams",
    "threads": "{} threads",
    "cudart": {"shared": "shared"},
}


class Shape(dict):
    """A loop: CENTRE but for some members."""

    def __init__(self, **members):
        super().__init__({**CENTRE, **members})

    @property
    def name(self):
        words = []
        for key, word in WORDS.items():
            value = self[key]
            if value != CENTRE[key] or (key == "n" and self["loop"] != "nested"):
                words.append(word.format(value) if isinstance(word, str) else word[value])
        return ", ".join(words)

    @property
    def by_hand(self):
        """Whether one could write a graph for it."""
        return self["loop"] != "never repeats"

    @property
    def kernels(self):
        """Per iteration and thread, on the average."""
        return 2 + 4 * 5 + 1 if self["loop"] == "nested" else self["n"]

    @property
    def processes(self):
        """Pairs of processes: more where little is won, and one process is faster than another by more;
        and most where nothing is, and 1 % must be seen."""
        if self["loop"] == "never repeats":
            return 40
        strict = any(t.applies(self) for t in TARGETS if t.of == "eager" and t.limit <= 1.01)
        little = self["mix"] == "upload" or (self["n"] == 1 and self["threads"] > 1)
        return 15 if strict or little else 1

    def words(self, us_per_round):
        """For the worker; without the numbers of iterations and rounds."""
        rounds = max(1, round(self["us"] / us_per_round))
        return (f"n={self['n']} args={ARGUMENTS.index(self['args'])} sync={self['sync']} "
                f"rounds={rounds} cpu={self['cpu']} mix={MIX.index(self['mix'])} "
                f"streams={self['streams']} threads={self['threads']} "
                f"loop={LOOPS.index(self['loop'])} empty={BODIES.index(self['body'])}")


def every(**axes):
    """The product of some axes."""
    shapes = [{}]
    for key, values in axes.items():
        values = values if isinstance(values, (list, tuple)) else [values]
        shapes = [{**shape, key: value} for shape in shapes for value in values]
    return [Shape(**shape) for shape in shapes]


BOTH = ["static", "shared"]

SHAPES = [
    *every(n=[1, 2, 4, 8, 16, 64, 256, 1000]),
    *every(n=[4, 16, 64], cudart="shared"),
    *every(n=[1, 4, 16, 64], body="empty"),
    *every(n=4, body="empty", cudart="shared"),
    *every(n=[1, 4, 16, 64, 256], sync=1),
    *every(n=[1, 16, 64, 256], sync=1, cudart="shared"),
    *every(n=[1, 16, 64], sync=10),
    *every(n=[16, 64], args=["one", "two"]),
    *every(n=[4, 16, 64, 256], args="all"),
    *every(n=[16, 64], args="all", cudart="shared"),
    *every(n=[1, 16, 64], args="all", sync=1),
    *every(args="two", sync=1),
    *every(us=[1, 2.5, 5, 20], sync=[0, 1]),
    *every(n=1, us=20, sync=[0, 1]),
    *every(us=20, cudart="shared"),
    *every(cpu=[2, 5, 20], sync=[0, 1]),
    *every(n=64, cpu=5, sync=[0, 1]),
    *every(cpu=5, sync=[0, 1], cudart="shared"),
    *every(cpu=5, us=5, sync=[0, 1]),
    *every(mix=["memset", "copy", "upload", "event"], sync=[0, 1]),
    *every(n=1, mix="event", sync=1),
    *every(n=64, streams=[2, 4, 8]),
    *every(n=64, streams=8, sync=1),
    *every(threads=[2, 4, 8]),
    *every(n=[1, 16], threads=8, sync=1),
    *every(threads=8, cudart="shared"),
    *every(loop=["period 2", "nested", "never repeats"], sync=[0, 1]),
    *every(loop="never repeats", cudart="shared"),
]

# -- What is asked ---------------------------------------------------------------

# `of`: the measured number; "most" or "least" the limit is.
Target = collections.namedtuple("Target", "name applies of bound limit")


def plain(shape, *but):
    """Whether all members are as in the centre, but for these."""
    return all(shape[key] == CENTRE[key] for key in CENTRE if key not in (*but, "cudart"))


TARGETS = [
    Target("constant arguments, N >= 16, no synchronize: time / by hand",
           lambda s: plain(s, "n") and s["n"] >= 16, "by_hand", "most", 1.03),
    Target("constant arguments, N <= 8, no synchronize: time / by hand",
           lambda s: plain(s, "n") and s["n"] <= 8, "by_hand", "most", 0.999),
    Target("constant arguments, N = 4, no synchronize: time / by hand",
           lambda s: plain(s, "n") and s["n"] == 4, "by_hand", "most", 0.70),
    Target("the same, kernels that do nothing",
           lambda s: plain(s, "n", "body") and s["n"] == 4 and s["body"] == "empty",
           "by_hand", "most", 0.70),
    Target("all arguments changing, N >= 16: time / by hand",
           lambda s: plain(s, "n", "args") and s["args"] == "all" and s["n"] >= 16,
           "by_hand", "most", 1.05),
    Target("a synchronize per iteration, N >= 16, shared cudart: time / by hand",
           lambda s: plain(s, "n", "sync") and s["sync"] == 1 and s["n"] >= 16 and
           s["cudart"] == "shared", "by_hand", "most", 1.10),
    Target("a synchronize per iteration, N >= 16, static cudart: time / by hand",
           lambda s: plain(s, "n", "sync") and s["sync"] == 1 and s["n"] >= 16 and
           s["cudart"] == "static", "by_hand", "most", 1.20),
    Target("5 us of CPU work between launches: eager / time",
           lambda s: plain(s, "n", "cpu", "sync") and s["cpu"] == 5, "speedup", "least", 1.35),
    Target("8 threads, a stream each: eager / time",
           lambda s: plain(s, "threads") and s["threads"] == 8, "speedup", "least", 5.0),
    Target("never repeats; 20 us kernels; N = 1 with synchronize: time / eager",
           lambda s: s["loop"] == "never repeats" or s["us"] == 20 or
           (plain(s, "n", "sync") and s["n"] == 1 and s["sync"] == 1), "eager", "most", 1.01),
    Target("every shape: time / eager", lambda s: True, "eager", "most", 1.02),
]

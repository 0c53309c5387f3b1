# SPDX-License-Identifier: MIT
"""The loops that the benchmark measures, and what is asked of them.

Each axis is varied around sensible centres: 16 short kernels (a warp that reads and writes a word for
each thread), constant arguments, one stream, no synchronize. An empty kernel does nothing at all.
"""
import collections

ARGUMENTS = ["constant", "one", "all", "two"]
MIX = ["kernels", "memset", "copy", "upload", "event", "timed"]
BODIES = ["short", "empty"]
LOOPS = ["steady", "period 2", "nested", "never repeats", "one grid", "all grids", "count", "choice",
         "sizes", "made", "uploads", "setters", "allocates", "fork", "forks", "brief"]
FORKS = ("fork", "forks", "brief")  # N kernels in each stream
FIRST_LAUNCHES = 1000  # what is measured of a new process, where that is the axis

# "wait": kernels between two synchronizes; "back", "backs": bytes that are read back, and how often.
CENTRE = {"n": 16, "args": "constant", "sync": 0, "wait": 0, "us": 0, "cpu": 0, "mix": "kernels",
          "streams": 1, "threads": 1, "loop": "steady", "body": "short", "back": 0, "backs": 1,
          "first": 0, "cudart": "static"}

WORDS = {
    "n": "N={}",
    "loop": {"period 2": "period 2", "nested": "nested loops", "never repeats": "never repeats",
             "one grid": "one grid changes", "all grids": "all grids change",
             "count": "a random inner count", "choice": "a random choice of kernels",
             "sizes": "random sizes", "made": "streams made and destroyed",
             "uploads": "64 B uploaded before each half", "setters": "setters",
             "allocates": "memory allocated, set and freed", "fork": "fork and join",
             "forks": "nested forks", "brief": "fork and join by new events"},
    "args": {"one": "one argument changes", "all": "all arguments change", "two": "two sets"},
    "sync": {1: "sync", 10: "sync every 10"},
    "wait": "sync every {} kernels",
    "us": "{} us kernels",
    "body": "{} kernels",
    "cpu": "{} us CPU",
    "mix": {"memset": "memsets", "copy": "copies", "upload": "uploads", "event": "events",
            "timed": "timed steps"},
    "streams": "{} streams",
    "threads": "{} threads",
    "back": "{} B read back",
    "backs": "{} times",
    "first": {1: "first launches"},
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
        return not self["first"] and not self["wait"] and self["loop"] in (
            "steady", "period 2", "nested", "one grid", "all grids", "choice", *FORKS)

    @property
    def regular(self):
        """The loop that does the same without what is irregular or surrounds its kernels."""
        return Shape(**{**self, "loop": "steady"})

    @property
    def kernels(self):
        """Per iteration and thread, on the average."""
        if self["loop"] == "nested":
            return 2 + 4 * 5 + 1
        if self["loop"] in FORKS:
            return self["n"] * self["streams"]
        return self["n"] + 7.5 * (self["loop"] == "count")

    @property
    def processes(self):
        """Pairs of processes: more where little is won, and one process is faster than another by more;
        and most where nothing is, and 1 % must be seen."""
        if self["first"] or (plain(self, "loop", "sync") and self["loop"] == "never repeats"):
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
                f"loop={LOOPS.index(self['loop'])} empty={BODIES.index(self['body'])} "
                f"wait={self['wait']} back={self['back'] // 4} backs={self['backs']}")


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
    *every(n=[1, 16, 64], mix="timed", sync=[0, 1]),
    *every(n=64, streams=[2, 4, 8]),
    *every(n=64, streams=8, sync=1),
    *every(threads=[2, 4, 8]),
    *every(n=[1, 16], threads=8, sync=1),
    *every(threads=8, cudart="shared"),
    *every(loop=["period 2", "nested", "never repeats"], sync=[0, 1]),
    *every(loop="never repeats", cudart="shared"),
    *every(n=64, loop="never repeats", wait=[0, 16]),
    *every(n=[16, 64], loop=["one grid", "all grids"]),
    *every(loop=["count", "choice"], sync=[0, 1]),
    *every(loop="sizes", mix=["memset", "copy"], sync=[0, 1]),
    *every(first=1, loop=["steady", "never repeats"]),
    *every(loop="made"),
    *every(n=[1, 4, 16], back=8),
    *every(n=4, back=8, backs=3),
    *every(n=4, back=4096),
    *every(n=8, loop="uploads", back=8),
    *every(n=3, loop=["steady", "setters"]),
    *every(n=2, loop="allocates"),
    *every(n=[1, 2, 4, 8, 16], loop="fork", streams=[2, 3, 4]),
    *every(n=[1, 2, 4, 8], loop="fork", streams=3, sync=1),
    *every(n=4, loop="fork", streams=[2, 3], mix="copy"),
    *every(n=[1, 8], loop="fork", streams=3, back=8),
    *every(n=[1, 4], loop="forks", streams=4, sync=[0, 1]),
    *every(n=[1, 8], loop="brief", streams=3, sync=[0, 1]),
]

# -- What is asked ---------------------------------------------------------------

# `of`: the measured number; "most" or "least" the limit is. "regular" is the time of a kernel by that in the
# loop without what is irregular, "us" the time of an iteration.
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
    Target("never repeats, no synchronize: eager / time",
           lambda s: s["loop"] == "never repeats" and not (s["sync"] or s["wait"] or s["first"]),
           "speedup", "least", 1.8),
    Target("never repeats, a synchronize every 16 kernels: eager / time",
           lambda s: s["loop"] == "never repeats" and s["sync"] + s["wait"] > 0,
           "speedup", "least", 1.4),
    Target("one grid changes: time / constant grids",
           lambda s: s["loop"] == "one grid", "regular", "most", 1.05),
    Target("all grids change: eager / time",
           lambda s: s["loop"] == "all grids", "speedup", "least", 2.0),
    Target("a random count, choice, size: time / the regular loop, per kernel",
           lambda s: s["loop"] in ("count", "choice", "sizes"), "regular", "most", 1.15),
    Target("the first launches of a process: eager / time",
           lambda s: s["first"] == 1, "speedup", "least", 1.4),
    Target("streams made and destroyed: time / eager",
           lambda s: s["loop"] == "made", "eager", "most", 1.01),
    *(Target(f"{n} kernels, 8 B read back: us",
             lambda s, n=n: plain(s, "n", "back") and s["n"] == n and s["back"] == 8, "us", "most", us)
      for n, us in ((1, 7.0), (4, 11.0), (16, 22.0))),
    Target("4 kernels, 8 B read back three times: us",
           lambda s: s["backs"] == 3, "us", "most", 14.0),
    Target("4 kernels, 4 KB read back: us", lambda s: s["back"] == 4096, "us", "most", 12.0),
    Target("uploads, kernels, a read-back: eager / time",
           lambda s: s["loop"] == "uploads", "speedup", "least", 2.5),
    Target("a setter before each kernel: time / without setters",
           lambda s: s["loop"] == "setters", "regular", "most", 1.02),
    Target("memory allocated, set and freed: eager / time",
           lambda s: s["loop"] == "allocates", "speedup", "least", 2.0),
    Target("fork and join, no synchronize: time / by hand",
           lambda s: s["loop"] == "fork" and plain(s, "n", "loop", "streams"), "by_hand", "most", 1.15),
    Target("fork and join, a synchronize per iteration: time / by hand",
           lambda s: s["loop"] == "fork" and plain(s, "n", "loop", "streams", "sync") and s["sync"] == 1,
           "by_hand", "most", 1.10),
    Target("every shape: time / eager", lambda s: True, "eager", "most", 1.02),
]

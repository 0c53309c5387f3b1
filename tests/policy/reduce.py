#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a recorded program of what record.c and durations.c have written.

usage: reduce.py --name NAME --gpu GPU [--lines N] RAW DURATIONS OUTPUT

The lines of RAW that tell how a call ended become words of the call. Arguments of kernels become small
numbers: equal ones stand for equal bytes. DURATIONS, which may be missing, tell how long the GPU works on
each op. Only the first N calls are kept (30,000).
"""
import argparse
import collections
import lzma
import re

CALLS = 30000


def read_durations(path):
    """ns for each kind of op: a kernel by name, blocks and threads; a copy by direction and bytes; a memset by bytes."""
    found = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _, ns, *what = line.split(" ")
                found[" ".join(what).strip()] = int(ns)
    except FileNotFoundError:
        pass
    return found


class Reducer:
    def __init__(self, durations):
        self.durations = durations
        self.names = {}                               # of functions
        self.numbers = collections.defaultdict(dict)  # of values, for each function and parameter
        self.types = {}                               # of memory
        self.lines, self.last = [], {}                # all; index of each thread's last call
        self.calls = 0

    def arguments(self, function, words):
        if words == "-":
            return words
        numbers = []
        for i, word in enumerate(words.split(",")):
            known = self.numbers[function, i]
            numbers.append(str(known.setdefault(word, len(known))))
        return ",".join(numbers)

    def worked(self, verb, words):
        """ns that the GPU works on an op, as a word; nothing if it is not known."""
        if verb == "k":
            grid, block = [int(w) for w in words[2:5]], [int(w) for w in words[5:8]]
            what = f"kernel {self.names.get(words[0], '?')} {grid[0] * grid[1] * grid[2]} {block[0] * block[1] * block[2]}"
        elif verb == "m":
            what = f"memset {int(words[2]) * int(words[3]) * int(words[6])}"
        elif verb in "cr":
            dst, src = (words[2], words[4]) if verb == "c" else (words[1], words[2])
            size = int(words[5]) * int(words[6]) * int(words[7]) if verb == "c" else int(words[3])
            to, of = (self.types.get(w, 0) for w in (dst, src))
            kind = 8 if to == of == 2 else 1 if to == 2 else 2
            what = f"copy {kind} {size}"
        else:
            return []
        ns = self.durations.get(what)
        return [] if ns is None else [f"@{ns}"]

    def add(self, line):
        words = line.split()
        if words[0] == "function":
            self.names[words[1]] = words[5][:60] if len(words) > 5 else "?"
            words[5:] = [self.names[words[1]]]
        if words[0] == "memory":
            self.types[words[1]] = int(words[2])
        if not words[0].isdigit():
            self.lines.append(words)
            return
        _, thread, verb, *rest = words
        if verb == "=":
            if thread in self.last:
                self.lines[self.last[thread]] += [f"={rest[0]}"] + ([f"!{rest[1]}"] if rest[1] != "0" else [])
                del self.last[thread]
            return
        self.calls += 1
        if verb == "k":
            words[-1] = self.arguments(rest[0], rest[-1])
        words += self.worked(verb, rest)
        self.last[thread] = len(self.lines)
        self.lines.append(words)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--lines", type=int, default=CALLS)
    for name in ("raw", "durations", "output"):
        parser.add_argument(name)
    options = parser.parse_args()
    reducer = Reducer(read_durations(options.durations))
    with open(options.raw, encoding="utf-8", errors="replace") as raw:
        for line in raw:
            if reducer.calls >= options.lines:
                break
            if re.match(r"\w+ \d+ .|context ", line) or line.startswith("memory"):
                reducer.add(line)
    text = f"program {options.name}\ngpu {options.gpu}\n" + "".join(" ".join(words) + "\n" for words in reducer.lines)
    with lzma.open(options.output, "wt", preset=9) as output:
        output.write(text)
    print(f"{options.name}: {reducer.calls} calls, {len(text)} bytes")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts what the benchmark measured into the documentation.

usage: tests/bench/publish.py [--root DIR] [--library WORDS] BENCH.json

Writes docs/bench.svg, and the text between the lines <!-- bench: NAME --> and <!-- end --> of
docs/performance.md and docs/results.md: "some" is a choice of loops, "all" are all, "targets" is what
was asked of them. BENCH.json is what benchmark.py --out made; WORDS say which library was measured, such as
"commit 1234567". Status 2: a file that is not one, a run on the simulated driver, with different
results or without a loop that is needed; then nothing is written.
"""
import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import benchmark  # noqa: E402  (needs the path above)
import plot  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("docs/performance.md", "docs/results.md")

# The loops that docs/performance.md shows, and how it calls them.
SOME = {
    "N=4": "4 kernels",
    "N=64": "64 kernels",
    "N=64, all arguments change": "64 kernels, all their arguments change",
    "N=1, sync, shared": "1 kernel, then a synchronize",
    "N=64, sync, shared": "64 kernels, then a synchronize",
    "N=16, 5 us CPU": "16 kernels, 5 us of CPU work before each",
    "N=16, copies": "16 kernels and copies on the device, in turn",
    "N=64, 8 streams": "64 kernels in 8 streams",
    "N=16, 8 threads": "16 kernels in each of 8 threads",
    "nested loops": "nested loops",
    "N=16, 20 us kernels": "16 kernels of 20 us",
}


class CannotPublish(Exception):
    pass


def some(found):
    rows = {row["name"]: row for row in found["shapes"]}
    missing = SOME.keys() - rows.keys()
    if missing:
        raise CannotPublish(f"no loop '{min(missing)}'")
    out = ["| loop | without | with the library | speed-up | graph written by hand |",
           "| --- | --- | --- | --- | --- |"]
    for name, words in SOME.items():
        times = rows[name]["times"]
        by_hand = benchmark.show(benchmark.middle(times.get("graph")), ".1f")
        out.append(f"| {words} | {benchmark.middle(times['eager']):.1f} "
                   f"| {benchmark.middle(times['library']):.1f} "
                   f"| **{benchmark.middle(benchmark.ratios(rows[name], 'speedup')):.2f}x** | {by_hand} |")
    return out


def everything(found):
    out = ["| loop | without, us | with, us | by hand, us | speed-up | replayed |",
           "| --- | --- | --- | --- | --- | --- |"]
    for row in found["shapes"]:
        times = row["times"]
        by_hand = benchmark.show(benchmark.middle(times.get("graph")), ".2f")
        out.append(f"| {row['name']} | {benchmark.middle(times['eager']):.2f} "
                   f"| {benchmark.middle(times['library']):.2f} | {by_hand} "
                   f"| {benchmark.middle(benchmark.ratios(row, 'speedup')):.2f}x "
                   f"| {benchmark.replayed(row)} |")
    return out


def blocks(found, library):
    machine = found["machine"]
    rounds = min(len(row["times"]["library"]) for row in found["shapes"])
    how = f"{machine}; medians of {rounds} or more rounds in turn"
    how += f"; library: {library}." if library else "."
    return {"some": [f"{machine}; microseconds per iteration, results equal:", "", *some(found)],
            "all": [how, "", *everything(found)],
            "targets": [how, "", *benchmark.verdicts(found["targets"])]}


def fill(page, texts):
    """The page with its blocks replaced; a blank line on either side makes a table of them."""
    def block(match):
        return "\n".join([match[1], "", *texts[match[2]], "", "<!-- end -->"])
    return re.sub(r"(<!-- bench: (\w+) -->)\n.*?<!-- end -->", block, page, flags=re.S)


def publish(found, root, library):
    if not isinstance(found, dict) or not found.get("shapes"):
        raise CannotPublish("no file that benchmark.py made")
    if found["machine"].startswith("simulated"):
        raise CannotPublish("these figures are of the simulated driver")
    different = [row["name"] for row in found["shapes"] if not row["equal"]]
    if different:
        raise CannotPublish(f"different results: {'; '.join(different)}")
    texts = blocks(found, library)
    pages = {root / name: fill((root / name).read_text(), texts) for name in PAGES}
    pages[root / "docs/bench.svg"] = plot.svg(benchmark.points(found["shapes"]),
                                              f"Time per kernel (less is better), {found['machine']}")
    for path, content in pages.items():
        path.write_text(content)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="of the tree to write to")
    parser.add_argument("--library", default="", metavar="WORDS", help="which one was measured")
    parser.add_argument("measured", type=pathlib.Path, metavar="BENCH.json")
    options = parser.parse_args()
    try:
        publish(json.loads(options.measured.read_text()), options.root, options.library)
    except (CannotPublish, OSError, ValueError) as error:
        print(f"publish: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

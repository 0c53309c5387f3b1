# SPDX-License-Identifier: MIT
"""Loops in which something differs from step to step: results stay, and no less is replayed than before.

pytest -rP shows the share of each.
"""
import pytest

import compiled
import helpers

# How much of a word's ops is replayed at least: without a wait in the loop, with one in each step. These are
# records, to be raised by whoever raises the shares; each is 0.05 below what was measured.
FLOORS = {
    "regular": (0.88, 0.94), "grid": (0, 0.62), "block": (0, 0.19), "shared": (0, 0.58), "function": (0, 0.89),
    "left_out": (0, 0.93), "times": (0, 0.68), "memset_value": (0.88, 0.94), "memset_size": (0, 0.51),
    "memset_place": (0.88, 0.94), "memset_width": (0, 0.92), "copy_size": (0.05, 0.47), "copy_place": (0.86, 0.92),
    "anything": (0, 0.5), "grids": (0, 0), "functions": (0, 0), "batches": (0, 0.39), "tokens": (0, 0.25),
    "halving": (0, 0.45), "triangle": (0.83, 0.61), "nested": (0, 0.57), "left_early": (0, 0.81),
    "trees": (0, 0.09), "shuffled": (0, 0), "phases": (0.18, 0.93), "worklist": (0.82, 0.82),
    "pinned_up": (0.86, 0.93), "pinned_up_late": (0.8, 0.94), "pinned_down": (0.94, 0.94),
    "pageable_up": (0.83, 0.83), "read_back": (0.93, 0.93), "two_streams": (0.93, 0.94),
    "fork_and_join": (0.93, 0.93), "host_function": (0.94, 0.94), "allocate": (0.88, 0.13), "polled": (0.94, 0.94),
    "setters": (0.87, 0.94),
}
OTHER_ADDRESSES = ["allocate"]  # memory is allocated ahead of held work, and freed behind it


def program(*arguments, **options):
    return helpers.run_logged([compiled.program("irregular"), *arguments], **options)


@pytest.mark.parametrize("wait", [0, 1], ids=["no_wait", "wait"])
@pytest.mark.parametrize("word", FLOORS)
def test_what_differs_costs_no_result_and_no_share(word, wait):
    without = program(word, wait, preload=False)
    done = program(word, wait)
    assert (done.stdout, done.stderr) == (without.stdout, "")
    assert done.log == without.log or word in OTHER_ADDRESSES
    ops = done.report["ops"]
    assert ops["total"] > 400 and done.report["errors"] == 0
    print(f"{word}, wait {wait}: {100 * ops['replayed'] / ops['total']:.1f} % of {ops['total']} ops replayed")
    assert ops["replayed"] >= FLOORS[word][wait] * ops["total"]


def test_every_word_has_its_floors():
    words = helpers.run([compiled.program("irregular")], preload=False).stdout.split()
    assert words == list(FLOORS)
    assert helpers.run([compiled.program("irregular"), "no_such"], preload=False, status=1).stdout == ""


def test_what_is_irregular_depends_on_the_step_alone():
    """And each word does something else, which a setter alone is not, nor is a query."""
    runs = {word: [program(word, 0, 40, preload=False) for _ in range(2)] for word in FLOORS}
    assert all(first.stdout == second.stdout for first, second in runs.values())
    assert all(first.log == second.log for word, (first, second) in runs.items() if word not in OTHER_ADDRESSES)
    alike = {word for word in runs for other in runs
             if word != other and runs[word][0].log == runs[other][0].log}
    assert alike <= {"polled", "setters"}

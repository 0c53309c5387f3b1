# SPDX-License-Identifier: MIT
"""Calls between kernels: a question leaves the step whole, a host function has the ops on both sides of it
replayed.

pytest -rP shows the share of each.
"""
import pytest

import compiled
import helpers

KERNELS = 12  # in a step of between.c
QUESTIONS = ["functions", "kernels", "occupancy", "contexts", "memory", "streams",
             "functions_by_name", "events", "events_beside", "idle"]
CALLS = ["host_functions", "callbacks"]


def program(*arguments, **options):
    return helpers.run_logged([compiled.program("between"), *arguments], **options)


def compared(*arguments):
    """The report of a run whose results are those without the library."""
    without = program(*arguments, preload=False)
    done = program(*arguments, env=helpers.HELD)  # the share does not go by the clock
    assert (done.stdout, done.stderr, done.log) == (without.stdout, "", without.log)
    assert done.report["ops"]["total"] > 400 * KERNELS - 1 and done.report["errors"] == 0
    ops = done.report["ops"]
    print(f"{arguments}: {100 * ops['replayed'] / ops['total']:.1f} % of {ops['total']} ops replayed")
    return done.report


@pytest.mark.parametrize("wait", [0, 1], ids=["no_wait", "wait"])
@pytest.mark.parametrize("word", QUESTIONS)
def test_a_question_ends_no_sequence(word, wait):
    report = compared(word, wait)
    ops = report["ops"]["total"]
    if word == "events_beside":  # the other stream has an upload and a record in each step, which get no graph
        ops -= ops // (KERNELS + 2) * 2
    assert report["ops"]["replayed"] > (0.94, 0.98)[wait] * ops
    assert report["ops"]["replayed"] >= KERNELS * report["replays"]  # a replay has a step, or more


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("word", CALLS)
def test_what_surrounds_a_host_function_is_replayed(word, every):
    report = compared(word, 0, every)
    assert report["ops"]["replayed"] > 0.98 * report["ops"]["total"]
    assert report["ops"]["replayed"] == every * report["replays"]


def test_every_word_is_tested():
    words = helpers.run([compiled.program("between")], preload=False).stdout.split()
    assert sorted(words) == sorted(QUESTIONS + CALLS)
    assert helpers.run([compiled.program("between"), "no_such"], preload=False, status=1).stdout == ""

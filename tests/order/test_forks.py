# SPDX-License-Identifier: MIT
"""Streams that fork and join by events: nothing waits for anything that it would not wait for without the library."""
import collections

import pytest

import compiled
import helpers

FEW_QUEUES = {"CUDA_DEVICE_MAX_CONNECTIONS": 1}
USUAL = {"AUTOGRAPH_TRACE_DUEL": "false"}

# The programs say what each scenario guards.
FORK = ["spins_across", "spins_in_order", "own_work_spins", "own_work_before", "later_work", "later_beside",
        "words_across", "host_function", "outside_event", "runs_ahead", "legacy_beside", "joined_late"]
BRANCH = ["asked_behind", "asked_in_the_middle", "host_spins", "timed_events", "other_thread", "joined_elsewhere",
          "legacy_between", "priorities", "destroyed", "leaves", "captures"]
NESTED = [f"nested_{name}" for name in ("own_work_before", "own_work_spins", "by_way_of_another", "waited_for_within",
                                        "spins_across", "later_work", "runs_ahead", "joined_behind_a_wait", "read_back")]
# These end in a single queue without the library.
QUEUED = ["spins_in_order", "asked_in_the_middle", "joined_late", "other_thread", "own_work_before", "destroyed",
          "nested_own_work_before", "nested_by_way_of_another", "nested_waited_for_within"]
STATUS = {"leaves": 7}


def command(scenario):
    if scenario in NESTED:
        return [compiled.program("live_nested"), scenario.removeprefix("nested_")]
    return [compiled.program("live_branch" if scenario in BRANCH else "live_fork"), scenario]


def run(scenario, preload=True, env=None, events="each", **options):
    """The run; a scenario in which kernels wait for ever ends by an alarm."""
    return helpers.run_logged([*command(scenario), events], preload=preload, env={**USUAL, **(env or {})},
                              status=STATUS.get(scenario, 0), **options)


def kernels(done):
    """How often the device executed each kernel with these arguments, whatever the stream: its priority is told."""
    return collections.Counter(op for ops in done.log.values() for op in ops if op.startswith("op=kernel"))


def check(scenario, events="each", **env):
    plain, done = (run(scenario, preload=preload, env=env, events=events) for preload in (False, True))
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and done.report["replays"] > 0
    if scenario not in ("leaves", "timed_events"):  # which cuts work off, and which may need more steps
        assert kernels(done) == kernels(plain)
    return done


@pytest.mark.parametrize("bound", ["usual", "long"])
@pytest.mark.parametrize("scenario", FORK + BRANCH + NESTED)
def test_fork(scenario, bound):
    """With a long bound nothing goes out because it is late: what must go out does so by a call. A host that makes
    no call depends on the bound."""
    if scenario in ("host_spins", "outside_event") or bound == "usual":
        check(scenario, **helpers.HASTY)
    else:
        check(scenario)


@pytest.mark.parametrize("events", ["one", "brief", "legacy"])
@pytest.mark.parametrize("scenario", FORK)
def test_fork_in_other_ways(scenario, events):
    """One event for the fork and all joins, or new ones that are destroyed once they have been waited for; or the
    legacy stream forks."""
    check(scenario, events, **(helpers.HASTY if scenario == "outside_event" else {}))


@pytest.mark.parametrize("scenario", QUEUED)
def test_fork_in_one_queue(scenario):
    check(scenario, **FEW_QUEUES)


def test_branches_of_the_programs_own_graph_run_side_by_side():
    plain, done = run("by_hand", preload=False), run("by_hand")
    assert (done.stdout, done.stderr) == (plain.stdout, "")

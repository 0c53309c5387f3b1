# SPDX-License-Identifier: MIT
"""Variants: where the same arguments come back, a graph for each of them saves setting them."""
import pytest

import compiled
import helpers

BODY, STEPS = 8, 600


def run(*arguments, **env):
    command = [compiled.program("variant_sets"), *arguments]
    plain = helpers.run(command, preload=False)
    options = {f"AUTOGRAPH_{name}": value for name, value in env.items()}
    done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_LENGTH": "fixed", **options})
    assert done.stdout == plain.stdout and done.stderr == ""
    assert done.report["errors"] == 0
    assert done.report["ops"]["replayed"] > 0.9 * BODY * STEPS
    return done.report


@pytest.mark.parametrize("sets", [2, 3, 8])
def test_arguments_that_come_back_are_no_longer_set(sets):
    anew = run(sets, GRAPH_VARIANTS=1)
    once = run(sets)
    assert anew["traces"] == 1 and anew["patches"] > 0.9 * BODY * STEPS
    assert once["traces"] == sets and once["patches"] < 0.4 * anew["patches"]


def test_what_never_comes_back_has_one_graph():
    data = run(12)  # further apart than is looked for
    assert data["traces"] == 1 and data["patches"] > 0.9 * BODY * STEPS


def test_constant_arguments_have_one_graph():
    data = run(1)
    assert data["traces"] == 1 and data["patches"] <= BODY


@pytest.mark.parametrize("sets", [2, 3])
def test_a_counter_besides_is_all_that_is_set(sets):
    data = run(sets, STEPS, "counter")
    assert data["traces"] == sets
    assert STEPS * 0.9 < data["patches"] < STEPS * 2


def test_sets_by_chance_find_their_graph():
    """With two sets the last but one comes back half of the time, four times in a row now and then."""
    data = run(2, STEPS, "chance")
    assert data["traces"] == 2 and data["patches"] < 0.4 * BODY * STEPS


def test_memory_that_is_made_anew():
    data = run(2, STEPS, "renew")
    assert 2 <= data["traces"] <= 3


@pytest.mark.parametrize("option", [{"GRAPH_VARIANTS": 3}, {"GRAPH_FREE_EXECS": 2, "GRAPH_EXECS": 3}])
def test_no_more_than_the_budget(option):
    assert run(6, **option)["traces"] <= 3


def test_arguments_that_the_driver_keeps_have_no_variants():
    data = run(2, UPDATE_STRATEGY="recapture")
    assert data["traces"] == 1


def test_a_variant_waits_for_memory_that_is_freed():
    """What a step allocates is often freed again when a variant could be made. Then it is not made,
    and the trace that is there goes on."""
    command = [helpers.sample("patterns/allocator-sim"), "--iterations", 3000]
    plain = helpers.run(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_LENGTH": "fixed", "AGSIM_DELAY_US": 0})
    assert done.stdout.split()[:2] == plain.stdout.split()[:2] and plain.stdout.startswith("checksum")
    assert done.report["errors"] == 0 and done.report["traces"] > 8
    assert done.report["ops"]["replayed"] > 0.7 * done.report["ops"]["total"]

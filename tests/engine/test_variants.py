# SPDX-License-Identifier: MIT
"""Variants: where the same arguments come back, a graph for each of them saves setting them."""
import pytest

import compiled
import helpers

BODY, STEPS = 8, 600


def expect(so, *arguments, **env):
    """`so(report)`, and most ops are replayed."""
    command = [compiled.program("variant_sets"), *arguments]
    plain = helpers.run(command, preload=False)
    options = {f"AUTOGRAPH_{name}": value for name, value in env.items()}
    done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_LENGTH": "fixed", **options})
    assert done.stdout == plain.stdout and done.stderr == ""
    assert done.report["errors"] == 0
    assert done.report["ops"]["replayed"] > 0.9 * BODY * STEPS and so(done.report), done.report
    return done.report


@pytest.mark.parametrize("sets", [2, 3, 8])
def test_arguments_that_come_back_are_no_longer_set(sets):
    anew = expect(lambda data: data["traces"] == 1 and data["patches"] > 0.9 * BODY * STEPS,
                  sets, GRAPH_VARIANTS=1)
    expect(lambda data: data["traces"] == sets and data["patches"] < 0.4 * anew["patches"], sets)


def test_what_never_comes_back_has_one_graph():
    """Twelve steps are further apart than is looked for."""
    expect(lambda data: data["traces"] == 1 and data["patches"] > 0.9 * BODY * STEPS, 12)


def test_constant_arguments_have_one_graph():
    expect(lambda data: data["traces"] == 1 and data["patches"] <= BODY, 1)


@pytest.mark.parametrize("sets", [2, 3])
def test_a_counter_besides_is_all_that_is_set(sets):
    """Until the last graph is made all of them are set, eight times as many."""
    expect(lambda data: data["traces"] == sets and 0.9 * STEPS < data["patches"] < 0.4 * BODY * STEPS,
           sets, STEPS, "counter")


def test_sets_by_chance_find_their_graph():
    """With two sets the last but one comes back half of the time, four times in a row now and then."""
    expect(lambda data: data["traces"] == 2 and data["patches"] < 0.4 * BODY * STEPS,
           2, STEPS, "chance")


def test_memory_that_is_made_anew():
    expect(lambda data: 2 <= data["traces"] <= 3, 2, STEPS, "renew")


@pytest.mark.parametrize("option", [{"GRAPH_VARIANTS": 3}, {"GRAPH_FREE_EXECS": 2, "GRAPH_EXECS": 3}])
def test_no_more_than_the_budget(option):
    assert expect(lambda data: True, 6, **option)["traces"] <= 3


def test_a_variant_waits_for_memory_that_is_freed():
    """What a step allocates is often freed again when a variant could be made. Then it is not made,
    and the trace that is there goes on."""
    command = [helpers.sample("patterns/allocator-sim"), "--iterations", 3000]
    plain = helpers.run(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_LENGTH": "fixed", "AGSIM_DELAY_US": 0})
    assert done.stdout.split()[:2] == plain.stdout.split()[:2] and plain.stdout.startswith("checksum")
    assert done.report["errors"] == 0 and done.report["traces"] > 8
    assert done.report["ops"]["replayed"] > 0.7 * done.report["ops"]["total"]

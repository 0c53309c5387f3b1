# SPDX-License-Identifier: MIT
"""Room for graphs: beside a kernel that waits for the host they take no memory from the device, and no place in streams."""
import pytest

import compiled
import helpers

# The simulated driver has memory for so many graphs. It makes a further one when no kernel runs.
FREE = {"AGSIM_GRAPH_FREE": 31, "AUTOGRAPH_TRACE_LENGTH": "fixed"}


def run(scenario, seed=1, **env):
    command = [compiled.program("live_grow"), scenario]
    plain = helpers.run(command, preload=False, env={**FREE, "AGSIM_SEED": seed})
    done = helpers.run_logged(command, env={**FREE, "AGSIM_SEED": seed, **env})
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    return done


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_graph_that_is_not_made_leaves_no_room(seed):
    """There is room for it, and then no event for its record."""
    done = run("without_event", seed)
    assert done.report["errors"] == 0 and done.report["traces"] > 31


@pytest.mark.parametrize("scenario", ["set_behind", "destroyed_behind"])
def test_a_launch_keeps_the_memory_of_a_graph_that_is_gone(scenario):
    """Other graphs have it once the launch has ended."""
    done = run(scenario, AUTOGRAPH_TRACE_INHERIT="false")
    assert done.report["errors"] == 0 and done.report["traces"] - done.report["evictions"] >= 24


def test_a_graph_is_made_where_its_stream_has_no_room():
    """Making it puts nothing into the stream."""
    done = run("full", AUTOGRAPH_HOLD_BOUND_US=None)
    assert done.report["errors"] == 0 and done.report["traces"] > 0

# SPDX-License-Identifier: MIT
"""What comes behind held ops finds them done: by a relay, in a branch, an op that is not held, memory that is freed."""
import pytest

import compiled
import helpers


FORKS = ["branch", "priorities", "kinds", "records"]


@pytest.mark.parametrize("scenario", [*FORKS, "relayed", "eager", "freed", "again", "event", "other", "ring",
                                      "contexts"])
def test_nothing_comes_before_what_is_held(scenario):
    command = [compiled.program("live_order"), scenario]
    env = {"AGSIM_REUSE": 1, **helpers.HELD, "AUTOGRAPH_TRACE_DUEL": "false",
           "AUTOGRAPH_TRACE_FORKS": str(scenario in FORKS).lower(),
           "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
    without = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr) == (without.stdout, without.stderr)
    assert helpers.work(done.log) == helpers.work(without.log) or scenario == "freed"  # which has other addresses
    assert "0 wrong" in done.stdout
    assert done.report["flushes"]["watchdog"] == 0  # it would submit what a call has left held
    assert done.report["replays"] > 20 and done.report["errors"] == 0


@pytest.mark.skipif(not helpers.config()["nvcc"], reason="without nvcc there is no kernel for read-backs")
def test_a_read_back_tells_of_an_error_before_it():
    command = [compiled.program("live_order"), "failing"]
    env = {"AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
    done = helpers.run(command, env=env)
    assert done.stdout == helpers.run(command, preload=False, env=env).stdout == "the copy ends with 700\n"

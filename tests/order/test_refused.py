# SPDX-License-Identifier: MIT
"""Calls that the driver refuses for their arguments, in the place of one that is replayed: it is the
driver that answers them, and nothing else changes."""
import pytest

import compiled
import helpers

SCENARIOS = ["memset32", "memset16", "pitch2d", "pitch3d", "type2d", "type3d", "packed",
             "both_arguments", "needless_arguments", "no_attributes", "event_elsewhere",
             "event_gone", "wait_gone"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_driver_answers(scenario):
    command = [compiled.program("refused"), scenario]
    env = {"AGSIM_DELAY_US": 0}
    plain = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert "call 0" not in plain.stdout
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["replays"] > 0 and done.report["errors"] == 0

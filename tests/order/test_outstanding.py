# SPDX-License-Identifier: MIT
"""Work that is left to do, wherever it is: no call of the library waits for it, or takes its room."""
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / "outstanding.c").read_text())
# All is held and replayed as soon as may be; and a context gives few graphs more than the library takes freely.
ENVIRONMENT = {"AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000, "AUTOGRAPH_HOLD_BOUND_US": 10000,
               "AGSIM_DELAY_US": 30, "AGSIM_GRAPH_FREE": 26}


def run(scenario, **more):
    return helpers.run([compiled.program("outstanding"), scenario], env=ENVIRONMENT, timeout=50, **more).stdout


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_waits_for_work_that_is_elsewhere(scenario):
    """Such work waits for the host: who waits for it waits for ever."""
    assert run(scenario) == run(scenario, preload=False)


@pytest.mark.skipif(not helpers.config()["nvcc"], reason="without nvcc there is no kernel for read-backs")
def test_a_step_that_has_joined_ends_with_its_read_back(tmp_path):
    env = {**ENVIRONMENT, **helpers.HELD, "AGSIM_LOG": tmp_path / "log"}
    helpers.run([compiled.program("outstanding"), "joined_read"], env=env)
    assert len(re.findall(r"op=copy .* via=graph$", (tmp_path / "log").read_text(), re.M)) > 800

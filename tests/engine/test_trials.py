# SPDX-License-Identifier: MIT
"""The streams of a context are held and eager in turn: nothing changes but the time."""
import pathlib
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}', pathlib.Path(compiled.PROGRAMS, "live_trials.c").read_text())
SLOW_GRAPHS, SLOW_LAUNCHES = {"AGSIM_GRAPH_LAUNCH_US": 500}, {"AGSIM_LAUNCH_US": 40}


def live(scenario, env):
    """The report: output and order are those without the library."""
    command = [compiled.program("live_trials"), scenario]
    env = {"AUTOGRAPH_TRACE_DUEL": None, **helpers.PATIENT, "AGSIM_DELAY_US": 0, **env}
    plain = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.log) == (plain.stdout, plain.log)
    assert done.report["errors"] == 0
    return done.report


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_changes(scenario):
    assert live(scenario, SLOW_GRAPHS)["duels_lost"] > 0
    assert live(scenario, SLOW_LAUNCHES)["replays"] > 0


@pytest.mark.parametrize("scenario", ["in_step", "apart", "threads"])
def test_all_threads_of_a_context_take_turns(scenario):
    """Each is slower with graphs, and each rests."""
    report = live(scenario, SLOW_GRAPHS)
    assert report["ops"]["replayed"] < 0.5 * report["ops"]["total"]

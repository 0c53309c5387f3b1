# SPDX-License-Identifier: MIT
"""Streams that are not followed yet, where many of a few ops have come and gained nothing."""
import pathlib
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}', pathlib.Path(compiled.PROGRAMS, "live_untracked.c").read_text())
WAITS = {"AGSIM_GRAPH_FREE": 31}  # for running kernels, where more graphs are made
LIVES = 600


def live(scenario, env=None):
    command = [compiled.program("live_untracked"), scenario]
    env = {**helpers.HELD, **helpers.OWN_SHAPES, **WAITS, **(env or {})}
    plain = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0
    return done.report


def states(report):
    """How many streams had one."""
    return sum(stream["lives"] for stream in report["streams"])


@pytest.mark.parametrize("young", [1, 16, 512, 0])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_changes(scenario, young):
    report = live(scenario, {"AUTOGRAPH_TRACE_YOUNG": young})
    assert report["replays"] > 0 or scenario in ("copies", "graphs") or young == 1


def test_few_streams_get_a_state():
    """Sixteen, and as many behind 64 that are young, and behind 256."""
    assert states(live("copies", {"AUTOGRAPH_TRACE_YOUNG": 16})) <= 16 * 3 + 2
    assert states(live("copies", {"AUTOGRAPH_TRACE_YOUNG": 0})) >= LIVES


def test_all_ops_are_counted():
    young, followed = (live("copies", {"AUTOGRAPH_TRACE_YOUNG": n})["ops"]["total"] for n in (16, 0))
    assert young == followed


def test_a_stream_that_lasts_is_followed():
    ops = live("lasts", {"AUTOGRAPH_TRACE_YOUNG": 16})["ops"]
    assert ops["replayed"] > 0.7 * (ops["total"] - LIVES)


def test_streams_that_gain_are_followed_again():
    """Of those that do the same the next that are followed are replayed, and then all."""
    report = live("gains", {"AUTOGRAPH_TRACE_YOUNG": 16})
    assert report["ops"]["replayed"] > 0.5 * report["ops"]["total"]
    report = live("gains", {"AUTOGRAPH_TRACE_YOUNG": 1000})
    assert report["ops"]["replayed"] > 0.95 * (report["ops"]["total"] - LIVES)


def test_moments_for_more_graphs_are_seen():
    """A young stream of this thread is asked for its work."""
    assert live("idle", {"AUTOGRAPH_TRACE_YOUNG": 16})["traces"] > 40


@pytest.mark.parametrize("scenario", ["stuck", "stuck_beside", "stuck_orphan"])
def test_where_a_kernel_waits_there_is_none(scenario):
    """Or the program would wait for ever: the kernel waits for what comes later."""
    report = live(scenario, {"AUTOGRAPH_TRACE_YOUNG": 16})
    assert report["traces"] - report["evictions"] <= 24 + 16

# SPDX-License-Identifier: MIT
"""The first ops of a stream pass before it is followed: it may be made for a few ops."""
import pytest

import compiled
import helpers

DEFAULT = {"AUTOGRAPH_TRACE_SKIP": None, "AGSIM_DELAY_US": 0, "AUTOGRAPH_HOLD_BOUND_US": 100000}


def run(tmp_path, lives, ops, streams, steps, **env):
    """The report, and how often the driver was called; memory and order are those without the library."""
    command = [compiled.program("short_streams"), lives, ops, streams, steps]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    calls = tmp_path / "calls"
    done = helpers.run_logged(command, env={**DEFAULT, "AGSIM_CALLS": calls, **env})
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0
    assert done.report["ops"]["total"] == lives * ops + streams * steps
    return done.report, {name: int(n) for name, n in
                         (line.split() for line in calls.read_text().splitlines())}


def test_short_streams_are_not_followed(tmp_path):
    report, calls = run(tmp_path, 300, 16, 0, 0)
    assert report["streams"] == [] and report["replays"] == 0
    assert "cuStreamGetFlags" not in calls  # nobody asked what kind of stream it is
    _, calls = run(tmp_path, 300, 16, 0, 0, AUTOGRAPH_TRACE_SKIP=0)
    assert calls["cuStreamGetFlags"] == 300


def test_longer_ones_are(tmp_path):
    report, calls = run(tmp_path, 100, 40, 0, 0)
    assert calls["cuStreamGetFlags"] == 100
    assert report["streams"][0]["lives"] > 1


@pytest.mark.parametrize("streams", [1, 16, 64])
def test_whoever_goes_on_is_followed(streams, tmp_path):
    """Also where there are more streams than a thread remembers."""
    report, _ = run(tmp_path, 5, 3, streams, 3000)
    assert len(report["streams"]) == streams
    at_once, _ = run(tmp_path, 5, 3, streams, 3000, AUTOGRAPH_TRACE_SKIP=0)
    assert at_once["replays"] > streams
    assert 0.8 * at_once["ops"]["replayed"] < report["ops"]["replayed"]


@pytest.mark.parametrize("name", ["constant", "events", "jacobi"])
def test_results_stay(name):
    command = [helpers.sample(f"{name}-sim"), "--iterations", 300]
    plain = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command, env=DEFAULT)
    assert done.stdout.split()[:2] == plain.stdout.split()[:2]
    assert done.log == plain.log and done.report["replays"] > 0

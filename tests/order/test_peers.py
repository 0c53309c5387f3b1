# SPDX-License-Identifier: MIT
"""Copies between devices: the results are the same, and no graph's node makes them."""
import pytest

import compiled
import helpers


@pytest.mark.parametrize("where", ["one", "two"])
def test_copies_between_devices(where, tmp_path):
    env = {"AGSIM_DEVICES": 2, "AGSIM_DELAY_US": 0}
    command = [compiled.program("peer_copies"), where]
    plain = helpers.run_logged(command, preload=False, env=env)
    calls = tmp_path / "calls"
    library = helpers.run_logged(command, env={**env, "AGSIM_CALLS": calls})
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    assert library.report["replays"] > 100 and library.report["errors"] == 0
    # On one device the two plain copies are nodes; the third, a peer copy, is a barrier in any case.
    nodes = dict(line.split() for line in calls.read_text().splitlines()).get("cuGraphAddMemcpyNode")
    assert (nodes is not None) == (where == "one")


def peer_order(*arguments):
    env = {"AGSIM_DEVICES": 2, "AGSIM_DELAY_US": 0}
    command = [compiled.program("peer_order"), *arguments]
    plain = helpers.run(command, preload=False, env=env)
    library = helpers.run_logged(command, env=env)
    assert (library.stdout, library.stderr) == (plain.stdout, "") == ("0 too early\n", "")
    return library.report


@pytest.mark.parametrize("own", [[], ["own"]])
@pytest.mark.parametrize("way", ["sync", "async", "peer"])
def test_a_copy_between_devices_comes_behind_the_work_of_both(way, own):
    report = peer_order(way, *own)
    assert report["replays"] > 100 and report["errors"] == 0


def test_a_copy_from_the_host_does_not():
    """What threads hold on other devices stays held."""
    assert peer_order("async")["flushes"]["barrier"] > 10 > peer_order("upload")["flushes"]["barrier"]

# SPDX-License-Identifier: MIT
"""Copies to the host for which the host waits, as the last op of a graph."""
import re

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(not helpers.config()["nvcc"], reason="without nvcc there is no kernel for read-backs")

SCENARIOS, WAYS = (re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / name).read_text())
                   for name in ("read_back.c", "read_observers.c"))
# Threads make their streams in any order; a log tells of pinned memory where it is; and the driver executes the copy
# behind a kernel that fails only if it has not seen the failure yet.
OTHER_LOGS = ["threads", "full_by_thread", "kinds", "fails", "pinned_fails"]
# There the watchdog alone submits what is held, 40 times.
HASTIER = {"pinned_polled": {"AUTOGRAPH_HOLD_BOUND_US": 20000}}


def program(scenario, log, preload, **env):
    """What the program says, what the device executed, and how many of the copies were in graphs."""
    clock = {"clock": compiled.clock()} if preload else {}
    done = helpers.run([compiled.program("read_back"), scenario], preload=preload,
                       env={"AGSIM_LOG": log, **helpers.HELD, **HASTIER.get(scenario, {}), **env}, **clock)
    in_graphs = len(re.findall(r"op=copy .* via=graph$", log.read_text(), re.M))
    if scenario.startswith("pinned"):  # whose place the log tells
        log.write_text(re.sub(r"(op=copy .*)args=\w+", r"\1", log.read_text()))
    return done.stdout, done.stderr, helpers.executed(log) if scenario not in OTHER_LOGS else None, in_graphs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_read_back_stays(scenario, tmp_path):
    """So do the answers to what the program asks behind it, and the order of what the device does."""
    *plain, none = program(scenario, tmp_path / "plain", preload=False)
    *library, replayed = program(scenario, tmp_path / "library", preload=True)
    assert library == plain
    assert (none if scenario != "captured" else 0) == 0 and replayed > 60


@pytest.mark.parametrize("way", WAYS)
def test_who_comes_behind_the_copy_finds_the_bytes(way, tmp_path):
    """Another thread does, in its own way, while the first one waits; and what it writes there stays."""
    done = helpers.run([compiled.program("read_observers"), way], env={"AGSIM_LOG": tmp_path / "log", **helpers.HELD})
    assert done.stdout == "not found 0, lost 0\n"
    assert len(re.findall(r"op=copy .* via=graph$", (tmp_path / "log").read_text(), re.M)) > 60


def test_without_the_option_none_is_in_a_graph(tmp_path):
    assert program("legacy", tmp_path / "log", preload=True, AUTOGRAPH_GRAPH_READ_BACKS="false")[-1] == 0

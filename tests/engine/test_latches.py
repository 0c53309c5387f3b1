# SPDX-License-Identifier: MIT
"""What switches something off is gone, and work is replayed again: docs/design.md, "What is switched off"."""
import re

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(not helpers.config()["nvcc"], reason="without nvcc there is no kernel for read-backs")

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / "latches.c").read_text())
# What the loops have behind the last cause, at least; each has 600 copies and more.
MOST = 500
# What they have before that, at most.
BEFORE = {"stream_destroyed": 2430, "captured": 930, "resized": 1230, "jump": 3470, "jump_pageable": 3330,
          "cancelled": 5870, "cancelled_pageable": 5730, "vain": 930}


def program(scenario, tmp_path, preload=True, **env):
    """What the program says, how many of its copies were in graphs, and the driver's counters."""
    log, calls = tmp_path / "log", tmp_path / "calls"
    clock = {"clock": compiled.clock()} if preload else {}
    done = helpers.run([compiled.program("latches"), scenario], preload=preload, **clock,
                       env={"AGSIM_LOG": log, "AGSIM_CALLS": calls, **helpers.HELD, **env})
    in_graphs = len(re.findall(r"op=copy .* via=graph$", log.read_text(), re.M))
    counts = dict(line.split() for line in calls.read_text().splitlines())
    return done.stdout + done.stderr, in_graphs, {name: int(n) for name, n in counts.items()}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_read_backs_come_back(scenario, tmp_path):
    """Something unrelated has happened. When it is over the usual loop is replayed, as if nothing had been."""
    env = {"AGSIM_SYNC_US": "4000"} if scenario.startswith("third") else {}
    plain = program(scenario, tmp_path, preload=False)
    said, in_graphs, counts = program(scenario, tmp_path, **env)
    assert said == plain[0]
    assert in_graphs > BEFORE.get(scenario, 0) + MOST
    assert counts.get("spun", 0) == plain[2].get("spun", 0) == 0


@pytest.mark.parametrize("scenario", ["usual", "usual_pinned"])
def test_without_the_option_none_is_in_a_graph(scenario, tmp_path):
    """Nor is anything made for them: no module, no pinned memory, no event."""
    plain = program(scenario, tmp_path, preload=False)
    said, in_graphs, counts = program(scenario, tmp_path, AUTOGRAPH_GRAPH_READ_BACKS="false")
    assert (said, in_graphs) == (plain[0], 0)
    for function in ["cuModuleLoadData", "cuMemHostAlloc", "cuEventCreate"]:
        assert counts.get(function, 0) == plain[2].get(function, 0)
    assert program(scenario, tmp_path)[1] > MOST


CODE = 701


def failing(scenario, tmp_path, *faults):
    """Calls of the library's own fail. The program does not notice; how many copies were in graphs."""
    plain = program(scenario, tmp_path, preload=False)[0]
    said, in_graphs, counts = program(scenario, tmp_path, AGSIM_CALLER=helpers.own_calls(),
                                      AGSIM_FAIL=",".join(f"{fault}:{CODE}" for fault in faults))
    assert said == plain and counts["failed"] == len(faults)
    return in_graphs


@pytest.mark.parametrize("scenario", ["usual", "usual_pinned"])
@pytest.mark.parametrize("fault", ["cuModuleLoadData", "cuModuleGetFunction", "cuEventCreate", "cuMemHostAlloc",
                                   "cuMemHostGetDevicePointer", "cuLaunchKernel"])
def test_a_kernel_that_was_refused_is_loaded_later(scenario, fault, tmp_path):
    """The next try goes on with what there is by then."""
    assert failing(scenario, tmp_path, f"{fault}:1") > MOST // 2


@pytest.mark.parametrize("scenario", ["usual", "usual_pinned"])
def test_a_read_back_that_is_refused_is_not_told(scenario, tmp_path):
    """Its graph is refused, and then its kernel, as the fourth of those that are launched instead, behind the one
    launch when it was loaded. The program's own copy is made, and later copies are read back again."""
    assert failing(scenario, tmp_path, "cuGraphLaunch:600", "cuLaunchKernel:5") > MOST // 2


@pytest.mark.parametrize("fault", ["cuMemHostAlloc", "cuEventCreate"])
def test_memory_for_uploads_that_was_refused_is_asked_for_again(fault, tmp_path):
    """By the same stream."""
    assert failing("uploads", tmp_path, f"{fault}:1") > MOST


@pytest.mark.parametrize("scenario", ["usual", "usual_pinned"])
def test_an_op_that_was_refused_is_held_again(scenario, tmp_path):
    """No graph is made of it three times in a row, and then for a while nobody tries."""
    faults = [f"cuGraphInstantiateWithFlags:{n}" for n in range(1, 7)]
    assert failing(scenario, tmp_path, *faults) > MOST // 4

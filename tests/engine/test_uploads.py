# SPDX-License-Identifier: MIT
"""Copies of pageable memory: the bytes are those at the call, whether the copy is held or not."""
import re

import pytest

import compiled
import helpers

# The ways of tests/programs/uploads.c, and the share of ops that is replayed at least. The others of "blocked"
# and "legacy" find no place for their bytes, or go out one by one. In "goes_on" there is an upload
# between two graphs, which is a call.
FLOORS = {"waits": 0.95, "goes_on": 0.85, "sizes": 0.84, "large": 0.8, "many": 0.5, "too_large": 0.6,
          "blocked": 0.3, "never_idle": 0.8, "legacy": 0.5, "per_thread": 0.5, "left": 0.9, "threads": 0.6, "in_turn": 0.9,
          "unmapped": 0.85, "forms": 0.9,
          "differs": 0.1, "refused": 0.6, "allocates": 0.9, "contexts": 0.8, "captured": 0.4}
UPLOAD = "cuMemcpyHtoDAsync_v2"


def calls_in(path):
    return {name: int(count) for name, count in (line.split() for line in path.read_text().splitlines())}


def executed(log):
    """But for records, which the program makes none of: the library's own tell when memory can be used again.
    Relays take numbers of streams."""
    return sorted([op for op in ops if not op.startswith("op=record ")] for ops in log.values())


def compared(way, tmp_path, **env):
    """The report of a run whose results are those without the library; and the calls of the driver, without and
    with it."""
    calls = tmp_path / "calls"
    env = {"AGSIM_CALLS": calls, "AGSIM_DELAY_US": 0, **helpers.HELD, **env}
    command = [compiled.program("uploads"), way]
    plain = helpers.run_logged(command, preload=False, env=env)
    before = calls_in(calls)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert executed(done.log) == executed(plain.log)
    assert done.report["errors"] == 0
    return done.report, before, calls_in(calls)


@pytest.mark.parametrize("way", FLOORS)
def test_bytes_are_those_at_the_call(way, tmp_path):
    report, before, now = compared(way, tmp_path)
    ops = report["ops"]
    print(f"{way}: {ops['replayed'] / ops['total']:.2f} of {ops['total']} ops replayed, "
          f"{now[UPLOAD]} of {before[UPLOAD]} uploads by the program's own call")
    assert ops["replayed"] >= FLOORS[way] * ops["total"]
    if way == "too_large":
        assert now[UPLOAD] == before[UPLOAD]
    else:
        assert now[UPLOAD] < 0.8 * before[UPLOAD]


@pytest.mark.parametrize("way", ["threads", "left"])
def test_graphs_have_few_copies(way, tmp_path):
    """A kernel waits for the host meanwhile. A GPU did not run a graph of many copies before that kernel had ended."""
    compared(way, tmp_path, AGSIM_GRAPH_FREE=31, AUTOGRAPH_TRACE_LENGTH="fixed")


def test_all_ways_are_tried():
    ways = re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / "uploads.c").read_text())
    assert ways == list(FLOORS)


@pytest.mark.parametrize("way", ["left", "threads", "contexts"])
def test_memory_of_streams_that_are_gone(way, tmp_path):
    """A stream without anything to inherit leaves its memory to others, once its uploads have run."""
    _, before, now = compared(way, tmp_path, AUTOGRAPH_TRACE_INHERIT="false")
    assert now["cuMemHostAlloc"] - before["cuMemHostAlloc"] <= {"left": 2, "threads": 3, "contexts": 4}[way]


def test_where_the_program_waits_nothing_is_patched(tmp_path):
    """Each upload has the place that it had before."""
    _, _, now = compared("waits", tmp_path, AUTOGRAPH_UPDATE_STRATEGY="set_params")
    assert now["cuGraphLaunch"] > 150
    patched = now["cuGraphExecMemcpyNodeSetParams"]
    _, _, goes_on = compared("goes_on", tmp_path, AUTOGRAPH_UPDATE_STRATEGY="set_params")
    assert goes_on["cuGraphExecMemcpyNodeSetParams"] > 3 * patched


def test_memory_is_made_for_traces_alone(tmp_path):
    """And once: a stream that only uploads what is too large has none."""
    for way, number in (("waits", 1), ("too_large", 0), ("goes_on", 1), ("sizes", 1), ("contexts", 4), ("many", 64)):
        _, before, now = compared(way, tmp_path)
        assert now["cuMemHostAlloc"] - before["cuMemHostAlloc"] == number


def test_an_allocation_may_give_memory_that_was_pageable(tmp_path):
    """So the driver is asked again behind each."""
    _, _, waits = compared("waits", tmp_path)
    _, _, now = compared("allocates", tmp_path)
    assert now["cuPointerGetAttributes"] > waits["cuPointerGetAttributes"] + 150

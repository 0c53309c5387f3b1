# SPDX-License-Identifier: MIT
"""What copies' memory is, is remembered until it may have become other memory."""
import json
import re

import pytest

import compiled
import helpers

WAYS = re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / "memory_changes.c").read_text())


def test_all_ways_are_tried():
    assert len(WAYS) == 9


@pytest.mark.parametrize("way", WAYS)
def test_memory_that_changes(way):
    command = [compiled.program("memory_changes"), way]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    library = helpers.run_logged(command, env={"AGSIM_DELAY_US": 0})
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    # A graph of one context takes no memory of another: it is made anew.
    assert library.report["replays"] > 100 and library.report["errors"] <= (way == "context") * 8


@pytest.mark.parametrize("way", ["never", "node", "any", "captured"])
def test_memory_that_graphs_of_the_program_free(way, tmp_path):
    """The driver is asked anew behind each launch of such a graph, and behind no launch of another one."""
    command, calls = [compiled.program("graph_memory"), way], tmp_path / "calls"
    env = {"AGSIM_DELAY_US": 0, "AGSIM_CALLS": calls, "AUTOGRAPH_GRAPH_READ_BACKS": "false"}
    plain = helpers.run_logged(command, preload=False, env=env)
    library = helpers.run_logged(command, env=env)
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    assert library.report["replays"] > 100
    asked = int(dict(line.split() for line in calls.read_text().splitlines())["cuPointerGetAttributes"])
    assert asked < 20 if way == "never" else asked > 100  # two addresses in each of 50 rounds


@pytest.mark.parametrize("where", ["", "branch"])
@pytest.mark.parametrize("way", re.findall(r'\{"(\w+)", \w+, \w+\}',
                                           (compiled.PROGRAMS / "no_access.c").read_text()))
def test_memory_without_access(way, where, tmp_path):
    """Each call is refused at once, whatever the op, as long as there is no access; before and behind, it is
    replayed. So it is in a stream that forks from another one: one graph has the ops of both."""
    env = {"AGSIM_DELAY_US": 0, "AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000,
           "AUTOGRAPH_TRACE_INHERIT": "false", **helpers.HELD}

    def program(preload):
        log, report = tmp_path / f"log{preload}", tmp_path / "report.json"
        clock = {"clock": compiled.clock()} if preload else {}
        done = helpers.run([compiled.program("no_access"), way, *where.split()], preload=preload,
                           env={**env, "AGSIM_LOG": log, "AUTOGRAPH_REPORT": report}, **clock)
        # Pinned memory is elsewhere. With ThreadSanitizer so is memory of the program's own, in each run.
        moved = "copy|memset" if way == "registered" and helpers.config()["sanitize"] == "thread" else "copy"
        log.write_text(re.sub(rf"(op=(?:{moved}) .*)args=\w+", r"\1", log.read_text()))
        executed = helpers.executed(log)
        return ((done.stdout, done.stderr, helpers.work(executed) if where else executed),
                json.loads(report.read_text()) if preload else None)
    plain, _ = program(preload=False)
    library, report = program(preload=True)
    assert library == plain and plain[0].count("call 1, wait 0") >= (2 if way in {"pool", "managed"} else 8)
    assert report["errors"] == 0 and report["ops"]["replayed"] > 0.6 * report["ops"]["total"]
    forked = sum(trace["replays"] for trace in report["trace_list"] if {"name": "wait", "count": 2} in trace["kernels"])
    assert forked > 100 or not where or way in {"half", "half_readonly", "hole"}  # across two mappings: never held


def test_a_word_where_the_device_may_only_read():
    """The driver takes the call, and the context is lost when the word is written."""
    command = [compiled.program("no_access"), "word"]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    library = helpers.run_logged(command, env={"AGSIM_DELAY_US": 0})
    for done in (library, plain):  # or it is written before the call returns
        assert re.fullmatch(r"call (0|719), wait 719\n", done.stdout)


LIVES_FOR_A_STEP = """
#include "sim_test.h"

int main(void)
{
    CUdeviceptr at;
    start();
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (unsigned step = 0; step < 300; step++) {
        OK(cuMemAllocAsync(&at, 128, s));
        OK(cuMemsetD32Async(at, step, 32, s));
        for (unsigned i = 0; i < 6; i++)
            OK(launch_mix(at, 32, i, s));
        OK(cuMemFreeAsync(at, s));
        OK(cuStreamSynchronize(s));
    }
    return 0;
}
"""


def test_a_graph_is_made_while_its_memory_lives():
    """Behind the step there is no memory for the memset's node: its graph is made before the next free, at once."""
    report = helpers.run_logged([compiled.text(LIVES_FOR_A_STEP)], env=helpers.HELD).report
    assert report["traces"] == 1 and report["errors"] == 0 and report["eager_ops"]["graph_refused"] == 0
    assert report["ops"]["replayed"] > 0.98 * report["ops"]["total"]


def test_memory_of_another_kind():
    """The driver refuses it, and another graph is made: what repeats does not stay eager for ever."""
    plain = helpers.run_logged([compiled.program("memory_kinds")], preload=False, env={"AGSIM_DELAY_US": 0})
    library = helpers.run_logged([compiled.program("memory_kinds")], env={"AGSIM_DELAY_US": 0})
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    assert 0 < library.report["errors"] < 16
    assert library.report["ops"]["replayed"] > 0.7 * library.report["ops"]["total"]


def test_memory_attached_to_a_stream():
    """Once, the loop behind is replayed; again and again, graphs would be slower."""
    def replayed(scenario):
        command = [compiled.program("attached"), scenario]
        plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
        library = helpers.run_logged(command, env={"AGSIM_DELAY_US": 0})
        assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
        return library.report["ops"]["replayed"] / library.report["ops"]["total"]
    assert replayed("always") == 0 and replayed("once") > 0.5
    replayed("elsewhere")  # as much as the other thread leaves


def test_the_driver_is_asked_once(tmp_path):
    command = [compiled.program("memory_changes"), "never"]
    calls = tmp_path / "calls"
    helpers.run(command, env={"AGSIM_DELAY_US": 0, "AGSIM_CALLS": calls,
                               "AUTOGRAPH_GRAPH_READ_BACKS": "false"})  # each asks what its destination is
    counts = dict(line.split() for line in calls.read_text().splitlines())
    assert int(counts["cuMemcpyHtoDAsync_v2"]) < 300  # the others were nodes
    # Four addresses, and what graphs are made of; four for each of 300 trips if asked every time.
    assert int(counts["cuPointerGetAttributes"]) < 100


@pytest.mark.parametrize("way", re.findall(r'\{"(\w+)", \w+\}',
                                           (compiled.PROGRAMS / "memset_range.c").read_text()))
def test_memsets_whose_memory_gets_smaller(way, tmp_path):
    """The driver refuses them then, at once, and so it does with the library, which asks once what there is."""
    command, calls = [compiled.program("memset_range"), way], tmp_path / "calls"
    env = {"AGSIM_DELAY_US": 0, "AGSIM_CALLS": calls, "AUTOGRAPH_GRAPH_READ_BACKS": "false"}
    plain = helpers.run_logged(command, preload=False, env=env)
    assert re.findall(r"the same address: (\d+) refused", plain.stdout) == ["0", "100"] * 2
    library = helpers.run_logged(command, env=env)
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    assert library.report["replays"] > 20 and library.report["errors"] == 0
    counts = dict(line.split() for line in calls.read_text().splitlines())
    assert int(counts["cuPointerGetAttributes"]) < 60 and int(counts["cuMemGetAddressRange_v2"]) < 60  # three for each of 200 trips if asked every time


def test_streams_for_a_few_copies_do_not_ask(tmp_path):
    command = [compiled.program("short_streams"), 100]
    plain = helpers.run(command, preload=False, env={"AGSIM_DELAY_US": 0})
    calls = tmp_path / "calls"
    done = helpers.run(command, env={"AGSIM_DELAY_US": 0, "AGSIM_CALLS": calls})
    counts = dict(line.split() for line in calls.read_text().splitlines())
    assert done.stdout == plain.stdout and int(counts["cuMemcpyHtoDAsync_v2"]) == 100
    assert "cuPointerGetAttributes" not in counts


@pytest.mark.parametrize("scenario", ["relayed", "ahead", "elsewhere"])
def test_calls_that_must_not_come_ahead_of_what_is_held(scenario):
    command = [compiled.program("live_pool"), scenario]
    env = {"AGSIM_REUSE": 1, **helpers.HELD,
           "AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
    without = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr) == (without.stdout, without.stderr)
    assert done.report["replays"] > 20 and done.report["errors"] == 0

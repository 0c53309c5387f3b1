# SPDX-License-Identifier: MIT
"""Replays as ranges of NVTX (report.nvtx), as a tool that is injected sees them."""
import collections
import pathlib
import re

import pytest

import compiled
import helpers

HEADER = pathlib.Path(helpers.config()["cuda"], "include/nvtx3/nvToolsExt.h")

pytestmark = pytest.mark.skipif(not HEADER.exists(), reason="the toolkit has no headers of NVTX")


def tool():
    return compiled.program("nvtx_injection.so", "-shared", "-D_GNU_SOURCE", source="nvtx_injection")


def run(command, tmp_path, env=None):
    """(the report, [(thread, event)] of the tool)"""
    log = tmp_path / "log"
    done = helpers.run_logged(command, env={**helpers.HELD, "AUTOGRAPH_REPORT_NVTX": "true", "AG_NVTX_LOG": log,
                                            "NVTX_INJECTION64_PATH": tool(), **(env or {})})
    assert done.stderr == ""
    lines = log.read_text().splitlines() if log.exists() else []
    return done, [line.split(" ", 1) for line in lines]


def pushes(events):
    """The names of the ranges; each has ended before the next one of its thread begins."""
    names, inside = [], collections.Counter()
    for thread, event in events[1:]:
        inside[thread] += 1 if event != "pop" else -1
        assert inside[thread] in (0, 1)
        if event != "pop":
            names.append(re.fullmatch("push autograph (.*)", event).group(1))
    assert events[0][1] == "tool" and not any(inside.values())
    return names


LOOP = [helpers.sample("constant-sim"), "--iterations", "500", "--warmup", "2", "--kernels", "8"]


def test_each_replay_is_a_range(tmp_path):
    done, events = run(LOOP, tmp_path)
    names = pushes(events)
    assert len(names) == done.report["replays"] > 5
    lengths = [int(re.fullmatch(r"autograph: (\d+) ops", name).group(1)) for name in names]
    assert sum(lengths) == done.report["ops"]["replayed"]


def test_a_range_has_the_name_of_the_region(tmp_path):
    done, events = run([compiled.program("observe_api")], tmp_path)
    found = collections.Counter(pushes(events))
    assert found.total() == done.report["replays"]
    for region in done.report["regions"]:
        assert (found[region["name"]] > 0) == (region["replayed"] > 0) or region["name"] == "outer"
    assert found["first"] > 0 and found["paused"] == 0


def test_the_program_stays_as_it_is(tmp_path):
    plain = helpers.run_logged(LOOP, preload=False)
    done, _ = run(LOOP, tmp_path)
    assert done.log == plain.log


@pytest.mark.parametrize("env", [
    {"AUTOGRAPH_REPORT_NVTX": None}, {"NVTX_INJECTION64_PATH": None}, {"NVTX_INJECTION64_PATH": "/no/such"},
    {"NVTX_INJECTION64_PATH": helpers.library()}],
    ids=["off", "no tool", "a tool that is not there", "a library that is no tool"])
def test_without_a_tool_there_are_no_ranges(tmp_path, env):
    """Nor is a tool loaded that nobody asked for."""
    done, events = run(LOOP, tmp_path, env)
    assert events == [] and done.report["replays"] > 5


def with_tool(tmp_path, tool, how, **options):
    """Output of a program that is told to a tool which does these things (nvtx_injection.c), and the ranges."""
    log = tmp_path / "log"
    done = helpers.run([compiled.program("observe_tool"), *([how] if how else [])], env={
        **helpers.HELD, "AUTOGRAPH_REPORT_NVTX": "true", "AG_NVTX_LOG": log, "AG_NVTX_DO": tool,
        "NVTX_INJECTION64_PATH": globals()["tool"]()}, timeout=60, **options)
    assert done.stderr == ""
    return done.stdout, [line for line in log.read_text().splitlines() if " push " in line]


@pytest.mark.parametrize("tool, how", [
    ("i", ""), ("a", ""), ("ia", "lock"), ("c", ""), ("w", ""), ("cw", ""), ("t", "lock"), ("tc", "lock"), ("tcs", "lock"),
    ("c", "wait"), ("tc", "wait"), ("f", ""), ("ts", "fork"), ("its", "fork")])
def test_a_tool_may_do_anything(tmp_path, tool, how):
    """It begins CUDA itself, has locks under which another of its threads calls CUDA, launches and waits, also for
    what the program is yet to do."""
    plain = helpers.run([compiled.program("observe_tool"), *([how] if how else [])], preload=False)
    out, ranges = with_tool(tmp_path, tool, how)
    assert out == plain.stdout and len(ranges) > 10


@pytest.mark.parametrize("tool, how", [("z", ""), ("z", "fork"), ("h", ""), ("th", ""), ("h", "fork")])
def test_a_tool_that_never_returns(tmp_path, tool, how):
    """The program does all the same, and ends."""
    plain = helpers.run([compiled.program("observe_tool"), *([how] if how else [])], preload=False)
    out, ranges = with_tool(tmp_path, tool, how)
    assert out == plain.stdout and len(ranges) <= 1


def test_a_tool_that_ends_the_process(tmp_path):
    """Before the program has printed anything, or behind it."""
    plain = helpers.run([compiled.program("observe_tool")], preload=False)
    assert with_tool(tmp_path, "x", "")[0] in ("", plain.stdout)


def test_ranges_are_told_by_a_thread_of_the_library(tmp_path):
    """In the order of the launches, one by one."""
    _, events = run(LOOP, tmp_path)
    assert len({thread for thread, _ in events}) == 1


def test_what_a_slow_tool_is_not_told_is_counted(tmp_path):
    done, events = run([compiled.program("observe_tool"), "long"], tmp_path, {
        "AG_NVTX_DO": "g", "AUTOGRAPH_TRACE_MAX_LENGTH": 7, "AUTOGRAPH_TRACE_UNROLL": 7})
    names = pushes(events)
    (left,) = [match for name in names if (match := re.fullmatch(r"autograph: (\d+) launches are left out", name))]
    assert len(names) - 1 + int(left[1]) == done.report["replays"] > 2000 and int(left[1]) > 500

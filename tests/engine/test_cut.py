# SPDX-License-Identifier: MIT
"""Where long loops are cut that wait for nothing, and which of their traces stay."""
import json

import pytest

import compiled
import helpers


def run(*arguments, **env):
    """The report; no machine is so slow that anything is late by chance."""
    without = helpers.run_logged([compiled.program("long_loop"), *arguments], preload=False,
                                 env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged([compiled.program("long_loop"), *arguments],
                              env={"AGSIM_DELAY_US": 0, **helpers.HELD, "AUTOGRAPH_TRACE_UNROLL": 16,
                                   "AUTOGRAPH_TRACE_MAX_LENGTH": 16, "AUTOGRAPH_TRACE_DUEL": "false",
                                   "AUTOGRAPH_GRAPH_CREDIT_MS": 1000, **helpers.OWN_SHAPES, **env})
    assert done.stdout == without.stdout
    return done.report


def share(data):
    return data["ops"]["replayed"] / data["ops"]["total"]


def test_a_long_loop_is_cut_at_the_same_ops_each_time():
    """Whatever came before it. 179 ops are twelve pieces; no piece comes again in eleven other phases."""
    data = run(60, 179)
    assert data["traces"] <= 13 and share(data) > 0.8


def test_sequences_end_where_the_program_pauses():
    """Else the piece with the pause in it would be submitted late and eagerly, each time. A machine can
    be so busy that others are late, too: tried more than once."""
    assert any(share(run(200, 179, 1, 4000, AUTOGRAPH_HOLD_BOUND_US=1000)) > 0.92 for _ in range(4))


@pytest.mark.parametrize("attempt", range(4))
def test_a_stream_that_its_thread_has_turned_from_is_no_pause(attempt, tmp_path):
    """One thread, eight streams: while it makes a graph for one of them, the others' holds are late, at the
    same ops again and again."""
    report = tmp_path / "report.json"
    helpers.run(helpers.build_dir() / "tests/bench/worker-sim",
                input="eager n=64 streams=8 rounds=1 warmup=0 iterations=1500\n",
                env={"AUTOGRAPH_REPORT": report, "AGSIM_DELAY_US": 0, "AGSIM_LAUNCH_US": 4,
                     "AGSIM_GRAPH_LAUNCH_US": 2, "AGSIM_INSTANTIATE_US": 230})
    data = json.loads(report.read_text())
    assert data["traces"] > 8 and sum(t["replays"] for t in data["trace_list"] if t["length"] == 1) < 100


def test_traces_of_a_loop_that_is_over_make_room():
    """There is room for those of one loop. The device keeps up, so that nothing of them is still running: eleven
    make room, or some on a busy machine. Tried more than once."""
    def makes_room():
        data = run(100, 179, 2, 0, -1, AUTOGRAPH_GRAPH_EXECS=13)
        return data["evictions"] >= 4 and share(data) > 0.55

    assert any(makes_room() for _ in range(6))


def test_traces_that_may_still_run_stay():
    """The device is behind all the time: what an exec has taken could be missing when another is made."""
    data = run(60, 179, 2, AUTOGRAPH_GRAPH_EXECS=13, AGSIM_DELAY_US=60)
    assert data["traces"] == 13 and data["evictions"] == 0


def test_what_would_be_late_is_not_tried():
    """25 us of work before each launch: 64 would be held for longer than four times the bound."""
    data = run(20, 179, 1, 0, 25, AUTOGRAPH_TRACE_LENGTH="auto", AUTOGRAPH_TRACE_UNROLL=64,
               AUTOGRAPH_HOLD_BOUND_US=300)
    assert 0 < max(trace["length"] for trace in data["trace_list"]) <= 32

# SPDX-License-Identifier: MIT
"""How long sequences are, by the time that the program takes between its ops, on a clock of its own."""
import json

import pytest

import compiled
import helpers


def replays_of(data):
    """Of each length."""
    replays = {}
    for trace in data["trace_list"]:
        replays[trace["length"]] = replays.get(trace["length"], 0) + trace["replays"]
    return replays


def report(tmp_path, words, **env):
    """Of the benchmark's loop."""
    file = tmp_path / "report.json"
    helpers.run(helpers.build_dir() / "tests/bench/worker-sim", input=f"eager {words} warmup=0\n",
                clock=compiled.clock(),
                env={"AUTOGRAPH_REPORT": file, **helpers.PATIENT, "AGSIM_DELAY_US": 0, **env})
    return json.loads(file.read_text())


def lengths(tmp_path, words):
    return replays_of(report(tmp_path, words))


def own_clock(iterations, ops, sync, op_ns, read_ns=2000, **env):
    """The report of a program whose clock is its own: each op takes so long, and each look at the clock, and
    so what the library submits between two of them."""
    done = helpers.run_logged([compiled.program("own_clock"), iterations, ops, int(sync), op_ns, read_ns],
                              env={"AGSIM_DELAY_US": 0, **env})
    return done.report


@pytest.mark.parametrize("op_ns, most", [(100, 64), (100_000, 8)])
def test_slow_programs_have_short_pieces(op_ns, most):
    """64 ops between two waits: with 100 us for each, pieces of 2 would be best."""
    replays = replays_of(own_clock(60, 64, True, op_ns, 100))
    usual = max(replays, key=lambda length: length * replays[length])
    assert usual <= most if most < 64 else usual >= 16


@pytest.mark.parametrize("op_ns, first, rest", [(120, 16, 16), (1000, 8, 16)])
def test_short_piece_behind_a_wait(op_ns, first, rest):
    """The GPU starts on a first piece while the rest is issued, if that takes longer than a replay. Pieces are of 16
    at most where ops take long."""
    replays = replays_of(own_clock(1000, 32, True, op_ns, AUTOGRAPH_GRAPH_VARIANTS=1))
    assert replays[first] > 900 and replays[rest] > 900


def test_no_short_piece_where_nobody_waits(tmp_path):
    replays = lengths(tmp_path, "n=64 iterations=2000")
    assert replays[64] > 1000 and replays.get(48, 0) + replays.get(16, 0) < 100


def test_pieces_stay_as_they_are_where_that_is_hardly_worse():
    """By 5 us of work before each launch 32 ops would be best, by 0.6 % of the time."""
    assert 32 not in replays_of(own_clock(800, 16, False, 5000))


def test_first_graph_is_an_ordinary_one_where_sequences_get_no_longer():
    """5 us of work: pieces of 4, the first graph's length, each with its own arguments."""
    data = own_clock(1000, 16, True, 5000)
    assert replays_of(data)[4] > data["replays"] - 10 > 3000
    assert data["patches"] < 2000


def test_single_op_between_waits(tmp_path):
    """A graph of one launch: it is cheaper than the launch, but making it must first pay."""
    data = report(tmp_path, "n=1 sync=1 iterations=200")
    assert replays_of(data) == {1: pytest.approx(184, abs=5)}


def test_single_op_where_graphs_are_expensive(tmp_path):
    """The first one has taken 2 ms, so the next one must have been seen 200 times: a quarter of that counts."""
    two = "n=1 sync=1 iterations=400 warmup=0\neager n=1 sync=1 empty=1 iterations=400"
    usual, later = (replays_of(report(tmp_path, two, AGSIM_INSTANTIATE_US=us, AUTOGRAPH_TRACE_DUEL="false"))[1]
                    for us in (0, 2000))
    assert usual > 700 and 400 < later < 600


@pytest.mark.parametrize("kernels", [1, 2, 3, 8, 12, 16, 64])
def test_a_loop_is_replayed_in_its_first_40_ops_or_20_iterations(tmp_path, kernels):
    assert report(tmp_path, f"n={kernels} iterations={max(20, 40 // kernels)}")["replays"] > 0


def test_a_loop_that_lasts_is_unrolled_further(tmp_path):
    data = report(tmp_path, "n=1 iterations=8000")
    replays = replays_of(data)
    assert replays[8] < 100 and 64 * replays[64] > 6000
    assert data["traces"] == 2
    fixed = replays_of(report(tmp_path, "n=1 iterations=8000", AUTOGRAPH_TRACE_LENGTH="fixed"))
    assert fixed.keys() == {64}


def test_a_loop_whose_graphs_take_long_to_make_is_replayed(tmp_path):
    """It has 16 ops, and waits behind each."""
    data = report(tmp_path, "n=16 sync=1 iterations=3000", AGSIM_INSTANTIATE_US=10000)
    assert data["ops"]["replayed"] > 0.8 * data["ops"]["total"]


@pytest.mark.parametrize("body", [1, 2])
def test_loop_that_waits_no_longer(body, tmp_path):
    """What has become hot between waits does not keep the loop from being unrolled behind them."""
    before = f"n={body} sync=1 iterations=100\neager n={body} iterations=400 warmup=0\n"
    replays = lengths(tmp_path, before + f"eager n={body} iterations=8000")
    assert 64 * replays.get(64, 0) > 4000 * body


def test_several_streams_of_a_thread(tmp_path):
    """Eight ops in each of eight streams: twice the pieces would be twice the launches in all of them."""
    replays = lengths(tmp_path, "n=64 streams=8 sync=1 cpu=0.5 iterations=200")
    assert sum(count for length, count in replays.items() if length < 4) < 100


def test_two_threads_that_share_a_stream():
    """The time between ops is known although each thread counts its own: one has issued far more before."""
    done = helpers.run_logged([compiled.program("live_shared"), 60, 200],
                              env={"AGSIM_DELAY_US": 0}, own_clock=False)
    slow = [trace for trace in done.report["trace_list"] if trace["stream"] == 2]
    assert sum(t["replays"] for t in slow if t["length"] <= 4) > 300


def test_pieces_that_were_late_are_not_tried_again_soon():
    """Bursts of 16 ops, pauses that no wait tells of: pieces of 64 would be fine by the model."""
    done = helpers.run_logged([compiled.program("live_slow"), 2400, 0, 16, 1500],
                              env={"AUTOGRAPH_HOLD_BOUND_US": 500, "AGSIM_DELAY_US": 0})
    assert done.report["ops"]["eager"] < 2400

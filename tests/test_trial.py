# SPDX-License-Identifier: MIT
"""Trials: the faster way stays. The simulated driver can make launches slow, or graphs, by a clock that
does not go by the machine."""
import json
import math
import sys

import pytest

import compiled
import helpers
from commands import autograph

sys.path.insert(0, str(helpers.SOURCE / "tests/bench"))
import shapes  # noqa: E402  (needs the path above)

SLOW_LAUNCHES = {"AGSIM_LAUNCH_US": 20, "AGSIM_GRAPH_LAUNCH_US": 20}
SLOW_GRAPHS = {"AGSIM_GRAPH_LAUNCH_US": 3000}


def run(tmp_path, iterations, kernels=8, sample="sync", **env):
    return report_of(tmp_path, [helpers.sample(f"{sample}-sim"), "--iterations", iterations,
                                "--kernels", kernels], env)


def report_of(tmp_path, command, env):
    """The report; the results are those without the library."""
    report = tmp_path / "report.json"
    plain = helpers.run(command, preload=False)
    done = helpers.run(command, clock=compiled.clock(), env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_TRIAL": None, **helpers.PATIENT,
                                     "AGSIM_DELAY_US": 0, **env})
    assert done.stdout.split()[:2] == plain.stdout.split()[:2] and plain.stdout.startswith("checksum")
    data = json.loads(report.read_text())
    assert data["errors"] == 0
    return data


def share(data):
    return data["ops"]["replayed"] / data["ops"]["total"]


@pytest.mark.parametrize("sample", ["sync", "constant"])
def test_what_is_faster_stays(tmp_path, sample):
    data = run(tmp_path, 1000, sample=sample, **SLOW_LAUNCHES)
    assert data["trials"] > 0 and data["given_up"] == 0
    assert share(data) > 0.9
    trace = data["trace_list"][0]
    assert 0 < trace["held_ns"] < 0.75 * trace["eager_ns"] and not trace["given_up"]
    saved = (trace["eager_ns"] - trace["held_ns"]) * trace["replays"] * trace["length"] / 1000
    assert trace["saved_us"] == pytest.approx(saved, abs=0.1)


def test_a_stream_of_which_nothing_is_replayed_rests(tmp_path):
    """There are no graphs, and to record is all loss: it asks what lies at each address, which takes long."""
    def copies(steps, **env):
        return report_of(tmp_path, [compiled.program("trial_copies"), steps],
                         {"AUTOGRAPH_GRAPH_EXECS": 0, "AGSIM_POINTER_US": 20, **env})

    assert copies(1000)["given_up"]
    assert copies(200)["trials"] == 0  # it is asked after 4,096 ops
    assert copies(1000, AUTOGRAPH_TRACE_TRIAL="false")["trials"] == 0


def test_what_is_slower_is_given_up_and_tried_again(tmp_path):
    data = run(tmp_path, 10000, **SLOW_GRAPHS)
    assert data["given_up"] == data["trials"] == 2  # after some 20 sequences, and 32,768 ops later
    assert data["side_exits"] == 0  # nothing is held once there is no trace left
    # The first has been destroyed, or it would not be made anew.
    assert [trace["length"] for trace in data["trace_list"]].count(8) == 2
    assert 0 < share(data) < 0.05
    for trace in data["trace_list"]:
        if trace["length"] == 4:  # it had given way to the longer one
            continue
        assert trace["given_up"] and trace["saved_us"] < 0
        assert trace["held_ns"] > trace["eager_ns"]


def test_a_single_op_that_is_slower_is_given_up(tmp_path):
    """It is replayed within the call that is timed."""
    env = {"AGSIM_LAUNCH_US": 2}
    data = run(tmp_path, 1000, kernels=1, AGSIM_GRAPH_LAUNCH_US=3, **env)
    assert data["given_up"] == 1 and share(data) < 0.3
    assert data["trace_list"][0]["held_ns"] > data["trace_list"][0]["eager_ns"]
    data = run(tmp_path, 1000, kernels=1, AGSIM_GRAPH_LAUNCH_US=1, **env)
    assert data["given_up"] == 0 and share(data) > 0.8


def test_what_recording_costs_does_not_count_for_holding(tmp_path):
    """Both ways ask what lies at each address, which a program without the library does not."""
    command = [compiled.program("trial_copies"), 8000]
    data = report_of(tmp_path, command, {"AGSIM_POINTER_US": 5})
    # While nothing is held nothing is asked.
    free = report_of(tmp_path, command, {"AGSIM_POINTER_US": 0})
    assert data["given_up"] > 0 and share(data) < 0.1 and data["seconds"] < 2 * free["seconds"] + 1


def test_without_trials_it_goes_on(tmp_path):
    data = run(tmp_path, 200, **SLOW_GRAPHS, AUTOGRAPH_TRACE_TRIAL="false")
    assert data["trials"] == data["given_up"] == 0
    assert share(data) > 0.9
    assert data["trace_list"][0]["held_ns"] is None and data["trace_list"][0]["eager_ns"] is None


def test_where_both_are_equal_trials_are_few(tmp_path):
    data = run(tmp_path, 10000, AGSIM_LAUNCH_US=10, AGSIM_GRAPH_LAUNCH_US=80)
    # Trials that are won have 15 times the last one's distance between them, lost ones twice.
    assert 0 < data["trials"] <= 2 * math.log2(10000)


def test_what_falls_behind_the_sequence_counts(tmp_path):
    """A replay of a single kernel is faster than its launch, and makes the program's own graph slower."""
    def own_graph(steps, **env):
        return report_of(tmp_path, [compiled.program("own_graph"), steps],
                         {"AGSIM_LAUNCH_US": 20, "AGSIM_GRAPH_LAUNCH_US": 10, **env})

    data = own_graph(2000)
    assert share(data) > 0.8 and data["given_up"] == 0  # it has been audited, too
    data = own_graph(2000, AGSIM_SWITCH_US=100)
    assert data["given_up"] == 2 and share(data) < 0.2  # either head makes it slower by itself


def test_graphs_of_the_program_between_its_loops_raise_no_question(tmp_path):
    """Where nothing but its own graphs is launched for a while, no replay can have made them late."""
    (shape,) = [shape for shape in shapes.SHAPES if shape.name == "N=16, sync"]
    words = f"{shape.words(1)} warmup=4 iterations=150"
    report = tmp_path / "report.json"
    helpers.run(helpers.build_dir() / "tests/bench/worker-sim", clock=compiled.clock(),
                input=f"eager {words}\ngraph {words}\n" * 5,
                env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_TRIAL": None, **helpers.PATIENT, **SLOW_LAUNCHES,
                     "AGSIM_DELAY_US": 0})
    data = json.loads(report.read_text())
    assert data["trials"] == 2 and share(data) > 0.96  # an audit rests for 1,536 of 12,400 ops


def test_report_tells_why(tmp_path):
    assert run(tmp_path, 500, **SLOW_GRAPHS)["given_up"]
    text = autograph("report", tmp_path / "report.json").stdout
    assert "1 trial (1 lost)" in text and "by trials" in text  # not of the first few rounds
    (row,) = [line for line in text.splitlines() if "given up: 8 " in line]
    assert row.split()[5].startswith("-")
    assert "given up, or not repeated" in text
    autograph("report", tmp_path / "report.json", "--html", tmp_path / "page.html")
    assert "given up: 8 " in (tmp_path / "page.html").read_text()

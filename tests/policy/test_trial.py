# SPDX-License-Identifier: MIT
"""Duels: the faster way stays. The simulated driver can make launches slow, or graphs, by a clock that
does not go by the machine."""
import json
import pytest

import compiled
import helpers
from commands import autograph

SLOW_LAUNCHES = {"AGSIM_LAUNCH_US": 20, "AGSIM_GRAPH_LAUNCH_US": 20}
SLOW_GRAPHS = {"AGSIM_GRAPH_LAUNCH_US": 3000}


def run(tmp_path, iterations, kernels=8, sample="sync", **env):
    return report_of(tmp_path, [helpers.sample(f"{sample}-sim"), "--iterations", iterations,
                                "--kernels", kernels], env)


def report_of(tmp_path, command, env):
    """The report; the results are those without the library."""
    report = tmp_path / "report.json"
    plain = helpers.run(command, preload=False)
    done = helpers.run(command, clock=compiled.clock(), env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_DUEL": None, **helpers.PATIENT,
                                     "AGSIM_DELAY_US": 0, **env})
    assert done.stdout.split()[:2] == plain.stdout.split()[:2] and plain.stdout.startswith("checksum")
    data = json.loads(report.read_text())
    assert data["errors"] == 0
    return data


def share(data):
    return data["ops"]["replayed"] / data["ops"]["total"]


@pytest.mark.parametrize("sample", ["sync", "constant"])
def test_what_is_faster_stays(tmp_path, sample):
    data = run(tmp_path, 3000, sample=sample, **SLOW_LAUNCHES)
    assert data["duels"] > 0 and data["duels_lost"] == 0
    assert share(data) > 0.9
    assert 0 < data["held_ns"] < 0.75 * data["eager_ns"] and 0 < data["duel_variance"] < 0.1
    assert 0 < data["eager_ops"]["trials"] <= data["ops"]["eager"]


def test_what_is_slower_is_given_up_and_tried_again(tmp_path):
    data = run(tmp_path, 10000, **SLOW_GRAPHS)
    # What takes as long as many launches counts for as many: the first trial comes soon.
    assert data["duels_lost"] == data["duels"] == 3  # and after 16,384 and 32,768 further ops
    assert data["held_ns"] > data["eager_ns"]
    assert 0 < share(data) < 0.05
    assert data["eager_ops"]["unwatched"] > 0.9 * data["ops"]["total"]


def test_what_was_given_up_comes_back_where_the_loop_is_another(tmp_path):
    """It has a grid that has not come before. The loop itself would rest for 16,384 ops."""
    def loops(*steps):
        return report_of(tmp_path, [compiled.program("two_loops"), *steps], SLOW_GRAPHS)["duels_lost"]

    assert loops(2000, 0) == 1
    assert loops(1000, 1000) == 2


@pytest.mark.parametrize("graph_us, lost", [(3, True), (1, False)])
def test_a_single_op(tmp_path, graph_us, lost):
    """It is replayed within the call that is timed."""
    data = run(tmp_path, 12000, kernels=1, AGSIM_GRAPH_LAUNCH_US=graph_us, AGSIM_LAUNCH_US=2)
    assert data["duels"] > 0 and (data["duels_lost"] > 0) == lost
    assert lost or share(data) > 0.8


def test_what_recording_costs_does_not_count_for_holding(tmp_path):
    """Both ways ask what lies at each address, which a program without the library does not."""
    data = report_of(tmp_path, [compiled.program("duel_copies"), 8000], {"AGSIM_POINTER_US": 5})
    assert data["duels"] > 0 and data["held_ns"] > data["eager_ns"]


def test_without_trials_it_goes_on(tmp_path):
    data = run(tmp_path, 200, **SLOW_GRAPHS, AUTOGRAPH_TRACE_DUEL="false")
    assert data["duels"] == data["duels_lost"] == 0
    assert share(data) > 0.9
    assert data["held_ns"] is None and data["eager_ns"] is None


def test_where_both_are_equal_holding_goes_on(tmp_path):
    data = run(tmp_path, 10000, AGSIM_LAUNCH_US=10, AGSIM_GRAPH_LAUNCH_US=80)
    assert 0 < data["duels"] <= 2 and data["duels_lost"] == 0 and share(data) > 0.85


def test_what_falls_behind_the_sequence_counts(tmp_path):
    """A replay of a single kernel is faster than its launch, and makes the program's own graph slower."""
    def own_graph(steps, **env):
        return report_of(tmp_path, [compiled.program("own_graph"), steps],
                         {"AGSIM_LAUNCH_US": 20, "AGSIM_GRAPH_LAUNCH_US": 10, **env})

    data = own_graph(4000)
    assert share(data) > 0.8 and data["duels"] > 0 and data["duels_lost"] == 0
    data = own_graph(4000, AGSIM_SWITCH_US=100)
    assert data["duels_lost"] > 0 and share(data) < 0.5


def test_report_tells_why(tmp_path):
    assert run(tmp_path, 2000, **SLOW_GRAPHS)["duels_lost"] == 1
    text = " ".join(autograph("report", tmp_path / "report.json").stdout.split())
    assert "1 trial of both ways, 1 lost by graphs" in text
    assert "not watched: graphs were no faster when both ways were tried" in text
    autograph("report", tmp_path / "report.json", "--html", tmp_path / "page.html")
    assert "graphs were no faster when both ways were tried" in (tmp_path / "page.html").read_text()

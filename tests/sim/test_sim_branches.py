# SPDX-License-Identifier: MIT
"""Graphs with branches on the simulated driver: what no edge orders runs in any order, and side by side; and
what becomes of events that such graphs record and wait for."""
import re

import compiled
import helpers


def run(scenario, **options):
    return helpers.run([compiled.program("graph_branches"), scenario], preload=False, **options)


def test_nodes_run_in_any_order_that_edges_allow(tmp_path):
    """There are 20 orders of two chains of three kernels each, and the two in which one chain is wholly first."""
    for queues in (8, 1):
        run("orders", env={"AGSIM_LOG": tmp_path / "log", "CUDA_DEVICE_MAX_CONNECTIONS": queues})
        kernels = re.findall(r"op=kernel .* args=(\w+)", (tmp_path / "log").read_text())
        launches = [tuple(kernels[i:i + 6]) for i in range(0, 1200, 6)]
        before = [{(a, b) for i, a in enumerate(launch) for b in launch[i + 1:]} for launch in launches]
        always = set.intersection(*before)
        assert len(kernels) == 1200 and len(set(kernels)) == 6
        assert len(always) == 6, "of each chain three pairs are ordered"
        assert 6 < len(set(launches)) <= 20


def test_branches_run_side_by_side():
    run("across")


def test_in_one_queue_they_do_not():
    """One that waits for another may then wait for ever."""
    done = helpers.run(["timeout", 2, compiled.program("graph_branches"), "across"], preload=False, status=None,
                       env={"CUDA_DEVICE_MAX_CONNECTIONS": 1})
    assert done.returncode == 124


def test_events_of_graphs_go_by_edges():
    run("events")


def test_of_records_that_are_not_ordered_the_first_counts():
    assert run("apart").stdout == "first\n"
    assert run("ordered").stdout == "second\n"

# SPDX-License-Identifier: MIT
"""Budgets of graphs: those that were used longest ago make room for others, and what they cost is
to come back."""
import json

import pytest

import compiled
import helpers

LONG, SHORT = 400, 100  # KiB of a graph by the library's estimate
STEPS = 300  # more than the replays after which a graph that was in none makes room


def run(tmp_path, ops, phases, streams=1, rounds=1, launch_us=0, instantiate_us=0, **options):
    """The report, and how many graphs were alive in the end. `phases`: steps of each."""
    sizes = [word for size, steps in enumerate(phases, 1) for word in (size, steps)] * rounds
    command = [compiled.program("trace_phases"), ops, streams, *sizes]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    env = {f"AUTOGRAPH_{name}": value for name, value in options.items()}
    done = helpers.run_logged(command, env={"AGSIM_CALLS": tmp_path / "calls", "AGSIM_DELAY_US": 0,
                                            "AGSIM_LAUNCH_US": launch_us,
                                            "AGSIM_INSTANTIATE_US": instantiate_us,
                                            "AUTOGRAPH_TRACE_LENGTH": "fixed", **helpers.OWN_SHAPES,
                                            "AUTOGRAPH_TRACE_UNROLL": 128, **env})
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0
    calls = dict(line.split() for line in (tmp_path / "calls").read_text().splitlines())
    made, destroyed = (int(calls.get(name, 0)) for name in
                       ("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"))
    assert (made, destroyed) == (done.report["traces"], done.report["evictions"])
    return done.report, made - destroyed


@pytest.mark.parametrize("ops, each, count", [(2, SHORT, 15), (64, SHORT, 12), (65, LONG, 4),
                                              (128, LONG, 4)])
def test_memory(ops, each, count, tmp_path):
    """With 1 MiB the sum of the estimates gets as near to it as it can, and no further."""
    report, alive = run(tmp_path, ops, [STEPS] * count, GRAPH_MEMORY_MB=1)
    assert alive == 1024 // each and report["graph_memory_kb"] == alive * each
    assert report["traces"] == count and report["ops"]["replayed"] > 0.8 * report["ops"]["total"]


def test_memory_of_streams_together(tmp_path):
    """What one stream takes the others lack: each makes room among its own graphs. The third has shorter ones."""
    report, _ = run(tmp_path, 65, [100, 1200], streams=3, GRAPH_MEMORY_MB=1)
    assert 2 * LONG < report["graph_memory_kb"] <= 1024
    lengths = [sorted(trace["length"] for trace in report["trace_list"] if trace["stream"] == stream)
               for stream in (1, 2, 3)]
    assert max(lengths[0]) == max(lengths[1]) == 65 and max(lengths[2]) <= 64


def test_number(tmp_path):
    report, alive = run(tmp_path, 2, [STEPS] * 8, GRAPH_EXECS=5)
    assert (alive, report["evictions"], report["graph_memory_kb"]) == (5, 3, 5 * SHORT)


def test_within_the_budgets_nothing_is_destroyed(tmp_path):
    report, alive = run(tmp_path, 2, [STEPS] * 8)
    assert (alive, report["evictions"], report["graph_memory_kb"]) == (8, 0, 8 * SHORT)


def test_graphs_that_were_used_of_late_stay(tmp_path):
    report, _ = run(tmp_path, 2, [STEPS, 100, 100], GRAPH_EXECS=2)
    assert (report["traces"], report["evictions"]) == (2, 0)


def test_in_a_loop_of_more_sequences_than_graphs_those_that_have_one_keep_it(tmp_path):
    """Of 64 that wait in each round, 56 find no room: more than the times for which another makes room."""
    report, _ = run(tmp_path, 4, [1] * 64, rounds=100, GRAPH_EXECS=8)
    assert (report["traces"], report["evictions"]) == (8, 0)
    assert report["ops"]["replayed"] > 0.9 * 8 / 64 * report["ops"]["total"]


def test_and_while_a_trial_has_them_wait(tmp_path):
    """The 14 others find no room meanwhile."""
    report, _ = run(tmp_path, 2, [1] * 64, rounds=150, launch_us=20, GRAPH_EXECS=50, TRACE_DUEL="true")
    assert (report["traces"], report["evictions"]) == (50, 0)
    assert report["duels"] > 0


def questions(tmp_path):
    """Whether a stream is idle."""
    calls = dict(line.split() for line in (tmp_path / "calls").read_text().splitlines())
    return int(calls.get("cuStreamQuery", 0))


def test_what_gets_no_graph_makes_no_wait_look_at_all_streams(tmp_path):
    """Two streams have the graphs that there may be, six others go on as well."""
    report, alive = run(tmp_path, 2, [STEPS], streams=8, GRAPH_EXECS=2)
    assert (alive, report["evictions"]) == (2, 0)
    assert questions(tmp_path) < STEPS  # there are eight waits in each step


def test_nor_does_it_where_a_stream_is_never_idle(tmp_path):
    """Each wait asks about that one alone, which is mostly still at work."""
    command = [compiled.program("trace_phases"), 2, 8, 64, STEPS]
    env = {"AUTOGRAPH_GRAPH_FREE_EXECS": 2, "AGSIM_CALLS": tmp_path / "calls", "AGSIM_DELAY_US": 0}
    plain = helpers.run_logged([*command, "busy"], preload=False)
    done = helpers.run_logged([*command, "busy"], env=env)
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["traces"] == 2 and questions(tmp_path) < 1.5 * 8 * STEPS


def test_room_is_made_although_nothing_is_replayed(tmp_path):
    """The graphs of two short phases take all room, and are never used again."""
    report, alive = run(tmp_path, 2, [100, 100, 1200], GRAPH_EXECS=2)
    assert (alive, report["traces"], report["evictions"]) == (2, 3, 1)
    assert report["ops"]["replayed"] > 0.6 * report["ops"]["total"]


# -- Credit: 8 ms, and sequences must be seen three times -----------------------------

def test_graphs_that_are_never_replayed(tmp_path):
    report, _ = run(tmp_path, 16, [3] * 64, instantiate_us=1000, GRAPH_CREDIT_MS=8)
    assert 1 <= report["traces"] <= 8 and report["replays"] == 0
    assert report["making_us"] >= 1000 * report["traces"]
    report, _ = run(tmp_path, 16, [3] * 64, instantiate_us=1000)
    assert (report["traces"], report["replays"]) == (64, 0)


def test_what_repeats_more_often_gets_graphs_on_less_credit(tmp_path):
    report, _ = run(tmp_path, 16, [3] * 60 + [400], instantiate_us=1000, GRAPH_CREDIT_MS=8)
    assert report["traces"] <= 9 and report["ops"]["replayed"] > 16 * 350


def test_graphs_that_save_what_they_cost(tmp_path):
    report, _ = run(tmp_path, 16, [40] * 64, GRAPH_CREDIT_MS=8)
    assert report["traces"] == 64 and report["ops"]["replayed"] > 0.6 * report["ops"]["total"]

# SPDX-License-Identifier: MIT
"""Streams that fork and join by events as one graph: what comes out is the same, and how much is one graph."""
import pytest

import compiled
import helpers

# Branches that fork again, or join others.
NESTED = ["halved", "bare_halved", "chain", "last_joins_first", "last_joins_last", "diamond", "collected", "again"]
SHAPES = ["plain", "bare", "endless", "synced", "changing", "nested", "copies", "pool", "one_event", "ahead", "outside",
          "middles", "brief", "kept", "gathered", "copied", "open_end", "comes_back", *NESTED]
# Two graphs, of three paths each, run at a time beside four streams and the legacy one.
QUEUES = {"nested": {"CUDA_DEVICE_MAX_CONNECTIONS": 32}}
APART = {"AUTOGRAPH_TRACE_FORKS": "false"}

# The most launches of graphs in the loops of which all becomes one graph: 200 steps, which 400 launches or more
# would take with graphs for each stream; 800 steps, and 3,200 launches, where streams join after 100 of them only.
# A graph has 8 copies at most.
ONE_GRAPH = {"plain": 50, "bare": 80, "synced": 200, "changing": 60, "copies": 100, "ahead": 60, "nested": 150,
             "one_event": 60, "brief": 60, "kept": 60, "gathered": 200, "copied": 220, "comes_back": 1500,
             **dict.fromkeys(NESTED, 120)}


def run(shape, preload=True, words=(), **env):
    return helpers.run_logged([compiled.program("fork_shapes"), shape, *words], preload=preload,
                              env={"AUTOGRAPH_TRACE_DUEL": "false", **env})


# Work between the steps, in the stream of a branch: behind the branch, or before the next one. And other events than
# when the graph was made.
RULES = ["behind", "host_function", "host_function_early", "recorded_elsewhere", "recorded_beside",
         "unknown_call", "patterns"]


@pytest.mark.parametrize("way", ["usual", "fixed", "hasty", "legacy"])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_changes(shape, way):
    """The memory shows the order: each step depends on what other streams did in the step before."""
    env = {"fixed": helpers.HELD, "hasty": helpers.HASTY}
    words = [way] if way == "legacy" else []
    plain, done = run(shape, False, words), run(shape, True, words, **env.get(way, {}))
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert helpers.work(done.log) == helpers.work(plain.log)
    assert done.report["errors"] == 0 and done.report["replays"] > 0


@pytest.mark.parametrize("words", [[], ["legacy"]])
@pytest.mark.parametrize("shape", ONE_GRAPH)
def test_a_step_is_a_part_of_one_graph(shape, words):
    found = run(shape, True, words, AGSIM_DELAY_US=0, **QUEUES.get(shape, {})).report
    assert found["ops"]["replayed"] > 0.7 * found["ops"]["total"]
    assert 0 < found["replays"] <= ONE_GRAPH[shape]


@pytest.mark.parametrize("shape", ["plain", "synced"])
def test_each_stream_has_graphs_of_its_own(shape, tmp_path):
    """And nothing is asked for branches."""
    calls = tmp_path / "calls"
    assert run(shape, AGSIM_DELAY_US=0, AGSIM_CALLS=calls, **APART).report["replays"] > 400
    assert "cuStreamGetPriority" not in calls.read_text()


@pytest.mark.parametrize("use", [1, 2])
@pytest.mark.parametrize("shape", ["plain", "synced"])
def test_a_priority_that_is_not_told_is_asked_for_again(shape, use):
    """Of the stream that forks, or of the other one."""
    found = run(shape, AGSIM_DELAY_US=0, AGSIM_CALLER=helpers.own_calls(),
                AGSIM_FAIL=f"cuStreamGetPriority:{use}:999").report
    assert found["errors"] == 1 and 0 < found["replays"] <= ONE_GRAPH[shape]


def test_what_does_not_join_makes_way():
    """A loop whose branches cannot become a graph is replayed almost as much as without trying."""
    for shape, least in (("endless", 0.95), ("open_end", 0.98)):
        tried, apart = (run(shape, AGSIM_DELAY_US=0, **env).report for env in ({}, APART))
        assert tried["ops"]["replayed"] > least * apart["ops"]["replayed"]


@pytest.mark.parametrize("events", ["each", "one", "brief"])
@pytest.mark.parametrize("rule", RULES)
def test_branches_keep_their_streams_order(rule, events):
    command = [compiled.program("live_rule"), rule, events]
    plain, done = (helpers.run_logged(command, preload=preload, env={"AUTOGRAPH_TRACE_DUEL": "false"})
                   for preload in (False, True))
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and done.report["replays"] > 0


@pytest.mark.parametrize("by_handle", [0, 1])
@pytest.mark.parametrize("strategy", ["auto", "exec_update"])
def test_a_graph_records_no_event_that_has_the_handle_of_a_destroyed_one(by_handle, strategy):
    """Whatever the driver makes of a node whose event is gone. Arguments change in each step."""
    command = [compiled.program("live_reuse"), "reused"]
    plain = helpers.run(command, preload=False)
    done = helpers.run_logged(command, env={"AGSIM_HANDLES": by_handle, "AUTOGRAPH_UPDATE_STRATEGY": strategy})
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and done.report["patches"] > 0
    assert sum(done.report["updates_refused"].values()) == 0


def test_a_launch_records_the_event_in_a_stream_that_is_not_followed():
    command = [compiled.program("live_rule"), "launched_elsewhere"]
    plain = helpers.run(command, preload=False)
    done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_TRACE_YOUNG": 2,
                                            "CUDA_DEVICE_MAX_CONNECTIONS": 32})  # no two streams share one
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and done.report["replays"] > 0


def test_a_branch_comes_behind_an_op_that_found_no_room():
    """Its stream is no branch then, though it has been waited for before that op. Which op finds no room depends on
    chance: without that rule one run of eight or so finds a difference."""
    command = [compiled.program("live_rule"), "new_steps"]
    plain = helpers.run(command, preload=False)
    for memory in (256, 260, 264, 268):
        done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_TRACE_MEMORY": memory,
                                                **helpers.HASTY})
        assert (done.stdout, done.stderr) == (plain.stdout, "")
        assert done.report["errors"] == 0 and done.report["replays"] > 0


# Steps that found something: a wait that ends a graph, for an event that is destroyed later; an event that more
# streams use than are remembered. And: work that nobody counts, between a record and the wait for it.
FOUND = {None: {2037: 1, 319: 6}, "calls": {1921: 2}}


@pytest.mark.parametrize("calls", FOUND)
def test_random_steps(calls):
    """Each seed is a step that comes again and again: what it forks and joins is random."""
    count = helpers.by_scale(60, 120, 600, 1200)
    # a stream that did not join stays away, also in steps that follow
    for first, steps in [*FOUND[calls].items(), *((first, 6) for first in range(1, count, 6))]:
        command = [compiled.program("fork_random"), first, steps, *([calls] if calls else [])]
        plain = helpers.run(command, preload=False)
        done = helpers.run_logged(command, env={"AUTOGRAPH_TRACE_DUEL": "false"})
        assert (done.stdout, done.stderr) == (plain.stdout, "")
        assert done.report["errors"] == 0 and done.report["replays"] > 0


@pytest.mark.parametrize("memory", [0, 33])
@pytest.mark.parametrize("words", [["4", "6"], ["7", "6"], ["3", "6", "polls"], ["2", "4"], ["4", "6", "gone"],
                                   ["3", "6", "hosts"]])
def test_forks_do_not_wait_for_a_kernel_that_waits_for_the_host(words, memory):
    """In ever new shapes: each graph has several paths, which take room in the context, and queues while it runs."""
    command = [compiled.program("wide_forks"), *words]
    env = {"AUTOGRAPH_TRACE_DUEL": "false", "AGSIM_GRAPH_FREE": memory}
    plain, done = helpers.run(command, preload=False, env=env), helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and done.report["replays"] > 0


# While a kernel waits for the host: branches of a graph, execs that a context gives, and those that are destroyed,
# before one waits. What was measured, but for those to be destroyed: the simulated driver waits for each with branches.
ROOM = {1: (34, 34), 2: (17, 0), 3: (11, 0), 4: (8, 0), 6: (5, 0), 7: (4, 0), 8: (4, 0)}


@pytest.mark.parametrize("branches", ROOM)
def test_each_branch_takes_room_in_the_simulated_driver(branches):
    done = helpers.run([compiled.program("graph_room"), "room", branches, "4"], preload=False,
                       env={"AGSIM_GRAPH_FREE": 34})
    made, destroyed = ROOM[branches]
    assert done.stdout == f"{branches} branches of 4: {made} made, {destroyed} destroyed\n"


@pytest.mark.parametrize("words,connections,answer", [("2 1", 8, "run"), ("7 1", 8, "wait"), ("7 1", 32, "run"),
                                                      ("4 8", 8, "wait"), ("7 1 idle", 32, "run")])
def test_each_branch_takes_a_queue_in_the_simulated_driver(words, connections, answer):
    done = helpers.run([compiled.program("graph_room"), "queues", *words.split()], preload=False,
                       env={"CUDA_DEVICE_MAX_CONNECTIONS": connections})
    assert done.stdout.endswith(f": {answer}\n")

# SPDX-License-Identifier: MIT
"""Loops in which something differs from step to step: results stay, and no less is replayed than before.

pytest -rP shows the share of each.
"""
import pytest

import compiled
import helpers
import trace_records

# How much of a word's ops is replayed at least: without a wait in the loop, with one in each step. These are
# records, to be raised by whoever raises the shares; each is 0.01 to 0.02 below what was measured, rounded down.
# No four ops of `functions` come again: there only the results count. A record with timing is a call of its own where
# it begins a sequence, or comes right behind one.
FLOORS = {
    "regular": (0.98, 0.98), "grid": (0.98, 0.98), "block": (0.98, 0.98), "shared": (0.98, 0.98),
    "function": (0.88, 0.98), "left_out": (0.96, 0.98), "times": (0.97, 0.98), "memset_value": (0.98, 0.98),
    "memset_size": (0.98, 0.98), "memset_place": (0.98, 0.98), "memset_width": (0.98, 0.98),
    "copy_size": (0.98, 0.98), "copy_place": (0.98, 0.98), "anything": (0.8, 0.98), "grids": (0.95, 0.98),
    "functions": (0, 0), "batches": (0.95, 0.98), "tokens": (0.94, 0.98), "halving": (0.98, 0.98),
    "triangle": (0.98, 0.98), "nested": (0.97, 0.98), "left_early": (0.96, 0.98), "trees": (0.98, 0.98),
    "shuffled": (0.97, 0.98), "phases": (0.98, 0.98), "worklist": (0.99, 0.99), "pinned_up": (0.98, 0.98),
    "pinned_up_late": (0.97, 0.88), "pinned_down": (0.98, 0.98), "pageable_up": (0.98, 0.98),
    "read_back": (0.98, 0.98), "number_back": (0.98, 0.98), "numbers_back": (0.98, 0.98), "two_streams": (0.98, 0.98),
    "fork_and_join": (0.98, 0.98), "host_function": (0.98, 0.98), "allocate": (0.98, 0.98), "polled": (0.98, 0.98),
    "setters": (0.98, 0.98), "timed": (0.88, 0.88), "timed_and_read": (0.88, 0.88), "context_current": (0.98, 0.98),
    "asked": (0.98, 0.98), "memory_made": (0.98, 0.98), "events_made": (0.98, 0.98), "streams_made": (0.98, 0.98),
    "waits_for_each": (0.99, 0.99), "asks_after_each": (0.99, 0.99), "context_waits": (0.98, 0.98),
    "large_down": (0.98, 0.98), "places": (0.98, 0.98), "hole": (0.87, 0.87), "hole_at_times": (0.94, 0.94),
    "two_holes": (0.78, 0.78), "layers": (0.92, 0.97), "early_grid": (0.98, 0.98), "early_grids": (0.95, 0.98),
}
STEPS = 4000  # of each word: what it takes to learn a loop is little of them
OTHER_ADDRESSES = ["allocate",  # memory is allocated ahead of held work, and freed behind it
                   "pinned_down"]  # read back to a place of the library's own
FORKED = ["fork_and_join"]  # ops of a branch are in the graph of the stream that forked
MARKED = ["pageable_up"]  # the library records events behind its uploads, and the program records none


def program(*arguments, **options):
    return helpers.run_logged([compiled.program("irregular"), *arguments], **options)


def compared(word, wait, *steps, **env):
    """The report of a run whose results are those without the library."""
    without = program(word, wait, *steps, preload=False)
    done = program(word, wait, *steps, env={**helpers.HELD, **env})  # the share does not go by the clock
    assert (done.stdout, done.stderr) == (without.stdout, "")
    log = {stream: [op for op in ops if word not in MARKED or not op.startswith("op=record")]
           for stream, ops in done.log.items()}
    assert log == without.log or word in OTHER_ADDRESSES + FORKED
    assert helpers.work(log) == helpers.work(without.log) or word in OTHER_ADDRESSES
    assert done.report["ops"]["total"] > 400 and done.report["errors"] == 0
    return done.report


@pytest.mark.parametrize("wait", [0, 1], ids=["no_wait", "wait"])
@pytest.mark.parametrize("word", FLOORS)
def test_what_differs_costs_no_result_and_no_share(word, wait):
    ops = compared(word, wait, STEPS)["ops"]
    print(f"{word}, wait {wait}: {100 * ops['replayed'] / ops['total']:.1f} % of {ops['total']} ops replayed")
    assert ops["replayed"] >= FLOORS[word][wait] * ops["total"]


def test_one_graph_is_launched_with_all_grids():
    assert [compared(word, wait)["traces"] for word in ("grid", "early_grid") for wait in (0, 1)] == [1] * 4


def test_each_grid_has_its_graph_where_shapes_are_no_arguments():
    report = compared("grid", 1, STEPS, **helpers.OWN_SHAPES)
    assert 40 <= report["traces"] < 50
    assert 0.9 * report["ops"]["total"] < report["ops"]["replayed"] < 0.99 * report["ops"]["total"]


@pytest.mark.parametrize("wait", [0, 1], ids=["no_wait", "wait"])
@pytest.mark.parametrize("word", ["function", "anything"])
def test_a_loop_whose_iterations_differ_is_replayed_more_the_longer_it_lasts(word, wait):
    """Unrolled steps never come again. What comes again are the ops from one that is drawn to the next."""
    ops = compared(word, wait, 2 * STEPS)["ops"]
    assert ops["replayed"] > (0.9 if wait or word == "function" else 0.65) * ops["total"]


def test_what_comes_before_a_loop_leaves_no_short_graphs(tmp_path):
    """Many parts of `layers` begin alike. While they come by chance they get graphs of four ops and more; then a
    whole loop of 200 ops goes out in few graphs."""
    report = compared("layers", 0, STEPS)
    assert report["ops"]["replayed"] > 25 * report["replays"]


def test_what_is_held_before_a_hole_goes_out_in_several_graphs(tmp_path):
    """The op that cannot be held comes anywhere. What is held then need not begin a trace as a whole."""
    file = tmp_path / "trace"
    report = program("hole_at_times", 0, 1000, env={**helpers.HELD, "AUTOGRAPH_TRACE_FILE": file}).report
    submits = trace_records.Trace(file).submits
    assert sum(replayed for _, _, _, _, replayed, *_ in submits) == report["ops"]["replayed"]
    stream_barrier = 1
    parts = [this for before, this in zip(submits, submits[1:])
             if before[1] == this[1] == stream_barrier and before[2] == this[2] - this[3]]  # no op between them
    assert len(parts) > 10


def test_every_word_has_its_floors():
    words = helpers.run([compiled.program("irregular")], preload=False).stdout.split()
    assert words == list(FLOORS)
    assert helpers.run([compiled.program("irregular"), "no_such"], preload=False, status=1).stdout == ""


def test_what_is_irregular_depends_on_the_step_alone():
    """And no two that are irregular do what the other does."""
    runs = {word: [program(word, 0, 40, preload=False) for _ in range(2)] for word in FLOORS}
    assert all(first.stdout == second.stdout for first, second in runs.values())
    assert all(first.log == second.log for word, (first, second) in runs.items() if word not in OTHER_ADDRESSES)
    words = list(FLOORS)[:list(FLOORS).index("pinned_up")]
    assert len(words) > 20
    assert not [(word, other) for word in words for other in words
                if word < other and runs[word][0].log == runs[other][0].log]

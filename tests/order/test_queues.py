# SPDX-License-Identifier: MIT
"""Streams that share a queue of the device: what is held in one goes out before an op of another one."""
import pytest

import compiled
import helpers

KERNELS, COPIES = "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_MAX_COPY_CONNECTIONS"
STEPS = 300

# Queues (None: the variable is not set), and as many pairs of streams as make both of a pair share one.
SHARED = {None: 8, 1: 1, 2: 4, 4: 4, 8: 8, 32: 32}
KINDS = ["one", "threads", "blocking", "renew", "copies"]
DEFAULT_STREAMS = ["legacy", "per_thread"]  # only with one queue is it sure that they share one


def run(kind, *arguments, preload=True, queues=None, copies=None, sim=(), **env):
    """The report, or None without the library. "for ever": a kernel waits for one that is held."""
    env = {KERNELS: queues, COPIES: copies, "AUTOGRAPH_TRACE_LENGTH": "fixed",  # not by the clock
           # More graphs than an H200 has memory for, so that all pieces get theirs: the driver has it here.
           "AUTOGRAPH_GRAPH_FREE_EXECS": 256, "AGSIM_GRAPH_FREE": 300,
           # A thread asks about another one's stream, whose ops must go out.
           **({"AUTOGRAPH_HOLD_BOUND_US": 100000} if kind == "threads" else {}),
           **{f"AUTOGRAPH_{name}": value for name, value in env.items()},
           **dict(sim)}
    done = helpers.run_logged([compiled.program("shared_queues"), kind, *arguments], preload=preload, env=env,
                              status=None)
    assert (done.stdout, done.stderr) == ("ok\n", "")
    return done.report


def share(report):
    return report["ops"]["replayed"] / report["ops"]["total"]


def mean_length(report):
    return report["ops"]["replayed"] / report["replays"]


# -- The simulated driver ------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queues", SHARED)
def test_the_programs_end_without_the_library(kind, queues):
    run(kind, SHARED[queues], 100, preload=False, queues=queues)


# -- The order of submission -----------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queues", SHARED)
def test_no_kernel_waits_for_what_is_held(kind, queues):
    """The pieces between two turns to another stream come again, and are replayed. (Another thread's
    turns cut them at places of its own.)"""
    report = run(kind, SHARED[queues], STEPS, queues=queues)
    assert report["errors"] == 0
    assert kind == "threads" or share(report) > 0.8


@pytest.mark.parametrize("kind", DEFAULT_STREAMS)
def test_default_streams_share_queues_too(kind):
    """What a thread's own default stream holds must go out by another stream, where the thread does not
    do it: so where streams share queues it holds nothing."""
    assert share(run(kind, 2, STEPS, queues=1)) > {"legacy": 0.8, "per_thread": 0.5}[kind]


def test_the_program_itself_may_set_the_variable():
    assert share(run("sets", 2, STEPS)) > 0.8


def test_young_streams_share_queues_too():
    """Their ops pass, but not what is held elsewhere."""
    run("renew", 4, STEPS, queues=1, TRACE_YOUNG=1)


# -- How many streams are too many ---------------------------------------------------

@pytest.mark.parametrize("queues, copies, streams, legacy, cut", [
    (None, None, 8, 0, False), (None, None, 9, 0, True), (None, None, 7, 1, False), (None, None, 8, 1, True),
    (2, None, 2, 0, False), (2, None, 3, 0, True), (32, None, 32, 0, False), (32, None, 33, 0, True),
    (32, 4, 5, 0, True), (4, 32, 5, 0, True), (None, 32, 8, 0, False), (1, None, 2, 0, True),
    # What a driver makes of these nobody knows.
    (0, None, 2, 0, True), (33, None, 2, 0, True), ("", None, 2, 0, True), ("many", None, 2, 0, True),
    ("8x", None, 2, 0, True), (-1, None, 2, 0, True), (None, 0, 2, 0, True)])
def test_sequences_end_where_streams_may_share_a_queue(queues, copies, streams, legacy, cut):
    """Two streams are at work, and four ops go to one before the other. The default stream counts once
    it is used."""
    report = run("pace", 2, 600, streams - 2, 4, legacy, queues=queues, copies=copies)
    assert share(report) > 0.8
    assert (mean_length(report) <= 4) == cut
    assert report["flushes"]["shared_queue"] == 0


def test_processes_that_share_the_device_have_fewer_queues():
    assert mean_length(run("pace", 2, 600, 0, 4)) > 4
    assert mean_length(run("pace", 2, 600, 0, 4, sim={"AGSIM_MPS": 1})) <= 4


def test_streams_that_nothing_is_done_in_cost_nothing():
    few, many = (run("pace", 1, 2000, beside) for beside in (0, 60))
    assert share(few) > 0.9
    assert (few["ops"], few["replays"]) == (many["ops"], many["replays"])

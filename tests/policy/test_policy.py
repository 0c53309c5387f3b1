# SPDX-License-Identifier: MIT
"""The player of recorded programs (tests/policy): what the library decides, by a clock of its own."""
import json
import lzma
import statistics
import subprocess
import sys

import pytest

import compiled
import helpers

POLICY = helpers.SOURCE / "tests/policy"
sys.path.insert(0, str(POLICY))
import scenarios  # pylint: disable=wrong-import-position

# Sanitizers do not know that one thread at a time runs.
pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="the player stands in for C functions "
                                "that sanitizers watch")

CORPUS = sorted((POLICY / "corpus").glob("*.ops.xz"))


def play(text, *options, env=None):
    """What the player tells of a program, which is lines of text."""
    done = helpers.run([helpers.build_dir() / "tests/policy/play", *options], preload=False, sim=False, input=text,
                       env=env)
    return json.loads(done.stdout)


def shares(told):
    """Percent of the ops that were replayed, in each play."""
    return [100 * one["replayed"] / one["ops"] for one in told["library"]]


def times(told):
    """Of each play, by that of launches."""
    return [one["ns"] / eager["ns"] for one, eager in zip(told["library"], told["eager"])]


# -- The player -------------------------------------------------------------------

@pytest.mark.parametrize("name", ["sync", "read", "threads"])
def test_two_plays_are_equal(name):
    text = scenarios.SCENARIOS[name]()
    first, second = (play(text, "--seeds", 3, "--first", 5) for _ in range(2))
    assert first == second
    assert len({one["ns"] for one in first["library"]}) == 3  # and seeds differ


@pytest.mark.parametrize("ops, waits", [(16, True), (16, False), (40, True), (1, True)])
def test_counts_are_those_of_the_library(ops, waits):
    """Without what goes by time the library decides as in a process with the simulated driver."""
    env = {**helpers.HELD, **helpers.ON_SIMULATOR, "AUTOGRAPH_GRAPH_VARIANTS": "1"}
    done = helpers.run_logged([compiled.program("own_clock"), 60, ops, int(waits), 300, 100], env=env)
    one = play(scenarios.own_clock(60, ops, waits), "--no-plan", env=env)["library"][0]
    report = done.report
    assert [one[key] for key in ("ops", "replayed", "replays", "patches", "graphs")] == \
        [report["ops"]["total"], report["ops"]["replayed"], report["replays"], report["patches"], report["traces"]]


def test_a_program_that_is_none_is_refused():
    for text in ("nonsense\n", "context 1\nthread 1 1\n0 1 k 1 1\n", "thread 1 0\n0 1 e 1 1\n"):
        done = helpers.run(helpers.build_dir() / "tests/policy/play", preload=False, sim=False, input=text, status=2)
        assert "line" in done.stderr


# -- What the library makes of simple loops ------------------------------------------

@pytest.mark.parametrize("name, least, most_time", [("sync", 90, 0.6), ("plain", 90, 0.5), ("upload", 90, 0.5),
                                                    ("questions", 90, 0.3), ("threads", 80, 0.7), ("fork", 85, 0.4),
                                                    ("fork_sync", 90, 0.6), ("fork_single", 70, 0.8)])
def test_loops_gain(name, least, most_time):
    told = play(scenarios.SCENARIOS[name](), "--no-plan", "--seeds", 3)
    assert min(shares(told)) >= least
    assert max(times(told)) <= most_time


@pytest.mark.parametrize("name, least", [("phases", 88), ("steps", 96)])
def test_a_loop_is_found_soon(name, least):
    """Behind another loop, and around one of equal launches."""
    assert shares(play(scenarios.SCENARIOS[name](), "--no-plan"))[0] >= least


def test_a_loop_is_found_among_steps_that_differ_by_chance():
    told = [play(scenarios.choice(seed), "--no-plan") for seed in range(1, 9)]
    assert statistics.mean(shares(one)[0] for one in told) >= 72


@pytest.mark.parametrize("name", ["sync", "plain", "read", "upload"])
def test_a_loop_that_gains_much_is_held_whatever_the_noise(name):
    told = play(scenarios.SCENARIOS[name](), "--no-plan", "--seeds", helpers.by_scale(10, 20, 100, 200), "--first", 1)
    assert min(shares(told)) >= 85
    assert max(times(told)) <= 0.7


@pytest.mark.parametrize("layers", [8, 16, 24, 28])
def test_the_loop_is_that_from_wait_to_wait(layers):
    """A layer would be a loop whose arguments change in each round."""
    one = play(scenarios.tokens(layers, 150), "--no-plan")["library"][0]
    tokens = 150 * one["replayed"] / one["ops"]
    assert one["replays"] < 14 * tokens and one["patches"] < 0.05 * one["ops"]


def copies(kernels, events=0):
    """Copies from pinned memory with a wait behind each, and kernels and records in front of that."""
    p = scenarios.Program("copies")
    p.lines += [f"memory {scenarios.HOST:x} 1 {scenarios.HOST:x} 1048576 8",
                *(f"event {event} 0" for event in range(1, events + 1))]
    for _ in range(400):
        p.call("c", 1, 4, f"{scenarios.DEVICE:x}", 4, f"{scenarios.HOST:x}", 64, 1, 1, 0, 0, 0)
        for _ in range(kernels):
            p.kernel()
        for event in range(1, events + 1):
            p.call("e", 1, event)
        p.wait()
    return p.text()


def test_a_copy_from_the_host_is_no_graph_by_itself():
    assert shares(play(copies(0), "--no-plan")) == shares(play(copies(0, events=2), "--no-plan")) == [0]
    assert shares(play(copies(1), "--no-plan"))[0] > 80


def reads(awaited, steps=600, kernels=4):
    """Kernels and a copy to pinned memory, for which the host waits at once, or only in the next step."""
    p = scenarios.Program("reads")
    p.lines += [f"memory {scenarios.HOST:x} 1 {scenarios.HOST:x} 1048576 8", "event 1 0", "event 2 0"]
    for step in range(steps):
        for k in range(kernels):
            p.kernel(1 + k, (0, 0, k))
        p.call("r", 1, f"{scenarios.HOST:x}", f"{scenarios.DEVICE:x}", 8, 0)
        if awaited:
            p.wait()
        else:
            p.call("e", 1, 1 + step % 2)
            p.call("y", 1 + (step + 1) % 2)
    p.wait()
    return p.text()


@pytest.mark.parametrize("awaited", [True, False])
def test_copies_to_pinned_memory_are_read_back_if_the_host_waits(awaited):
    """By the library, and by the best plan."""
    told = play(reads(awaited))
    for way in "library", "plan":
        assert (told[way][0]["replayed"] > 600 * 4) == awaited, way


def test_what_never_repeats_loses_little():
    told = play(scenarios.never(), "--no-plan")
    assert shares(told) == [0]
    assert times(told)[0] <= 1.03


def test_the_best_plan_is_no_worse():
    for name in ("sync", "plain", "read", "upload"):
        told = play(scenarios.SCENARIOS[name]())
        assert told["plan"][0]["ns"] < 1.02 * told["library"][0]["ns"], name


# -- Recorded programs --------------------------------------------------------------

@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name.split(".")[0])
def test_recorded(path):
    """Each can be played, with noise too, and takes little more time than by launches."""
    told = play(lzma.decompress(path.read_bytes()).decode(), "--no-plan", "--seeds", 2)
    assert max(times(told)) <= 1.05
    assert all(one["ops"] > 100 for one in told["library"])


def test_table(tmp_path):
    file = tmp_path / "sync.ops.xz"
    file.write_bytes(lzma.compress(scenarios.sync(steps=50).encode()))
    player = helpers.build_dir() / "tests/policy/play"
    done = subprocess.run([sys.executable, POLICY / "table", "--seeds", "2", "--play", player, "--play", player, file, "fork"],
                          check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines[1:3]} == {"fork", "sync"}
    assert all(line.count("|") == 1 for line in lines[1:3])
    assert "within 1.10 of the best plan: " in done.stdout

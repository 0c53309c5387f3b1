# SPDX-License-Identifier: MIT
"""Threads and tasks with small stacks. The simulated driver's calls use as much stack as those of a real one
(tests/sim/stack.c)."""
import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer makes frames larger")

# Bytes that the library may use beyond the deepest call that the program makes itself: where held launches go out one
# by one, as many as an op and the way to its launch take.
ROOM = 1792

# The ways of tests/programs/small_stack.c, and the share of ops that is replayed at least.
LOOPS = {"launches": 0.9, "buffers": 0.9, "copies": 0.9, "uploads": 0.9, "reads": 0.9, "pinned": 0.9, "events": 0.9,
         "forks": 0.9, "words": 0.9, "turns": 0.6, "per_thread": 0.9}


def ran(way, env=None, **options):
    env = {"AGSIM_STACK": 1, **helpers.HELD, **(env or {})}
    return helpers.run_logged([compiled.program("small_stack"), way], env=env, **options)


def share(report):
    return report["ops"]["replayed"] / report["ops"]["total"]


@pytest.mark.parametrize("way", ["alone", "tasks"])
def test_tasks_with_small_stacks(way):
    plain, done = ran(way, preload=False), ran(way)
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.report["errors"] == 0 and share(done.report) >= 0.6


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", LOOPS)
def test_no_call_goes_much_deeper_than_the_programs_own(way, known, tmp_path):
    """Nor where an earlier run of the program is known."""
    env = {"AUTOGRAPH_TRACE_PROFILE": tmp_path / "profile"} if known else {}
    plain, done = ran(way, preload=False), ran(way, env)
    done = ran(way, env) if known else done
    *results, before = plain.stdout.split()
    *same, after = done.stdout.split()
    assert same == results and done.report["errors"] == 0 and share(done.report) >= LOOPS[way] - known * 0.1
    assert int(after) <= int(before) + ROOM

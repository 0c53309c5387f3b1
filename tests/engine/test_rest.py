# SPDX-License-Identifier: MIT
"""While a stream's recorder rests, its ops pass, but for those that begin a trace."""
import compiled
import helpers

LOOP, NOVEL = 2 * 60 * 16, 3000


FIXED = {"AGSIM_DELAY_US": 0, "AUTOGRAPH_TRACE_MEMORY": 256, "AUTOGRAPH_TRACE_LENGTH": "fixed",
         **helpers.OWN_SHAPES}


def test_a_loop_that_comes_back_is_replayed_at_once():
    command = [compiled.program("trace_rests"), NOVEL]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env=FIXED)
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["ops"]["total"] == LOOP + NOVEL
    assert done.report["ops"]["replayed"] >= LOOP - 4 * 16 and done.report["traces"] == 1


def test_what_passes_and_fails_has_nothing_to_do_with_what_did_not():
    """The op comes while the recorder rests."""
    command = [compiled.program("trace_rests"), NOVEL, 10, 3 + 16 - 10 + 4 + 2]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env={**FIXED, "AUTOGRAPH_TRACE_DUEL": "true",
                                            "AGSIM_LAUNCH_US": 20})
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    first = min(done.report["trace_list"], key=lambda trace: trace["number"])
    assert first["replays"] > 16 + 4 + 10


def questions(calls):
    """For the current context, one for each op that does not pass."""
    return int(dict(line.split()[:2] for line in calls.read_text().splitlines())["cuCtxGetCurrent"])


def test_copies_that_cannot_be_held_pass(tmp_path):
    """Without a question, but for the first ones and one in up to 257; a loop behind them is found."""
    uploads, steps = 1000, 200
    command = [compiled.program("foreign_copies"), uploads, steps]
    calls = tmp_path / "calls"
    env = {**FIXED, "AGSIM_CALLS": calls, "AUTOGRAPH_TRACE_MEMORY": 65536}
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    ops = done.report["ops"]
    assert ops["total"] == 2 * (uploads + 16 * steps)
    assert ops["replayed"] >= 16 * (2 * steps - 16 - 2 * 4)
    asked = questions(calls)
    helpers.run_logged([command[0], 20, steps], env=env)
    assert asked - questions(calls) < 100

# SPDX-License-Identifier: MIT
"""While a stream's recorder rests, its ops pass, but for those that begin a trace."""
import compiled
import helpers

LOOP, NOVEL = 2 * 60 * 16, 3000


def test_a_loop_that_comes_back_is_replayed_at_once():
    command = [compiled.program("trace_rests"), NOVEL]
    plain = helpers.run_logged(command, preload=False, env={"AGSIM_DELAY_US": 0})
    done = helpers.run_logged(command, env={"AGSIM_DELAY_US": 0, "AUTOGRAPH_TRACE_MEMORY": 256,
                                            "AUTOGRAPH_TRACE_LENGTH": "fixed",
                                            "AUTOGRAPH_HOLD_BOUND_US": 100000})
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["ops"]["total"] == LOOP + NOVEL
    assert done.report["ops"]["replayed"] >= LOOP - 4 * 16 and done.report["traces"] == 1

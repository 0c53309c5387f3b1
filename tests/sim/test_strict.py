# SPDX-License-Identifier: MIT
"""The simulated driver tells of calls of the library that may wait for the program's work (tests/sim/strict.c),
and a test fails then."""
import pytest

import compiled
import helpers
import strict

# What a program does that plays the library, and what is told of that.
KINDS = {"instantiate": "quiet", "create": "quiet", "unpin": "quiet", "load": "load", "synchronize": "wait",
         "fill": "room", "upload": "extra", "beside": "alone", "fetch": "fetch", "later": "fetch", "chain": "chain",
         "queues": "queues"}


def told(scenario, tmp_path, *ordered):
    """The kinds of what the simulated driver tells of the scenario, but for waits at its end."""
    file = tmp_path / "strict"
    program = compiled.program("strict_calls")
    helpers.run([program, scenario, *ordered], preload=False,
                env={"AGSIM_STRICT": file, "AGSIM_LIBRARY": f"{program.name}:0-1", "AGSIM_DELAY_US": 0})
    lines = [strict.FOUND.fullmatch(line).groups() for line in file.read_text().splitlines()]
    return {kind for kind, call, *_ in lines if call != "cuCtxSynchronize"}


@pytest.mark.parametrize("scenario", KINDS)
def test_what_may_wait_is_told(scenario, tmp_path):
    assert KINDS[scenario] in told(scenario, tmp_path)


@pytest.mark.parametrize("scenario", sorted(KINDS.keys() - {"beside", "later"}))
def test_what_waits_for_nothing_is_not_told(scenario, tmp_path):
    """Where all is done, or the program has ordered it so."""
    assert KINDS[scenario] not in told(scenario, tmp_path, "ordered")


def test_a_graph_too_many_fails_the_test():
    """With the library, whose options let it make more graphs than a context gives. The driver does not wait here."""
    limits = {"AUTOGRAPH_GRAPH_EXECS": 4096, "AUTOGRAPH_GRAPH_FREE_EXECS": 4096, "AUTOGRAPH_TRACE_UNROLL": 9,
              **helpers.OWN_SHAPES}
    with pytest.raises(AssertionError, match="quiet: cuGraphInstantiateWithFlags in instantiate < "):
        helpers.run([compiled.program("live_spin"), "stuck", 10], env=limits)


def test_a_wait_of_the_programs_own_is_none():
    """The library waits for the stream, as the program's copy would; a door that does not wait is no excuse."""
    assert strict.is_excused("wait", ["arrive", "ag_engine_read", "ag_door_cuMemcpyDtoH_v2"])
    assert not strict.is_excused("wait", ["arrive", "ag_engine_kernel", "ag_door_cuLaunchKernel"])
    assert not strict.is_excused("quiet", ["instantiate", "ag_door_cuStreamSynchronize"])
    assert not strict.is_excused("room", ["ag_stream_submit", "ag_overdue_look", "run"])

# SPDX-License-Identifier: MIT
"""Kernels that may begin before the one ahead of them has ended (programmatic stream serialization)."""
import pytest

import compiled
import helpers


@pytest.mark.parametrize("what", ["kernel", "chain", "copy", "event"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_follows_an_early_kernel_comes_behind_the_one_before(what, seed):
    """The early one may end first, which it does on the simulated driver in a graph."""
    env = {"AGSIM_EARLY": 1, "AGSIM_SEED": seed}
    done = helpers.run_logged([compiled.program("early_kernels"), what], env=env)
    assert (done.stdout, done.stderr) == ("0 of 200\n", "")
    assert done.report["replays"] > 100 and done.report["errors"] == 0

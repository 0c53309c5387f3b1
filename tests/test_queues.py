# SPDX-License-Identifier: MIT
"""Streams that share a queue of the device: what is held in one goes out before an op of another one."""
import pytest

import compiled
import helpers

VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
STEPS = 400

# Queues (None: the variable is not set), and as many pairs of streams as make both of a pair share one.
SHARED = {None: 8, 1: 1, 2: 4, 4: 4, 8: 8, 32: 32}
KINDS = ["one", "threads", "blocking", "renew", "copies"]


def run(kind, queues, pairs, steps=STEPS, preload=True, **env):
    """What the program prints, and the report."""
    env = {VARIABLE: queues, **{f"AUTOGRAPH_{name}": value for name, value in env.items()}}
    done = helpers.run_logged([compiled.program("shared_queues"), kind, pairs, steps], preload=preload,
                              env=env, status=None)
    assert done.stderr == ""
    return done.stdout, done.report


def share(report):
    return report["ops"]["replayed"] / report["ops"]["total"]


# -- The simulated driver ------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queues", SHARED)
def test_the_programs_end_without_the_library(kind, queues):
    assert run(kind, queues, SHARED[queues], steps=100, preload=False)[0] == "ok\n"

# SPDX-License-Identifier: MIT
"""Settings of functions and contexts: programs that set something in every step run as without the
library, and are replayed."""
import pytest

import compiled
import helpers

# The share of all ops that is replayed, at least. `refused` launches in 50 steps of 100 what the driver
# refuses, `many` has too many combinations, `leaves` leaves its sequences, and in `stacks` every exec is made
# anew after each fourth of the steps.
REPLAYED = {"again": 0.85, "layers": 0.85, "refused": 0.45, "carveouts": 0.85, "caches": 0.85,
            "contexts": 0.85, "many": 0, "kernels": 0.85, "both": 0.75, "leaves": 0.3, "beside": 0,
            "modules": 0.6, "libraries": 0.6, "stacks": 0.7, "preferred": 0.85, "resized": 0,
            "unloads": 0.6}


@pytest.mark.parametrize("strategy", ["auto", "exec_update", "set_params"])
@pytest.mark.parametrize("word", REPLAYED)
def test_nothing_changes(word, strategy):
    """Codes, memory, settings, and what each kernel that was executed had of its settings."""
    command = [compiled.program("settings"), word]
    plain = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command, env={"AUTOGRAPH_UPDATE_STRATEGY": strategy, "AUTOGRAPH_TRACE_LENGTH": "fixed"})
    assert done.stdout == plain.stdout
    if word not in ("beside", "resized"):  # there the settings depend on which thread is faster
        assert done.log == plain.log
    assert done.report["errors"] == 0
    ops = done.report["ops"]
    assert ops["replayed"] >= REPLAYED[word] * ops["total"], ops

# SPDX-License-Identifier: MIT
"""Memsets and copies without a stream: held where the host does not wait for them."""
import pytest

import compiled
import helpers

# The share of all ops that is replayed, at least. The host waits for calls in `reachable`, the driver refuses
# some in `refused`, and `memsets` has shapes of several rows, each with another value.
REPLAYED = {"memsets": 0.7, "copies": 0.8, "reachable": 0.6, "streams": 0.9, "refused": 0.5,
            "context_synchronizes": 0.3, "memory_synchronizes": 0.3}


@pytest.mark.parametrize("word", REPLAYED)
def test_nothing_changes(word):
    command = [compiled.program("default_stream"), word]
    plain = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command)
    assert done.stdout == plain.stdout
    assert done.log == plain.log
    assert done.report["errors"] == 0
    ops = done.report["ops"]
    assert ops["replayed"] >= REPLAYED[word] * ops["total"], ops

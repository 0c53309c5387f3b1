# SPDX-License-Identifier: MIT
"""Memory of another process, which may write there and take it back."""
import compiled
import helpers


def test_memory_of_another_process():
    command = [compiled.program("ipc_memory")]
    env = {"AGSIM_DELAY_US": 0, "AGSIM_IPC": 1, "AUTOGRAPH_TRACE_DUEL": "false"}
    plain = helpers.run_logged(command, preload=False, env=env)
    library = helpers.run_logged(command, env=env)
    assert (library.stdout, library.stderr, library.log) == (plain.stdout, "", plain.log)
    assert plain.stdout.count("closed: 1 1") == 4
    assert library.report["replays"] > 80 and library.report["errors"] == 0

# SPDX-License-Identifier: MIT
"""Host functions of streams, in which the driver permits little, and the library as little."""
import compiled
import helpers


def test_work_submitted_in_a_host_function():
    """It comes behind what the other stream holds, though nothing can be submitted from there."""
    program = compiled.program("live_callback")
    plain = helpers.run_logged([program], preload=False)
    library = helpers.run_logged([program])
    assert library.stdout == plain.stdout
    assert library.log == plain.log
    assert library.report["errors"] == 0 and library.report["replays"] > 0
    assert library.report["flushes"]["barrier"] > 0, "nothing was held when the function ran"


def test_what_ends_nothing_in_a_host_function():
    """The driver refuses the calls, and the library forgets nothing."""
    command = [compiled.program("report_callbacks"), "ends"]
    plain = helpers.run_logged(command, preload=False)
    library = helpers.run_logged(command, env=helpers.HELD)
    assert plain.stdout.startswith("800 " * 8)
    assert (library.stdout, library.log) == (plain.stdout, plain.log)
    assert library.report["errors"] == 0
    assert library.report["ops"]["replayed"] > 0.7 * library.report["ops"]["total"]

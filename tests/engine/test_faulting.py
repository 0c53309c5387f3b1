# SPDX-License-Identifier: MIT
"""Copies whose memory cannot be read or written, and handlers of SIGSEGV that jump away or go on."""
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+, \w+\}', (compiled.PROGRAMS / "faulting.c").read_text())


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="a sanitizer does not survive the handlers")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fault_in_a_copy_keeps_nobody(scenario):
    command = [compiled.program("faulting"), scenario]
    done = helpers.run_logged(command, env=helpers.HELD)
    assert done.stdout == helpers.run(command, preload=False).stdout
    ops = done.report["ops"]
    assert ops["replayed"] > 0.9 * ops["total"]
    if helpers.config()["nvcc"] or scenario.startswith("up"):  # copies to the host that are no ops do not count
        assert ops["total"] > 2700

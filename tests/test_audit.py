# SPDX-License-Identifier: MIT
"""Streams of which little is replayed are followed and left alone in turns: nothing changes but the time.
(tests/unit/test_audit.c has a clock of its own.)"""
import pathlib
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}', pathlib.Path(compiled.PROGRAMS, "live_audit.c").read_text())
# What is recorded takes longer than the launches that are saved.
SLOW = {"AGSIM_POINTER_US": 100, "AGSIM_LAUNCH_US": 10}
DOES_NOT_PAY = re.compile("following stream .* does not pay")
PAYS = re.compile("following stream .* pays")


def live(scenario, env):
    """The report, and how many streams were found not to pay, and to pay."""
    command = [compiled.program("live_audit"), scenario]
    env = {"AUTOGRAPH_TRACE_TRIAL": None, **helpers.PATIENT, "AUTOGRAPH_LOG_LEVEL": 2,
           "AGSIM_DELAY_US": 0, **env}
    plain = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.log) == (plain.stdout, plain.log)
    assert done.report["errors"] == 0
    return done.report, len(DOES_NOT_PAY.findall(done.stderr)), len(PAYS.findall(done.stderr))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_changes(scenario):
    report, *_ = live(scenario, {})
    assert report["trials"] > 0 and report["replays"] > 0


def test_a_stream_that_does_not_pay_rests():
    """Its traces are gone, and are made anew when it is followed again."""
    report, lost, _ = live("copies", SLOW)
    assert lost and report["replays"] > 0
    assert live("copies", {**SLOW, "AUTOGRAPH_TRACE_TRIAL": "false"})[1] == 0


@pytest.mark.parametrize("scenario", ["in_step", "apart"])
def test_threads_in_step_are_asked_about_though_all_is_replayed(scenario):
    """Launches are so slow that heads stay. Apart: neither holds its waits for the other."""
    report, lost, paid = live(scenario, {"AGSIM_LAUNCH_US": 40})
    assert report["given_up"] == lost and lost + paid > 0

# SPDX-License-Identifier: MIT
"""Programs whose clock stands still, goes back, or runs at another speed, by a library that is preloaded:
no wait of the library goes by it."""
import json

import pytest

import compiled
import helpers

CLOCKS = {"stands": "stands", "goes_back": "back", "slow": "0.01", "fast": "1000"}
PROGRAMS = {"watched": "live_clock", "captured": "live_clock", "ahead_beside": "live_beside",
            "exit_beside": "live_beside", "streams_beside": "live_beside", "shared_stream": "live_life",
            "threads": "live_life", "stepped_events": "live_event"}
# What the clock decides is what is faster, and here everything is held.
ENV = {"AUTOGRAPH_TRACE_UNROLL": 12, "AUTOGRAPH_TRACE_LENGTH": "fixed"}


def run(scenario, preload, **options):
    env = {**ENV, **options.pop("env", {})}
    if scenario in ("ahead_beside", "exit_beside"):
        env["AUTOGRAPH_TRACE_MAX_LENGTH"] = 12  # more graphs than the stream takes
    return helpers.run([compiled.program(PROGRAMS[scenario]), scenario], preload=preload, env=env, **options)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("scenario", PROGRAMS)
def test_nothing_waits_for_the_programs_clock(scenario, clock, tmp_path):
    report = tmp_path / "report.json"
    done = run(scenario, True, clock=compiled.clock("odd_clock"),
               env={"AGTEST_CLOCK": CLOCKS[clock], "AUTOGRAPH_REPORT": report})
    assert (done.stdout, done.stderr) == (run(scenario, False).stdout, "")
    counters = json.loads(report.read_text())
    assert counters["errors"] == 0
    assert counters["replays"] + sum(counters["flushes"].values()) > 0

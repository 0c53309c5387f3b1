# SPDX-License-Identifier: MIT
"""Every limit of launches, memsets and copies: below it, at it and above it the codes and the effects are
those expected, and the library changes neither. The programs run on a GPU too (run-gpu)."""
import re

import pytest

import compiled
import helpers

PROGRAMS = ("limits", "limits_memory")


def expected():
    """What is to be printed, by program and scenario."""
    parts = {}
    for program in PROGRAMS:
        for line in (compiled.PROGRAMS / f"{program}.expected").read_text().splitlines():
            if line.startswith("# "):
                lines = parts.setdefault((program, line[2:]), [])
            else:
                lines.append(line)
    return parts


LOOPS = [key for key in expected() if key[1].startswith("loop_")]


def run(key, **options):
    return helpers.run_logged([compiled.program(key[0]), key[1]], **options)


def replayed(key, **env):
    """Runs a loop with and without the library; the ops that were replayed."""
    plain = run(key, preload=False)
    done = run(key, env=env)
    assert plain.stdout.splitlines() == expected()[key]
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0
    return done.report["ops"]["replayed"]


@pytest.mark.parametrize("key", [key for key in expected() if key not in LOOPS], ids=" ".join)
def test_calls_nodes_and_execs(key):
    for preload in (False, True):
        done = helpers.run([compiled.program(key[0]), key[1]], preload=preload)
        assert done.stdout.splitlines() == expected()[key]


@pytest.mark.parametrize("strategy", ["auto", "set_params", "exec_update"])
@pytest.mark.parametrize("key", LOOPS, ids=" ".join)
def test_loops_along_a_limit(key, strategy):
    assert replayed(key, AUTOGRAPH_UPDATE_STRATEGY=strategy) > 500


def test_every_scenario_is_expected():
    for program in PROGRAMS:
        source = (compiled.PROGRAMS / f"{program}.c").read_text()
        assert [name for of, name in expected() if of == program] == re.findall(r'\{"(\w+)", \w+\}', source)

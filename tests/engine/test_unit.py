# SPDX-License-Identifier: MIT
"""Runs the unit tests in C: each tests/unit/test_*.c is a program."""
import pathlib

import pytest

import helpers

SOURCES = sorted(p.stem for p in (helpers.SOURCE / "tests/unit").glob("test_*.c"))


@pytest.mark.parametrize("name", SOURCES)
def test_unit(build, name):
    program = build / "tests" / "unit" / name
    assert program.exists(), f"{name} is not built: list it in tests/unit/local.mk"
    done = helpers.run(program, preload=False, sim=False, status=None)
    assert done.returncode == 0, done.stdout + done.stderr

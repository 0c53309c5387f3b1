# SPDX-License-Identifier: MIT
"""The library for tests that leaves out one rule at a time (tests/mutants): the library itself leaves out none."""
import subprocess
import sys

import helpers

MUTANTS = helpers.SOURCE / "tests/mutants"


def test_the_library_leaves_out_no_rule():
    assert b"AGTEST_MUTATION" not in (helpers.build_dir() / ".libs/libautograph.so").read_bytes()


def test_a_mutation_that_is_none_is_refused():
    done = subprocess.run([sys.executable, MUTANTS / "run", "--mutant", MUTANTS / "run", "no_such_rule"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no mutation no_such_rule" in done.stderr

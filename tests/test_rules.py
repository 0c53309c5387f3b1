# SPDX-License-Identifier: MIT
"""The rules of docs/semantics.md by number: each has a test, and each mutation of the library leaves one out."""
import re
import subprocess
import sys
import tomllib

import pytest

import helpers
import test_semantics

PAGE = test_semantics.DOCUMENT.read_text()
RULES = tomllib.loads((helpers.SOURCE / "tests/rules.toml").read_text())
MUTANTS = helpers.SOURCE / "tests/mutants"
MUTATION = r'^X\((\w+), (\w+),\s+"((?:[^"]|"\s+")*)"\)'
MUTATIONS = re.findall(MUTATION, (MUTANTS / "mutants.def").read_text(), flags=re.M)


def numbers(page):
    """The rules in the order of the page, and the rows of families and variables."""
    return re.findall(r"\*\*(R\d+):\*\*", page), re.findall(r"^\| ([FV]\d+) ", page, flags=re.M)


def places():
    """The names that the library's sources ask for."""
    source = "\n".join(path.read_text() for path in sorted((helpers.SOURCE / "src").rglob("*.[ch]")))
    return re.findall(r"\bAG_MUTANT\((?!name\))([a-z]\w*)\)", source)


def test_a_number_is_that_of_one_rule():
    rules, rows = numbers(PAGE)
    assert len(rules) > 150 and len(rows) > 80
    assert len({*rules, *rows}) == len(rules + rows)


def test_every_rule_has_tests():
    """A row names its own."""
    assert set(RULES) == set(numbers(PAGE)[0])
    assert [rule for rule, tests in RULES.items() if not any(test.startswith("test_") for test in tests)] == []
    rows = test_semantics.table(test_semantics.PARTS["Families"]) + \
        test_semantics.table(test_semantics.PARTS["Environment variables of CUDA"])
    assert {row[0].split()[0] for row in rows if test_semantics.quoted(row[-1])} == set(numbers(PAGE)[1])


@pytest.mark.parametrize("rule", RULES)
def test_tests_of_a_rule_exist(rule):
    assert [test for test in RULES[rule] if not test_semantics.is_there(test)] == []


def test_every_mutation_leaves_a_rule_out():
    names = [name for name, _, _ in MUTATIONS]
    assert len(names) > 60 and len(set(names)) == len(names)
    assert set(names) == set(places())
    assert {rule for _, rule, _ in MUTATIONS} <= set(RULES)


def test_the_library_leaves_out_no_rule():
    assert b"AGTEST_MUTATION" not in (helpers.build_dir() / ".libs/libautograph.so").read_bytes()


def test_a_mutation_that_is_none_is_refused():
    done = subprocess.run([sys.executable, MUTANTS / "run", "--library", helpers.library(), "no_such_rule"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no mutation no_such_rule" in done.stderr

# SPDX-License-Identifier: MIT
"""The rules of docs/semantics.md, the mutations that leave one out, and what was found."""
import collections
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "found.tsv"
HEAD = ("mutation", "rule", "test that fails", "random programs", "seed that fails", "how it fails")

Row = collections.namedtuple("Row", "name rule test programs seed how")


def rules():
    """Number, or title of a section, to tests: rules.toml. (Older Pythons cannot read TOML.)"""
    found, tests = {}, []
    for line in (HERE.parent / "rules.toml").read_text().splitlines():
        head = re.match(r'([RFV]\d+|"[^"]+") = ', line)
        if head:
            name = head[1].strip('"')
            assert name not in found, name
            tests = found[name] = []
            line = line[head.end():]
        if not line.startswith("#"):
            tests += re.findall(r'"([^"]+)"', line)
    return found


def mutations():
    """Name to rule and text, in the order of the list."""
    found = re.findall(r'^X\((\w+), (\w+),\s+"([^"]*)"\)', (HERE / "mutants.def").read_text(), flags=re.M)
    assert len({name for name, _, _ in found}) == len(found)
    return {name: (rule, what) for name, rule, what in found}


def rows():
    """The rows of the table, by mutation."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    return {line.partition("\t")[0]: Row(*line.split("\t")) for line in lines[2:]}

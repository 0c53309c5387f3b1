# SPDX-License-Identifier: MIT
"""Each file of tests has a budget, and the lists of scales.py name tests that are there."""
import re

import budget
import scales
from complaint import ROOT, complain

BUDGETS, SCALES = "tests/budget.toml", "tests/scales.py"


def complaints(tests=None):
    tests = tests or {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    budgets = budget.read()
    for name in sorted(set(tests) - set(budgets["normal"])):
        yield complain(f"tests/{name}", f"has no budget: add it to [normal] in {BUDGETS}")
    for section, files in budgets.items():
        for name in sorted(set(files) - set(tests)):
            yield complain(BUDGETS, f"[{section}]: there is no {name}: take it out", f'"{name}"')
    entries = [*scales.left_out("quick"), *scales.DRAWN, *scales.TOOLS]
    for entry in sorted(set(entries)):
        file, _, test = entry.partition("::")
        if file not in tests or test and not re.search(rf"def {test}\(", tests[file]):
            yield complain(SCALES, f"there is no {entry}: take it out", f'"{entry}"')
    for tool in sorted({tool for tools in scales.TOOLS.values() for tool in tools}):
        if not (ROOT / tool).exists():
            yield complain(SCALES, f"there is no {tool}: take it out", f'"{tool}"')

# SPDX-License-Identifier: MIT
"""What each file of tests costs in CPU seconds, and what it may cost: budget.toml.

CPU seconds are those of a test's process and of all processes that it has waited for. They do not go by the clock, so
a busy machine does not make a check fail; budgets are for the machine below, and a slower one has more.
"""
import pathlib
import re
import resource
import time

FILE = pathlib.Path(__file__).with_name("budget.toml")
MARGIN = 1.5       # of a budget: what is more is an error
REFERENCE = 0.009  # CPU seconds of calculate() on the machine that the budgets were measured on


def used():
    """CPU seconds of this process so far, and of its children that have ended."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def calculate():
    start = time.process_time()
    sum(number * number % 7 for number in range(250_000))
    return time.process_time() - start


def slowness():
    """How much slower this machine is than that of the budgets; 1 at least."""
    return max(1, min(calculate() for _ in range(9)) / REFERENCE)


def read(text=None):
    """{section: {file: seconds}}; no tomllib, which older Pythons lack."""
    found, section = {}, None
    for line in (FILE.read_text(encoding="utf-8") if text is None else text).splitlines():
        head, entry = re.fullmatch(r"\[(\w+)\]", line), re.fullmatch(r'"?([\w.]+)"? = (\d+)(?: +#.*)?', line)
        if head:
            section = found.setdefault(head[1], {})
        elif entry:
            section[entry[1]] = int(entry[2])
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"{FILE.name}: {line}")
    return found


def of(build, scale, sections=None):
    """{file: seconds} for a build (plain, clang or a sanitizer) at a scale; at night, and where none is set, nothing
    has a budget. What is not in the section "full" has that of "normal"."""
    sections = read() if sections is None else sections
    if not scale or scale == "night":
        return {}
    if build in ("plain", "clang"):
        return {**sections.get("normal", {}), **(sections.get("full", {}) if scale == "full" else {})}
    return sections.get(build.split(",")[0], {})


def over(costs, budgets, factor):
    """A line for each file that costs too much."""
    return [f"tests/{file} took {cost:.0f} CPU seconds and may take {budgets[file] * factor:.0f}: draw fewer cases, "
            f"or raise its budget in tests/{FILE.name}" for file, cost in sorted(costs.items())
            if file in budgets and cost > MARGIN * budgets[file] * factor]


def table(costs, cases, budgets, columns=3):
    """Lines: for each file its CPU seconds, its budget and its cases, the dearest first."""
    cells = [f"{cost:6.1f} of {budgets.get(file, '-'):>3} {cases[file]:5} {file[5:-3]}"
             for file, cost in sorted(costs.items(), key=lambda item: -item[1])]
    rows = -(-len(cells) // columns)
    for row in range(rows):
        yield "".join(f"{cell:<40}" for cell in cells[row::rows]).rstrip()

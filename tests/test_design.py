# SPDX-License-Identifier: MIT
"""docs/measurements.md and docs/design.md against the code: numbers of the policy, files, options."""
import re

import pytest

import helpers

SOURCES = [p for p in (helpers.SOURCE / "src").rglob("*") if p.suffix in (".c", ".h", ".def")]
POLICY = (helpers.SOURCE / "src/policy/policy.def").read_text()
ONE, BACKOFF = r"AG_POLICY\((AG_\w+), (.+?)", r"AG_BACKOFF\((AG_\w+), (\S+), \d+, [\d <]+"
NUMBERS = [found for row in (ONE, BACKOFF)
           for found in re.findall(rf'^{row}, (\w+), "([^"]+)"\)$', POLICY, flags=re.M)]  # a back-off's first
UNITS = set("""ops replays holds copies looks pairs points times nodes states
    streams bounds parts factor percent ns KiB""".split())
OPTIONS = (helpers.SOURCE / "src/config/options.def").read_text()
PAGES = {name: (helpers.SOURCE / "docs" / name).read_text() for name in ("design.md", "measurements.md")}
ROW = r"^\| `([\w.]+)` \| (\d+) \| .+ \|$"
ROWS = re.findall(ROW, PAGES["measurements.md"], flags=re.M)


def option(name):
    """The default of an option that is a number."""
    section, key = name.split(".")
    found = re.search(rf"^AG_OPT_INT\({section}, {key}, (\d+),", OPTIONS, flags=re.M)
    return int(found[1])


def number(name):
    """The value of a number of the policy."""
    values = {n: value for n, value, _, _ in NUMBERS}
    text = values[name]
    while re.search(r"[A-Z]", text):
        text = re.sub(r"\b[A-Z]\w*", lambda m: f"({values[m[0]]})", text)
    assert re.fullmatch(r"[\d\s()<*/+-]+", text), text
    return eval(text.replace("/", "//"))  # digits and operators only


@pytest.mark.parametrize("name, value", ROWS, ids=[name for name, _ in ROWS])
def test_number_is_that_of_the_code(name, value):
    assert int(value) == (option(name) if "." in name else number(name))


def test_each_number_of_the_policy_has_a_name_a_unit_and_a_reason():
    lines = re.findall(r"^AG_(?:POLICY|BACKOFF).*", POLICY, flags=re.M)
    assert len(NUMBERS) == len(lines) == len({name for name, *_ in NUMBERS}) > 30
    assert {unit for _, _, unit, _ in NUMBERS} == UNITS
    assert all(number(name) is not None for name, *_ in NUMBERS)


def test_each_number_of_the_policy_is_used():
    code = "\n".join(p.read_text() for p in SOURCES if p.suffix != ".def")
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    used = set(re.findall(r"\bAG_\w+", code + " ".join(value for _, value, _, _ in NUMBERS)))
    assert [name for name, *_ in NUMBERS if name not in used] == []


def test_no_number_of_the_policy_stands_elsewhere():
    """Times, and what grows: other constants of these folders are sizes and bits."""
    lost = []
    for path in SOURCES:
        if path.parent.name in ("engine", "graph", "policy", "trace"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            for body in re.findall(r"\benum\b[^{;]*{([^}]*)}", text):
                lost += [f"{path.name}: {name}" for name in re.findall(r"\b([A-Z]\w+)\s*=", body)
                         if re.search(r"_(NS|US|MS|OPS|FIRST|GROWS|LOOKS|TIMES|PAIRS)$", name)]
    assert lost == []


def test_every_row_is_read():
    table = PAGES["measurements.md"].partition("\n| number | value |")[2]
    assert len(ROWS) == len(re.findall(r"^\|", table, flags=re.M)) - 1 > 20  # below the line of dashes


@pytest.mark.parametrize("page", PAGES)
def test_sources_that_a_page_names_are_there(page):
    names = {p.name for p in SOURCES} | {p.name for p in (helpers.SOURCE / "src/preload").glob("*")}
    lost = [n for n in re.findall(r"`([\w/]+\.(?:c|h|def))`", PAGES[page]) if n.split("/")[-1] not in names]
    assert lost == []


@pytest.mark.parametrize("page", PAGES)
def test_options_that_a_page_names_are_there(page):
    named = re.findall(r"`((?:general|trace|update|hold|graph|report|log)\.\w+)(?: = [\w.]+)?`", PAGES[page])
    known = {f"{s}.{k}" for s, k in re.findall(r"^AG_OPT_\w+\((\w+), (\w+),", OPTIONS, flags=re.M)}
    files = {f"{p.parent.name}.{p.suffix[1:]}" for p in SOURCES}
    assert len(named) >= 3
    assert [n for n in named if n not in known | files and n.rsplit(".")[-1] not in ("c", "h")] == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_are_there(page):
    texts = {p.name: p.read_text() for p in (helpers.SOURCE / "tests").glob("test_*.py")}
    files = re.findall(r"\b(test_\w+\.py)\b", PAGES[page])
    functions = re.findall(r"\b(test_\w+)\b(?!\.py)", PAGES[page])
    assert [f for f in files if f not in texts] == []
    assert [f for f in functions if f"def {f}(" not in "".join(texts.values())] == []

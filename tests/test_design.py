# SPDX-License-Identifier: MIT
"""docs/measurements.md and docs/design.md against the code: numbers of the policy, files, options."""
import re

import pytest

import helpers

SOURCES = [p for p in (helpers.SOURCE / "src").rglob("*") if p.suffix in (".c", ".h", ".def")]
OPTIONS = (helpers.SOURCE / "src/config/options.def").read_text()
PAGES = {name: (helpers.SOURCE / "docs" / name).read_text() for name in ("design.md", "measurements.md")}
ROW = r"^\| `([\w.]+)` \| `([\w.]+)` \| (\d+) \| .+ \|$"
ROWS = re.findall(ROW, PAGES["measurements.md"], flags=re.M)


def option(name):
    """The default of an option that is a number."""
    section, key = name.split(".")
    found = re.search(rf"^AG_OPT_INT\({section}, {key}, (\d+),", OPTIONS, flags=re.M)
    return int(found[1])


def constants(file):
    """The enumerators of a file that have a value, as they are written."""
    text = re.sub(r"/\*.*?\*/", "", "".join(p.read_text() for p in SOURCES if p.name == file), flags=re.S)
    bodies = re.findall(r"\benum\b[^{;]*{([^}]*)}", text)
    return dict(re.findall(r"\b([A-Z]\w+)\s*=\s*([^,}]+)", ",".join(bodies)))


def constant(file, name):
    known = constants(file)
    text = known[name].strip()
    while re.search(r"[A-Z]", text):
        text = re.sub(r"\b[A-Z]\w*", lambda m: f"({known[m[0]].strip()})", text)
    assert re.fullmatch(r"[\d\s()<*/+-]+", text), text
    return eval(text.replace("/", "//"))  # digits and operators only


@pytest.mark.parametrize("file, name, value", ROWS, ids=[f"{f}:{n}" for f, n, _ in ROWS])
def test_policy_number_is_that_of_the_code(file, name, value):
    is_option = file == "options.def"
    assert int(value) == (option(name) if is_option else constant(file, name))


def test_every_row_is_read():
    table = PAGES["measurements.md"].partition("\n| where | name |")[2]
    assert len(ROWS) == len(re.findall(r"^\|", table, flags=re.M)) - 1 > 30  # below the line of dashes


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

# SPDX-License-Identifier: MIT
"""docs/semantics.md and families.toml against the code: every driver function belongs to one family, and the functions
of a family have one class."""
import ast
import collections
import fnmatch
import functools
import re

import helpers
from complaint import ROOT, at_least, build, complain
from documents import long_or_nouns

PAGE, FUNCTIONS = "docs/semantics.md", "tests/families.toml"
DOCUMENT = ROOT / PAGE
TESTS = ROOT / "tests"
COMPLETE_SINCE = 13000  # CUDA_VERSION; older headers lack functions that the document names
TABLE = "src/preload/classes.def"
CLASSIFY = f"look at what it does, give it a row in {TABLE} (or none), and name it in {FUNCTIONS}"

Family = collections.namedtuple("Family", "name patterns why word kind")


# -- The document ---------------------------------------------------------------

def sections(mark, text):
    """Heading to text, for headings that begin so."""
    parts = re.split(rf"^{mark} (.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


PARTS = sections("##", DOCUMENT.read_text())
RULES = sections("###", PARTS["Ordering rules"])


def table(text):
    """The cells of each row below the heading of a section's tables."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    heads = [i - 1 for i, row in enumerate(cells) if set("".join(row)) <= set("- ")]
    return [row for i, row in enumerate(cells) if i not in heads and i - 1 not in heads]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def entries(file, key):
    """Of a table of lists, {key: list}. (Older Pythons cannot read TOML.)"""
    found = re.findall(rf"^({key}) = (\[.*?\])$", (ROOT / file).read_text(), flags=re.M | re.S)
    return {name.strip('"'): ast.literal_eval(items) for name, items in found}


def read_families():
    """{number: (calls, functions, why)}. (Older Pythons cannot read TOML.)"""
    found = re.findall(r"^\[(F\d+)\]\ncalls = (\"[^\"\n]*\")\nfunctions = (\[.*?\])\nwhy = ('+[^'].*?'+)$",
                       (ROOT / FUNCTIONS).read_text(), flags=re.M | re.S)
    return {number: [ast.literal_eval(each) for each in row] for number, *row in found}


READ = read_families()


def numbers_of(name):
    """A name that a family gives comes before one without its version, and both before a pattern."""
    name = re.sub(r"_pt[sd][sz]$", "", name)
    plain = re.sub(r"_v\d$", "", name)
    for spelled in (name, plain):
        found = [number for number, (_, patterns, _) in READ.items() if spelled in patterns]
        if found:
            return found
    return [number for number, (_, patterns, _) in READ.items() if any(fnmatch.fnmatchcase(plain, p) for p in patterns)]


def with_classes():
    """{number: family}. Its class is that of its first row in the class table; without a row it is a full barrier."""
    words = {quoted(row)[0] if quoted(row) else "BARRIER": word for word, row, _ in table(PARTS["Classes"])}
    kinds = {}
    for kind, name in re.findall(r"^([A-Z_]+)\((\w+)", (ROOT / TABLE).read_text(), flags=re.M):
        for number in numbers_of(name):
            kinds.setdefault(number, kind)
    return {number: Family(f"{number} {calls}", patterns, " ".join(why.split()), words[kind], kind)
            for number, (calls, patterns, why) in READ.items() for kind in [kinds.get(number, "BARRIER")]}


FAMILIES = with_classes()


def families_of(name):
    return [FAMILIES[number] for number in numbers_of(name)]


# -- Functions ------------------------------------------------------------------

def slots():
    """What the build has made of the CUDA headers and the class table: name to class."""
    text = (build() / "src/preload/slots.inc").read_text()
    return dict(re.findall(r"^AG_SLOT\((\w+), (\w+), ", text, flags=re.M))


ANSWERS = {"OP": {"held", "stream first", "passes"}, "QUERY": {"passes"}, "FUNCTION": {"passes"},
           "STREAM": {"stream first"}, "DEFAULT_STREAM": {"stream first"}, "DEVICE_COPY": {"stream first"},
           "EVENT": {"all first"}, "ALLOCATION": {"all first"}, "BARRIER": {"all first"},
           "WRAP": {"stream first", "all first", "passes"}}


def of_functions():
    """Every function belongs to one family, whose class is that of the class table."""
    for name, kind in slots().items():
        families = families_of(name)
        if len(families) != 1:
            said = ", ".join(f.name for f in families) or "no family"
            yield complain(FUNCTIONS, f"{name} belongs to {said}: {CLASSIFY}")
        elif kind != families[0].kind:
            yield complain(FUNCTIONS, f"{name} is {kind} in the class table, and {families[0].name} is {families[0].kind}",
                           f"[{families[0].name.split()[0]}]")
    yield from at_least(70, FAMILIES, FUNCTIONS)
    for number, family in FAMILIES.items():
        row = f"[{number}]"
        if len(family.why) <= 20:
            yield complain(FUNCTIONS, f"{family.name}: say why, or name a rule", row)
        for referred in re.findall(r'[Ss]ee "([^"]+)"', family.why):
            if referred not in {*RULES, *PARTS}:
                yield complain(FUNCTIONS, f"{family.name}: there is no section {referred}", row)
        for wrong in long_or_nouns(FUNCTIONS, family.why):
            yield complain(FUNCTIONS, wrong, row)
        if not family.patterns:
            yield complain(FUNCTIONS, f"{family.name}: name its functions", row)
    for number in set(re.findall(r"^\[(.*)\]$", (ROOT / FUNCTIONS).read_text(), flags=re.M)) - set(FAMILIES):
        yield complain(FUNCTIONS, f"{number} needs calls, functions and why, in this order", f"[{number}]")


def of_everyday_calls():
    """The answer is that of the class."""
    rows = table(PARTS["Everyday calls"])
    yield from at_least(5, rows, PAGE)
    for call, functions, answer, but in rows:
        kinds = [family.kind for name in quoted(functions) for family in families_of(name)]
        if len(kinds) != len(quoted(functions)) or not all(answer in ANSWERS[kind] for kind in kinds) or not (
                answer != "passes" or but or set(kinds) <= {"QUERY", "WRAP"}):
            yield complain(PAGE, f"{call}: the class of these functions has another answer than {answer}", f"| {call} |")


def of_names():
    """Every name is a function of the headers, if these are as new as the page."""
    header = open(f"{helpers.config()['cuda']}/include/cuda.h", encoding="utf-8").read()
    if int(re.search(r"^#define CUDA_VERSION (\d+)", header, flags=re.M)[1]) < COMPLETE_SINCE:
        return
    plain = {re.sub(r"(_v\d)?(_pt[sd][sz])?$", "", name) for name in slots()}
    for pattern in (p for f in FAMILIES.values() for p in f.patterns):
        if pattern not in slots() and not fnmatch.filter(plain, pattern):
            yield complain(FUNCTIONS, f"no function is called {pattern}: take it out", f'"{pattern}"')


def untested_doors(text, tests):
    """The functions of each row of a table of doors, if tests name none of them, in any form or version."""
    rows = re.sub(r"^shape .*?^end$|/\*.*?\*/", "", text, flags=re.M | re.S)
    called = {re.sub(r"(_v\d)?(_pt[sd][sz])?$", "", name) for name in re.findall(r"\bcu[A-Z]\w+", tests)}
    for row in re.findall(r"^\S.*(?:\n .*)+", rows, flags=re.M):
        names = re.findall(r"^    (cu[A-Z]\w+)\(", row, flags=re.M)
        if names and not {re.sub(r"_v\d$", "", name) for name in names} & called:
            yield names


def of_doors():
    tests = "\n".join(p.read_text() for pattern in ("test_*.py", "programs/*.c") for p in TESTS.rglob(pattern))
    tables = sorted((ROOT / "src/preload").glob("*.doors"))
    yield from at_least(5, tables, "src/preload")
    for table_of_doors in tables:
        for names in untested_doors(table_of_doors.read_text(), tests):
            yield complain(table_of_doors.relative_to(ROOT), f"no test calls {' or '.join(names)}: name the call in "
                           "tests/preload/test_doors.py", f"{names[0]}(")


# -- Proofs -----------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def contents(file):
    """The functions of a test file, and all its strings."""
    tree = ast.parse(next(TESTS.rglob(file)).read_text())
    return ({n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)},
            {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)})


@functools.lru_cache(maxsize=None)
def fuzzed():
    """Statements, and enumerators that say how they are done, which the fuzzer's sources use."""
    header = (TESTS / "fuzz/program.h").read_text()
    statements = re.findall(r'\bX\((\w+), "', header)
    enumerators = re.findall(r"\b[A-Z]+_\w+", " ".join(re.findall(r"\benum\b[^{;]*{([^}]*)}", header)))
    used = set(re.findall(r"\w+", "".join(p.read_text() for p in (TESTS / "fuzz").glob("*.c"))))
    return {name for name in statements if f"S_{name}" in used} | (set(enumerators) & used)


def is_there(proof):
    fuzz = re.fullmatch(r"fuzz:(\w+)", proof)
    if fuzz:
        return fuzz[1] in fuzzed()
    test = re.fullmatch(r"(test_\w+\.py)::(test_\w+)(?:\[([\w-]+)\])?", proof)
    if not test or next(TESTS.rglob(test[1]), None) is None:
        return False
    functions, strings = contents(test[1])
    return test[2] in functions and (not test[3] or test[3] in strings)


def numbers():
    """The rules in the order of the page, and its rows of variables."""
    page = DOCUMENT.read_text()
    return re.findall(r"\*\*(R\d+):\*\*", page), re.findall(r"^\| (V\d+) ", page, flags=re.M)


def of_rules():
    """Each section has rules, and says why a program cannot tell; rules that the page refers to are there."""
    yield from at_least(40, RULES, PAGE)
    for title, text in RULES.items():
        for part, missing in ((r"\*\*R\d+:\*\*", "give its rules numbers"), (r"^\*Why:\*", "say why a program cannot tell")):
            if not re.search(part, text, flags=re.M):
                yield complain(PAGE, f"{title}: {missing}", f"### {title}")
    there = {*FAMILIES, *(number for part in numbers() for number in part)}
    for file in (PAGE, FUNCTIONS):
        for number in sorted(set(re.findall(r"\b[RFV]\d+\b", (ROOT / file).read_text())) - there):
            yield complain(file, f"there is no rule {number}", number)


def complaints():
    for part in (of_functions, of_doors, of_everyday_calls, of_names, of_rules):
        yield from part()

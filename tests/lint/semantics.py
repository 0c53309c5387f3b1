# SPDX-License-Identifier: MIT
"""docs/semantics.md against the code: every driver function belongs to one family there, with the
class that the class table gives it, and every proof that it names exists."""
import ast
import collections
import fnmatch
import functools
import re

import helpers
from complaint import ROOT, at_least, build, complain

PAGE = "docs/semantics.md"
DOCUMENT = ROOT / PAGE
TESTS = ROOT / "tests"
COMPLETE_SINCE = 13000  # CUDA_VERSION; older headers lack functions that the document names
CLASSIFY = "look at what it does, give it a row in src/preload/classes.def (or none: a full barrier), and name it here"

Family = collections.namedtuple("Family", "name patterns kind why proofs")


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


def read_families():
    classes = {word: quoted(row)[0] if quoted(row) else "BARRIER"
               for word, row, _ in table(PARTS["Classes"])}
    return [Family(name, quoted(functions), classes[word], why, proofs)
            for name, functions, word, why, proofs in table(PARTS["Families"])]


FAMILIES = read_families()


def families_of(name):
    """A name that a row gives comes before one without its version, and both before a pattern."""
    name = re.sub(r"_pt[sd][sz]$", "", name)
    plain = re.sub(r"_v\d$", "", name)
    for spelled in (name, plain):
        found = [f for f in FAMILIES if spelled in f.patterns]
        if found:
            return found
    return [f for f in FAMILIES if any(fnmatch.fnmatchcase(plain, p) for p in f.patterns)]


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
            yield complain(PAGE, f"{name} belongs to {said}: {CLASSIFY}")
        elif kind != families[0].kind:
            yield complain(PAGE, f"{name} is {kind} in the class table, and {families[0].kind} in \"{families[0].name}\"",
                           f"| {families[0].name} |")
    for family in FAMILIES:
        referred = re.fullmatch(r'(?:.*\. )?See "(.*)" below.*', family.why)
        if referred[1] not in RULES if referred else len(family.why) <= 20:
            yield complain(PAGE, f"{family.name}: say why, or name a rule that is there", f"| {family.name} |")


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
    for pattern in (p for f in FAMILIES for p in f.patterns):
        if pattern not in slots() and not fnmatch.filter(plain, pattern):
            yield complain(PAGE, f"no function is called {pattern}: take it out", f"`{pattern}`")


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


def of_proofs():
    """Each family and each rule has some, and all that are named exist."""
    yield from at_least(11, RULES, PAGE)
    for name, proofs in [*((f.name, f.proofs) for f in FAMILIES),
                         *((title, text.partition("*Proved by:*")[2]) for title, text in RULES.items())]:
        if not quoted(proofs):
            yield complain(PAGE, f"{name}: name a test that proves it", f"| {name} |", f"### {name}")
        for proof in quoted(proofs):
            if not is_there(proof):
                yield complain(PAGE, f"there is no test {proof}", proof)
    for proof in quoted(PARTS.get("Known gaps", "")):
        if not is_there(proof):
            yield complain(PAGE, f"there is no test {proof}", proof)
    for title, text in RULES.items():
        if "*The program cannot tell:*" not in text:
            yield complain(PAGE, f"{title}: say why the program cannot tell", f"### {title}")


def complaints():
    for part in (of_functions, of_everyday_calls, of_names, of_proofs):
        yield from part()

# SPDX-License-Identifier: MIT
"""docs/semantics.md against the code: every driver function belongs to one family there, with the
class that the class table gives it, and every proof that it names exists."""
import ast
import collections
import fnmatch
import functools
import re

import pytest

import helpers

DOCUMENT = helpers.SOURCE / "docs/semantics.md"
TESTS = helpers.SOURCE / "tests"
COMPLETE_SINCE = 13000  # CUDA_VERSION; older headers lack functions that the document names
CLASSIFY = ("These functions are handled correctly. Look at what they do, give them a row in "
            "src/preload/classes.def (or none: a full barrier), and name them in docs/semantics.md")

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
    text = (helpers.build_dir() / "src/preload/slots.inc").read_text()
    return dict(re.findall(r"^AG_SLOT\((\w+), (\w+), ", text, flags=re.M))


def test_every_function_belongs_to_one_family():
    lost = {name: [f.name for f in families_of(name)] for name in slots()
            if len(families_of(name)) != 1}
    assert not lost, CLASSIFY


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_class_is_that_of_the_class_table(family):
    members = {name: kind for name, kind in slots().items() if families_of(name) == [family]}
    assert not {n: k for n, k in members.items() if k != family.kind}, CLASSIFY
    referred = re.fullmatch(r'(?:.*\. )?See "(.*)" below.*', family.why)
    assert len(family.why) > 20 if not referred else referred[1] in RULES


ANSWERS = {"OP": {"held", "stream first", "passes"}, "QUERY": {"passes"}, "FUNCTION": {"passes"},
           "STREAM": {"stream first"}, "DEFAULT_STREAM": {"stream first"}, "DEVICE_COPY": {"stream first"},
           "EVENT": {"all first"}, "ALLOCATION": {"all first"}, "BARRIER": {"all first"},
           "WRAP": {"stream first", "all first", "passes"}}


@pytest.mark.parametrize("call, functions, answer, but", table(PARTS["Everyday calls"]),
                         ids=[row[0] for row in table(PARTS["Everyday calls"])])
def test_answer_of_an_everyday_call_is_that_of_its_class(call, functions, answer, but):
    kinds = [family.kind for name in quoted(functions) for family in families_of(name)]
    assert len(kinds) == len(quoted(functions)) and all(answer in ANSWERS[kind] for kind in kinds)
    assert answer != "passes" or but or set(kinds) <= {"QUERY", "WRAP"}


def test_every_name_is_a_function():
    header = f"{helpers.config()['cuda']}/include/cuda.h"
    with open(header, encoding="utf-8") as text:
        version = int(re.search(r"^#define CUDA_VERSION (\d+)", text.read(), flags=re.M)[1])
    if version < COMPLETE_SINCE:
        pytest.skip("the header is older than the document")
    plain = {re.sub(r"(_v\d)?(_pt[sd][sz])?$", "", name) for name in slots()}
    unused = [p for f in FAMILIES for p in f.patterns
              if p not in slots() and not fnmatch.filter(plain, p)]
    assert unused == []


@pytest.mark.parametrize("name", ["cuNotYet", "cuMemNotYet", "cuMemNotYetAsync", "cuStreamNotYet",
                                  "cuLaunchNotYet", "cuEventNotYet", "cuCtxNotYet", "cuGraphNotYet",
                                  "cuMemcpyNotYetAsync", "cuMemPoolNotYet", "cuDeviceNotYet"])
def test_a_new_function_is_noticed(name):
    """No pattern is so wide that it would take in what nobody has looked at."""
    assert families_of(name) == []


def test_a_new_version_is_noticed():
    """It belongs to its family, and is a barrier until it is classified: other classes object."""
    assert families_of("cuLaunchKernel_v9") == families_of("cuLaunchKernel") != []
    assert families_of("cuLaunchKernel")[0].kind != "BARRIER"


# -- Proofs -----------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def contents(file):
    """The functions of a test file, and all its strings."""
    tree = ast.parse((TESTS / file).read_text())
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
    if not test or not (TESTS / test[1]).exists():
        return False
    functions, strings = contents(test[1])
    return test[2] in functions and (not test[3] or test[3] in strings)


@pytest.mark.parametrize("proofs", [*(f.proofs for f in FAMILIES),
                                    *(t.partition("*Proved by:*")[2] for t in RULES.values())],
                         ids=[*(f.name for f in FAMILIES), *RULES])
def test_proofs_exist(proofs):
    assert quoted(proofs)
    assert [p for p in quoted(proofs) if not is_there(p)] == []


def test_gaps_name_tests():
    assert [p for p in quoted(PARTS.get("Known gaps", "")) if not is_there(p)] == []


@pytest.mark.parametrize("proof", ["test_none.py::test_x", "test_doors.py::test_none", "fuzz:NONE",
                                   "test_doors.py::test_disabled[nowhere]", "test_doors.py", "KERNEL"])
def test_a_missing_proof_is_noticed(proof):
    assert not is_there(proof)


def test_every_rule_says_why():
    assert len(RULES) > 10
    assert [t for t, text in RULES.items() if "*The program cannot tell:*" not in text] == []

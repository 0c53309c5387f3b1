# SPDX-License-Identifier: MIT
"""The rules and variables of docs/semantics.md and the families of families.toml, by number: each has a test
(rules.toml), and each mutation of the library leaves a rule out (mutants.def)."""
import re

import semantics
from complaint import ROOT, at_least, complain

PAGE, RULES, MUTANTS = semantics.PAGE, "tests/rules.toml", "tests/mutants/mutants.def"
FOUND = "tests/mutants/found.tsv"
MUTATION = r'^X\((\w+), (\w+),\s+"((?:[^"]|"\s+")*)"\)'


def tests_of_rules():
    """{number, or title of a section: proofs}."""
    return semantics.entries(RULES, r'[RFV]\d+|"[^"]+"')


def twice(names):
    return sorted({name for name in names if names.count(name) > 1})


def of_rules():
    rules, rows = semantics.numbers()
    rows += semantics.FAMILIES
    tests = tests_of_rules()
    yield from at_least(150, rules, PAGE)
    yield from at_least(80, rows, PAGE)
    for number in twice(rules + rows):
        yield complain(PAGE, f"{number} stands twice: give the later one a new number", number)
    named = {*rules, *rows}
    for rule in sorted(named - set(tests)):
        yield complain(PAGE, f"{rule} has no test: name one in {RULES}, or write one", f"**{rule}:**", f"| {rule} ")
    for rule in sorted(set(tests) - named - set(semantics.RULES)):
        yield complain(RULES, f"there is no rule or section {rule}: take it out", f"{rule} =", f'"{rule}" =')
    for rule, proofs in tests.items():
        if not any(proof.startswith("test_") for proof in proofs) and rule in named:
            yield complain(RULES, f"{rule}: name a test, not random programs alone", f"{rule} =")
        for proof in proofs:
            if not semantics.is_there(proof):
                yield complain(RULES, f"{rule}: there is no test {proof}", proof)


def of_mutations():
    mutations = re.findall(MUTATION, (ROOT / MUTANTS).read_text(), flags=re.M)
    names = [name for name, _, _ in mutations]
    source = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.[ch]")))
    places = set(re.findall(r"\bAG_MUTANT\((?!name\))([a-z]\w*)\)", source))
    yield from at_least(60, names, MUTANTS)
    for name in [*twice(names), *sorted(set(names) ^ places)]:
        yield complain(MUTANTS, f"{name}: have one entry here and AG_MUTANT({name}) in src/", f"X({name},")
    for name, rule, _ in mutations:
        if rule not in tests_of_rules():
            yield complain(MUTANTS, f"{name}: there is no rule {rule}", f"X({name},")


# Mutations that neither their tests nor the random programs of the table have found, with what is known. A list may
# only get shorter.
UNSEEN = {
    "relays_take_no_queue": "not looked into",
    "word_wait_leaves_held": "streams that share a queue submit what others hold anyway (R70)",
    "ring_taken_at_once": "the scenario \"ring\" of live_order.c does not overwrite bytes that a copy still reads",
    "unsure_grows": "tests/unit/test_helper.c counts, and does not run with mutations",
    "grows_beside_threads": "not looked into",
    "threads_are_done": "not looked into",
    "exit_leaves_held": "not looked into",
    "held_is_done": "not looked into",
    "capture_waits_for_nobody": "not looked into",
}


def of_found():
    """The table has a row for each mutation, with a test or a random program that fails."""
    rows = [line.split("\t") for line in (ROOT / FOUND).read_text().splitlines()[2:]]
    rules = {name: rule for name, rule, _ in re.findall(MUTATION, (ROOT / MUTANTS).read_text(), flags=re.M)}
    for name in sorted(set(rules) ^ {row[0] for row in rows}):
        yield complain(FOUND, f"{name}: run tests/mutants/run {name}", name)
    for name, rule, test, _, seed, *_ in rows:
        if rules.get(name, rule) != rule:
            yield complain(FOUND, f"{name} is of {rules[name]}: run tests/mutants/run {name}", name)
        if test != "-" and not semantics.is_there(re.sub(r"\[.*", "", test)):
            yield complain(FOUND, f"{name}: there is no test {test}", name)
        if (test == seed == "-") != (name in UNSEEN):
            yield complain(FOUND, f"{name}: find it, or say in tests/lint/rules.py why nothing does", name)


def complaints():
    yield from of_rules()
    yield from of_mutations()
    yield from of_found()

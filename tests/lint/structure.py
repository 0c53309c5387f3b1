#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how the C code is laid out: functions, files, circles by include, and the states of streams.

usage: structure.py

Prints a table for src/ and tests/; complaints() holds src/ to the limits. A function is what clang-format makes
of one: from a line "{" to a line "}". Nothing needs to be installed for this.
"""
import collections
import pathlib
import re

import c_files
from complaint import ROOT, at_least, build, complain

MOST_LINES = 60        # of a function, from brace to brace
MOST_COMPLEXITY = 15   # of a function: its branches, and one
MOST_FILE_LINES = 600

Function = collections.namedtuple("Function", "file name lines complexity")


# -- Functions and files --------------------------------------------------------

def plain(text):
    """C code with its lines, without comments and what is quoted."""
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    return re.sub(r"//.*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", '""', text)


def functions(name, text):
    """The functions of a file."""
    for found in re.finditer(r"^(?P<head>[^\s#}{][^;{}]*)\n(?P<body>{\n.*?^}$)", plain(text), flags=re.M | re.S):
        head = re.sub(r"__attribute__\(\(.*?\)\)+", "", found["head"])
        called = re.search(r"(\w+)\s*\(", head)
        branches = re.findall(r"\b(?:if|for|while|case)\b|&&|\|\||\?", found["body"])
        yield Function(name, called[1] if called else "?", found["body"].count("\n") + 1, 1 + len(branches))


def read(*folders, endings=("c", "h")):
    """The C files of some folders of the tree, by their names below it."""
    found = (p for folder in folders for ending in endings for p in (ROOT / folder).rglob(f"*.{ending}"))
    return {str(p.relative_to(ROOT)): p.read_text() for p in sorted(found)}


def all_functions(files):
    return [function for name, text in files.items() for function in functions(name, text)]


def long_files(files):
    """Lines of each file with too many."""
    return {name: text.count("\n") for name, text in files.items() if text.count("\n") > MOST_FILE_LINES}


# -- The state of a stream --------------------------------------------------------

def body_of(text, struct):
    """What stands between the braces of a struct."""
    found = re.search(rf"^struct {struct} {{\n(.*?)^}};$", plain(text), flags=re.M | re.S)
    return found[1] if found else ""


def fields(text, struct="ag_stream"):
    """The fields of a struct: name to whether the field is a struct of its own."""
    found = {}
    body = re.sub(r"{[^{}]*}", "", re.sub(r"{[^{}]*}", "", body_of(text, struct)))
    for statement in body.split(";"):
        kind = re.match(r"\s*(struct)?(?:\s+\w+)?", statement)
        for declarator in statement.split(","):
            name = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", declarator)
            if name:
                found[name[1]] = bool(kind[1]) and "*" not in declarator
    return found


CHANGE = r"(?:(?:\.|->)\w+|\[[^]]*\])*\s*(?:(?:[-+*/|&^]|<<|>>)?=(?!=)|\+\+|--)"
ATOMIC = r"atomic_(?:store|fetch|exchange|compare)\w*\(\s*&"


def writers(files, struct="ag_stream", names=()):
    """The files that write each field of a struct, or a part of the field, by way of a pointer to the struct."""
    found = {name: set() for name in names}
    for file, text in files.items():
        text = plain(text)
        pointers = set(re.findall(rf"\bstruct {struct} \*(?:const )?(\w+)", text))
        if not pointers:
            continue
        way = rf"\b(?:{'|'.join(sorted(pointers))})->(\w+)"
        for pattern in (way + CHANGE, rf"(?:\+\+|--){way}", ATOMIC + way, rf"memset\(&?{way}"):
            for field in re.findall(pattern, text):
                found.setdefault(field, set()).add(file)
    return found


# -- The limits -------------------------------------------------------------------

# Functions and files over a limit, with the reason. A list may only get shorter.
FUNCTIONS = {}  # by file and name
LONG_FILES = {}


def too_large(found):
    return [f for f in found if f.lines > MOST_LINES or f.complexity > MOST_COMPLEXITY]


def complaints():
    sources = read("src")
    doors = {f"src/preload/{p.name}": p.read_text() for p in (build() / "src/preload").glob("*_doors.inc")}
    for files, number in ((sources, 800), (doors, 200)):
        found = all_functions(files)
        yield from at_least(number, found, "src")
        for f in too_large(found):
            if (f.file, f.name) not in FUNCTIONS:
                yield complain(f.file, f"{f.name}() has {f.lines} lines, complexity {f.complexity}; at most {MOST_LINES} "
                               f"and {MOST_COMPLEXITY}: divide it", f"{f.name}(")
    for name, lines in long_files(sources).items():
        if name not in LONG_FILES:
            yield complain(name, f"{lines} lines; at most {MOST_FILE_LINES}: divide the file")
    for name in LONG_FILES.keys() - long_files(sources).keys():
        yield complain("tests/lint/structure.py", f"{name} is short enough: take it out of the list", name)


# -- The table --------------------------------------------------------------------

def table(files):
    """Lines that say how some files are laid out."""
    found = all_functions(files)
    yield f"{len(files)} files, {sum(text.count(chr(10)) for text in files.values())} lines, {len(found)} functions"
    yield f"functions over {MOST_LINES} lines:"
    yield from (f"  {f.lines:5} {f.name} ({f.file})" for f in sorted(found, key=lambda f: -f.lines)
                if f.lines > MOST_LINES)
    yield f"functions of a complexity over {MOST_COMPLEXITY}:"
    yield from (f"  {f.complexity:5} {f.name} ({f.file})" for f in sorted(found, key=lambda f: -f.complexity)
                if f.complexity > MOST_COMPLEXITY)
    yield f"files over {MOST_FILE_LINES} lines:"
    yield from (f"  {lines:5} {name}" for name, lines in long_files(files).items())


def stream_table(files):
    """Lines that say what struct ag_stream is made of, and who writes it."""
    known = fields(files["src/engine/stream/stream.h"])
    plain_fields = [name for name, is_struct in known.items() if not is_struct]
    by = writers(files, names=known)
    yield f"struct ag_stream: {len(known)} fields, {len(plain_fields)} of them no structs of their own"
    yield "fields that several files write, and structs:"
    for name, is_struct in known.items():
        if is_struct or len(by[name]) > 1:
            writing = ", ".join(sorted(pathlib.Path(file).name for file in by[name]))
            yield f"  {'struct ' if is_struct else ''}{name}: {writing or 'nobody, by its name'}"


def main():
    sources = read("src")
    print("== src", *table(sources), *stream_table(sources), sep="\n")
    print("circles by include:")
    for circle in c_files.circles(c_files.read(ROOT / "src")):
        print(f"  {len(circle):5} {' '.join(sorted(circle))}")
    print("", "== tests", *table(read("tests")), sep="\n")


if __name__ == "__main__":
    main()

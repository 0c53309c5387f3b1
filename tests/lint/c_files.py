# SPDX-License-Identifier: MIT
"""What C files include, declare and define: for includes.py and structure.py."""
import collections
import re

# Headers that declare what files of other names define.
COLLECTIONS = {
    "engine/engine.h": "the calls that doors make, whichever file answers",
    "preload/preload.h": "one header for all doors",
}


def read(source):
    """The C files and headers of a tree, by their names below it, without comments. Generated doors belong to the
    file that their table is named after."""
    def text(path):
        table = path.with_suffix(".doors")
        return path.read_text() + (table.read_text() if path.suffix == ".c" and table.exists() else "")

    return {str(p.relative_to(source)): re.sub(r"/\*.*?\*/", "", text(p), flags=re.S)
            for p in sorted(source.rglob("*.[ch]"))}


def included(text):
    """The project's headers that a file includes, in order."""
    return re.findall(r'^#include "([\w/]+\.h)"', text, flags=re.M)


def statements(text):
    """The statements of a header, and the heads of its inline functions."""
    flat = re.sub(r"^#.*(?:\\\n.*)*|__attribute__\(\(.*?\)\)+", "", text, flags=re.M)
    while re.search(r"{[^{}]*}", flat):
        flat = re.sub(r"\)\s*{[^{}]*}", ");", flat)
        flat = re.sub(r"(?<!\))(\s*){[^{}]*}", r"\1", flat)
    return [s.strip() for s in flat.split(";")]


FUNCTION = r"(?!static inline|static INLINE|typedef)[\w\s*]*?\b(ag_\w+)\s*\("


def words(text):
    """The variables that a header declares."""
    return [w for s in statements(text) if s.startswith("extern") and not re.match(FUNCTION, s)
            for w in re.findall(r"\b(ag_\w+)(?=\s*(?:,|\[|$))", s)]


def declared(text):
    """The functions and variables that a header declares without defining them."""
    return words(text) + [found[1] for s in statements(text) if (found := re.match(FUNCTION, s))]


def defines(text, name):
    """Whether a file defines a function or variable."""
    head = rf"^(?!extern|static|return| |#)[\w\s*()]*\b{name}\b[^;{{}}()]*"
    return re.search(head + r"(?:\([^;{}]*\)\s*{|[;=,\[]|\s__attribute__)", text, flags=re.M) is not None


def behind_collections(files):
    """Pairs of a file and one that defines what the file takes from a collection: the header does not say which."""
    for collection in COLLECTIONS.keys() & files.keys():
        folder = [n for n in files if n.split("/")[0] == collection.split("/")[0] and n.endswith(".c")]
        for symbol in declared(files[collection]):
            for of in (n for n in folder if defines(files[n], symbol)):
                yield from ((n, of) for n in folder if n != of and re.search(rf"\b{symbol}\b", files[n]))


def circles(files):
    """Sets of files that include each other. A header and its own .c file are one here: x.c includes x.h, and
    what x.h declares is in x.c."""
    arrows = collections.defaultdict(set)
    for name, text in files.items():
        arrows[name[:-2]] |= {header[:-2] for header in included(text)} - {name[:-2]}
    for name, of in behind_collections(files):
        arrows[name[:-2]].add(of[:-2])

    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = arrows.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        return seen

    behind = {name: reached(name) for name in list(arrows)}
    found = {frozenset(n for n in behind[name] if name in behind.get(n, ())) for name in behind}
    return sorted((set(c) for c in found if c), key=sorted)

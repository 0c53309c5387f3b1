# SPDX-License-Identifier: MIT
"""What the files of src/ include: the arrows of docs/design.md, "Architecture", and a header for each file."""
import re

from c_files import COLLECTIONS, circles, declared, defines, included, read, words
from complaint import ROOT, at_least, complain

# The folders that files of a folder include, beside their own. Files right in src/ are for all.
ARROWS = {
    "preload": {"engine", "graph", "driver", "config", "observe"},
    "engine": {"graph", "policy", "trace", "driver", "config", "observe"},
    "graph": {"policy", "trace", "driver", "config", "observe"},
    "trace": {"policy"},
    "policy": set(),
    "driver": set(),
    "observe": {"config"},
    "config": set(),
}

# The rooms of the engine, top to bottom: a file includes headers of its own room and of those below. call.h and hot.h
# are for all. engine.h is for calls/ alone.
ROOMS = ("calls", "order", "replay", "decide", "tell", "stream", "context", "base")

# Files without a header of their own name: the header that declares what they define.
HEADERS = {
    "engine/calls/api.c": ("autograph.h", "the public interface"),
    "engine/calls/calls.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/doorstep.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/grow.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/kernel.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/life.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/passing.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/poll.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/pool.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/process.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/read.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/calls/wait.c": ("engine/engine.h", "defines calls of doors only"),
    "preload/bind.c": ("preload/preload.h", "one header for all doors"),
    "preload/bypass.c": ("preload/preload.h", "one header for all doors"),
    "preload/capture.c": ("preload/door.h", "doors, which no header declares"),
    "preload/dladdr.c": ("preload/preload.h", "one header for all doors"),
    "preload/dlsym.c": ("preload/preload.h", "one header for all doors"),
    "preload/life.c": ("preload/door.h", "doors, which no header declares"),
    "preload/memory.c": ("preload/preload.h", "one header for all doors"),
    "preload/musl.c": ("preload/preload.h", "one header for all doors"),
    "preload/ops.c": ("preload/preload.h", "one header for all doors"),
    "preload/route.c": ("preload/preload.h", "one header for all doors"),
    "preload/shortcut.c": ("preload/preload.h", "one header for all doors"),
    "preload/slots.c": ("preload/preload.h", "one header for all doors"),
    "preload/start.c": ("preload/preload.h", "one header for all doors"),
    "preload/symbols.c": ("preload/preload.h", "one header for all doors"),
}

# Files that include each other in a circle. A list may only get shorter.
CIRCLES = []


# -- Checks -------------------------------------------------------------------

def arrows_back(files):
    """Pairs of a file and a header that it must not include."""
    return [(name, header) for name, text in files.items() if "/" in name for header in included(text)
            if "/" in header and header.split("/")[0] not in ARROWS[name.split("/")[0]] | {name.split("/")[0]}]


def floor(name):
    """How far down a file of the engine is: 0 for calls/ and what doors ask."""
    room = name.split("/")[1:-1]
    return ROOMS.index(room[0]) if room else 0 if name in COLLECTIONS else len(ROOMS)


def arrows_past_rooms(files):
    """Pairs of a file and a header of a room that it does not know: one above its own; to a door, any but calls/."""
    def knows(name, header):
        return floor(header) >= floor(name) if name.startswith("engine/") else floor(header) in (0, len(ROOMS))

    return [(name, header) for name, text in files.items() if re.match("(?:engine|preload)/", name)
            for header in included(text) if header.startswith("engine/") and not knows(name, header)]


def not_first(files):
    """Files whose first include is another one than the header that declares what they define."""
    own = {n: HEADERS[n][0] if n in HEADERS else f"{n[:-2]}.h" for n in files if n.endswith(".c")}
    return [n for n, header in own.items() if included(files[n])[:1] != [header]]


def strangers(files):
    """Pairs of a header and a name in it that the file of the header's name does not define."""
    return [(name, symbol) for name, text in files.items() if name.endswith(".h") and name not in COLLECTIONS
            for symbol in declared(text) if not defines(files.get(f"{name[:-2]}.c", ""), symbol)]


# -- The tree -----------------------------------------------------------------

def of_collections(files):
    for header in COLLECTIONS:
        folder = [t for n, t in files.items() if n.split("/")[0] == header.split("/")[0] and n.endswith(".c")]
        symbols = declared(files[header])
        yield from at_least(20, symbols, f"src/{header}")
        for symbol in symbols:
            if not any(defines(t, symbol) for t in folder):
                yield complain(f"src/{header}", f"no file of the folder defines {symbol}: take it out", symbol)


def of_words_that_doors_read(files):
    """Those of the engine are in one place: in hot.h. Thunks name them, too."""
    doors = "".join(p.read_text() for ending in ("[chS]", "doors") for p in (ROOT / "src/preload").rglob(f"*.{ending}"))
    yield from at_least(3, {"ag_subscribers", "ag_memory_state", "ag_depth"} & set(words(files["engine/hot.h"])),
                        "src/engine/hot.h")
    for name, text in files.items():
        if re.fullmatch(r"engine/(?!hot).*h", name):
            for word in words(text):
                if re.search(rf"\b{word}\b", doors):
                    yield complain(f"src/{name}", f"doors read {word}: declare it in src/engine/hot.h", word)


def of_exceptions(files):
    for name in HEADERS | COLLECTIONS:
        other = f"{name[:-2]}.{'h' if name.endswith('.c') else 'c'}"
        if name not in files or other in files:
            yield complain("tests/lint/includes.py", f"{name} is no exception: take it out of the list", f'"{name}"')


def complaints():
    files = read(ROOT / "src")
    yield from at_least(100, files, "src")
    yield from at_least(300, [d for n, t in files.items() if n.endswith(".h") for d in declared(t)], "src")
    for name, header in arrows_back(files):
        yield complain(f"src/{name}", f"{name.split('/')[0]} does not know {header}: see docs/design.md, \"Architecture\"",
                       f'"{header}"')
    for name, header in arrows_past_rooms(files):
        yield complain(f"src/{name}", f"{header} is of a room that this file does not know: see docs/design.md, \"Architecture\"",
                       f'"{header}"')
    for name in not_first({n: t for n, t in files.items() if "/" in n}):
        yield complain(f"src/{name}", "include its own header first, or name another in tests/lint/includes.py", "#include")
    for name, symbol in strangers(files):
        yield complain(f"src/{name}", f"{name[:-2]}.c does not define {symbol}: declare it elsewhere", symbol)
    for circle in circles(files):
        if circle not in CIRCLES:
            yield complain(f"src/{min(circle)}.h", f"these include each other: {', '.join(sorted(circle))}", "#include")
    for circle in CIRCLES:
        if circle not in circles(files):
            yield complain("tests/lint/includes.py", f"the circle of {min(circle)} is gone: take it out of the list")
    for part in (of_collections, of_words_that_doors_read, of_exceptions):
        yield from part(files)

# SPDX-License-Identifier: MIT
"""What the files of src/ include: the arrows of docs/design.md, "Architecture", and a header for each file."""
import re

import pytest

import helpers
from includes import COLLECTIONS, circles, declared, defines, included, read, words

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

# Files without a header of their own name: the header that declares what they define.
HEADERS = {
    "engine/api.c": ("autograph.h", "the public interface"),
    "engine/calls.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/grow.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/kernel.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/life.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/passing.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/poll.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/pool.c": ("engine/engine.h", "defines calls of doors only"),
    "engine/read.c": ("engine/engine.h", "defines calls of doors only"),
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


def not_first(files):
    """Files whose first include is another one than the header that declares what they define."""
    own = {n: HEADERS[n][0] if n in HEADERS else f"{n[:-2]}.h" for n in files if n.endswith(".c")}
    return [n for n, header in own.items() if included(files[n])[:1] != [header]]


def strangers(files):
    """Pairs of a header and a name in it that the file of the header's name does not define."""
    return [(name, symbol) for name, text in files.items() if name.endswith(".h") and name not in COLLECTIONS
            for symbol in declared(text) if not defines(files.get(f"{name[:-2]}.c", ""), symbol)]


# -- The tree -----------------------------------------------------------------

FILES = read(helpers.SOURCE / "src")


def test_arrows_between_folders():
    assert len(FILES) > 100
    assert arrows_back(FILES) == []


def test_each_file_includes_its_own_header_first():
    assert not_first({n: t for n, t in FILES.items() if "/" in n}) == []


def test_headers_declare_what_their_files_define():
    assert sum(len(declared(t)) for n, t in FILES.items() if n.endswith(".h")) > 300
    assert strangers(FILES) == []


@pytest.mark.parametrize("header", COLLECTIONS)
def test_a_collection_declares_what_its_folder_defines(header):
    folder = [t for n, t in FILES.items() if n.split("/")[0] == header.split("/")[0] and n.endswith(".c")]
    symbols = declared(FILES[header])
    assert len(symbols) > 20
    assert [s for s in symbols if not any(defines(t, s) for t in folder)] == []


def test_the_words_that_doors_read_are_in_one_place():
    """Those of the engine: in hot.h. Thunks name them, too."""
    doors = "".join(p.read_text() for ending in ("[chS]", "doors")
                    for p in (helpers.SOURCE / "src/preload").rglob(f"*.{ending}"))
    elsewhere = {w for n, t in FILES.items() if re.fullmatch(r"engine/(?!hot).*h", n) for w in words(t)}
    assert {"ag_listeners", "ag_memory_state", "ag_depth"} <= set(words(FILES["engine/hot.h"]))
    assert [w for w in sorted(elsewhere) if re.search(rf"\b{w}\b", doors)] == []


def test_no_new_circles():
    """No file has come to a circle. Where one has left, the list is to be made shorter."""
    assert circles(FILES) == sorted(CIRCLES, key=sorted)


@pytest.mark.parametrize("name", HEADERS | COLLECTIONS)
def test_exceptions_are_needed(name):
    assert name in FILES
    assert f"{name[:-2]}.{'h' if name.endswith('.c') else 'c'}" not in FILES


# -- A tree with every mistake ------------------------------------------------

MISTAKES = {
    "engine/one.h": '#include "engine/two.h"\nvoid ag_one(int a);\nvoid ag_two(void);\nextern _Atomic bool ag_word;\n',
    "engine/one.c": '#include "config/config.h"\n#include "engine/one.h"\n'
                    "_Atomic bool ag_word;\nvoid ag_one(int a)\n{\n}\n",
    "engine/two.h": '/* "engine/one.h" */\nstatic inline int ag_three(void)\n{\n    return ag_four();\n}\n',
    "engine/two.c": '#include "engine/two.h"\n#include "engine/one.h"\nvoid ag_two(void)\n{\n}\n',
    "config/config.h": '#include "observe/log.h"\n',
    "observe/log.h": "struct ag_line {\n    int (*ag_member)(void);\n};\n",
    "trace/op.h": '#include "engine/two.h"\n',
    "engine/engine.h": "void ag_engine_five(void);\nvoid ag_engine_six(void);\n",
    "engine/five.c": '#include "engine/five.h"\nvoid ag_engine_five(void)\n{\n    ag_engine_six();\n}\n',
    "engine/six.c": '#include "engine/six.h"\nvoid ag_engine_six(void)\n{\n    ag_engine_five();\n}\n',
}


def test_mistakes_are_found(tmp_path):
    for name, text in MISTAKES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = read(tmp_path)
    assert sorted(arrows_back(files)) == [("config/config.h", "observe/log.h"), ("trace/op.h", "engine/two.h")]
    assert not_first(files) == ["engine/one.c"]
    assert strangers(files) == [("engine/one.h", "ag_two")]
    assert circles(files) == [{"engine/five", "engine/six"}, {"engine/one", "engine/two"}]

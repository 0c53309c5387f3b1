# SPDX-License-Identifier: MIT
"""How src/ is laid out: no function and no file is too large (structure.py measures)."""
import helpers
import structure

# Functions over a limit, by file and name, with the reason. A list may only get shorter.
FUNCTIONS = {}

# Files over the limit, with the reason. A list may only get shorter.
LONG_FILES = {}

SOURCES = structure.read("src")


def too_large(found):
    return {(f.file, f.name) for f in found if f.lines > structure.MOST_LINES or
            f.complexity > structure.MOST_COMPLEXITY}


def test_no_function_is_too_large():
    """An exception that is none any more is to leave the list."""
    found = structure.all_functions(SOURCES)
    assert len(found) > 800
    assert too_large(found) == FUNCTIONS.keys()


def test_no_generated_door_is_too_large():
    doors = {p.name: p.read_text() for p in (helpers.build_dir() / "src/preload").glob("*_doors.inc")}
    found = structure.all_functions(doors)
    assert len(found) > 200
    assert too_large(found) == set()


def test_no_file_is_too_long():
    """An exception that is none any more is to leave the list."""
    assert len(SOURCES) > 100
    assert structure.long_files(SOURCES).keys() == LONG_FILES.keys()


# -- The measure ------------------------------------------------------------------

def function(*lines):
    return "\n".join(["/* int none(void) */", "static int", "one(const char *text, int a) /* { */", "{",
                      *(f"    {line}" for line in lines), "}", ""])


def measure(*lines):
    [found] = structure.functions("x.c", function(*lines))
    return found


def test_lines_of_a_function():
    assert measure("return 1;") == ("x.c", "one", 3, 1)
    most = structure.MOST_LINES - 2
    assert too_large([measure(*["a++;"] * most)]) == set()
    assert too_large([measure(*["a++;"] * (most + 1))]) == {("x.c", "one")}


def test_branches_of_a_function():
    assert measure("if (a && b || c)", "    return a ? 1 : 2;").complexity == 5
    assert measure("switch (a) {", "case 1:", "case 2:", "default:", "    break;", "}").complexity == 3
    assert measure("for (;;)", "    while (a)", "        a--;").complexity == 3
    assert measure('return "if (a && b)"[0] + \'?\'; /* for */ // while').complexity == 1
    most = structure.MOST_COMPLEXITY - 1
    assert too_large([measure(*["if (a)", "    a++;"] * most)]) == set()
    assert too_large([measure(*["if (a)", "    a++;"] * (most + 1))]) == {("x.c", "one")}


def test_functions_of_a_file():
    found = list(structure.functions("x.c", "struct x {\n    int a;\n};\nint list[] = {\n    1,\n};\n"
                                     + function("return 1;") + "\n"
                                     + "__attribute__((noinline)) void *two(void)\n{\n}\n#define A \\\n{\n"))
    assert [f.name for f in found] == ["one", "two"]


def test_long_files():
    most = "\n" * structure.MOST_FILE_LINES
    assert structure.long_files({"a.c": most, "b.c": most + "\n"}) == {"b.c": structure.MOST_FILE_LINES + 1}


# -- The state of a stream ----------------------------------------------------------

STRUCT = """struct ag_stream {
    struct ag_lock lock; /* int no; */
    struct ag_stream *next;
    _Atomic unsigned *_Atomic ahead;
    CUevent mark, done;
    struct ag_cut cuts[AG_CUTS];
    struct {
        int inner;
    } hold;
    int plain[AG_MOST + 1], held;
};
"""


def test_fields_of_a_struct():
    assert structure.fields(STRUCT) == {"lock": True, "next": False, "ahead": False, "mark": False, "done": False,
                                        "cuts": True, "hold": True, "plain": False, "held": False}
    sources = structure.fields(SOURCES["src/engine/stream.h"])
    assert len(sources) > 5 and "lock" in sources


def test_writers_of_a_struct():
    files = {
        "writes.c": "static void f(struct ag_stream *it)\n{\n    it->hold.inner = 1;\n    it->cuts[0].a[1] |= 2;\n"
                    "    ++it->held;\n    atomic_store_explicit(&it->ahead, 1, 0);\n    it->plain[2]--;\n}\n",
        "reads.c": "static int f(const struct ag_stream *it)\n{\n    /* it->held = 1; */\n"
                   "    return it->hold.inner == 1 && it->held <= 2 && atomic_load(&it->ahead);\n}\n",
        "other.c": "static int f(struct ag_other *it)\n{\n    it->held = 1;\n}\n",
        "own.c": "static int f(struct ag_stream *const it)\n{\n    it->held <<= 1;\n    it->held--;\n}\n",
    }
    assert structure.writers(files, names=["next", "held"]) == {
        "hold": {"writes.c"}, "cuts": {"writes.c"}, "ahead": {"writes.c"}, "plain": {"writes.c"}, "next": set(),
        "held": {"writes.c", "own.c"}}


def test_the_table(capsys):
    structure.main()
    printed = capsys.readouterr().out
    for title in ("== src", "== tests", "struct ag_stream:", "circles by include:"):
        assert f"\n{title}" in f"\n{printed}"
    for name in LONG_FILES:
        assert name in printed

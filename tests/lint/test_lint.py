# SPDX-License-Identifier: MIT
"""tests/lint: each of its checks sees what it is to see."""
import subprocess
import sys

import pytest

import helpers

LINT = helpers.SOURCE / "tests/lint"
sys.path.insert(0, str(LINT))

import budgets  # noqa: E402  (needs the path above)
import c_files  # noqa: E402
import complaint  # noqa: E402
import design  # noqa: E402
import documents  # noqa: E402
import form  # noqa: E402
import includes  # noqa: E402
import manual  # noqa: E402
import semantics  # noqa: E402
import structure  # noqa: E402


def test_a_complaint_has_its_place(monkeypatch, tmp_path):
    """A line for each, whose number is that of the words, wherever lines are broken."""
    assert complaint.line_of("a b\nc d\ne f", "x", "d e") == 2
    (tmp_path / "page.md").write_text("one\ntwo\nthree four\n")
    monkeypatch.setattr(complaint, "ROOT", tmp_path)
    assert complaint.complain("page.md", "no three", "no", "three") == ("page.md", 3, "no three")
    assert complaint.complain("gone.md", "is gone", "gone").line == 1
    assert list(complaint.at_least(3, "abc", "page.md")) == [] != list(complaint.at_least(4, "abc", "page.md"))


def test_what_is_wrong_ends_with_an_error(tmp_path):
    for status, text in ((0, ""), (1, "x.c:3: mend it\n")):
        (tmp_path / "trial.py").write_text(f"import complaint\ndef complaints():\n"
                                           f"    yield from [complaint.Complaint('x.c', 3, 'mend it')][:{status}]\n")
        done = subprocess.run([sys.executable, LINT / "run", "trial"], capture_output=True, text=True, check=False,
                              env={**helpers.os.environ, "PYTHONPATH": str(tmp_path)})
        assert (done.returncode, done.stdout, done.stderr) == (status, text, "")


def test_a_file_of_tests_without_a_budget_is_found():
    tests = {path.name: path.read_text() for path in (helpers.SOURCE / "tests").rglob("test_*.py")}
    assert list(budgets.complaints(tests)) == []
    assert [c.text for c in budgets.complaints({**tests, "test_x.py": ""})] == [
        "has no budget: add it to [normal] in tests/budget.toml"]
    del tests["test_forks.py"]
    assert {c.file for c in budgets.complaints(tests)} == {"tests/budget.toml", "tests/scales.py"}


def test_a_line_that_is_too_long_is_found():
    if not form.usable():
        pytest.skip("there is no clang-format of this version")
    process = form.started("--assume-filename=src/x.c", stdin=subprocess.PIPE)
    assert form.places(process.communicate(f"int a; /* {'word ' * 30}*/\n")[1])


def test_a_function_without_a_comment_is_found():
    text = "/* Two. */\nint ag_a(void);\nint ag_b(int);\n\nint ag_c(void);\n\n#define ag_d() 1\nstatic inline int ag_e(void)\n{\n}\n"
    assert list(form.uncommented(text)) == ["ag_c", "ag_e"]
    assert not list(form.uncommented("/*\n * It\n *\n * does.\n */\nint ag_a(void);\nint ag_b(void); /* more */\n"))


@pytest.mark.parametrize("shell", manual.SHELLS)
def test_completions_that_are_not_in_step_are_found(shell, monkeypatch):
    page = (complaint.build() / "completions" / manual.SHELLS[shell]).read_text()
    monkeypatch.setattr(manual, "OPTIONS", {command: manual.options_of(command) for command in manual.COMMANDS})
    assert list(manual.of_completions(shell, page)) == []
    wrong = [c.text for c in manual.of_completions(shell, page.replace("trace.hot", "trace.hotter", 1))]
    assert wrong == ["there is no trace.hotter: take it out"] or wrong[0] == "trace.hot is missing: add it"


# -- Documents -----------------------------------------------------------------------

WRONG_PAGES = [
    (documents.too_long, "README.md", "a\n" * 136, "136 lines instead of 135 at most"),
    (documents.too_long, "docs/install.md", "a\n" * 101, "101 lines instead of 100 at most"),
    (documents.too_long, "docs/results.md", "| a | b |\n" * 1501, "3002 words instead of 3000 at most"),
    (documents.dead_links, "docs/design.md", "[x](nowhere.md)", "no nowhere.md (nowhere.md)"),
    (documents.dead_links, "docs/design.md", "[x](../README.md#nothing)", "no section #nothing in ../README.md"),
    (documents.dead_links, "docs/design.md", "# One\n[x](#two)", "no section #two in docs/design.md"),
    (documents.dead_links, "docs/design.md", '([x](results.md),\n"No section")',
     'no section "No section" in results.md'),
    (documents.dead_references, "src/main.c", "/* see docs/nowhere.md */", "no docs/nowhere.md"),
    (documents.dead_references, "src/main.c", "/* (docs/results.md,\n * \"No section\") */",
     'no section "No section" in docs/results.md'),
    (documents.left_out, "docs/README.md", " ".join(f"[x](../{page})" for page in documents.PAGES if page != "docs/limits.md"),
     "no link to docs/limits.md"),
    (documents.unknown_options, "README.md", "`trace.hotter = 3`", "no option trace.hotter"),
    (documents.unknown_options, "README.md", "    AUTOGRAPH_HOLD_BOUND_MS=3 ./app",
     "no option AUTOGRAPH_HOLD_BOUND_MS"),
    (documents.unknown_variables, "README.md", "`AUTOGRAPH_DISABEL=1 ./app`", "nothing reads AUTOGRAPH_DISABEL"),
    (documents.unknown_commands, "README.md", "`autograph explain ./app`", "no command autograph explain"),
    (documents.unknown_commands, "README.md", "    $ build/autograph bench --traces -- ./app",
     "autograph bench has no option --traces"),
    (documents.unknown_commands, "README.md", "    srun -n 8 autograph --reports ./app",
     "autograph  has no option --reports"),
    (documents.unknown_commands, "README.md", "`autograph --reports ./app --mine`",
     "autograph  has no option --reports"),
    (documents.unknown_flags, "README.md", "`tests/real/run --laps 3`", "tests/real/run has no option --laps"),
    (documents.unknown_flags, "README.md", "`benchmark.py --laps 3`", "tests/bench/benchmark.py has no option --laps"),
    (documents.unknown_flags, "README.md", "use `--no-such-flag`", "nothing has an option --no-such-flag"),
    (documents.unknown_targets, "README.md", "`make -C build -j4 check-gpus`", "make has no target check-gpus"),
    (documents.unknown_files, "README.md", "run scripts/nothing", "no scripts/nothing"),
    (documents.unknown_files, "README.md", "`tests/bench/nobody-static`", "no tests/bench/nobody-static"),
    (documents.unknown_files, "README.md", "`nothing.c` does it", "no nothing.c"),
    (documents.unknown_messages, "docs/troubleshooting.md", '| "it is broken" | x |\n| "inih ... not found" | y |',
     "nothing says: it is broken"),
    (documents.unknown_figures, "README.md", "| training | 9.9x |\n\n    constant 1.51x\n",
     f"{documents.FIGURES} has no 9.9x for this: | training | 9.9x |"),
    (documents.stiff, "README.md", "The library, of which we speak.", "'of which': The library, of which we speak."),
    (documents.long_or_nouns, "README.md", "word " * 26, "26 words: " + " ".join(["word"] * 26)),
    (documents.long_or_nouns, "docs/design.md", "**What** is held goes out.",
     "'What' is no noun: **What** is held goes out."),
]


@pytest.mark.parametrize("check, name, text, complaint", WRONG_PAGES,
                         ids=[f"{check.__name__}-{k}" for k, (check, *_) in enumerate(WRONG_PAGES)])
def test_check_finds_what_is_wrong(check, name, text, complaint):
    assert check(name, text) == [complaint]


def test_every_check_is_seen_to_fail():
    assert {check for check, *_ in WRONG_PAGES} == set(documents.CHECKS)


def test_checks_let_pass_what_is_right():
    right = ("# One\n[x](#one) [y](https://example.org/z.md) docs/results.md, \"One CPU\"; `trace.hot = 3`\n"
             "`AUTOGRAPH_TRACE_HOT=5 autograph --set graph.execs=0 ./app --its-own`,\n"
             "`autograph bench --runs 3 -- ./app`\n    $ make -C build -j2 check-gpu   # --no-flag\n"
             "`tests/samples/NAME-static`, `tests/unit/test_NAME.c`, `cuda.h`, `report.json`\n")
    assert [found for check in documents.CHECKS for found in check("docs/design.md", right)] == []


# -- docs/figures.tsv ----------------------------------------------------------------

TABLE = "table\tname\twhat\tfigure\tsource\n"


def test_figures_come_into_the_pages():
    """Cells of columns that the table knows are filled, all others stay."""
    rows = documents.figures.figures(TABLE + "a\tone\tspeed-up\t2.0x\t-\na\ttwo\tshare\t3 %\t-\nb\tone\tshare\t9 %\t-\n")
    page = "<!-- figures: a -->\n\n| | speed-up | share | why |\n| --- | --- | --- | --- |\n"
    fill = documents.figures.filled
    assert fill(page + "| one | | 1 % | x |\n| two | | | |\n\n| one | | |\n", rows) == \
        page + "| one | 2.0x | - | x |\n| two | - | 3 % | |\n\n| one | | |\n"
    with pytest.raises(KeyError, match="three"):
        fill(page + "| three | | | |\n", rows)


def test_a_range_is_of_the_newest_figures():
    results = "| loop | speed-up |\n| --- | --- |\n| one | 1.50x |\n| two | 3.00x |\n"
    text = TABLE + "a\tone\ttime / without\t0.50 +- 0.1\tx\na\tall\tspeed-up\t\tof: one; two\n"
    assert "\t2.0x to 3.0x\tof" in documents.figures.made(text, results)
    assert documents.figures.measured(results, documents.figures.figures(text)) == {
        "one": [2.0], "two": [3.0], "a > time / without": [0.5]}


# -- docs/semantics.md ----------------------------------------------------------------

@pytest.mark.parametrize("name", ["cuNotYet", "cuMemNotYet", "cuMemNotYetAsync", "cuStreamNotYet",
                                  "cuLaunchNotYet", "cuEventNotYet", "cuCtxNotYet", "cuGraphNotYet",
                                  "cuMemcpyNotYetAsync", "cuMemPoolNotYet", "cuDeviceNotYet"])
def test_a_new_function_is_noticed(name):
    """No pattern is so wide that it would take in what nobody has looked at."""
    assert semantics.families_of(name) == []


def test_a_new_version_is_noticed():
    """It belongs to its family, and is a barrier until it is classified: other classes object."""
    assert semantics.families_of("cuLaunchKernel_v9") == semantics.families_of("cuLaunchKernel") != []
    assert semantics.families_of("cuLaunchKernel")[0].kind != "BARRIER"


def test_a_family_has_the_class_of_its_functions():
    found = {call: family.word for call in ("cuMemAlloc", "cuMemFree", "cuMemcpyDtoD", "cuMemcpyDtoD_v2")
             for family in semantics.families_of(call)}
    assert found == {"cuMemAlloc": "allocation", "cuMemFree": "full barrier", "cuMemcpyDtoD": "device copy",
                     "cuMemcpyDtoD_v2": "op"}


def test_the_family_of_a_call_is_told():
    told = subprocess.run([sys.executable, LINT / "run", "--call", "cuMemPrefetchAsync"], check=True,
                          capture_output=True, text=True).stdout
    assert told.startswith("F14 other work in a stream: stream barrier.") and told.count("\n") == 1


@pytest.mark.parametrize("proof", ["test_none.py::test_x", "test_doors.py::test_none", "fuzz:NONE",
                                   "test_doors.py::test_disabled[nowhere]", "test_doors.py", "KERNEL"])
def test_a_missing_proof_is_noticed(proof):
    assert not semantics.is_there(proof)


# -- docs/tour.md ---------------------------------------------------------------------

@pytest.mark.parametrize("file,name", [("graph/trace.c", "ag_nothing"), ("graph/none.c", "ag_trace_build"),
                                       ("engine/replay/submit.c", "ag_trace_replay"), ("graph/trace.h", "ag_trace_build"),
                                       ("preload/life.doors", "ag_nothing")])
def test_a_stop_that_is_lost_is_found(file, name):
    """A function must be defined in the file: a call or a declaration there does not count."""
    right = "| 1 | `graph/trace.c` | `ag_trace_replay` | Launches. |\n`ag_watchdog_start` in\n`engine/base/watchdog.c`\n"
    assert not list(design.lost_stops(right))
    assert list(design.lost_stops(f"{right}| 2 | `{file}` | `{name}` | Is there. |\n")) == [(file, name)]
    assert list(design.lost_stops(f"{right}`ag_none` in `{file}`")) == [(file, "ag_none")]


def test_a_door_that_no_test_calls_is_found():
    table = "/* x\n */\nshape a(B)\n    cuShape(x)\nend\n\na x |\n        y\n    cuOne(int x)\n    cuTwo_v2(int x,\n             int y)\na z\n    cuThree(int x)\n"
    assert list(semantics.untested_doors(table, 'call("cuTwo_ptsz")')) == [["cuThree"]]
    assert list(semantics.untested_doors(table, "cuThree_v3(1)")) == [["cuOne", "cuTwo_v2"]]


# -- docs/design.md -------------------------------------------------------------------

@pytest.mark.parametrize("right,wrong,found", [
    ("`stream_goes` `streams_kill`", "`streams_kill`", [("calls/life.c", "stream_goes")]),
    ("`order/find.c` | `thread_leaves`", "`order/find.c` | `thread_ends`",
     [("order/find.c", "thread_ends"), ("order/find.c", "thread_leaves")]),
    ("NOVEL SHORT", "NOVEL", [("observe/reasons.def", "SHORT"), ("replay/submit.c", "SHORT")]),
    ("`hold_ends` | FLUSHED", "`hold_ends` | FLUSHED GREEN", [("stream/sequence.c", "GREEN")]),
    ("`count_eager`", "`count_lazy`", [("replay/submit.c", "count_lazy")]),
])
def test_a_place_that_decides_and_is_in_no_table_is_found(right, wrong, found):
    text = design.PAGES["design.md"]
    assert text.count(right) == 1
    assert sorted(design.wrong_places(text.replace(right, wrong))) == found


def test_a_kind_of_op_that_a_page_does_not_describe_is_found():
    formats, words = "\nKinds: 0 kernel, 1 copy (of\nmemory). More\n| kind | words |\n| copy, wait | x |\n", " *   kernel -\n *   copy   -\n"
    assert not list(design.lost_kinds(["kernel", "copy"], formats, words))
    assert list(design.lost_kinds(["copy", "kernel"], formats, words)) == [("docs/formats.md", "copy"), ("docs/formats.md", "kernel")]
    assert list(design.lost_kinds(["kernel", "copy", "wait"], formats, words)) == [
        ("docs/formats.md", "wait"), ("src/graph/words.h", "wait")]


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
    "engine/base/low.h": '#include "engine/hot.h"\n#include "engine/tell/high.h"\n#include "engine/engine.h"\n',
    "engine/calls/high.c": '#include "engine/calls/high.h"\n#include "engine/engine.h"\n#include "engine/base/low.h"\n',
    "engine/hot.h": '#include "engine/base/lower.h"\n',
    "preload/door.h": '#include "engine/calls/high.h"\n#include "engine/base/low.h"\n',
    "engine/engine.h": "void ag_engine_five(void);\nvoid ag_engine_six(void);\n",
    "engine/five.c": '#include "engine/five.h"\nvoid ag_engine_five(void)\n{\n    ag_engine_six();\n}\n',
    "engine/six.c": '#include "engine/six.h"\nvoid ag_engine_six(void)\n{\n    ag_engine_five();\n}\n',
}


def test_mistakes_of_includes_are_found(tmp_path):
    for name, text in MISTAKES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    files = c_files.read(tmp_path)
    assert sorted(includes.arrows_back(files)) == [("config/config.h", "observe/log.h"), ("trace/op.h", "engine/two.h")]
    assert sorted(includes.arrows_past_rooms(files)) == [
        ("engine/base/low.h", "engine/engine.h"), ("engine/base/low.h", "engine/tell/high.h"),
        ("engine/hot.h", "engine/base/lower.h"), ("preload/door.h", "engine/base/low.h")]
    assert includes.not_first(files) == ["engine/one.c"]
    assert includes.strangers(files) == [("engine/one.h", "ag_two")]
    assert c_files.circles(files) == [{"engine/five", "engine/six"}, {"engine/one", "engine/two"}]


# -- Functions and files ------------------------------------------------------------------

def function(*lines):
    return "\n".join(["/* int none(void) */", "static int", "one(const char *text, int a) /* { */", "{",
                      *(f"    {line}" for line in lines), "}", ""])


def measure(*lines):
    [found] = structure.functions("x.c", function(*lines))
    return found


def large(found):
    return {(f.file, f.name) for f in structure.too_large(found)}


def test_lines_of_a_function():
    assert measure("return 1;") == ("x.c", "one", 3, 1)
    most = structure.MOST_LINES - 2
    assert large([measure(*["a++;"] * most)]) == set()
    assert large([measure(*["a++;"] * (most + 1))]) == {("x.c", "one")}


def test_branches_of_a_function():
    assert measure("if (a && b || c)", "    return a ? 1 : 2;").complexity == 5
    assert measure("switch (a) {", "case 1:", "case 2:", "default:", "    break;", "}").complexity == 3
    assert measure("for (;;)", "    while (a)", "        a--;").complexity == 3
    assert measure('return "if (a && b)"[0] + \'?\'; /* for */ // while').complexity == 1
    most = structure.MOST_COMPLEXITY - 1
    assert large([measure(*["if (a)", "    a++;"] * most)]) == set()
    assert large([measure(*["if (a)", "    a++;"] * (most + 1))]) == {("x.c", "one")}


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
    sources = structure.fields(structure.read("src")["src/engine/stream/stream.h"])
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

# SPDX-License-Identifier: MIT
"""tests/real/suites: it compares the outcome of every test, whatever the tests do."""
import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import types

import pytest

import helpers

pytest.importorskip("tomllib", reason="Python is older than 3.11")
SUITES = helpers.SOURCE / "tests/real/suites"
HEAD = "import os, pathlib, signal, pytest\nLIBRARY = bool(os.environ.get('LD_PRELOAD'))\n"


def harmless_library():
    """A library that changes nothing when preloaded: the C library, which is there anyway."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in maps if re.search(r"/libc[.-]", line))


def run(place, files, *words, status=0, library=None, env=None, **entry):
    """The script on a suite of these files: its row, and what it printed."""
    tests = place / "checkout/some/tests"
    tests.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (tests / name).write_text(HEAD + text)
    entry = {"repository": "https://somewhere/some", "package": "json", "folder": "tests", **entry}
    (place / "list").write_text("[suites.fake]\n" + "".join(f"{k} = {v!r}\n" for k, v in entry.items()))
    done = subprocess.run(
        [sys.executable, SUITES, "--dir", place / "checkout", "--list", place / "list", "--json", place / "rows",
         "--library", library or harmless_library(), "--again", "1", *words],
        env=helpers.environment(preload=False, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(env or {})}),
        capture_output=True, text=True, timeout=4 * helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    rows = json.loads((place / "rows").read_text())
    return rows[0] if rows else None, done.stdout


def verdicts(row):
    return {test["test"].split("::")[-1]: (test["without"], test["with"], test["verdict"])
            for test in row["different"]}


ALL_KINDS = """
def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.xfail
def test_unexpected(): pass
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
@pytest.fixture
def untidy():
    yield
    raise ValueError
def test_untidy(untidy): pass
@pytest.mark.parametrize("x", ["a b", "c::d", "[e]"])
def test_names(x): pass
"""


def test_equal_outcomes_of_all_kinds(tmp_path):
    row, text = run(tmp_path, {"test_a.py": ALL_KINDS, "test_b.py": "def test_one(): pass",
                               "test_c.py": "import no_such_module", "no_test.py": "assert False"})
    assert (row["files"], row["tests"], row["different"]) == (3, 12, [])
    assert row["without"] == {"passed": 5, "failed": 1, "skipped": 1, "xfailed": 1, "xpassed": 1, "error": 3}
    assert "| fake | 3 | 12 | 5, 4, 3 |" in text


def test_what_the_library_breaks(tmp_path):
    row, text = run(tmp_path, {"test_a.py": """
def test_broken(): assert not LIBRARY, 'this is why'
@pytest.mark.parametrize("x", ["a b", "c::d"])
def test_named(x): assert not LIBRARY
@pytest.mark.skipif(LIBRARY, reason="none")
def test_left_out(): pass
def test_well(): pass
"""}, "--again", "2", status=1)
    assert verdicts(row) == {"test_broken": ("passed", "failed", "DIFFERENT"),
                             "test_named[a b]": ("passed", "failed", "DIFFERENT"),
                             "d]": ("passed", "failed", "DIFFERENT"),
                             "test_left_out": ("passed", "skipped", "DIFFERENT")}
    assert "test_broken: passed without, failed with; alone without: passed passed, with: failed failed" in text
    assert "this is why" in text and text.rstrip().endswith("| 4 | 4 |")


def test_what_the_library_mends_is_different_too(tmp_path):
    row, _ = run(tmp_path, {"test_a.py": "def test_odd(): assert LIBRARY"}, status=1)
    assert verdicts(row) == {"test_odd": ("failed", "passed", "DIFFERENT")}


def test_chance_is_not_the_librarys_fault(tmp_path):
    """A test that passes every other time."""
    row, _ = run(tmp_path, {"test_a.py": f"""
def test_odd():
    with open({str(tmp_path / 'count')!r}, 'a+') as file:
        file.write('x')
        file.seek(0)
        assert len(file.read()) % 2
"""}, "--again", "2")
    assert verdicts(row) == {"test_odd": ("passed", "failed", "unstable")}


def test_what_differs_among_the_others_only(tmp_path):
    row, text = run(tmp_path, {"test_a.py": """
before = []
def test_before(): before.append(1)
def test_behind(): assert not (LIBRARY and before)
"""}, status=1)
    assert verdicts(row) == {"test_behind": ("passed", "failed", "DIFFERENT")}
    assert "alone without: passed, with: passed; its file again without: passed, with: failed" in text


def test_once_is_not_always(tmp_path):
    """A test that failed with the library, and never again."""
    row, text = run(tmp_path, {"test_a.py": f"""
mark = pathlib.Path({str(tmp_path / 'mark')!r})
def test_once():
    if LIBRARY and not mark.exists():
        mark.touch()
        assert False
"""})
    assert verdicts(row) == {"test_once": ("passed", "failed", "equal again")}
    assert "its file again without: passed, with: passed" in text


def test_a_process_that_dies_is_continued(tmp_path):
    row, _ = run(tmp_path, {"test_a.py": """
def test_before(): pass
def test_dies():
    if LIBRARY: os.kill(os.getpid(), signal.SIGSEGV)
def test_behind(): pass
def test_dies_too(): os.abort()
def test_last(): pass
"""}, status=1)
    assert verdicts(row) == {"test_dies": ("passed", "dies (SIGSEGV)", "DIFFERENT")}
    assert row["without"] == {"passed": 4, "dies (SIGABRT)": 1}


def test_a_process_that_dies_at_its_exit(tmp_path):
    row, _ = run(tmp_path, {"test_a.py": """
import atexit
def test_well():
    if LIBRARY: atexit.register(os.abort)
"""}, status=1)
    assert verdicts(row) == {"test_a.py (process)": ("not run", "dies (SIGABRT)", "DIFFERENT")}


def test_no_file_is_begun_after_the_limit(tmp_path):
    row, text = run(tmp_path, {f"test_{name}.py": "def test_it(): pass" for name in "abc"}, "--limit", "0", status=2)
    assert (row["files"], row["left"]) == (0, 3) and "| fake | 0 of 3 |" in text


def test_files_that_are_skipped(tmp_path):
    row, _ = run(tmp_path, {"test_a.py": "def test_it(): pass", "test_b.py": "def test_it(): assert not LIBRARY"},
                 skip=["*_b.py"])
    assert (row["files"], row["tests"]) == (1, 1)


def test_what_is_not_there_is_left_out(tmp_path):
    row, text = run(tmp_path, {}, status=2, package="no_such_package")
    assert row is None and "fake is left out: " in text and "cannot import no_such_package" in text
    _, text = run(tmp_path, {}, status=2, folder="nowhere")
    assert "its tests are not installed, and no checkout in --dir has them" in text
    done = subprocess.run([sys.executable, SUITES, "--library", harmless_library(), "--only", "no_such"],
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == 2 and "has no no_such" in done.stderr


def test_tests_of_an_installed_package(tmp_path):
    tests = tmp_path / "place/some_package/tests"
    (tests / "deep").mkdir(parents=True)
    for folder in (tests.parent, tests, tests / "deep"):
        (folder / "__init__.py").touch()
    (tests / "test_a.py").write_text("def test_it(): pass")
    (tests / "deep/test_b.py").write_text(HEAD + "def test_it(): assert not LIBRARY")
    row, _ = run(tmp_path, {}, status=1, package="some_package", module="some_package.tests", folder="nowhere",
                 env={"PYTHONPATH": str(tmp_path / "place")})
    assert (row["files"], row["tests"]) == (2, 2) and len(row["different"]) == 1


def script():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("suites", str(SUITES))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites", loader))
    loader.exec_module(module)
    return module


def test_a_process_that_takes_too_long(tmp_path, monkeypatch):
    """It is ended, and continued behind the test that it was at."""
    module = script()
    suite = types.SimpleNamespace(folder=tmp_path, options=types.SimpleNamespace(timeout=0.01),
                                  command=lambda file: ["sh", "-c", "echo said; exec sleep 1000"])
    assert module.spawn(suite, "test_a.py", {})[0] is None
    lines = iter([['{"test": "one"}', '{"test": "one", "outcome": "passed"}', '{"test": "two"}'],
                  ['{"test": "three"}', '{"test": "three", "outcome": "failed"}']])
    statuses = iter([None, 1])

    def spawn(_, file, environment):
        with open(environment["OUTCOMES_FILE"], "a", encoding="utf-8") as out:
            out.write("\n".join(next(lines)) + "\n")
        return next(statuses), file
    monkeypatch.setattr(module, "spawn", spawn)
    outcomes, _, ops = module.run_file(suite, "test_a.py", None)
    assert {test: outcome for test, (outcome, _) in outcomes.items()} == {
        "one": "passed", "two": "takes too long", "three": "failed"}
    assert ops == collections.Counter()


def test_the_list_can_be_read():
    import tomllib
    listed = tomllib.loads((SUITES.parent / "suites.toml").read_text(encoding="utf-8"))["suites"]
    assert set(listed) == {"cuda.core", "cuda.bindings", "numba-cuda", "cupy"}
    for entry in listed.values():
        assert {"repository", "package", "folder"} <= set(entry) <= {
            "repository", "package", "folder", "module", "skip", "arguments"}


DRIVER = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
def test_memory_is_set():
    device, context, stream, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
    for _ in range(400):
        for part in range(8):
            call("cuMemsetD32Async", ctypes.c_uint64(memory.value + 512 * part), part, ctypes.c_size_t(16), stream)
    call("cuStreamSynchronize", stream)
    words = (ctypes.c_uint32 * 16)()
    call("cuMemcpyDtoH_v2", words, ctypes.c_uint64(memory.value + 512 * 5), ctypes.c_size_t(64))
    assert list(words) == [5] * 16
"""


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="the programs need the sanitizer's runtime first")
def test_a_suite_on_the_simulated_driver(tmp_path):
    row, text = run(tmp_path, {"test_driver.py": DRIVER}, library=helpers.library(),
                    env={"AUTOGRAPH_GRAPH_CREDIT_MS": "1000000"})
    assert (row["tests"], row["without"], row["different"]) == (1, {"passed": 1}, []), text
    assert row["ops"]["total"] >= 3200 and row["ops"]["replayed"] > 0

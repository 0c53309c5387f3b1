# SPDX-License-Identifier: MIT
"""tests/real: its list can be read, its inputs are the same each time, and its runner sees what differs."""
import filecmp
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

import helpers

tomllib = pytest.importorskip("tomllib", reason="Python is older than 3.11")
REAL = helpers.SOURCE / "tests/real"

# What the program does without the library: it prints its loop's time, and writes a file.
PLAIN = "echo took 1.0 s; echo value 1.000 >values"


def harmless_library():
    """A library that changes nothing when preloaded: the C library, which is there anyway."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in maps if re.search(r"/libc[.-]", line))


def run(folder, library, plain=PLAIN, words=(), **settings):
    """The runner's status, and its row for a program that does LIBRARY if anything is preloaded."""
    (folder / "bin").mkdir()
    program = folder / "bin/fake"
    program.write_text(f'#!/bin/sh\nif [ -z "$LD_PRELOAD" ]; then {plain}; else {library}; fi\n')
    program.chmod(0o755)
    entry = {"kind": "fake", "command": "{bin}/fake", "ignore": ["took.*"], **settings}
    if "begin" not in entry:
        entry["time"] = "took ([0-9.]+) s"
    (folder / "list").write_text("[programs.fake]\n" + "".join(f"{k} = {v!r}\n" for k, v in entry.items()))
    done = subprocess.run([sys.executable, REAL / "run", "--dir", folder, "--programs", folder / "list",
                           "--library", harmless_library(), "--runs", "2", "--json", folder / "rows", *words],
                          env=helpers.environment(preload=False), capture_output=True, text=True,
                          timeout=helpers.TIMEOUT, check=False)
    assert (folder / "rows").exists(), done.stderr
    return done.returncode, json.loads((folder / "rows").read_text())[0]


def test_equal_output_and_its_times(tmp_path):
    status, row = run(tmp_path, PLAIN.replace("took 1.0", "took 2.0"))
    assert status == 0
    assert (row["output"], row["plain"], row["library"], row["ratio"]) == ("equal", 1.0, 2.0, 2.0)


def test_the_same_once_more_without_the_library(tmp_path):
    count = f"echo x >>{tmp_path}/count; echo took $(wc -l <{tmp_path}/count) s"
    row = run(tmp_path, "echo took 5 s", plain=count, words=["--control"])[1]
    assert row["times"] == [[1, 5], [3, 5]] and row["control"] == [4 / 3, 2]


def test_no_pair_is_begun_after_the_limit(tmp_path):
    row = run(tmp_path, PLAIN, plain=f"sleep 0.3; {PLAIN}", words=["--limit", "0.2"])[1]
    assert row["output"] == "equal" and len(row["times"]) == 1


def test_several_libraries_need_rounds(tmp_path):
    libraries = [f"--library={harmless_library()},NAME={name}" for name in ("first", "second")]
    done = subprocess.run([REAL / "run", "--dir", tmp_path, *libraries], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "several libraries need --rounds" in done.stderr


def runner():
    """The runner as a module."""
    loader = importlib.machinery.SourceFileLoader("runner", str(REAL / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
    sys.path.insert(0, str(REAL))
    loader.exec_module(module)
    sys.path.remove(str(REAL))
    return module


def test_rounds_in_an_order_by_chance(tmp_path):
    """Each variant once in each round, in more than one order; the two without the library are 1 on average."""
    libraries = [f"{harmless_library()},NAME={name}" for name in ("first", "second")]
    order = f'echo "$NAME" >>{tmp_path}/order'
    status, _ = run(tmp_path, f"{order}; echo took 3 s; echo more", plain=f"{order}; echo took 2 s",
                    words=["--rounds", "8", *(f"--library={words}" for words in libraries)])
    rows = json.loads((tmp_path / "rows").read_text())
    assert status == 1 and [row["variant"] for row in rows][:2] == ["without", "without again"]
    assert [row["variant"] for row in rows][3:] == libraries
    assert all(row["ratios"] == [1 if "without" in row["variant"] else 1.5] * 8 for row in rows)
    assert all(min(row["cpu"]) >= 0 and min(row["faults"]) > 0 for row in rows)
    assert [row["output"] == "equal" for row in rows] == ["without" in row["variant"] for row in rows]
    names = (tmp_path / "order").read_text().split("\n")[:-1]
    rounds = [tuple(names[i:i + 5]) for i in range(0, len(names), 5)]
    assert {tuple(sorted(names)) for names in rounds} == {("", "", "", "first", "second")}
    assert len(set(rounds)) > 1


def test_means_have_their_errors():
    module = runner()
    assert module.mean([1, 2, 3]) == "2.000 +- 0.577" and module.mean([1]) == "1.000 +- nan"
    assert module.mean([10, 20], 0) == "15 +- 5"


@pytest.mark.parametrize("what, output", [
    (PLAIN.replace("1.000", "1.001"), "DIFFERENT"), (f"{PLAIN}; echo more", "DIFFERENT"),
    ("echo took 1.0 s", "DIFFERENT"), (f"{PLAIN}; exit 3", "DIFFERENT (status 3)")])
def test_another_output_or_status_is_seen(tmp_path, what, output):
    status, row = run(tmp_path, what)
    assert (status, row["output"]) == (1, output)


@pytest.mark.parametrize("value, output", [("1.001", "equal"), ("1.1", "DIFFERENT"), ("nan", "DIFFERENT")])
def test_numbers_may_differ_by_what_the_list_allows(tmp_path, value, output):
    assert run(tmp_path, PLAIN.replace("1.000", value), rtol=0.01)[1]["output"] == output


def test_a_program_that_varies_by_itself_is_not_the_librarys_fault(tmp_path):
    status, row = run(tmp_path, PLAIN, plain=f"{PLAIN}; date +%N")
    assert (status, row["output"]) == (0, "unstable")


def test_a_program_that_does_not_run_without_the_library(tmp_path):
    status, row = run(tmp_path, PLAIN, plain="exit 4")
    assert status == 0
    assert row["output"] == "fails without the library too (status 4)"


@pytest.fixture(name="execute")
def executed_by_a_clock_of_its_own(tmp_path, monkeypatch):
    """The runner's function, by a clock in which each character that is read takes a second. A file is
    named like what has been read, without its line feed."""
    module, text = runner(), []

    def read(file, _):
        character = os.read(file, 1)
        text.append(character.decode())
        (tmp_path / "".join(text).strip()).touch()
        return character

    def execute(command, program, limit):
        return module.execute(["sh", "-c", command], os.environ, tmp_path, program, limit)

    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: len(text)))
    names = {name: getattr(os, name) for name in ("close", "pipe", "killpg")}
    monkeypatch.setattr(module, "os", types.SimpleNamespace(read=read, **names))
    return execute


def test_a_program_that_takes_too_long_is_ended(execute):
    status, text, _, _ = execute("echo waits; sleep 1000", {}, 5)
    assert (status, text) == (None, "waits\n")
    ended = [{"status": status, "result": ""} for status in (0, None)]
    assert runner().verdict({}, ended[:1], ended[1:]) == "DIFFERENT (status None)"


def test_time_between_two_lines(execute):
    """Each line is read when it is printed."""
    program = {"begin": "begins", "end": "ends"}
    pause = "until [ -e begins ]; do sleep 0.01; done"
    status, _, seconds, loop = execute(f"echo begins; {pause}; echo and ends", program, 1000)
    assert (status, seconds) == (0, len("begins\r\nand ends\r\n"))
    assert loop == len("\r\nand ends")
    assert runner().loop_times(program, "", seconds, loop) == {"": loop}


@pytest.mark.parametrize("name", ["programs.toml", "turns.toml"])
def test_the_list_can_be_read(name):
    listed = tomllib.loads((REAL / name).read_text(encoding="utf-8"))
    for name, program in listed["programs"].items():
        assert program["kind"] and program["command"], name
        assert program.get("repository") in [None, *listed["repositories"]], name
        for pattern in [*program.get("ignore", []), *program.get("rows", {}).values(),
                        *(program[key] for key in ("time", "rate", "begin", "end") if key in program)]:
            re.compile(pattern)
        assert ("begin" in program) == ("end" in program), name
        for _, pattern, replacement in program.get("edits", []):
            assert re.compile(pattern).groups >= len(re.findall(r"\\[1-9]", replacement)), name


def test_inputs_are_the_same_each_time(tmp_path):
    spec = importlib.util.spec_from_file_location("inputs", REAL / "inputs.py")
    inputs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inputs)
    for folder in ("one", "two"):
        inputs.write(tmp_path / folder)
    files = [str(path.relative_to(tmp_path / "one")) for path in (tmp_path / "one").rglob("*")
             if path.is_file()]
    assert len(files) > 10
    assert filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", files, shallow=False)[0] == files


# -- What gets and builds them ---------------------------------------------------

LIST = """
[repositories]
some = {{ url = "{url}", commit = "{commit}" }}
[programs.one]
repository = "some"
path = "deep/one"
build = "-I../two -I{{real}} 'one.cu'"
also = ["deep/two"]
edits = [["one.cu", '(size) = 2\\d*;', '\\1 = 3;']]
command = "{{bin}}/first -n 3"
[programs.two]
repository = "some"
path = "deep/two/two.cu"
cudart = "shared"
build = "two.cu"
edits = [["two.cu", 'nowhere', '']]
command = "{{bin}}/second"
[programs.three]
repository = "some"
path = "deep"
command = "{{bin}}/third"
[programs.ours]
path = "elsewhere"
command = "ours"
"""
NVCC = """#!/bin/sh
for last; do :; done
{ echo "$@"; cat ../one/one.cu; echo; cat ../two/two.cu; } >"$last"
"""


def git(folder, *words):
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", folder, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(name="listed")
def listed_programs(tmp_path):
    """A repository, a compiler, and the list of what is to be built."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    files = {"deep/one/one.cu": "size = 200;", "deep/two/two.cu": "two", "large": "not needed"}
    for name, text in files.items():
        file = tmp_path / "origin" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(tmp_path, "init", "-q", "origin")
    git(tmp_path / "origin", "add", ".")
    git(tmp_path / "origin", "commit", "-q", "-m", "all")
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/nvcc").write_text(NVCC)
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    (tmp_path / "list").write_text(LIST.format(
        url=f"file://{tmp_path}/origin", commit=git(tmp_path / "origin", "rev-parse", "HEAD")))
    return tmp_path


def build(folder, *words, status=0):
    done = subprocess.run([sys.executable, REAL / "build", "--dir", folder / "to", "--programs",
                           folder / "list", "--arch", "sm_90", *words],
                          env={**helpers.environment(preload=False), "CUDA_HOME": str(folder / "cuda")},
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_builds_at_the_commit_with_edits(listed):
    (listed / "origin/deep/two/two.cu").write_text("newer")
    git(listed / "origin", "commit", "-q", "-a", "-m", "more")
    git(listed / "origin", "config", "uploadpack.allowAnySHA1InWant", "true")
    for _ in range(2):  # what was edited is edited again
        assert build(listed, "--only", "one") == "1/1 one: built\n"
        arguments, *sources = (listed / "to/bin/first").read_text().splitlines()
        assert arguments == (f"-O3 -arch=sm_90 -cudart static -std=c++17 -I../two -I{REAL} one.cu "
                             f"-o {listed.resolve()}/to/bin/first")
        assert sources == ["size = 3;", "two"]
        assert not (listed / "to/src/some/large").exists()


def test_says_what_was_not_built(listed):
    text = build(listed, status=1)
    assert "one: built" in text and "two: two.cu has no 'nowhere'" in text
    assert text.endswith("to be built by hand, as the list says: three\n")
    (listed / "cuda/bin/nvcc").write_text("#!/bin/sh\necho wrong; exit 2\n")
    assert re.search(r"one: /\S*/nvcc -O3 .*\nwrong\n", build(listed, "--only", "one", status=1))
    assert "no program of a repository" in build(listed, "--only", "ours", status=2)
    (listed / "list").write_text((listed / "list").read_text().replace("/origin", "/nowhere"))
    (listed / "to").rename(listed / "before")
    assert re.search("2/2 one, two: git fetch .*\n.*nowhere", build(listed, status=1))


# -- In use and out of use in turn ----------------------------------------------

def turns(folder, program, *options, library=b"autograph_engage"):
    """The runner's status, messages, and its rows: the cells of each."""
    (folder / "bin").mkdir()
    (folder / "bin/fake").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "bin/fake").chmod(0o755)
    (folder / "library").write_bytes(library)
    (folder / "list").write_text("[programs.some]\ncommand = '{bin}/fake -n 3'\n")
    done = subprocess.run([sys.executable, REAL / "turns", "--dir", folder, "--library", folder / "library",
                           "--programs", folder / "list", "--limit", "0", "--rounds", "2", *options], capture_output=True, text=True,
                          env=helpers.environment(preload=False), timeout=helpers.TIMEOUT, check=False)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    return done.returncode, done.stderr, rows[2:]


def test_a_program_in_turns(tmp_path):
    """120 turns: the library is in use in 60 of them, of 100 steps each."""
    line = " ".join(["3.0 2.0"] * 5 + ["2.2 2.0"] * 45 + ["2.0 2.0"] * 10)
    status, _, rows = turns(tmp_path, f"echo turns 100 {line}")
    assert status == 0 and len(rows) == 1
    name, _, processes, us, everything, *parts = rows[0]
    assert (name, us, processes) == ("some", "2.0", "2")
    assert everything == "1.117 +- 0.000"
    assert parts == ["1.500 +- 0.000", "1.100 +- 0.000", "1.000 +- 0.000"]


def test_a_program_in_turns_that_fails(tmp_path):
    status, messages, rows = turns(tmp_path, "echo turns 100 1 2; echo no GPU >&2; exit 3")
    assert (status, rows) == (1, []) and "status 3: " in messages and "no GPU" in messages


def test_turns_of_a_chosen_program(tmp_path):
    status, messages, rows = turns(tmp_path, "echo turns 1000 3 2 1 2", "--only", "some")
    assert status == 0 and rows[0][4:] == ["1.000 +- 0.000", "-", "1.000 +- 0.000", "-"], messages
    (tmp_path / "bin/fake").unlink()
    (tmp_path / "bin").rmdir()
    status, messages, _ = turns(tmp_path, "true", "--only", "other")
    assert status == 2 and "has no other" in messages


def test_a_library_that_cannot_be_switched(tmp_path):
    status, messages, _ = turns(tmp_path, "echo turns 100 1 2", library=b"")
    assert status == 2 and "make CPPFLAGS=-DAG_TURNS" in messages


def test_the_switch_compiles():
    config = helpers.config()
    subprocess.run([*config["cc"].split(), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-DAG_TURNS",
                    '-DPACKAGE_VERSION="0"', "-isystem", f"{config['cuda']}/include", f"-I{helpers.SOURCE}/src",
                    f"-I{helpers.SOURCE}/include", helpers.SOURCE / "src/engine/calls/api.c"], check=True,
                   timeout=helpers.TIMEOUT)

# SPDX-License-Identifier: MIT
"""The public interface: a program that uses it, with the library and without."""
import os
import pathlib
import re
import subprocess
import time

import pytest

import compiled
import helpers
import trace_records as tracefile

HEADER = helpers.SOURCE / "include"
OPS = 100 * 6


def program():
    return compiled.program("observe_api")


def printed(done):
    """The lines of the program, but for its sum; the numbers as numbers."""
    lines = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    return [(line[0], int(line[1]), int(line[2])) for line in lines if len(line) == 3 and
            line[0] != "version"]


@pytest.fixture(scope="module")
def run():
    return helpers.run_logged(program(), env={"AUTOGRAPH_TRACE_UNROLL": 12})  # whole loops are held


def test_without_the_library_it_does_nothing(run):
    plain = helpers.run(program(), preload=False)
    assert plain.stdout.startswith("version 0 none\n") and plain.stderr == ""
    assert {(ops, replayed) for _, ops, replayed in printed(plain)} == {(0, 0)}
    assert plain.stdout.splitlines()[-1] == run.stdout.splitlines()[-1]


@pytest.mark.parametrize("env", [{"AUTOGRAPH_DISABLE": "1"}, {"AUTOGRAPH_GENERAL_ENABLE": "false"}])
def test_with_a_library_that_is_switched_off(env, run):
    done = helpers.run(program(), env=env)
    assert {(ops, replayed) for _, ops, replayed in printed(done)} == {(0, 0)}
    assert done.stdout.splitlines()[-1] == run.stdout.splitlines()[-1] and done.stderr == ""


def test_version(run):
    text = helpers.config()["version"]
    major, minor, patch = map(int, text.split("."))
    assert run.stdout.splitlines()[0] == f"version {10000 * major + 100 * minor + patch} {text}"


def test_nothing_is_held_between_pause_and_resume(run):
    rows = printed(run)
    assert [row[:2] for row in rows] == [(name, OPS) for name in
                                         ("first", "paused", "still paused", "inner", "inner")]
    replayed = [row[2] for row in rows]
    assert replayed[0] > OPS / 2 and replayed[1] == replayed[2] == 0
    assert replayed[3] > OPS / 2, "pauses and resumes are balanced again"
    assert replayed[4] > OPS / 2, "what a pause lets pass is no reason to rest"


def test_flush(run):
    """Two ops of a longer trace were held, and went out one by one."""
    assert "flushes 1\n" in run.stdout
    assert run.report["flushes"]["request"] >= 1
    assert "autograph_flush" in {c["function"] for c in run.report["cuts"]}


def test_regions_in_the_report(run):
    regions = {r["name"]: r for r in run.report["regions"]}
    assert set(regions) == {"first", "paused", "still paused", "inner", "outer", "deep", ""}
    assert regions["inner"]["count"] == 2 and regions["outer"]["count"] == 1
    assert regions["deep"]["count"] == 15, "sixteen nest"
    for name in ("first", "paused", "still paused"):
        assert regions[name]["ops"] == OPS, name
    assert regions["inner"]["ops"] == regions["outer"]["ops"] == 2 * OPS
    assert regions["paused"]["replayed"] == 0 < regions["first"]["replayed"]
    assert 0 < regions["inner"]["seconds"] <= regions["outer"]["seconds"] <= run.report["seconds"]


def test_regions_in_the_trace(tmp_path):
    file = tmp_path / "trace"
    helpers.run(program(), env={"AUTOGRAPH_TRACE_FILE": file})
    trace = tracefile.Trace(file)
    named = [(trace.names[r.id], r.sub) for r in trace.of(tracefile.REGION)]
    assert named[:6] == [("first", 0), ("first", 1), ("paused", 0), ("paused", 1),
                         ("still paused", 0), ("still paused", 1)]
    assert named[6:12] == [("outer", 0), ("inner", 0), ("inner", 1), ("inner", 0), ("inner", 1),
                           ("outer", 1)]
    begins = sum(1 for _, end in named if not end)
    assert begins == len(named) - begins and ("deep", 0) in named
    (ops,) = trace.ops.values()
    assert {op.function for op in ops} == {"ag_nop", "ag_mix"}


def test_the_region_is_shown_live():
    binary = compiled.text(f'#include "{HEADER}/autograph.h"' + '''
#include "sim_test.h"
int main(void)
{
    start();
    autograph_region_begin("outer");
    autograph_region_begin("a name that is much longer than the place which it has in the file of counters");
    getchar();
    autograph_region_end();
    getchar();
    return 0;
}
''')
    with subprocess.Popen([binary], stdin=subprocess.PIPE,
                          env=helpers.environment(env={"AUTOGRAPH_REPORT_LIVE": "on"})) as process:
        file = pathlib.Path(f"/dev/shm/autograph.{os.getuid()}.{process.pid}")

        def shows(name):
            end = time.monotonic() + helpers.TIMEOUT
            while not (file.exists() and file.read_bytes()[264:328].rstrip(b"\0") == name):
                if time.monotonic() > end:
                    return False
                time.sleep(0.01)
            return True

        assert shows(b"a name that is much longer than the place which it has in the f")
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert shows(b"outer")
        process.communicate(b"\n", timeout=helpers.TIMEOUT)


# -- The header -------------------------------------------------------------------

@pytest.mark.parametrize("compiler,flags", [
    ("cc", ["-x", "c", "-std=c99", "-pedantic"]), ("cc", ["-x", "c", "-std=c11", "-O2"]),
    ("c++", ["-x", "c++", "-std=c++11", "-pedantic", "-O2"]),
    ("c++", ["-x", "c++", "-std=c++17", "-O1"])])
def test_the_header_compiles_anywhere(tmp_path, compiler, flags):
    """In two files of one program, without a feature macro, without a warning, and nothing to link."""
    for name, body in (("one", "int two(void); int main(void) { return autograph_version() + two(); }"),
                       ("two", "int two(void); int two(void) { struct autograph_statistics s; "
                               "s.size = sizeof s; autograph_pause(); autograph_resume(); "
                               "return autograph_get_statistics(&s); }")):
        (tmp_path / name).write_text(f'#include "autograph.h"\n{body}\n')
    done = subprocess.run([compiler, f"-I{HEADER}", "-Wall", "-Wextra", "-Werror", *flags,
                           tmp_path / "one", tmp_path / "two", "-x", "none", "-o", tmp_path / "program",
                           "-ldl"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0
    undefined = helpers.tool("nm", "-u", tmp_path / "program")
    assert not re.search(r"autograph_", undefined)

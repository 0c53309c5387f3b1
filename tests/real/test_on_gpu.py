# SPDX-License-Identifier: MIT
"""The script that runs the test programs on a GPU, here on the simulated driver."""
import pytest

import compiled
import helpers
from helpers import library

SCRIPT = compiled.PROGRAMS / "run-gpu"
unsanitized = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                 reason="the script preloads no sanitizer's runtime")


def run(build, only, status=0, driver=helpers.sim_dir()):
    """`only`: the scenarios' beginning."""
    return helpers.run([SCRIPT, "--build", build, "--library", library(), "--only", f"^{only}"],
                       preload=False, status=status, env={"LD_LIBRARY_PATH": driver})


def fake(build, name, body):
    program = build / "tests/programs" / name
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


@unsanitized
def test_programs_are_equal():
    lines = run(helpers.build_dir(), "refused type").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == [
        "[1/2] refused type2d: equal", "[2/2] refused type3d: equal"]
    assert lines[2] == "slowest 10 scenarios" and lines[-1] == "2 scenarios, 0 not equal"
    assert sorted(line.split(" s  ")[1] for line in lines[3:5]) == ["refused type2d", "refused type3d"]
    assert all(0 not in map(int, line.split("replays ")[1].split(",")) for line in lines[:2])


@unsanitized
def test_rules_are_those_expected(tmp_path):
    fake(tmp_path, "sim_rules", "echo $1")
    lines = run(tmp_path, "sim_rules (reset|look_up)", 1).stdout.splitlines()
    assert "[1/2] sim_rules look_up: DIFFERENT without" in lines
    assert "[2/2] sim_rules reset: DIFFERENT without with held" in lines
    assert lines[-3:] == ["failed: sim_rules look_up", "failed: sim_rules reset", "2 scenarios, 2 not equal"]


@unsanitized
@pytest.mark.parametrize("body, verdict", [
    ("echo same", "equal"),
    ("echo same; exit 7", "equal"),
    ("echo no >&2; exit 1", "fails without the library too, status 1: no"),
    ("kill -ALRM $$", "fails without the library too, status hangs: "),
    ("echo $LD_PRELOAD", "DIFFERENT with held"),
    ("echo $AUTOGRAPH_TRACE_LENGTH", "DIFFERENT held"),
    ("test -z $LD_PRELOAD || exit 4", "DIFFERENT with held"),
    ("test -z $LD_PRELOAD || echo no >&2", "DIFFERENT with held"),
    ("test -z $LD_PRELOAD || kill -ALRM $$", "DIFFERENT with held"),
])
def test_script_sees_what_is_wrong(body, verdict, tmp_path):
    fake(tmp_path, "early_kernels", body)
    lines = run(tmp_path, "early_kernels copy", 0 if verdict == "equal" else 1).stdout.splitlines()
    assert lines[0] == f"[1/1] early_kernels copy: {verdict}"


@unsanitized
def test_script_builds_what_is_missing(tmp_path):
    (tmp_path / "tests").mkdir()
    for name in ("build.json", "sim"):
        (tmp_path / "tests" / name).symlink_to(helpers.build_dir() / "tests" / name)
    lines = run(tmp_path, "(sim_rules init|early_kernels copy)").stdout.splitlines()
    assert lines[0] == "[1/2] sim_rules init: equal" and lines[-1] == "2 scenarios, 0 not equal"


def test_a_machine_without_a_driver(tmp_path):
    (tmp_path / "libcuda.so.1").write_text("")
    done = run(helpers.build_dir(), "early_kernels", 2, driver=tmp_path)
    assert "no NVIDIA driver" in done.stderr


@pytest.mark.parametrize("driver, status, message", [
    (helpers.sim_dir(), 0, ""),
    (None, 1, "run-gpu: no NVIDIA driver: libcuda.so.1 is not there\n")])
def test_whether_there_is_a_gpu(tmp_path, driver, status, message):
    (tmp_path / "libcuda.so.1").write_text("")
    done = helpers.run([SCRIPT, "--ask"], preload=False, status=status,
                       env={"LD_LIBRARY_PATH": driver or tmp_path})
    assert (done.stdout, done.stderr) == ("", message)

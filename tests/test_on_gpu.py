# SPDX-License-Identifier: MIT
"""The script that runs the test programs on a GPU, here on the simulated driver."""
import pytest

import compiled
import helpers

SCRIPT = compiled.PROGRAMS / "run-gpu"
unsanitized = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                 reason="the script preloads no sanitizer's runtime")


def run(directory, only, status=0):
    """`only`: the scenarios' beginning."""
    return helpers.run([SCRIPT, "--library", helpers.library(), "--programs", directory,
                        "--only", f"^{only}"], preload=False, status=status)


@unsanitized
def test_programs_are_equal():
    directory = compiled.program("refused").parent
    lines = run(directory, "refused type").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "refused type2d: equal", "refused type3d: equal", "2 scenarios"]
    assert all(0 not in map(int, line.split("replays ")[1].split(",")) for line in lines[:2])


@unsanitized
def test_rules_are_those_expected(tmp_path):
    (tmp_path / "sim_rules").symlink_to("/bin/echo")
    lines = run(tmp_path, "sim_rules (reset|look_up)", 1).stdout.splitlines()
    assert "sim_rules look_up: DIFFERENT without" in lines
    assert "sim_rules reset: DIFFERENT without with held" in lines


@unsanitized
@pytest.mark.parametrize("body, verdict", [
    ("echo same", "equal"),
    ("echo same; exit 3", "equal, status 3: "),
    ("echo $LD_PRELOAD", "DIFFERENT with held"),
    ("echo $AUTOGRAPH_TRACE_LENGTH", "DIFFERENT held"),
    ("test -z $LD_PRELOAD || exit 4", "DIFFERENT with held"),
    ("test -z $LD_PRELOAD || echo no >&2", "DIFFERENT with held"),
    ("test -z $LD_PRELOAD || kill -ALRM $$", "DIFFERENT with held"),
])
def test_script_sees_what_is_wrong(body, verdict, tmp_path):
    program = tmp_path / "early_kernels"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    lines = run(tmp_path, "early_kernels copy", 0 if verdict.startswith("equal") else 1).stdout.splitlines()
    assert lines[0] == f"early_kernels copy: {verdict}".rstrip()


def test_script_wants_programs(tmp_path):
    assert "early_kernels is not there: build it" in run(tmp_path, "early_kernels", 2).stderr

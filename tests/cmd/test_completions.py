# SPDX-License-Identifier: MIT
"""The completions of bash and fish (tests/lint/manual.py compares them with the commands)."""
import re
import shlex
import shutil
import subprocess

import pytest

import helpers

HERE = helpers.build_dir() / "completions"
FILES = {"bash": HERE / "autograph", "fish": HERE / "autograph.fish"}


def split(line):
    """As readline does it: = is a word of its own."""
    return [part for word in line.split(" ") for part in re.findall(r"=|[^=]+", word) or [""]]


def by_bash(line, cwd=None):
    words = split(line)
    script = f"source {FILES['bash']}; complete -p autograph >&2; COMP_WORDS=({shlex.join(words)}); " \
        f"COMP_CWORD={len(words) - 1}; _autograph; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", script], text=True, capture_output=True, check=True, cwd=cwd)
    assert done.stderr == "complete -F _autograph autograph\n"
    return set(done.stdout.split())


def test_bash(tmp_path):
    for name in ("a.ini", "report.json", "program"):
        (tmp_path / name).touch()
    files = {"a.ini", "report.json", "program"}

    def complete(line):
        return by_bash(line, tmp_path)

    assert {"doctor", "report", "program"} <= complete("autograph ")
    assert complete("autograph --se") == {"--set"} and "--report" in complete("autograph --rep")
    assert complete("autograph --set trace.le") == {"trace.length="}
    for form in ("--set trace.length=", "--set=trace.length=", "verify --set trace.length="):
        assert complete(f"autograph {form}") == {"auto", "fixed"}
        assert complete(f"autograph {form}f") == {"fixed"}
    assert complete("autograph --set report.live=t") == {"true"} and complete("autograph --set trace.hot=") == set()
    assert complete("autograph --config a") == {"a.ini"} == complete("autograph --config=a")
    assert complete("autograph --report=re") == {"report.json"}
    assert complete("autograph report ") == files and complete("autograph report --ht") == {"--html"}
    assert complete("autograph bench --runs ") == set() and complete("autograph bench --ru") == {"--runs"}
    assert str(helpers.os.getpid()) in complete("autograph top ")
    # The options of a program are its own.
    assert complete("autograph ./program --se") == set() == complete("autograph --disable ./program --se")
    assert complete("autograph ./program p") == {"program"} == complete("autograph verify -- ./program p")
    assert complete("autograph --set trace.hot=5 --di") == {"--disable"}
    assert "true" in complete("autograph --config a.ini tru")


def test_fish(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("there is no fish")

    def complete(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {FILES['fish']}; complete -C {shlex.quote(line)}"],
                              text=True, capture_output=True, check=True, cwd=tmp_path)
        assert done.stderr == ""
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    (tmp_path / "report.json").touch()
    assert {"doctor", "report"} <= complete("autograph ")
    assert complete("autograph --se") == {"--set"} and complete("autograph report --ht") == {"--html"}
    assert complete("autograph --set trace.length=") == {"trace.length=auto", "trace.length=fixed"}
    assert complete("autograph report rep") == {"report.json"}
    assert "--set" not in complete("autograph ls --se")

# SPDX-License-Identifier: MIT
"""tests/real/build: it builds applications from packages, by commands of their own."""
import shutil
import subprocess
import sys

import pytest

import helpers

pytest.importorskip("tomllib", reason="Python is older than 3.11")
REAL = helpers.SOURCE / "tests/real"


# -- Building ---------------------------------------------------------------------

BUILD = """
[repositories]
some = {{ {origin} }}
[programs.app]
repository = "some"
path = "."
edits = [["text", 'one', 'two']]
build = ["mkdir -p {{build}}; cp text {{build}}/edited", "echo arch {{arch}} jobs {{jobs}} >>{{build}}/edited", "{last}"]
command = "{{bin}}/app"
"""
NPM = """#!/bin/sh
[ "$*" = "pack some@1.2" ] && git -C {folder}/origin bundle create -q {folder}/package/git.bundle HEAD &&
    tar -czf some-1.2.tgz -C {folder} package/git.bundle
"""
APT = """#!/bin/sh
[ "$*" = "source --download-only some=1.2-1" ] && touch some_1.2-1.dsc
"""
DPKG = """#!/bin/sh
for last; do :; done
mkdir "$last" && echo one >"$last/text"
"""


@pytest.fixture(name="listed")
def a_package(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    (tmp_path / "origin").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "origin/text").write_text("one\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", tmp_path / "origin"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    for name, text in (("npm", NPM), ("apt-get", APT), ("dpkg-source", DPKG), ("nvcc", "#!/bin/sh\n")):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).write_text(text.format(folder=tmp_path) if name == "npm" else text)
        (tmp_path / "tools" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("origin", ['npm = "some@1.2", bundle = "package/git.bundle"', 'debian = "some=1.2-1"'])
def test_builds_by_commands_from_a_package(listed, origin):
    environment = helpers.environment(preload=False)
    environment["PATH"] = f"{listed}/tools:{environment['PATH']}"
    environment.pop("CUDA_HOME", None)

    def build(last):
        (listed / "list").write_text(BUILD.format(origin=origin, last=last))
        return subprocess.run([sys.executable, REAL / "build", "--dir", listed / "to", "--programs", listed / "list",
                               "--arch", "sm_90", "--jobs", "3"], env=environment, capture_output=True, text=True,
                              timeout=helpers.TIMEOUT, check=False)

    done = build("cp {build}/edited {bin}/app")
    assert (done.returncode, done.stdout) == (0, "1/1 app: built\n"), done.stdout + done.stderr
    assert (listed / "to/bin/app").read_text() == "two\narch 90 jobs 3\n"
    assert build("cp {build}/edited {bin}/app").stdout == "1/1 app: built\n"  # edits what came, not what it has edited
    (listed / "to/bin/app").unlink()
    done = build("true")
    assert done.returncode == 1 and "its commands made no" in done.stdout
    done = build("echo wrong; exit 3")
    assert done.returncode == 1 and "wrong" in done.stdout

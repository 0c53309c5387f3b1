# SPDX-License-Identifier: MIT
"""scripts/setup and scripts/compare, on machines that are made to lack things."""
import os
import pathlib
import subprocess
import sys

import pytest

import helpers

SCRIPTS = helpers.SOURCE / "scripts"


@pytest.fixture
def machine(tmp_path):
    """A PATH with the tools that this machine has, less those named; programs can be added to it."""
    class Machine:
        bin = tmp_path / "bin"
        log = tmp_path / "calls"

        def __init__(self):
            self.bin.mkdir()
            for directory in os.environ["PATH"].split(":"):
                for tool in pathlib.Path(directory).glob("*") if directory else ():
                    link = self.bin / tool.name
                    if not link.is_symlink() and tool.name not in (
                            "apt-get", "dnf", "pacman", "zypper", "sudo"):
                        link.symlink_to(tool)

        def without(self, *names):
            for name in names:
                (self.bin / name).unlink()

        def add(self, name, script):
            """A program that records its call, then does what `script` says."""
            (self.bin / name).unlink(missing_ok=True)
            (self.bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{script}\n')
            (self.bin / name).chmod(0o755)

        def calls(self):
            return self.log.read_text().splitlines() if self.log.exists() else []

        def setup(self, status, usual_places="/usr/local/cuda /usr", **env):
            # The configure of this checkout is there; a fresh clone has none.
            tree = tmp_path / "tree"
            (tree / "scripts").mkdir(parents=True, exist_ok=True)
            text = (SCRIPTS / "setup").read_text()
            assert " /usr/local/cuda /usr;" in text
            (tree / "scripts/setup").write_text(text.replace("/usr/local/cuda /usr", usual_places))
            (tree / "scripts/setup").chmod(0o755)
            done = subprocess.run([tree / "scripts/setup"], capture_output=True, text=True, cwd="/",
                                  env={**os.environ, "PYTHON": sys.executable, **env,
                                       "PATH": str(self.bin)},
                                  timeout=helpers.TIMEOUT, check=False)
            assert done.returncode == status, done.stdout + done.stderr
            return done
    return Machine()


def test_nothing_is_installed_when_everything_is_there(machine):
    machine.add("apt-get", "exit 1")
    done = machine.setup(0)
    assert machine.calls() == []
    assert done.stdout == "setup: everything needed is there\n"


def test_only_what_is_missing_is_installed(machine):
    """Even when the package lists cannot be refreshed."""
    machine.without("autoconf", "libtoolize")
    machine.add("id", "echo 0")
    machine.add("apt-get", f'[ "$1" = update ] && exit 100\n'
                           f"for t in autoconf libtoolize; do ln -s /bin/true {machine.bin}/$t; done")
    done = machine.setup(0)
    installs = [c for c in machine.calls() if c.startswith("apt-get") and " install " in c]
    assert len(installs) == 1
    assert installs[0].split()[-2:] == ["autoconf", "libtool"]
    assert "setup: installing autoconf libtool" in done.stdout


def test_sudo_is_used_by_other_users(machine):
    machine.without("automake")
    machine.add("id", "echo 1000")
    machine.add("sudo", f'while [ "${{1#-}}" != "$1" ]; do shift; done; PATH={machine.bin} "$@"')
    machine.add("dnf", f"ln -s /bin/true {machine.bin}/automake")
    machine.setup(0)
    assert [c for c in machine.calls() if c.startswith("dnf")] == ["dnf install -y automake"]


def test_what_cannot_be_installed_is_named(machine):
    machine.without("automake", "make")
    assert "missing: make automake" in machine.setup(1).stderr  # no package manager
    machine.add("apt-get", "exit 1")
    machine.add("id", "echo 1000")
    assert "apt packages make automake" in machine.setup(1).stderr  # no root, no sudo
    machine.add("id", "echo 0")
    assert "still missing: make automake" in machine.setup(1).stderr  # it fails


def test_the_cuda_toolkit_is_asked_for(machine, tmp_path):
    machine.bin.joinpath("nvcc").unlink(missing_ok=True)
    done = machine.setup(1, usual_places="", CUDA_HOME=str(tmp_path))
    assert "missing: the CUDA toolkit" in done.stderr and "CUDA_HOME" in done.stderr
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cuda.h").touch()
    machine.setup(0, usual_places="", CUDA_HOME=str(tmp_path))


SAMPLE = """#!/bin/sh
case $LD_PRELOAD:$1 in
*library*) us=2.00 sum=%s; echo '{"ops": {"total": 200, "replayed": 150}}' >"$AUTOGRAPH_REPORT" ;;
*:--graph) us=1.00 sum=aa ;;
*) us=5.00 sum=aa ;;
esac
echo "checksum $sum"
echo "us_per_iteration $us"
"""


@pytest.mark.parametrize("checksum,status,verdict", [("aa", 0, "equal"), ("bb", 1, "DIFFERENT")])
def test_compare(tmp_path, checksum, status, verdict):
    program, library = tmp_path / "loop", tmp_path / "library.so"
    program.write_text(SAMPLE % checksum)
    program.chmod(0o755)
    library.touch()  # nothing that can be loaded: the dynamic linker says so and goes on
    done = subprocess.run([sys.executable, SCRIPTS / "compare", "--library", library, program],
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stderr
    head, row = done.stdout.splitlines()
    assert row.split() == ["loop", "5.00", "2.00", "2.50x", "1.00", "75.0", "%", verdict]
    assert len(head) == len(row)


def test_compare_says_why_a_program_failed(tmp_path):
    done = subprocess.run([sys.executable, SCRIPTS / "compare", "--library", helpers.library(),
                           "/bin/false"], capture_output=True, text=True, timeout=helpers.TIMEOUT,
                          check=False)
    assert done.returncode == 1 and "/bin/false ended with status 1" in done.stderr


# -- The check ------------------------------------------------------------------

PASSES, FAILS = "def test_passes():\n    pass\n", "def test_fails():\n    assert False\n"


def test_a_failure_is_named_at_once_and_counted_with_those_of_other_builds(tmp_path):
    for name in ("conftest.py", "helpers.py"):
        (tmp_path / name).write_text((helpers.SOURCE / "tests" / name).read_text())
    (tmp_path / "test_it.py").write_text(FAILS + PASSES)
    (tmp_path / "test_broken.py").write_text("import nowhere\n")
    failures = tmp_path / "failures"
    failures.write_text("thread: tests/test_other.py::test_race\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path,
                           "--continue-on-collection-errors", tmp_path], capture_output=True, text=True,
                          env={**os.environ, "AG_FAILURES": str(failures), "AG_BUILD": str(helpers.build_dir())},
                          cwd=tmp_path, timeout=helpers.TIMEOUT, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines.index("failed: test_it.py::test_fails") < lines.index("    def test_fails():")
    assert "FAILED thread: tests/test_other.py::test_race" in lines
    assert lines[-1].startswith("2 failed, 1 passed, 1 error in ")
    build = helpers.config()["sanitize"] or "plain"
    assert failures.read_text().splitlines() == [
        "thread: tests/test_other.py::test_race", f"{build}: test_broken.py", f"{build}: test_it.py::test_fails"]


@pytest.fixture(name="tree")
def tree_with_fakes(tmp_path):
    """A tree with this one's check, and a make and a Python that do nothing but what they are told to."""
    class Tree:
        def __init__(self):
            for name in ("scripts/check", "scripts/sanitize", "scripts/steps.sh"):
                self.add(name, (SCRIPTS.parent / name).read_text())
            self.add("scripts/setup", "#!/bin/sh\n")
            self.add("configure.ac", "")
            self.add("configure", "#!/bin/sh\necho 'PYTHON = python' >Makefile\n")
            self.add("bin/make", '#!/bin/sh\ncase " $BROKEN " in *" $2 "*) echo no luck; exit 1 ;; esac\n')
            self.add("bin/python", f'''#!/bin/sh
[ "$1 $2" = "-c import xdist" ] && exit "${{XDIST:-1}}"
build=${{AG_BUILD#{tmp_path}/}}
case " $FAILING " in *" $build "*) echo "$build: test_some" >>"$AG_FAILURES"; status=1 ;; esac
echo "tests of $build, failed: $(wc -l <"$AG_FAILURES")"
echo "arguments $*"
exit $status
''')

        def add(self, name, text):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)

        def run(self, name="check", *arguments, of=("tests of", "failed:"), **env):
            """The status, and what was printed about tests, or lines that begin with `of`."""
            done = subprocess.run([tmp_path / "scripts" / name, *arguments], capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                                       "AG_CONFIGURE": "", "AG_FAILURES": "", **env},
                                  timeout=helpers.TIMEOUT, check=False)
            return done.returncode, [line for line in (done.stdout + done.stderr).splitlines()
                                     if line.startswith(of)]
    return Tree()


@pytest.mark.parametrize("failing", ["", "build", "build/thread", "build/address", "build build/thread"])
def test_all_parts_of_the_check_run_whatever_fails(tree, failing):
    for _ in range(2):  # and what failed in an earlier check is forgotten
        status, lines = tree.run(FAILING=failing)
        counts = [len([build for build in builds if build in failing.split()]) for builds in (
            ["build"], ["build", "build/thread"], ["build", "build/thread", "build/address"])]
        assert lines == [f"tests of {build}, failed: {count}" for build, count in
                         zip(("build", "build/thread", "build/address"), counts)]
        assert status == (1 if failing else 0)


def test_what_cannot_be_built_is_a_failure_of_the_check(tree):
    status, lines = tree.run(BROKEN="build/thread")
    assert status == 1
    assert lines[:2] == ["tests of build, failed: 0", "tests of build/address, failed: 1"]
    status, lines = tree.run("sanitize", BROKEN="build/thread build/address")
    assert status == 1 and lines[-2:] == ["failed: thread: the build", "failed: address: the build"]


def test_tests_run_on_all_processors_where_pytest_can(tree):
    jobs = f" -n {len(os.sched_getaffinity(0))} "
    for xdist, number in (("0", 3), ("1", 0)):
        lines = tree.run(of="arguments", XDIST=xdist)[1]
        assert len(lines) == 3 and sum(jobs in line + " " for line in lines) == number, lines


def test_chosen_tests_run_in_the_plain_build_alone(tree):
    assert tree.run("check", "-k", "doors") == (0, ["tests of build, failed: 0"])

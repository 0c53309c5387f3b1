# SPDX-License-Identifier: MIT
"""scripts/setup and scripts/compare, on machines that are made to lack things."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import budget
import helpers
import scales

SCRIPTS = helpers.SOURCE / "scripts"
BUILD = helpers.config()["sanitize"] or "plain"


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

        def setup(self, status, *arguments, answer=None, usual_places="/usr/local/cuda /usr", text=None,
                  **env):
            """Runs it; with an answer, on a terminal where somebody has typed that."""
            # The configure of this checkout is there; a fresh clone has none.
            tree = tmp_path / "tree"
            (tree / "scripts").mkdir(parents=True, exist_ok=True)
            text = text or (SCRIPTS / "setup").read_text()
            assert " /usr/local/cuda /usr;" in text
            (tree / "scripts/setup").write_text(text.replace("/usr/local/cuda /usr", usual_places))
            (tree / "scripts/setup").chmod(0o755)
            ends = os.openpty() if answer is not None else ()
            if ends:
                os.write(ends[0], answer.encode())
            done = subprocess.run([tree / "scripts/setup", *arguments], capture_output=True, text=True, cwd="/",
                                  stdin=ends[1] if ends else subprocess.DEVNULL,
                                  env={**os.environ, "PYTHON": sys.executable, **env,
                                       "PATH": str(self.bin)},
                                  timeout=helpers.TIMEOUT, check=False)
            for end in ends:
                os.close(end)
            assert done.returncode == status, done.stdout + done.stderr
            assert max(map(len, (done.stdout + done.stderr).splitlines()), default=0) <= 100
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


@pytest.fixture
def lacking(machine):
    """A machine of another user than root's that lacks automake, and can install it."""
    machine.without("automake")
    machine.add("id", "echo 1000")
    machine.add("sudo", f'while [ "${{1#-}}" != "$1" ]; do shift; done; PATH={machine.bin} "$@"')
    machine.add("dnf", f"ln -s /bin/true {machine.bin}/automake")
    return machine


def test_who_does_not_agree_gets_nothing_installed(lacking):
    for answer in ("n\n", "\n", "\x04", "yonder\n"):
        done = lacking.setup(1, answer=answer)
        assert "setup: install these dnf packages: automake? [y/N]" in done.stdout and "by sudo" in done.stdout
        assert done.stderr == "setup: nothing was installed; missing: automake\n"
        assert not [c for c in lacking.calls() if c.startswith(("dnf", "sudo"))]


def test_who_agrees_is_asked_for_a_password(lacking):
    for answer in ("y\n", "YES\n"):
        lacking.setup(0, answer=answer)
        assert lacking.calls()[-2:] == ["sudo dnf install -y automake", "dnf install -y automake"]
        lacking.log.unlink()
        lacking.without("automake")


def test_nobody_is_asked_in_a_script(lacking):
    """Where there is no terminal sudo does not ask for a password either."""
    assert "?" not in lacking.setup(0).stdout
    assert "sudo -n dnf install -y automake" in lacking.calls()
    lacking.without("automake")
    assert "?" not in lacking.setup(0, "--yes", "build", answer="").stdout
    assert lacking.calls()[-2] == "sudo dnf install -y automake"


def test_each_purpose_gets_what_it_needs(machine):
    machine.without("valgrind")
    machine.add("cc", "exit 1")  # no header is there
    machine.add("false-python", "exit 1")
    for python in ("python3", "false-python"):
        machine.add(python, '[ "$1" != -c ]')
    script = (SCRIPTS / "setup").read_text()
    assert " /usr/bin/python3;" in script
    script = script.replace(" /usr/bin/python3;", ";")
    for purpose, missing in (("build", "inih"), ("demo", "inih uthash"), ("all", "inih uthash valgrind pytest")):
        done = machine.setup(1, purpose, text=script, CC="cc", PYTHON="false-python")
        assert done.stderr.startswith(f"setup: missing: {missing}\n  install them: there is no package manager")


def test_a_word_that_setup_does_not_know(machine):
    machine.add("apt-get", "exit 1")
    assert machine.setup(1, "biuld").stderr == "setup: biuld is neither --yes nor all, build, demo or clang\n"
    assert "scripts/setup [--yes] demo " in machine.setup(0, "--help").stdout
    assert machine.calls() == []


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


@pytest.fixture(name="tests")
def tests_of_another_tree(tmp_path):
    """Runs pytest with this tree's conftest.py on files of tests; returns the run and its lines."""
    def run(scale, env=None, budgets="", **files):
        (tmp_path / "budget.toml").write_text(budgets)
        shared = {name: (helpers.SOURCE / f"tests/{name}.py").read_text()
                  for name in ("budget", "conftest", "draw", "helpers", "scales", "strict")}
        for name, text in {**shared, **files}.items():
            (tmp_path / f"{name}.py").write_text(text)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path,
                               "--continue-on-collection-errors", tmp_path], capture_output=True, text=True,
                              env={**os.environ, "AG_RESULTS": str(tmp_path / "results"), "AG_SCALE": scale,
                                   "AG_BUILD": str(helpers.build_dir()), "AG_SEED": "1", "AG_CHANGED": "", **(env or {})},
                              cwd=tmp_path, timeout=helpers.TIMEOUT, check=False)
        return done, done.stdout.splitlines()
    (tmp_path / "results").touch()
    return run


def test_a_failure_is_named_at_once_and_results_are_added_to_those_of_other_builds(tests, tmp_path):
    results = tmp_path / "results"
    others = ["failed\tthread: tests/test_other.py::test_race", "slow\t900.00\tthread: tests/test_other.py::test_race",
              "slow\t0.00\tthread: tests/test_other.py::test_idle", "passed\tthread: 41", "skipped\tthread: 7"]
    results.write_text("".join(f"{line}\n" for line in others))
    done, lines = tests("", test_it=FAILS + PASSES + "def test_slow():\n    __import__('time').sleep(0.2)\n",
                        test_broken="import nowhere\n")
    assert done.returncode == 1
    assert lines.index("failed: test_it.py::test_fails") < lines.index("    def test_fails():")
    assert "FAILED thread: tests/test_other.py::test_race" in lines
    slowest = next(number for number, line in enumerate(lines) if "slowest 10 tests" in line)
    build = BUILD
    assert lines[slowest + 1] == " 900.00 s  thread: tests/test_other.py::test_race"
    assert lines[slowest + 2].endswith(f" s  {build}: test_it.py::test_slow")
    assert lines[-1].startswith("2 failed, 43 passed, 7 skipped, 1 error in ")
    added = results.read_text().splitlines()[len(others):]
    assert added[:2] == [f"failed\t{build}: test_broken.py", f"failed\t{build}: test_it.py::test_fails"]
    assert added[-3:-1] == [f"passed\t{build}: 2", f"skipped\t{build}: 0"]
    assert re.fullmatch(rf"cost\t{build}: \d+ CPU seconds, 3 cases", added[-1])
    assert added[2].startswith("slow\t0.") and added[2].endswith(f"\t{build}: test_it.py::test_slow")


CASES = "import pytest\n@pytest.mark.parametrize('n', range({}))\ndef test_cases(n):\n    pass\n"


def lists(**changes):
    """scales.py with other lists."""
    text = (helpers.SOURCE / "tests/scales.py").read_text()
    return text + "".join(f"\n{name} = {value!r}\n" for name, value in changes.items())


@pytest.mark.parametrize("scale, ran", [("quick", "2 passed, 3 deselected"), ("normal", "5 passed, 1 deselected"),
                                        ("full", "6 passed"), ("night", "7 passed"), ("", "7 passed")])
def test_a_scale_leaves_tests_out(tests, scale, ran):
    """By file, which is not read then, or by name with all cases; where no scale is set, all that is chosen runs."""
    chosen = lists(FROM_NORMAL={"test_a.py::test_cases", "test_b.py"}, FROM_FULL={"test_c.py::test_cases"},
                   FROM_NIGHT={"test_d.py"})
    done, lines = tests(scale, scales=chosen, test_a=PASSES + CASES.format(2), test_b=PASSES,
                        test_c=PASSES + CASES.format(1), test_d=PASSES)
    assert done.returncode == 0 and lines[-1].startswith(f"{ran} in "), done.stdout


def test_cases_are_drawn_by_the_seed_and_their_names_alone(tests):
    """Another file beside changes nothing; at night all run."""
    chosen = lists(DRAWN={"test_a.py::test_cases": (0.1, 0.5)})
    text = CASES.format(200)

    def ran(scale, seed="1", more="", **files):
        done, lines = tests(scale, env={"AG_SEED": seed, "PYTEST_ADDOPTS": "-rp"}, scales=chosen,
                            test_a=text + more, **files)
        assert done.returncode == 0 and (not scale or f"AG_SEED={seed};" in done.stdout)
        return set(re.findall(r"PASSED test_a.py::test_cases\[(\d+)\]", done.stdout))

    first = ran("normal")
    assert 5 < len(first) < 50 and first == ran("normal", test_b=PASSES) == ran("normal", more=f"\n\n{PASSES}")
    assert ran("quick") < first < ran("full") and first != ran("normal", seed="2")
    assert len(ran("night")) == len(ran("")) == 200


def test_a_test_of_a_tool_runs_where_the_tool_has_changed(tests, tmp_path):
    chosen = lists(TOOLS={"test_a.py": ("tests/tool/",)})
    for changed, scale, ran in (("src/x.c", "full", 0), ("src/x.c\ntests/tool/y.py", "normal", 1), ("?", "normal", 1),
                                ("tests/test_a.py", "normal", 1), ("src/x.c", "night", 1), ("src/x.c", "", 1)):
        (tmp_path / "results").write_text("")
        _, lines = tests(scale, env={"AG_CHANGED": changed}, scales=chosen, test_a=PASSES, test_b=PASSES)
        assert lines[-1].startswith(f"{1 + ran} passed"), (changed, scale)


def test_what_has_changed_is_what_differs_from_the_main_branch_or_the_last_commit(tmp_path, monkeypatch):
    """And files that git does not know yet. Without git nothing is known."""
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                       capture_output=True)

    def changed():
        scales.changed.cache_clear()
        return scales.changed()

    monkeypatch.setattr(helpers, "SOURCE", tmp_path)
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k != "AG_CHANGED"})
    assert changed() is None
    git("init", "-q")
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "-q", "-m", name)
    assert changed() == ["c"]
    git("update-ref", "refs/remotes/origin/main", "HEAD~2")
    (tmp_path / "d").touch()
    assert changed() == ["b", "c", "d"]
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert changed() == ["c", "d"]
    scales.changed.cache_clear()


def test_a_file_over_its_budget_is_a_failure(tests, tmp_path):
    """By what its processes take, too; at night, and where no scale is set, nothing is judged."""
    burns = ("import subprocess, sys\ndef test_burns():\n    subprocess.run([sys.executable, '-c', "
             "'import time\\nwhile time.process_time() < 1.2: pass'])\n")
    for seconds, scale, status in ((0, "normal", 1), (60, "normal", 0), (0, "night", 0), (0, "", 0)):
        (tmp_path / "results").write_text("")
        budgets = f'[{"normal" if BUILD == "plain" else BUILD.split(",")[0]}]\n"test_a.py" = {seconds}\n'
        done, lines = tests(scale, budgets=budgets, test_a=burns)
        assert done.returncode == status, done.stdout
        assert lines[-1].startswith("1 failed, 1 passed in " if status else "1 passed in ")
        assert ("failed\t" in (tmp_path / "results").read_text()) == bool(status)


def test_which_budget_counts():
    sections = budget.read('# text\n\n[normal]\n"test_a.py" = 5\n"test_b.py" = 6 # why\n[full]\n"test_b.py" = 60\n'
                           '[address]\n"test_a.py" = 50\n')
    normal = {"test_a.py": 5, "test_b.py": 6}
    assert budget.of("plain", "normal", sections) == budget.of("clang", "quick", sections) == normal
    assert budget.of("plain", "full", sections) == {**normal, "test_b.py": 60}
    assert budget.of("address,undefined", "full", sections) == {"test_a.py": 50}
    assert budget.of("plain", "night", sections) == budget.of("plain", "", sections) == {}
    costs = {"test_a.py": 15.1, "test_b.py": 8.9, "test_new.py": 100}
    assert budget.over(costs, normal, 2) == ["tests/test_a.py took 15 CPU seconds and may take 10: draw fewer cases, "
                                             "or raise its budget in tests/budget.toml"]
    assert budget.over(costs, normal, 2.1) == []


def test_a_scale_or_a_seed_that_makes_no_sense(tests):
    done, _ = tests("half")
    assert done.returncode != 0 and "AG_SCALE=half: give quick, normal, full, night" in done.stderr
    done, _ = tests("normal", env={"AG_SEED": "one"})
    assert done.returncode != 0 and "AG_SEED=one: give a number" in done.stderr


@pytest.fixture(name="tree")
def tree_with_fakes(tmp_path):
    """A tree with this one's check, and a make and a Python that do nothing but what they are told to."""
    class Tree:
        def __init__(self):
            for name in ("check", "demo", "sanitize", "steps.sh", "run-tests"):
                self.add(f"scripts/{name}", (SCRIPTS / name).read_text())
            self.add("scripts/setup", '#!/bin/sh\necho "==> setup $*"\n[ "$1" != clang ] || exit "${NO_CLANG:-0}"\n')
            self.add("bin/nvidia-smi", '#!/bin/sh\n[ -z "$GPU" ] || echo "$GPU"\n')
            self.add("scripts/tidy", '#!/bin/sh\nexit "${UNTIDY:-0}"\n')
            self.add("bin/clang-tidy", '#!/bin/sh\necho "LLVM version ${TIDY:-14.0.6}"\n')
            self.add("configure.ac", "")
            self.add("configure", "#!/bin/sh\n"
                                  "printf 'PYTHON = python\\nNVCC = %s\\n' \"${NVCC-nvcc}\" >Makefile\n"
                                  "printf '#!/bin/sh\\necho \"%s\"\\n' \"$*\" >config.status; chmod +x config.status\n")
            self.add("bin/make", '#!/bin/sh\necho "make $*" >>"$MADE"\n'
                                 'case " $BROKEN " in *" $2 "*) echo no luck; exit 1 ;; esac\n'
                                 '[ -z "$FAULT" ] || case $* in *lint) echo "$FAULT"; exit 2 ;; esac\n')
            self.add("bin/python", f'''#!/bin/sh
[ "$1 $2" = "-c import xdist" ] && exit "${{XDIST:-1}}"
build=${{AG_BUILD#{tmp_path}/}}
case " $FAILING " in *" $build "*) printf 'failed\\t%s: test_some\\n' "$build" >>"$AG_RESULTS"; status=1 ;; esac
case " $ENDING " in *" $build "*) status=4 ;; esac
echo "tests of $build, scale ${{AG_SCALE:-none}}, failed: $(grep -c failed "$AG_RESULTS")"
echo "arguments $*"
exit $status
''')

        def add(self, name, text):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)

        def made(self):
            """The calls of make."""
            return [line for line in (tmp_path / "made").read_text().splitlines() if not line.endswith(" lint")]

        def run(self, name="check", *arguments, of=("tests of", "failed:"), **env):
            """The status, and what was printed about tests, or lines that begin with `of`."""
            (tmp_path / "made").write_text("")
            unset = {"AG_CONFIGURE": "", "AG_RESULTS": "", "AG_SCALE": "", "AG_BEGAN": "", "AG_SEED": ""}
            done = subprocess.run([tmp_path / "scripts" / name, *arguments], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                                       "MADE": str(tmp_path / "made"), **unset, **env},
                                  timeout=helpers.TIMEOUT, check=False)
            return done.returncode, [line for line in done.stdout.splitlines() if line.startswith(of)]
    return Tree()


PARTS = {"build": "full", "build/clang": "quick", "build/thread": "full", "build/address": "full"}


def full(*failing, parts=PARTS, early=0):
    """What a full check says of these parts; `early`: failures that are known before tests run."""
    builds = list(parts)
    return [f"tests of {build}, scale {PARTS[build]}, failed: "
            f"{early + sum(before in failing for before in builds[:number])}"
            for number, build in enumerate(builds, 1)]


@pytest.mark.parametrize("failing", ["", "build", "build/clang", "build/address", "build build/thread"])
def test_all_parts_of_a_full_check_run_whatever_fails(tree, failing):
    for _ in range(2):  # and what failed in an earlier check is forgotten
        status, lines = tree.run("check", "--full", FAILING=failing)
        assert lines == full(*failing.split())
        assert status == (1 if failing else 0)


def test_what_cannot_be_built_is_a_failure_of_the_check(tree):
    status, lines = tree.run("check", BROKEN="build")
    assert status == 1 and lines[-1] == "failed: plain: the build"
    status, lines = tree.run("check", "--full", BROKEN="build build/thread")
    clang, address = full(parts=["build/clang", "build/address"], early=1)
    assert status == 1
    assert [line for line in lines if "make" not in line] == [
        "failed: plain: the build", clang, "failed: thread: the build", address.replace(": 1", ": 2")]
    status, lines = tree.run("sanitize", BROKEN="build/thread build/address")
    assert status == 1 and lines[-2:] == ["failed: thread: the build", "failed: address: the build"]


def test_a_part_whose_tests_cannot_run_is_a_failure_of_the_check(tree):
    status, lines = tree.run("check", FAILING="build", ENDING="build")
    assert status == 1 and lines[1:] == ["failed: build: pytest ended with status 4", "failed: build: test_some",
                                         "failed: build: pytest ended with status 4"]
    status, lines = tree.run("check", "--full", ENDING="build/clang")
    assert status == 1 and lines[-1] == "tests of build/address, scale full, failed: 1"


def test_what_clang_tidy_finds_is_a_failure_of_a_full_check(tree):
    status, lines = tree.run("check", "--full", UNTIDY="123")
    tests = full(parts=["build"]) + full(parts=["build/clang", "build/thread", "build/address"], early=1)
    assert status == 1 and lines == [tests[0], "failed: clang-tidy: see above", *tests[1:]]
    assert tree.run("check", UNTIDY="123")[0] == tree.run("check", "--full", UNTIDY="123", TIDY="19.1.0")[0] == 0


@pytest.mark.parametrize("words, status", [([], 1), (["--quick"], 1), (["--full"], 1), (["-k", "doors"], 0)])
def test_what_lint_finds_is_a_failure_of_each_check(tree, words, status):
    """The tests run all the same; where one chooses some, they are all that runs."""
    got, lines = tree.run("check", *words, FAULT="x.c:3: mend it", of=("x.c", "tests of build,", "failed:"))
    told = [line for line in lines if not line.startswith("tests of")]
    assert (got, told) == (status, ["x.c:3: mend it", "failed: lint: see above"] * status) and lines[-1:] != told[-1:]


def test_a_machine_without_clang(tree):
    status, lines = tree.run("check", "--full", NO_CLANG="1", of=("tests of", "==>"))
    assert status == 0
    assert [line for line in lines if "tests of build" in line] == full(parts=["build", "build/thread", "build/address"])
    assert any(line.endswith("] no clang: nothing is built with it") for line in lines)


@pytest.mark.parametrize("flags, scale, targets", [
    ([], "normal", "check-programs tests/samples/constant-static"),
    (["--quick"], "quick", "check-programs"),
    (["--quick", "-k", "doors"], "quick", "check-programs"),
    (["--seed", "3"], "normal", "check-programs tests/samples/constant-static"),
    (["--full", "-k", "doors"], "full", "check-programs tests/samples/constant-static samples"),
    (["-k", "doors"], "none", "check-programs tests/samples/constant-static")])
def test_what_is_built_and_run_in_the_plain_build_alone(tree, flags, scale, targets):
    assert tree.run("check", *flags) == (0, [f"tests of build, scale {scale}, failed: 0"])
    jobs = len(os.sched_getaffinity(0))
    assert tree.made() == [f"make -C build -j{jobs} {targets}"]


def test_a_build_is_configured_anew_only_for_other_flags(tree):
    def configured(*arguments, **env):
        lines = tree.run("check", *arguments, of="==>", **env)[1]
        return [line.split("] ")[1] for line in lines if "configuring" in line]
    assert configured() == ["configuring in build/ (--enable-werror)"]
    assert configured() == []
    assert len(configured(AG_CONFIGURE="--with-inih=/opt")) == 1 and configured(AG_CONFIGURE="--with-inih=/opt") == []
    assert len(configured("--full")) == 3  # those beside the first
    assert configured("--full") == []


@pytest.mark.parametrize("gpu, nvcc, purposes", [("", "nvcc", ["demo"]), ("H200", "nvcc", ["build"]),
                                                 ("H200", "", ["build", "demo"])])
def test_the_demo_installs_only_what_it_needs(tree, gpu, nvcc, purposes):
    status, lines = tree.run("demo", "--yes", of="==> setup", GPU=gpu, NVCC=nvcc)
    assert status == 0 and lines == [f"==> setup {purpose} --yes" for purpose in purposes]


def test_what_a_full_check_needs_is_installed_before_it_tests(tree):
    lines = tree.run("check", "--full", of=("==> setup", "tests of"))[1]
    assert lines[:2] == ["==> setup all", "==> setup clang"]
    assert tree.run("check", "--full", "-k", "doors", of="==> setup")[1] == ["==> setup all"]


def test_tests_run_on_all_processors_where_pytest_can(tree):
    jobs = f" -n {3 * len(os.sched_getaffinity(0))} "
    for xdist, number in (("0", 4), ("1", 0)):
        lines = tree.run("check", "--full", of="arguments", XDIST=xdist)[1]
        assert len(lines) == 4 and sum(jobs in line + " " for line in lines) == number, lines
    assert jobs not in tree.run("check", "-k", "doors", of="arguments", XDIST="0")[1][0] + " "

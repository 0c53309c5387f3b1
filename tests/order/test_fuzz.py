# SPDX-License-Identifier: MIT
"""Differential fuzzing: random programs do the same without and with the library.

AG_FUZZ_COUNT says how many programs (COUNT has those of each scale), AG_FUZZ_SEED which is the first (1, unless
AG_SEED draws others). What once failed is in fuzz/regressions and is run each time.
"""
import os
import pathlib
import subprocess
import sys
import time

import pytest

import draw
import helpers

FUZZ = helpers.SOURCE / "tests" / "fuzz"
sys.path.insert(0, str(FUZZ))

import fuzzing  # noqa: E402  (needs the path above)
import programs  # noqa: E402

SANITIZED = bool(helpers.config()["sanitize"])
COUNT = int(os.environ.get("AG_FUZZ_COUNT") or
            helpers.by_scale(*(100, 200, 300, 2000) if SANITIZED else (250, 2000, 3000, 50000)))
PARTS = max(1, COUNT // 250)  # of enough programs that some are replayed
REPEAT = 5 if SANITIZED else helpers.by_scale(5, 10, 20, 40)  # a sanitizer sees a race that does no harm this time
SEED = int(os.environ.get("AG_FUZZ_SEED") or 1 + (int(draw.SEED) - 1) * 1_000_000)
REPAID = {"AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
REGRESSIONS = sorted((FUZZ / "regressions").glob("*.prog"))


@pytest.fixture(scope="module")
def bench():
    return fuzzing.Bench()


def run(*arguments):
    """The command, as a user runs it."""
    return subprocess.run([sys.executable, FUZZ / "run", *map(str, arguments)],
                          env={**os.environ, "AG_BUILD": str(helpers.build_dir())},
                          capture_output=True, text=True, timeout=3600)


# -- The library ----------------------------------------------------------------

@pytest.mark.parametrize("file", REGRESSIONS, ids=[file.stem for file in REGRESSIONS])
def test_regression(bench, file):
    program = file.read_text()
    assert bench.rate(program, bench.settings(program), repeat=REPEAT) == (0, "")


@pytest.mark.parametrize("part", range(PARTS))  # which may be tried at the same time
def test_fresh_programs(part, tmp_path):
    first, end = (COUNT * number // PARTS for number in (part, part + 1))
    done = run("--seed", SEED + first, "--count", end - first, "--save", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{end - first} programs" in done.stdout


def test_programs_that_are_known(tmp_path):
    """From the same run before, and from one of other programs: to the library all are one program."""
    bench = fuzzing.Bench(env={fuzzing.PROFILE: tmp_path / "profile"})
    first, again, others = (fuzzing.campaign(bench, seed, 100, settings=lambda *_: REPAID) for seed in (201, 201, 1001))
    assert not first.failures + again.failures + others.failures
    assert again.replayed > 0 and others.traces > 0


# -- The fuzzer -----------------------------------------------------------------

def test_finds_a_swap_and_shrinks_it(tmp_path):
    """With a library that breaks the order of launches it must fail, and say with how little."""
    swap = helpers.build_dir() / "tests" / "fuzz" / "libswap.so"
    bench = fuzzing.Bench(library=swap)
    tally = fuzzing.campaign(bench, seed=1, count=100)
    swapped = [(seed, how) for seed, what, how in tally.failures if what == "difference"]
    assert swapped
    seed, how = swapped[0]
    program = bench.program(seed)
    smaller = bench.shrink(program, how, seconds=600)
    assert programs.size(programs.parse(smaller)) <= 16, smaller
    assert bench.rate(smaller, bench.settings(smaller), repeat=2)[1] == "difference"
    path = fuzzing.save(smaller, seed, "difference", how, tmp_path)
    done = run("--library", swap, path)
    assert done.returncode == 1 and "difference" in done.stdout, done.stdout + done.stderr


def test_fails_when_nothing_is_replayed():
    """Such programs prove nothing."""
    done = run("--count", 20, "--env", "AUTOGRAPH_GRAPH_EXECS=0")
    assert done.returncode == 1 and "proves nothing" in done.stdout, done.stdout + done.stderr


def test_notices_a_hang_and_a_crash():
    hang = fuzzing.Bench(binary="/bin/sleep", stall=0.5)
    side = hang.start(["60"], preload=False, setting={})
    while side.running():
        time.sleep(0.01)
    assert side.end == "hang"
    crash = fuzzing.Bench(binary="/bin/sh")
    side = crash.start(["-c", "kill -SEGV $$"], preload=False, setting={})
    while side.running():
        time.sleep(0.01)
    assert side.end == "crash (SIGSEGV)"


def test_programs_do_not_depend_on_chance():
    tally = fuzzing.campaign(fuzzing.Bench(library="none"), seed=SEED, count=300)
    assert tally.programs == 300 and not tally.failures


def test_text_says_everything(bench, tmp_path):
    """A seed's program read back from its text does what the seed's program does."""
    for seed in range(1, 40):
        program = bench.program(seed)
        assert programs.text(programs.parse(program)) == program
        file = tmp_path / "p.prog"
        file.write_text(program)
        sides = [bench.start(arguments, preload=False, setting=fuzzing.setting(0), tag=tag)
                 for tag, arguments in (("a", ["--seed", seed]), ("b", [file]))]
        while any(side.running() for side in sides):
            time.sleep(0.01)
        assert sides[0].results() == sides[1].results() != []


def test_half_of_the_ops_change_their_shapes(bench):
    def ops(body):
        for s in body:
            yield from ops(s.body or [])
            if s.name in ("kernel", "memset", "copy"):
                yield s.fields.get("shape", 0)
    shapes = [shape for seed in range(1, 300) for shape in ops(programs.parse(bench.program(seed)))]
    assert 0.4 < sum(map(bool, shapes)) / len(shapes) < 0.6
    assert all(any(shape & 1 << bit for shape in shapes) for bit in range(7))


@pytest.mark.parametrize("op, bits", [("kernel n=0", (1, 2, 4, 8)), ("memset k=3", (8, 16, 32)),
                                      ("copy src=2 k=3", (16, 32))])
def test_each_change_of_shape_changes_the_result(bench, tmp_path, op, bits):
    file, seen = tmp_path / "p.prog", []
    for shape in (0, *bits, *(64 + bit for bit in bits)):
        file.write_text(f"program\ncontext\nlane how=2\nloop n=3 {{\n  loop n=7 {{\n    kernel k=5 dst=1\n"
                        f"    {op} dst=1 at=1 size=9 shape={shape}\n  }}\n}}\n")
        side = bench.start([file], preload=False, setting=fuzzing.setting(0))
        while side.running():
            time.sleep(0.01)
        seen += side.results()
    assert len(set(seen)) == len(seen) == 1 + 2 * len(bits)


# -- Forks ----------------------------------------------------------------------

# A fork with two branches, which take values and give values back.
FORK = """
program
context
lane how=2
lane how=2
lane how=2
loop n={trips} {{
  fork k=3 {more} {{
    branch lane=1 k=2 {join} {{
      kernel lane=1 k=4
    }}
    branch lane=2 k=7 {{
      kernel lane=2 k=5
    }}
    kernel k=6
  }}
}}
"""


def statements(body):
    for s in body:
        yield s
        yield from statements(s.body or [])


def test_half_of_the_steps_fork(bench):
    """With each twist, and each way to join."""
    all_of = list(statements(sum((programs.parse(bench.program(seed)) for seed in range(1, 300)), [])))
    steps = [any(s.name == "fork" for s in loop.body) for loop in all_of if loop.name == "loop"]
    assert 0.4 < sum(steps) / len(steps) < 0.6
    for name, field, values in (("fork", "n", 7), ("fork", "how", 2), ("branch", "how", 3), ("branch", "mode", 2)):
        assert {s.fields.get(field, 0) for s in all_of if s.name == name} == set(range(values))
    assert any(inner.name == "fork" for s in all_of if s.name == "branch" for inner in s.body)


def test_forks_are_replayed(tmp_path):
    """What passes at them is a kernel of its own, which the log names: some 33 % are in graphs."""
    bench = fuzzing.Bench(env={"AGSIM_LOG": tmp_path / "log"})
    plain, preload = bench.both(["--seed", 1, "--count", 100], {"AUTOGRAPH_GRAPH_CREDIT_MS": 1000000})
    assert plain.lines() == preload.lines() and len(plain.lines()) == 100
    ways = [line.rsplit("via=")[1].strip() for line in (tmp_path / "log").read_text().splitlines()
            if "name=fz_fork" in line]
    assert len(ways) > 3000 and ways.count("graph") > len(ways) / 10, (len(ways), ways.count("graph"))


def test_a_forks_statement_says_what_it_does(bench, tmp_path):
    """Whether values pass to and fro, and when a branch is joined."""
    file, seen = tmp_path / "p.prog", []
    for more, join in (("", ""), ("mode=1", ""), ("", "mode=1"), ("", "how=1"), ("", "how=2")):
        file.write_text(FORK.format(trips=3, more=more, join=join))
        side = bench.start([file], preload=False, setting=fuzzing.setting(0))
        while side.running():
            time.sleep(0.01)
        seen += side.results()
    assert len(set(seen)) == 5 and all(errors == "0" for *_, errors in seen)


def test_finds_a_forgotten_wait():
    """Of a branch for its fork, or of a fork for its branch."""
    swap = helpers.build_dir() / "tests" / "fuzz" / "libswap.so"
    program, setting = FORK.format(trips=300, more="", join=""), {"AGSIM_DELAY_US": 5, "PRELOAD_DELAY_US": 20}
    for forgets, what in (({}, ""), ({"FUZZ_FORGET": 1}, "difference")):
        bench = fuzzing.Bench(library=swap if forgets else None, env=forgets)
        assert bench.rate(program, [setting], repeat=10)[1] == what


@pytest.mark.parametrize("how", range(11))
def test_finds_a_copy_that_is_late(how):
    """Whoever sees its bytes while the owner of the stream waits."""
    swap = helpers.build_dir() / "tests" / "fuzz" / "libswap.so"
    program = ("program\ncontext\nlane how=2\nlane how=2\n"
               f"loop n=30 {{\n  watch how={how} mode=1 n=2 other=1\n}}\n")
    for late, what in (({}, ""), ({"FUZZ_LATE": 1}, "difference")):
        bench = fuzzing.Bench(library=swap if late else None, env=late)
        assert bench.rate(program, [fuzzing.setting(0)], repeat=10)[1] == what


def test_a_gate_opens_by_itself(bench, tmp_path):
    """However many there are."""
    file = tmp_path / "p.prog"
    file.write_text("program\ncontext\nlane how=2\nloop n=200 {\n  gate n=50\n  kernel k=3\n}\n")
    plain, preload = bench.both([file], fuzzing.setting(0))
    assert plain.lines() == preload.lines() and len(plain.lines()) == 1 and not preload.findings()


def test_programs_watch_and_wait_for_the_host(bench):
    """With each way to see what a copy writes."""
    all_of = list(statements(sum((programs.parse(bench.program(seed)) for seed in range(1, 300)), [])))
    assert {s.fields.get("how", 0) for s in all_of if s.name == "watch"} == set(range(11))
    assert sum(s.name == "gate" for s in all_of) > 50


def test_each_order_is_drawn_and_all_at_once():
    names = {"CUDA_DEVICE_MAX_CONNECTIONS", "AGSIM_QUEUES", "AGSIM_LAZY", "AGSIM_LATE", "AGSIM_ROOM", "AGSIM_REUSE",
             "AGSIM_HANDLES", "AGSIM_SETTERS_PASS"}
    drawn = [names & fuzzing.setting(number).keys() for number in range(400)]
    assert 20 < drawn.count(names) < 80
    assert all(0 < sum(name in one for one in drawn if one != names) < 300 for name in names)
    assert all(not names & fuzzing.setting(number, gpu=True).keys() - {"CUDA_DEVICE_MAX_CONNECTIONS"}
               for number in range(100))


# -- Threads ---------------------------------------------------------------------

TURNS = """
program threads=3 mode=2
context
lane how=2 thread=0
lane how=2 thread=1
lane how=2 thread=2
lane how=2
turns n=40 lane=0 other=3 {
  on thread=1 {
    kernel lane=1 k=7
  }
  kernel lane=0 k=3 vary=1
  exchange lane=3 other=0 k=5
  exchange lane=0 other=1 k=6
}
"""

# The thread's 50th launch in its default stream is the last before it ends.
LEAVES = """
program threads=2
context
lane how=3 thread=1 more=1
loop n=3 {{
  on thread=1 {{
    loop n=50 {{
      kernel lane=0 k=3 vary=1
    }}
  }}
  leave thread=2 how={how} mode={mode}
}}
"""


def swapping(program, repeat=5):
    """What a right library, and one that holds a launch back until the thread's next, make of a program."""
    swap = helpers.build_dir() / "tests" / "fuzz" / "libswap.so"
    return [fuzzing.Bench(library=library).rate(program, [fuzzing.setting(0)], repeat)[1] for library in (None, swap)]


def test_threads_take_turns():
    """So a launch that one holds back comes behind another one's."""
    assert swapping(TURNS) == ["", "difference"]


@pytest.mark.parametrize("how", range(3))
@pytest.mark.parametrize("mode", range(2))
def test_a_thread_leaves_work_behind(how, mode):
    """And takes a launch with it that it holds back."""
    assert swapping(LEAVES.format(how=how, mode=mode)) == ["", "difference"]


@pytest.mark.parametrize("how", range(3))
@pytest.mark.parametrize("mode", range(2))
def test_a_context_ends_with_work_in_it(how, mode):
    assert swapping(f"program mode={mode}\ncontext\nlane how=2\nloop n=4 {{\n  loop n=60 {{\n"
                    f"    kernel k=3 vary=1\n  }}\n  reset how={how}\n  kernel k=2\n}}\n")[0] == ""


def test_programs_end_threads_and_contexts(bench):
    """In each way, and threads take turns in many programs."""
    all_of = list(statements(sum((programs.parse(bench.program(seed)) for seed in range(1, 400)), [])))
    assert sum(s.name == "turns" for s in all_of) > 30
    for name, field, values in (("leave", "how", 3), ("leave", "mode", 2), ("reset", "how", 3), ("fill", "how", 3)):
        assert {s.fields.get(field, 0) for s in all_of if s.name == name} == set(range(values))


# -- Kernels that need the whole device --------------------------------------------

@pytest.mark.parametrize("how", range(3))
def test_a_kernel_that_needs_the_device_ends(bench, tmp_path, how):
    """With others that wait for the host beside it, and streams that share queues."""
    file = tmp_path / "p.prog"
    file.write_text("program\ncontext\nlane how=2\nlane how=2\n"
                    f"loop n=60 {{\n  gate lane=1 n=20\n  fill how={how} n=50 other=1\n  kernel k=3\n}}\n")
    for env in ({}, {"CUDA_DEVICE_MAX_CONNECTIONS": 1, "AGSIM_LATE": 200}):
        plain, preload = bench.both([file], {**fuzzing.setting(0), **env})
        assert plain.lines() == preload.lines() and len(plain.lines()) == 1 and not preload.findings()


def test_says_where_a_text_is_wrong(bench, tmp_path):
    file = tmp_path / "p.prog"
    file.write_text("program\ncontext\nlane\nkernel lane=x\n")
    done = subprocess.run([bench.binary, file], capture_output=True, text=True,
                          env=helpers.environment(preload=False))
    assert done.returncode == 1 and f"{file}:4: no number: x" in done.stderr

# SPDX-License-Identifier: MIT
"""autograph verify and autograph bench."""
import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest

import commands
import compiled
import helpers
from commands import LOOP, autograph, message
from helpers import library

FILTER = ["--filter", "^us_per_iteration.*"]


@pytest.fixture
def program(tmp_path):
    """A script that ends with a sample, so that the library has something to see."""
    def make(text):
        return commands.script(tmp_path / "program", text + "\nexec " + " ".join(map(str, LOOP)))
    return make


# -- verify -------------------------------------------------------------------

def test_the_same():
    done = autograph("verify", *FILTER, "--", *LOOP)
    first, second = done.stdout.splitlines()
    assert first.startswith("The same: ends with status 0, ") and done.stderr == ""
    assert "operations were replayed." in second and not second.startswith("0.0 %")


def test_times_get_their_filter():
    """Of the sample that README names; the command that is told says that all else is the same."""
    done = autograph("verify", "--set", "trace.hot=4", "--", *LOOP, status=2)
    said, command = done.stdout.split("Only times differ, as in any two runs. To leave them out:\n")
    assert said.startswith("standard output:") and re.search(r"^  -us_per_iteration [\d.]+$", said, re.M)
    assert "--set trace.hot=4" in command and "--filter '^us_per_iteration.*'" in command
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime(), **helpers.HELD})
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("The same: ends with status 0, ")


@pytest.mark.parametrize("one, other, filters", [
    ("us_per_iteration 454.773", "us_per_iteration 91.681", ["^us_per_iteration.*"]),
    ("time:   5.31 ms", "time:  15.31 ms", ["^time:.*"]), ("took 5 s", "took 6 s", ["^took.*"]),
    ("took 5 steps", "took 6 steps", None), ("time step 5", "time step 6", None), ("energy 5", "energy 6", None),
    ("residual at time 0.5: 3.14", "residual at time 0.5: 3.15", None), ("CPU time 5 %", "CPU time 6 %", None),
    ("step 10: 5.31 ms, error 0.1", "step 10: 6.31 ms, error 0.1", [r"[-+\d][-+.,\de]*\s+ms"]),
    ("step 10: 5.31 ms, error 0.1", "step 10: 6.31 ms, error 0.2", None),
    ("time 1.5, error 0.1", "time 2.5, error 0.1", [r"^time\s+[-+\d][-+.,\de]*"]),
    ("Elapsed time = 1.2e-3", "Elapsed time = 1e-3", [r"^Elapsed\s+time\s+=.*"]),
    ("Fri Nov 27 13:36:13 2026", "Fri Nov 27 13:36:14 2026", [r"\d\d?:\d\d:\d\d(?:\.\d+)?"]),
    ("bandwidth (GB/s): 8", "bandwidth (GB/s): 9", [r"^bandwidth\s+\(GB/s\):.*"]), ("Step [ms]: 3", "Step [ms]: 4", [r"^Step\s+\[ms\]:.*"]),
    ("a 5 s\nsum 1", "a 6 s\nsum 2", None), ("a 5 s", "a 6 s\nb 7 s", None), ("3 4 5", "3 4 6", None),
    ("\n".join("abcde"[i] + " 5 s" for i in range(5)), "\n".join("abcde"[i] + " 6 s" for i in range(5)), None)])
def test_what_is_a_time(one, other, filters):
    """A result is none: it must not be left out."""
    assert commands.module("times").filters([(one + "\nsame\n", other + "\nsame\n")]) == filters


def test_a_program_that_is_not_the_same_twice(program):
    path = program("date +%N")
    done = autograph("verify", "--", path, status=2)
    assert done.stdout.startswith("Two runs without the library differ as well:\nstandard output:")
    assert "leave out what changes with --filter" in done.stdout.splitlines()[-2]


DIFFERS = 'if test -n "$AUTOGRAPH_REPORT"; then {0}; else {1}; fi'


def test_another_output(program):
    path = program(DIFFERS.format("echo three", "echo two") + "; echo four")
    done = autograph("verify", *FILTER, "--", path, status=1)
    lines = done.stdout.splitlines()
    assert lines[0] == "standard output:" and "  -two" in lines and "  +three" in lines
    assert lines[-2].startswith("Different with the library.")


def test_a_difference_is_found_soon():
    verify = commands.module("verify")
    plain, ours = (b"".join(b"value %d\n" % (i * seed % 211) for i in range(100000))
                   for seed in (7919, 7927))
    start = time.process_time()
    lines = verify.difference("x", plain, ours)
    assert lines[:2] == ["x:", "   value 0"] and "  +value 120" in lines and lines[-1] == "  ..."
    assert time.process_time() - start < 5
    assert verify.difference("x", b"1\n2\n3\n", b"1\n2\n3\n4\n") == ["x:", "   2", "   3", "  +4"]


@pytest.mark.parametrize("lost, said", [
    ([0], ""), ([5, 0], "5 records were lost with trace.buffer_kb=2048: running again with 16384.\n"),
    ([9] * 2 + [1, 0], "1 record was lost with trace.buffer_kb=131072")])
def test_a_buffer_that_loses_records_gets_larger(lost, said, capsys):
    """Up to a bound; what has once been too small is not tried again."""
    verify, runs, buffers = commands.module("verify"), commands.module("runs"), []

    def run(with_library, extra):
        assert with_library and extra.get("AUTOGRAPH_GRAPH_EXECS", "0") == "0"
        buffers.append(int(extra.get("AUTOGRAPH_TRACE_BUFFER_KB", 2048)))
        report = {"trace_file": {"lost": lost[min(len(buffers), len(lost)) - 1]},
                  "options": {} if buffers[-1] == 2048 else {"trace.buffer_kb": buffers[-1]}}
        return runs.Run(0, 1.0, None, None, [{"trace_file": None}, report], [str(len(buffers))])

    class Outputs:
        def restore(self):
            pass

    traced = verify.Traced(run, Outputs())
    if said.startswith("1 record"):
        with pytest.raises(commands.module("common").Failure, match=said):
            traced(runs.EAGER)
        assert buffers == [2048, 16384, 131072]
        return
    assert traced(runs.EAGER) == [str(len(lost))] and capsys.readouterr().out == said
    assert traced({}) == [str(len(lost) + 1)] and buffers[-1] == buffers[-2]


def test_bytes_that_are_no_text_are_told_apart():
    difference = commands.module("verify").difference
    assert difference("x", b"caf\xe8\n", b"caf\xe9\n") == ["x:", "  -caf\\xe8", "  +caf\\xe9"]
    assert difference("x", b"a\n", b"a\r\n") == ["x: line ends differ"]


@pytest.mark.parametrize("ours,words", [
    ("kill -SEGV $$", "ends with status 0 without the library, with signal SIGSEGV under it"),
    ("echo wrong >result", "result:\n  -right\n  +wrong")])
def test_what_differs_beside_what_always_does(program, tmp_path, ours, words):
    path = program("date +%N; echo right >result; " + DIFFERS.format(ours, "true"))
    done = autograph("verify", "--output=result", *FILTER, "--", path, status=1, cwd=tmp_path)
    assert done.stdout.startswith(words) and "standard output" not in done.stdout


def test_another_end(program):
    path = program(DIFFERS.format("exit 3", "true"))
    done = autograph("verify", "--filter", "(?s).*", "--", path, status=1)
    assert done.stdout.startswith("ends with status 0 without the library, with status 3 under it\n")
    path = program(DIFFERS.format("kill -ABRT $$", "true"))
    done = autograph("verify", "--filter", "(?s).*", "--", path, status=1)
    assert "with signal SIGABRT under it" in done.stdout


@pytest.mark.parametrize("write,words", [
    (r"printf 'a\000b'", "2 and 3 bytes, the first difference is at byte 0"),
    ("echo x", "-two"), (":", "written only without the library")])
def test_output_files(program, tmp_path, write, words):
    other = r"printf '\000b'" if "000" in write else "echo two"
    redirect = "" if write == ":" else " >result"
    path = program("rm -f result; " + DIFFERS.format(write + redirect, other + " >result"))
    done = autograph("verify", *FILTER, "--output", "result", "--", path, status=1, cwd=tmp_path)
    assert words in done.stdout


def test_output_files_that_are_equal_and_begin_as_they_were(program, tmp_path):
    """A program that appends gets the same file for each run."""
    (tmp_path / "log").write_text("old\n")
    path = program("echo new >>log; date +%N >>log")
    done = autograph("verify", *FILTER, "--filter", r"^\d+$", "--output", "log", "--", path,
                     cwd=tmp_path)
    assert "log (" in done.stdout
    assert (tmp_path / "log").read_text().startswith("old\nnew\n")
    assert len((tmp_path / "log").read_text().splitlines()) == 3


@pytest.mark.parametrize("more", [[], [str(helpers.sim_dir() / "libcudart.so.13")]])
def test_the_library_is_in_one_of_the_runs_only(program, tmp_path, more):
    """Also if the user preloads it already; what else is preloaded stays."""
    path = program(f"echo $LD_PRELOAD >>{tmp_path}/seen")
    before = [p for p in (helpers.sanitizer_runtime(), *more) if p]
    autograph("verify", *FILTER, "--", path, env={
        "LD_PRELOAD": ":".join([*before, str(helpers.library())]), "AUTOGRAPH_DISABLE": "1"})
    assert [line.split(":") if line else [] for line in (tmp_path / "seen").read_text().splitlines()] == [
        before, [*before, str(helpers.library())]]


@pytest.mark.parametrize("how", ["libautograph.so", "/tmp/libautograph.so.0"])
def test_no_other_copy_of_the_library_is_in_a_run(program, tmp_path, how):
    path = program(f"echo $LD_PRELOAD, $AUTOGRAPH_DISABLE >>{tmp_path}/seen")
    before = helpers.sanitizer_runtime() or ""
    autograph("verify", *FILTER, "--", path, env={"LD_PRELOAD": f"{before}:{how}"})
    both = ":".join(filter(None, [before, str(library())]))
    assert (tmp_path / "seen").read_text().splitlines() == [f"{before}, 1", f"{both},"]


def test_a_script_that_preloads_the_library_itself(program, tmp_path):
    both = ":".join(filter(None, [helpers.sanitizer_runtime(), str(library())]))
    path = program(f"export LD_PRELOAD={both} AUTOGRAPH_REPORT_FILE={tmp_path}/%p.json")
    done = autograph("bench", "--runs=1", "--warmup=0", "--", path)
    assert "operations replayed" in done.stdout and list(tmp_path.glob("*.json")) == []


def test_input(program, tmp_path):
    (tmp_path / "in").write_text("text\n")
    done = autograph("verify", *FILTER, "--input", tmp_path / "in", "--", program("cat"))
    assert "bytes of standard output" in done.stdout


@pytest.mark.parametrize("arguments,words", [
    (["--"], "which program?"), (["--", "/no/such"], "no such program"),
    (["--filter", "(", "--", "true"], "is no regular expression"),
    (["--output", "/", "--", "true"], "is not a regular file"),
    (["--output", "no-such-file", "--", "true"], "the program does not write it"),
    (["--output", "old", "--", "true"], "the program does not write it"),
    (["--input", "/no/such", "--", "true"], "No such file"),
    (["--set", "a.b=c", "--", "true"], "there is no option a.b"),
    (["--timeout", "0.1", "--", "sleep", "1000"], "was not over after 0.1 s")])
def test_verify_cannot_work(tmp_path, arguments, words):
    (tmp_path / "old").write_text("there before")
    assert words in message(autograph("verify", *arguments, status=2, cwd=tmp_path))


def test_nothing_was_compared():
    done = autograph("verify", "--", "true", status=2)
    assert "the library saw no CUDA" in done.stdout


# -- bench ----------------------------------------------------------------------

def test_bench(tmp_path):
    done = autograph("bench", "--runs", "9", "--json", tmp_path / "b.json",
                     "--time-from", "us_per_iteration (.*)", "--", *LOOP)
    header, without, ours, speedup, replayed, verdict = done.stdout.splitlines()
    assert header.split() == "9 runs each median least most spread".split()
    assert without.startswith("without") and ours.startswith("with ")
    assert speedup.endswith("with a probability of 96 %") and replayed.endswith(" operations replayed")
    assert verdict == "The driver is the simulated one, whose times say nothing about a GPU."
    data = json.loads((tmp_path / "b.json").read_text())
    assert data["gpus"] == ["Simulated GPU"] and len(data["with"]) == len(data["without"]) == 9 and data["replayed"] > 0
    low, high = data["interval"]
    assert low <= data["speedup"] <= high


@pytest.mark.parametrize("ours,plain,rate,expected", [
    ("10", "20", False, "speed-up 2.00x, 2.00 to 2.00"), ("20", "10", False, "speed-up 0.50x"),
    ("20", "10", True, "speed-up 2.00x"), ("10", "10", False, "speed-up 1.00x")])
def test_its_arithmetic(program, ours, plain, rate, expected):
    path = program(DIFFERS.format(f"echo took {ours}", f"echo took {plain}"))
    done = autograph("bench", *["--rate"] * rate, "--time-from", r"took (\d+)", "--", path)
    assert expected in done.stdout


@pytest.mark.parametrize("pattern", [r"lasted (\d+)|took (\d+)", r"took (\d+)|lasted (\d+)",
                                     r"took (\d+)(?:, of (\d+))?", r"(\d*)$", r"\d+"])
def test_the_number_in_parentheses(pattern, tmp_path):
    bench, runs = commands.module("bench"), commands.module("runs")
    (tmp_path / "out").write_text("took 5\n")
    (tmp_path / "err").write_text("")
    run = runs.Run(0, 1.0, tmp_path / "out", tmp_path / "err", [], [])
    given = argparse.Namespace(time_from=commands.module("common").pattern(pattern))
    assert bench.measure(run, given) == 5


@pytest.mark.parametrize("ratio, low, high, probability, words", [
    (2, 1.9, 2.1, 0.96, "Faster with the library."), (0.5, 0.49, 0.51, 0.96, "Slower with the library."),
    (1, 0.98, 1.02, 0.96, "No difference could be seen."), (2, 1.5, 2.5, 0.96, "The runs differ too much to tell: "),
    (1, 0.9, 1.1, 0.96, "The runs differ too much to tell: "), (2, 1.9, 2.1, 0.75, "Too few runs to tell: --runs 9.")])
def test_one_thing_is_said(ratio, low, high, probability, words, capsys):
    bench = commands.module("bench")
    bench.show([2.0] * 9, [1.0] * 9, " s", (ratio, low, high, probability), "90.0 % of 9 operations replayed", False)
    lines = capsys.readouterr().out.split("operations replayed\n")[1]
    assert lines.startswith(words) and len(re.findall("Faster|Slower|No difference|differ|Too few|simulated", lines)) == 1


@pytest.mark.parametrize("runs", [1, 3])
def test_too_few_runs(runs):
    """A table, and no speed-up: it would be made of noise."""
    header, without, ours, replayed, sentence = autograph(
        "bench", "--runs", str(runs), "--warmup", "0", "--", *LOOP).stdout.splitlines()
    assert re.match(rf"{runs} runs? each  ", header) and ("runs" in header) == (runs > 1)
    assert without.startswith("without") and ours.startswith("with ")
    assert re.fullmatch(r"[\d.]+ % of [\d,]+ operations replayed", replayed)
    assert sentence == "The driver is the simulated one, whose times say nothing about a GPU."


def test_how_many_runs_are_too_few():
    bench = commands.module("bench")
    enough = [n for n in range(1, 9) if bench.interval(range(n))[2] >= bench.ENOUGH]
    assert enough == [5, 6, 7, 8]


@pytest.mark.parametrize("arguments,words", [
    ([], "which program?"), (["--runs", "0", "--", "true"], "'0' is not a number of at least 1"),
    (["--time-from", "x (.*)", "--", "true"], "no line of the output matches"),
    (["--time-from", "(h.*)", "--", "echo", "hello"], "'hello', which is no number"),
    (["--rate", "--", "true"], "--rate needs --time-from"),
    (["--time-from", "(.*)", "--", "echo", "-5"], "must be above 0")])
def test_bench_cannot_work(arguments, words):
    assert words in message(autograph("bench", *arguments, status=2))


@pytest.mark.parametrize("arguments", [["bench"], ["verify", "--output=no"]])
def test_a_message_has_a_line_of_its_own(tmp_path, arguments):
    """On a terminal, where the progress is shown."""
    terminal, end = os.openpty()
    command = [helpers.build_dir() / "autograph", *arguments, "--", "sh", "-c", "exit 3"]
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime()})
    done = subprocess.run(list(map(str, command)), stderr=end, env=env, cwd=tmp_path, check=False,
                          stdout=subprocess.DEVNULL, timeout=helpers.TIMEOUT)
    os.close(end)
    text = b""
    with open(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):  # EIO: all has been read
        while part := file.read(4096):
            text += part
    assert done.returncode == 2 and b"...\r\x1b[Kautograph" in text


def test_a_run_that_fails():
    done = autograph("bench", "--", "sh", "-c", "echo oh no >&2; exit 3", status=2)
    assert done.stderr == "autograph bench: a run ended with status 3:\n  oh no\n"


@pytest.mark.parametrize("arguments", [[], ["--runs", "3"], ["--time-from", "(1)"]])
def test_nothing_to_compare(tmp_path, arguments):
    """A program without CUDA: no figure, and no more runs than it takes to see that."""
    program = commands.script(tmp_path / "program", f"echo 1 | tee -a {tmp_path}/runs")
    done = autograph("bench", *arguments, "--json", tmp_path / "json", "--", program, status=2)
    assert message(done).startswith("nothing to compare: the library saw no CUDA in this program")
    assert done.stdout == "" and not (tmp_path / "json").exists()
    assert (tmp_path / "runs").read_text() == "1\n" * 2


@pytest.mark.parametrize("env,words", [
    ({}, "no operations in this program; autograph report says why"),
    ({"CUDA_LAUNCH_BLOCKING": "1"}, "it stopped holding: CUDA_LAUNCH_BLOCKING is set")])
def test_no_ops_to_compare(env, words):
    """A program that looks at the GPU and launches nothing; one in which nothing may be held."""
    program = LOOP if env else [compiled.text("#include <cuda.h>\nint main(void) { return cuInit(0); }\n")]
    done = autograph("bench", "--", *program, env=env, status=2)
    assert message(done).startswith("nothing to compare: ") and words in message(done)
    assert done.stdout == ""


def test_the_interval_holds_the_median():
    """Order statistics: for 9 values the second and the eighth, which holds 96 %."""
    bench = commands.module("bench")
    assert bench.interval([9, 1, 8, 2, 7, 3, 6, 4, 5]) == (2, 8, pytest.approx(1 - 20 / 512))
    assert bench.interval([1, 2, 3]) == (1, 3, 0.75)
    assert bench.interval([1]) == (1, 1, 0)


def test_the_spread_is_that_of_the_middle_half():
    bench = commands.module("bench")
    assert bench.spread([10, 20, 30, 40, 50]) == pytest.approx(10 / 30)
    assert bench.spread([7]) == bench.spread([7, 7, 7]) == 0


def test_a_signal_that_is_ignored():
    """nohup autograph bench goes on."""
    command = [helpers.build_dir() / "autograph", "bench", "--runs=1", "--time-from=(1)", "--",
               "sh", "-c", f"kill -HUP $PPID; {' '.join(map(str, LOOP))} >&2; echo 1"]
    done = helpers.run(command, preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime()},
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert done.stdout.startswith("1 run each")


def test_a_signal_while_the_program_is_started(monkeypatch):
    """Popen() has made the process, and has not told of it yet: the process is ended all the same."""
    runs, started = commands.module("runs"), []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            runs.run(None, ["sleep", "1000"], start_new_session=True)
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_by_a_signal_leaves_nothing_behind(tmp_path, number):
    """Neither the program nor files."""
    program = commands.script(tmp_path / "program", f"echo $$ >{tmp_path}/pid; exec sleep 1000")
    env = helpers.environment(preload=False, env={"TMPDIR": tmp_path / "scratch",
                                                  "LD_PRELOAD": helpers.sanitizer_runtime()})
    (tmp_path / "scratch").mkdir()
    command = [helpers.build_dir() / "autograph", "bench", "--", program]
    # A shell has its background jobs ignore SIGINT, and these tests may be one.
    with subprocess.Popen(list(map(str, command)), env=env,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as bench:
        deadline = time.monotonic() + helpers.TIMEOUT
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        bench.send_signal(number)
        assert bench.wait(helpers.TIMEOUT) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert list((tmp_path / "scratch").iterdir()) == []

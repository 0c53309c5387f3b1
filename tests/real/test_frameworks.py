# SPDX-License-Identifier: MIT
"""What the programs of the frameworks measure by; they themselves need a GPU."""
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import types

import pytest

import helpers
from helpers import library

FRAMEWORKS = helpers.SOURCE / "tests/frameworks"

PROGRAM = """
import ctypes, sys
sys.path.append(sys.argv[1])
import in_turn
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096)):
    assert status == 0
steps = 0
def step():
    global steps
    for k in range(16):
        assert cuda.cuMemsetD32Async(memory, k, 64, None) == 0
    steps += 1
    return steps
print(in_turn.timed("memsets", step, 400, cuda.cuCtxSynchronize))
"""


def test_steps_are_timed_in_turn_with_the_library_paused(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-P", "-c", PROGRAM, FRAMEWORKS]
    without = helpers.run(command, preload=False)
    done = helpers.run(command, env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_DUEL": "false"})
    assert done.stdout == without.stdout == f"{20 + 400 + 16 * 50}\n"
    for each in without, done:
        names = [line.split(" ")[:-2] for line in each.stderr.splitlines() if line.startswith("time ")]
        assert [" ".join(words[1:]) for words in names] == \
            ["memsets", "memsets, in turn, active", "memsets, in turn, paused"]
    ops = json.loads(report.read_text())["ops"]
    assert 16 * 600 < ops["replayed"] <= 16 * 820 and ops["total"] >= 16 * 1220 - 16 * 400


# -- Irregular programs ---------------------------------------------------------------

# A step sets memory; the program's file says what else.
FAKE = """
import ctypes, os, runpy, sys, zlib
LIBRARY, FIXED = bool(os.environ.get("LD_PRELOAD")), os.environ.get("AUTOGRAPH_GRAPH_SHAPES") == "false"
cuda = ctypes.CDLL("libcuda.so.1")
def memsets(sizes):
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                   cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), 1 << 20)):
        assert status == 0
    steps = 0
    def step():
        nonlocal steps
        steps += 1
        for k in range(8):
            size = sizes(steps + k)
            assert cuda.cuMemsetD32Async(memory, ctypes.c_uint(steps * k), ctypes.c_size_t(size), None) == 0
    def result():
        data = (ctypes.c_ubyte * 4096)()
        assert cuda.cuMemcpyDtoH_v2(data, memory, 4096) == 0
        return zlib.crc32(bytes(data))
    return step, cuda.cuCtxSynchronize, result
def constant():
    return memsets(lambda _: 64)
def varied():
    return memsets(lambda number: 64 + number * 37 % 500)
def missing():
    raise ImportError("there is no such package")
def wrong():
    step, wait, result = constant()
    return step, wait, lambda: result() ^ FIXED
def odd():
    step, wait, result = constant()
    return step, wait, os.getpid
def dies():
    step, wait, result = constant()
    return lambda: LIBRARY and os._exit(7), wait, result
def ill():
    raise ValueError("whatever preloads")
PROGRAMS = {each.__name__: each for each in (constant, varied, missing, wrong, odd, dies, ill)}
if __name__ == "__main__":
    runpy.run_path(SERVE)["serve"](PROGRAMS[sys.argv[1]])
"""


def irregular(place, *only, status=0, words=()):
    """The script on fake programs: its rows by name, and what it printed."""
    programs = place / "programs.py"
    programs.write_text(FAKE.replace("SERVE)", f"{str(FRAMEWORKS / 'irregular_steps.py')!r})"))
    command = [sys.executable, FRAMEWORKS / "irregular", "--programs", programs, "--library", library(),
               "--json", place / "rows", "--seconds", "0.05", "--warm-up", "0.01", "--only", ",".join(only), *words]
    done = subprocess.run(command, env=helpers.environment(preload=False), capture_output=True, text=True,
                          timeout=4 * helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return {row["program"]: row for row in json.loads((place / "rows").read_text())}, done.stdout


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="the programs need the sanitizer's runtime first")
def test_irregular_programs_take_turns(tmp_path):
    """Each way has as many steps in each round."""
    rows, text = irregular(tmp_path, "constant", "varied")
    for name in ("constant", "varied"):
        row = rows[name]
        assert row["results"] == "equal" and f"| {name} | equal |" in text
        assert all(set(each) == {"without", "again", "library", "fixed"} for each in row["rounds"])
        assert sum(each["without"] for each in row["rounds"]) >= 0.05
        assert set(row["replayed"]) == {"library", "fixed"} and None not in row["replayed"].values()
        assert min(row["us"].values()) > 0 and min(row["speed_up"].values()) > 0


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="the programs need the sanitizer's runtime first")
def test_irregular_programs_that_cannot_be_compared(tmp_path):
    """Only what the library does is its fault."""
    rows, text = irregular(tmp_path, "missing", status=2)
    assert not rows and "missing is left out: there is no such package" in text
    rows, text = irregular(tmp_path, "constant", "ill", "odd", "missing")
    assert {name: row["results"] for name, row in rows.items()} == {"constant": "equal", "odd": "unstable"}
    assert "ill fails without: status 1:" in text and "ValueError: whatever preloads" in text
    rows, text = irregular(tmp_path, "wrong", status=1)
    assert rows["wrong"]["results"] == "DIFFERENT" and "| wrong | DIFFERENT |" in text
    rows, text = irregular(tmp_path, "dies", status=1)
    assert not rows and ("dies fails library: status 7" in text or "dies fails fixed: status 7" in text)
    rows, text = irregular(tmp_path, "constant", words=["--limit", "0"], status=2)
    assert not rows and "constant is left out: the time is over" in text


def test_an_irregular_program_that_does_not_answer(tmp_path):
    """It is ended, and what it said is shown."""
    loader = importlib.machinery.SourceFileLoader("irregular", str(FRAMEWORKS / "irregular"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("irregular", loader))
    loader.exec_module(module)
    options = type("Options", (), {"timeout": 0.01, "programs": "-c", "preload": tmp_path})
    process = module.Process("without", "import time; time.sleep(1000)", options, tmp_path)
    with pytest.raises(module.Failed, match="without: status -9"):
        process.begin()
    process.kill()


def test_the_list_of_irregular_programs():
    """The real ones have no test here; their list needs no package."""
    done = subprocess.run([sys.executable, FRAMEWORKS / "irregular", "--only", "none", "--library", sys.executable],
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == 2 and "irregular_steps.py has no none" in done.stderr


# -- Several GPUs ---------------------------------------------------------------------

# A program of several GPUs, as far as the script sees: whole runs, and short ones with other commands.
JACOBI = """#!/bin/sh
if [ "$2" = 20000 ]; then long=yes; else long=; fi
echo "512x512: 1 GPU: 1.0 s, 2 GPUs: 0.${LD_PRELOAD:+2}5 s"
"""


def gpus(place, script, *words, status=0):
    """What the script finds of a program that is SCRIPT."""
    (place / "bin").mkdir()
    program = place / "bin/threads-p2p"
    program.write_text(JACOBI + script + "\n")
    program.chmod(0o755)
    command = [sys.executable, FRAMEWORKS / "gpus", "--device", "cpu", "--dir", place, "--only", "threads-p2p",
               "--library", library(), "--json", place / "found", *words]
    done = subprocess.run(command, env=helpers.environment(preload=False), capture_output=True, text=True,
                          timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads((place / "found").read_text()), done


@helpers.unsanitized
def test_programs_of_several_gpus_are_compared(tmp_path):
    found, done = gpus(tmp_path, "echo norm 1.000${LD_PRELOAD:+4}; echo $CUDA_VISIBLE_DEVICES $NCCL_NVLS_ENABLE",
                       "--starts", "3", "--jobs", "2")
    (row,), (starts,) = found["in turn"], found["starts"]
    assert row["results"] == "equal" and (row["without"], row["library"], row["speed_up"]) == (0.5, 0.25, 2.0)
    assert (starts["starts"], starts["hung"], starts["failed"], starts["different"]) == (3, 0, 0, 0)
    assert "| threads-p2p | equal | 0.5 s | 0.25 s | 2.000x | - | - | - |" in done.stdout


@helpers.unsanitized
@pytest.mark.parametrize("script, results, counts", [
    ("echo norm ${LD_PRELOAD:+1}2", "DIFFERENT", (0, 0, 2)),
    ('[ -z "$LD_PRELOAD" ] || exit 3', "DIFFERENT (3)", (0, 2, 0)),
    ('[ -z "$LD_PRELOAD" ] || [ $long ] || exec sleep 100', "equal", (2, 0, 0)),
    ("exit 4", "fails without the library too (4)", (0, 0, 0)),
    ("echo norm $(od -An -N4 -tu4 /dev/urandom)", "unstable", (0, 0, 0))])
def test_programs_of_several_gpus_that_differ(tmp_path, script, results, counts):
    """What fails without the library is not the library's fault."""
    own = int(counts != (0, 0, 0))
    timeout = "0.5" if counts[0] else "30"
    found, done = gpus(tmp_path, script, "--starts", "2", "--jobs", "2", "--timeout", timeout, status=own)
    (row,), (starts,) = found["in turn"], found["starts"]
    assert row["results"] == results
    assert (starts["hung"], starts["failed"], starts["different"]) == counts and starts["starts"] == 2 * own
    assert "threads-p2p, status " in done.stderr and row.get("problem", starts.get("problem"))


def test_a_process_that_fails_ends_those_that_wait_for_it(monkeypatch):
    """Its status counts: the others do not hang by themselves."""
    loader = importlib.machinery.SourceFileLoader("together", str(FRAMEWORKS / "together.py"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("together", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "MOMENT", 0.01)

    def status(*scripts, timeout=helpers.TIMEOUT):
        processes = [subprocess.Popen(["sh", "-c", script], start_new_session=True) for script in scripts]
        found = module.wait_for(processes, timeout)
        assert all(process.returncode is not None for process in processes)
        return found

    assert status("exec sleep 1000", "exit 3") == 3 and status("exit 0", "exit 0") == 0
    assert status("exit 0", "trap '' ABRT; sleep 1000; sleep 1000", timeout=0.1) == "hung"


def test_pytorch_in_several_processes():
    """A few steps on the CPU, where PyTorch is installed."""
    pytest.importorskip("torch", reason="there is no PyTorch")
    done = subprocess.run([sys.executable, FRAMEWORKS / "gpus", "--device", "cpu", "--only", "peer,workers,reduce,ddp",
                           "--library", library(), "--runs", "0", "--starts", "1"], check=False,
                          env=helpers.environment(preload=False), timeout=8 * helpers.TIMEOUT,
                          capture_output=True, text=True)
    rows = [line.split("|")[1:6] for line in done.stdout.splitlines()[-4:]]
    assert done.returncode == 0 and [[cell.strip() for cell in row] for row in rows] == [
        [name, "1", "0", "0", "0"] for name in ("peer", "workers", "reduce", "ddp")], done.stdout + done.stderr


# -- Processes that share a GPU ---------------------------------------------------------

CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then echo "begin $CUDA_MPS_PIPE_DIRECTORY" >>{log}; exit {begins}; fi
read -r word
echo "$word $CUDA_MPS_PIPE_DIRECTORY" >>{log}
[ "$word" != get_server_list ] || echo {servers}
"""


def mps(place, script, servers="12", begins=0):
    """The script on a program that is SCRIPT, with an MPS that says so many servers; and what was asked of MPS."""
    for name, text in (("bin/nvidia-cuda-mps-control", CONTROL), ("program", f"#!/bin/sh\n{script}\n")):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text.format(log=place / "log", servers=servers, begins=begins)
                                  if text == CONTROL else text)
        (place / name).chmod(0o755)
    environment = helpers.environment(preload=False)
    if servers is not None:
        environment["PATH"] = f"{place}/bin:{environment['PATH']}"
    command = [sys.executable, FRAMEWORKS / "mps", "--library", library(), "--processes", "2", "--rounds", "2",
               "--json", place / "rows", place / "program", place]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=helpers.TIMEOUT,
                          check=False)
    asked = (place / "log").read_text().splitlines() if (place / "log").exists() else []
    return done, json.loads((place / "rows").read_text()), asked


TOOK = 'echo "us_per_iteration 1${LD_PRELOAD:+0}"; '


@helpers.unsanitized
def test_processes_that_share_a_gpu(tmp_path):
    """Twice without and twice with the library, by two processes each, and the same as clients of MPS."""
    done, rows, asked = mps(tmp_path, TOOK + 'echo checksum 7; echo "$CUDA_MPS_PIPE_DIRECTORY" >>"$1/seen"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(row["sharing"], row["results"]) for row in rows] == [("in turn", "equal"), ("MPS", "equal")]
    assert all(row["times"] == {"without": [1] * 4, "library": [10] * 4} for row in rows)
    assert "| MPS | 2 | equal | 1 | 10 | 0.100x |" in done.stdout
    (folder,) = {line.split()[1] for line in asked}
    assert [line.split()[0] for line in asked] == ["begin", "get_server_list", "quit"]
    assert (tmp_path / "seen").read_text().splitlines() == [""] * 8 + [folder] * 8


@helpers.unsanitized
@pytest.mark.parametrize("script, servers, begins, status, said", [
    ("echo checksum 7", None, 0, 2, "MPS is missing: there is no nvidia-cuda-mps-control"),
    ("echo checksum 7", "", 0, 2, "MPS is missing: no process was a client of MPS"),
    ("echo checksum 7", "12", 1, 2, "MPS is missing: nvidia-cuda-mps-control ends with 1"),
    ("echo checksum 7${LD_PRELOAD:+8}", "12", 0, 1, "| in turn | 2 | DIFFERENT (0) | 1 | 10 |"),
    ('[ -z "$LD_PRELOAD" ] || exit 3', "12", 0, 1, "| in turn | 2 | DIFFERENT (3) |"),
    ("exit 4", "12", 0, 2, "| MPS | 2 | fails without the library too (4) |")])
def test_processes_that_share_no_gpu_or_differ(tmp_path, script, servers, begins, status, said):
    """Whatever happens, the server is stopped."""
    done, _, asked = mps(tmp_path, TOOK + script, servers, begins)
    assert done.returncode == status and said in done.stdout, done.stdout + done.stderr
    if servers is not None and not begins:
        assert asked[-1].startswith("quit ")


# -- PyTorch in several ways -----------------------------------------------------------

@pytest.fixture(name="variants")
def variants_without_pytorch(monkeypatch):
    """The program as a module: what it says of figures needs no PyTorch."""
    for name in ("torch", "workloads"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(SIZES=("tiny",), WORKLOADS={}))
    spec = importlib.util.spec_from_file_location("variants", FRAMEWORKS / "variants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name, results, target, outcome", [
    ("eager + library", [1.00001], 1, "alike"), ("eager + library", [1.001], 1, "DIFFERENT: eager + library"),
    ("graph", [1.001], 1, "alike"), ("graph", [1.1], 1, "DIFFERENT: graph"),
    ("graph", [float("nan")], 1, "DIFFERENT: graph"), ("graph", [2], None, "alike"),
    ("eager + library", [2], None, "DIFFERENT: eager + library"),
    ("compile + library", [7], 1, "alike")])
def test_results_of_variants_are_compared(variants, name, results, target, outcome):
    """With the library nothing may differ; other variants may by a little, and their tokens by more."""
    made = {column: types.SimpleNamespace(results=own, target=target)
            for column, own in {"eager": [1.0], name: results}.items()}
    assert variants.verdict(made) == outcome


@pytest.mark.parametrize("name, pauses", [("eager", 1), ("eager + library", 0), ("compile + library", 0), ("graph", 1)])
def test_the_library_is_in_use_where_a_variant_says_so(variants, monkeypatch, name, pauses):
    """As the program begins with a pause, and pauses add up."""
    depth, seen = [1], []

    def count(by):
        return lambda: depth.__setitem__(0, max(0, depth[0] + by))

    monkeypatch.setattr(variants.in_turn, "switches", lambda: (count(1), count(-1)))
    monkeypatch.setattr(variants, "WARM", {"tiny": 4})
    variant = object.__new__(variants.Variant)
    options = types.SimpleNamespace(size="tiny", device="cpu")
    vars(variant).update(name=name, options=options, results=[], times=[], target=None, optimizer=None,
                         step=lambda: seen.append(depth[0]) or types.SimpleNamespace(item=int))
    variant.warm()
    assert variant.results == [0] * 4 and depth == [1]
    variant.measure()
    assert len(variant.times) == 1 and depth == [1]
    assert seen == [pauses] * (4 + variants.STEPS["tiny"])


def test_a_line_of_variants(variants):
    times = {"eager": [300.0, 100.0, 200.0], "graph": [50.0, 40.0, 60.0]}
    row = {"workload": "LSTM, training", "times": times, "driver": 0.256, "results": "alike"}
    assert variants.line(row) == \
        "| LSTM, training | 200.0 (1.00x) | - | - | - | - | 50.0 (4.00x) | 26 % | alike |"
    assert variants.line({**row, "driver": None}).endswith("| - | alike |")


def test_the_networks_of_variants_run():
    """A few steps of each on the CPU, where PyTorch is installed."""
    pytest.importorskip("torch", reason="there is no PyTorch")
    done = helpers.run([sys.executable, "-P", FRAMEWORKS / "variants.py", "--size", "tiny", "--device", "cpu",
                        "--rounds", "1"], preload=False, sim=False)
    rows = [line for line in done.stdout.splitlines()[2:]]
    assert len(rows) == 13 and all(row.endswith("| alike |") for row in rows)

# SPDX-License-Identifier: MIT
"""The trace file: what it says agrees with the exit report and with what the device executed, and
nothing that can happen to a file disturbs the program."""
import collections
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import time

import pytest

import compiled
import helpers
import trace_records as tracefile
from trace_records import Trace

LOOP = ["--iterations", "60", "--warmup", "4", "--kernels", "8", "--size", "40"]
SAMPLES = {name: LOOP for name in
           ("constant", "scalars", "pingpong", "sync", "memset", "events")}
SAMPLES["perthread"] = [*LOOP, "--threads", "3"]
SAMPLES["jacobi"] = ["--iterations", "2000", "--warmup", "1", "--kernels", "8", "--size", "12"]
HOST = 1  # CU_MEMORYTYPE_HOST


def traced(tmp_path, name, options, env=None, **more):
    """The run, with its trace. The thread that writes it wakes up by the machine's clock."""
    file = tmp_path / "trace"
    done = helpers.run_logged([helpers.sample(f"{name}-sim"), *options],
                              env={"AUTOGRAPH_TRACE_FILE": file, **(env or {})}, own_clock=False, **more)
    return done, Trace(file)


def submitted(trace):
    """For each stream: sequence -> (number of the trace, or None) of the ops that were held."""
    how = collections.defaultdict(dict)
    for stream, _, last, held, replayed, number, _, _ in trace.submits:
        for i in range(held):
            how[stream][last - held + 1 + i] = number if i < replayed else None
    return how


# -- Content --------------------------------------------------------------------

@pytest.mark.parametrize("name", SAMPLES)
def test_it_agrees_with_the_report(tmp_path, name):
    done, trace = traced(tmp_path, name, SAMPLES[name])
    report = done.report
    assert trace.complete and set(trace.lost.values()) == {0}
    assert trace.pid == report["pid"] and trace.library == report["version"]
    how = submitted(trace)
    reads = {(stream, op.sequence) for stream, ops in trace.ops.items() for op in ops
             if op.kind == tracefile.COPY and op.arguments[-2] == HOST}
    alone = [read for read in reads if not how[read[0]].get(read[1])]  # the report counts those that are replayed
    assert sum(map(len, trace.ops.values())) - len(alone) == report["ops"]["total"]
    for ops in trace.ops.values():
        assert [op.sequence for op in ops] == list(range(1, len(ops) + 1))
    replayed = sum(1 for ops in how.values() for number in ops.values() if number)
    assert replayed == report["ops"]["replayed"] > 0
    assert sum(1 for s in trace.submits if s[4]) == report["replays"]
    assert sum(s[6] for s in trace.submits) == report["patches"]
    assert len(trace.of(tracefile.TRACE)) == report["traces"]
    names = list(report["flushes"])
    flushes = collections.Counter(names[s[1]] for s in trace.submits if s[4] < s[3])
    assert flushes == {k: v for k, v in report["flushes"].items() if v}
    # What was not held went out by the program's own call, which came back.
    returned = {(r.id, struct.unpack_from("<Q", r.body)[0]) for r in trace.of(tracefile.RETURN)}
    eager = {(stream, op.sequence) for stream, ops in trace.ops.items() for op in ops
             if op.sequence not in how[stream]}
    assert returned == eager | reads


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"perthread"}))
def test_it_is_the_same_without_replays(tmp_path, name):
    """The same ops with the same arguments, whether they were held or not. (Of several threads, each
    gets its memory in an order that no two runs share.)"""
    def content(env):
        _, trace = traced(tmp_path, name, SAMPLES[name], env)
        events = {}  # handles differ from run to run
        for record in trace.of(tracefile.OP):
            if record.sub in (tracefile.RECORD, tracefile.WAIT):
                events.setdefault(struct.unpack_from("<Q", record.body, 24), len(events))
        return [[(op.kind, op.function, op.shape, events.get(op.arguments, op.arguments))
                 for op in trace.ops[stream]] for stream in sorted(trace.ops)]
    held = content({})
    assert held == content({"AUTOGRAPH_GRAPH_EXECS": 0}) and held


COPIES_THAT_PASS = """
#include "sim_test.h"

int main(void)
{
    CUdeviceptr at;
    uint32_t chance = 1;
    start();
    OK(cuMemAlloc(&at, 8192));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 2000; i++) {
        chance = chance * 1664525u + 1013904223u;
        OK(cuMemcpyDtoDAsync(at, at + 4096, 4 + 4 * (chance >> 24), s));
    }
    OK(cuStreamSynchronize(s));
    return 0;
}
"""


def test_copies_that_pass_are_in_it(tmp_path):
    """Hardly two in a row come again, and so the recorder rests."""
    file = tmp_path / "trace"
    done = helpers.run_logged([compiled.text(COPIES_THAT_PASS)],
                              env={"AUTOGRAPH_TRACE_FILE": file, "AUTOGRAPH_TRACE_MEMORY": 256, **helpers.OWN_SHAPES})
    assert done.report["eager_ops"]["unwatched"] > 1000
    assert [[op.sequence for op in ops] for ops in Trace(file).ops.values()] == [list(range(1, 2001))]


def test_arguments_names_and_grids(tmp_path):
    """Of one kernel, as the simulated device executed it."""
    done, trace = traced(tmp_path, "scalars", LOOP)
    (ops,) = trace.ops.values()
    (executed,) = (log for log in done.log.values() if any("op=kernel" in line for line in log))
    executed = [dict(f.split("=", 1) for f in line.split()) for line in executed
                if "op=kernel" in line]
    assert len(ops) == len(executed)
    for op, ran in zip(ops, executed):
        assert op.function and op.function == ran["name"]
        assert ran["grid"] == ",".join(map(str, op.shape[:3]))
        assert ran["block"] == ",".join(map(str, op.shape[3:6]))
    assert len({op.hash for op in ops}) > 1, "arguments change in this sample"
    layouts = {f[0]: f for f in trace.functions.values()}
    _, size, fields = layouts[ops[0].function]
    assert size == ops[0].size and fields and max(o + n for o, n in fields) == size


def test_hashes_tell_arguments_apart(tmp_path):
    for name in ("memset", "scalars", "events"):
        _, trace = traced(tmp_path, name, LOOP)
        arguments = {(op.kind == tracefile.KERNEL, op.arguments): op.hash
                     for ops in trace.ops.values() for op in ops}
        assert len(set(arguments.values())) == len(arguments) > 1, name


def test_allocations_are_where_the_arguments_point(tmp_path):
    _, trace = traced(tmp_path, "constant", LOOP)
    allocations = [struct.unpack_from("<QQ", r.body) for r in trace.of(tracefile.ALLOC)]
    freed = [struct.unpack_from("<Q", r.body)[0] for r in trace.of(tracefile.FREE)]
    assert allocations and all(size for _, size in allocations)
    assert set(freed) <= {address for address, _ in allocations}
    (ops,) = trace.ops.values()
    pointer = struct.unpack_from("<Q", ops[0].arguments)[0]
    assert any(start <= pointer < start + size for start, size in allocations)


def test_streams_made_anew_are_others(tmp_path):
    """A state is used again for the next stream, and counts on; its sequence begins anew."""
    file = tmp_path / "trace"
    helpers.run([compiled.program("live_life"), "streams"], env={"AUTOGRAPH_TRACE_FILE": file})
    trace = Trace(file)
    assert len(trace.of(tracefile.STREAM)) == len({r.id for r in trace.of(tracefile.STREAM)}) > 2
    assert sum(trace.lost.values()) == 0
    for ops in trace.ops.values():
        assert [op.sequence for op in ops] == list(range(1, len(ops) + 1))


def test_barriers_have_their_functions(tmp_path):
    _, trace = traced(tmp_path, "sync", LOOP)
    assert trace.barriers.count("cuStreamSynchronize") >= 60
    assert {"cuMemAlloc_v2", "cuStreamDestroy_v2"} <= set(trace.barriers)
    assert "cuMemcpyHtoD_v2" in trace.barriers, "also where nothing is held"


def test_what_is_lost_is_counted(tmp_path):
    """Nobody reads for a while: the pipe is full, then the buffer, and the program goes on."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = [helpers.sample("constant-sim"), "--iterations", "1000", "--kernels", "8"]
    env = {"AUTOGRAPH_TRACE_FILE": fifo, "AUTOGRAPH_TRACE_BUFFER_KB": 64}
    ours, terminal = os.openpty()  # where a program prints line by line
    with subprocess.Popen(command, env=helpers.environment(env=env), stdout=terminal) as process:
        assert os.read(ours, 8) == b"checksum"  # the loop is over
        os.set_blocking(reader, True)
        with open(reader, "rb") as source, open(tmp_path / "trace", "wb") as copy:
            shutil.copyfileobj(source, copy)
        assert process.wait(helpers.TIMEOUT) == 0
    os.close(terminal)
    os.close(ours)
    trace = Trace(tmp_path / "trace")
    (end,) = trace.of(tracefile.END)
    (lost,) = struct.unpack_from("<Q", end.body)
    (ops,) = trace.ops.values()
    assert trace.complete and lost > 1000
    missing = 1000 * 8 - len([op for op in ops if op.sequence <= 1000 * 8])
    assert 0 < missing <= lost


def test_records_that_wrap(tmp_path):
    """The smallest buffer, filled many times over: by longer programs, until the thread that writes the
    file has come to empty it."""
    for iterations in 20000, 80000, 320000:
        _, trace = traced(tmp_path, "constant", ["--iterations", str(iterations), "--kernels", "4"],
                          env={"AUTOGRAPH_TRACE_BUFFER_KB": 64})
        (ops,) = trace.ops.values()
        lost = max(trace.lost.values())
        kept = [op.sequence for op in ops]
        assert kept == sorted(set(kept))
        if len(kept) > 700:
            break
    assert len(kept) > 700
    if lost == 0:
        assert kept == list(range(1, len(kept) + 1))
    (end,) = trace.of(tracefile.END)
    assert struct.unpack_from("<Q", end.body)[0] == lost


def test_results_and_order_are_the_same(tmp_path):
    # Not by the clock; and with a trace file each stream has graphs of its own.
    fixed = {"AUTOGRAPH_TRACE_LENGTH": "fixed", "AUTOGRAPH_TRACE_FORKS": "false"}
    plain = helpers.run_logged([helpers.sample("events-sim"), *LOOP], env=fixed)
    done, _ = traced(tmp_path, "events", LOOP, fixed)
    assert done.log == plain.log and done.stderr == plain.stderr == ""
    assert done.report["ops"] == plain.report["ops"]


# -- Files ----------------------------------------------------------------------

def run(env, status=0, options=LOOP):
    return helpers.run([helpers.sample("constant-sim"), *options], env=env, status=status)


def checksum(done):
    return [line for line in done.stdout.splitlines() if line.startswith("checksum")]


@pytest.fixture(scope="module")
def expected():
    return checksum(run({}))


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run({})
    assert os.listdir(tmp_path) == []


def test_patterns_in_the_name(tmp_path):
    run({"AUTOGRAPH_TRACE_FILE": tmp_path / "%r-%p", "PMI_RANK": 7})
    (name,) = os.listdir(tmp_path)
    rank, pid = name.split("-")
    assert rank == "7" and Trace(tmp_path / name).pid == int(pid)


def test_an_older_file_is_replaced(tmp_path):
    (tmp_path / "trace").write_bytes(b"AGTRACE\n" + b"x" * 5_000_000)
    _, trace = traced(tmp_path, "constant", LOOP)
    assert trace.complete and (tmp_path / "trace").stat().st_size < 5_000_000


@pytest.mark.parametrize("text", [b"x", b"AGTRACE", b"{\n", b"AGTRACe\n" + bytes(100)])
@pytest.mark.parametrize("linked", [False, True])
def test_another_file_is_left_alone(tmp_path, text, linked, expected):
    file, link = tmp_path / "t", tmp_path / "l"
    file.write_bytes(text)
    link.symlink_to(file)
    done = run({"AUTOGRAPH_TRACE_FILE": link if linked else file})
    (line,) = done.stderr.splitlines()
    assert line.endswith("is not written: the file there is no trace of yours")
    assert file.read_bytes() == text and checksum(done) == expected


def test_a_link_to_nothing_makes_nothing(tmp_path, expected):
    (tmp_path / "l").symlink_to(tmp_path / "t")
    done = run({"AUTOGRAPH_TRACE_FILE": tmp_path / "l"})
    assert done.stderr.endswith("cannot be written: No such file or directory\n")
    assert not (tmp_path / "t").exists() and checksum(done) == expected


def test_an_empty_file_is_written(tmp_path):
    (tmp_path / "t").touch()
    assert run({"AUTOGRAPH_TRACE_FILE": tmp_path / "t"}).stderr == ""
    assert Trace(tmp_path / "t").complete


@pytest.mark.parametrize("name,message", [
    ("missing/trace", "No such file or directory"), (".", "Is a directory"),
    ("fifo", "No such device or address"), ("%r" * 20, "File name too long")])
def test_a_file_that_cannot_be_written(tmp_path, name, message, expected):
    os.mkfifo(tmp_path / "fifo")
    done = run({"AUTOGRAPH_TRACE_FILE": f"{tmp_path}/{name}", "PMI_RANK": "7" * 100})
    (line,) = done.stderr.splitlines()
    assert "the trace " in line and line.endswith(f" cannot be written: {message}")
    assert checksum(done) == expected


def test_a_full_disk(expected):
    done = run({"AUTOGRAPH_TRACE_FILE": "/dev/full"})
    (line,) = done.stderr.splitlines()
    assert line.endswith("the trace /dev/full cannot be written: No space left on device")
    assert checksum(done) == expected


def test_a_file_that_another_process_writes_is_left_alone(tmp_path):
    file = tmp_path / "trace"
    theirs = b"AGTRACE\n and so on"
    file.write_bytes(theirs)
    with open(file, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = run({"AUTOGRAPH_TRACE_FILE": file})
    assert ": %p in its name makes one each" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and file.read_bytes() == theirs


NO_STDOUT = """
#include "sim_test.h"

int main(void)
{
    CUdeviceptr buffer;
    close(STDOUT_FILENO);
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 2; i++) {
        OK(launch_mix(buffer, 1, 7, 0));
        OK(cuCtxSynchronize());
        usleep(100000); /* so that the file is open */
        CHECK(write(STDOUT_FILENO, "text", 4) == -1);
    }
    return 0;
}
"""


def test_a_program_without_stdout(tmp_path):
    """What it writes there goes nowhere, and not into the trace."""
    helpers.run(compiled.text(NO_STDOUT), env={"AUTOGRAPH_TRACE_FILE": tmp_path / "trace"})
    assert Trace(tmp_path / "trace").complete


SMALL_STACK = """
#include <limits.h>
#include <pthread.h>
#include "sim_test.h"

static void *work(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < 100; i++)
        OK(launch_mix(*(CUdeviceptr *)arg, 1, 7, 0));
    OK(cuCtxSynchronize());
    return arg;
}

int main(void)
{
    CUdeviceptr buffer;
    pthread_t thread;
    pthread_attr_t attributes;
    void *done;
    start();
    OK(cuMemAlloc(&buffer, 4));
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_create(&thread, &attributes, work, &buffer) == 0);
    CHECK(pthread_join(thread, &done) == 0 && done == &buffer);
    return 0;
}
"""


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="a sanitizer needs more stack")
def test_a_thread_with_the_smallest_stack(tmp_path):
    helpers.run(compiled.text(SMALL_STACK), env={"AUTOGRAPH_TRACE_FILE": tmp_path / "trace"})
    assert Trace(tmp_path / "trace").complete


NO_LOCKS = """
#include <errno.h>
#include "sim_test.h"

int flock(int fd, int operation) /* as on Lustre without the mount option */
{
    (void)fd, (void)operation;
    errno = ENOSYS;
    return -1;
}

int main(void)
{
    CUdeviceptr buffer;
    start();
    OK(cuMemAlloc(&buffer, 4));
    OK(launch_mix(buffer, 1, 7, 0));
    OK(cuCtxSynchronize());
    return 0;
}
"""


def test_a_file_system_without_locks(tmp_path):
    done = helpers.run(compiled.text(NO_LOCKS), env={"AUTOGRAPH_TRACE_FILE": tmp_path / "trace"})
    assert done.stderr == "" and Trace(tmp_path / "trace").complete


def test_the_size_bound(tmp_path, expected):
    file = tmp_path / "trace"
    done = run({"AUTOGRAPH_TRACE_FILE": file, "AUTOGRAPH_TRACE_FILE_MB": 1, "AUTOGRAPH_LOG_LEVEL": 1},
               options=["--iterations", "4000", "--kernels", "8", "--size", "40"])
    assert "it has reached 1 MiB" in done.stderr
    assert (1 << 20) - 8192 < file.stat().st_size <= 1 << 20
    trace = Trace(file)
    assert trace.complete and trace.of(tracefile.END)[0].sub == 1
    (ops,) = trace.ops.values()
    assert [op.sequence for op in ops] == list(range(1, len(ops) + 1))


def test_a_killed_program_leaves_what_can_be_read(tmp_path):
    file = tmp_path / "trace"
    command = [helpers.sample("sync-sim"), "--iterations", "100000000"]
    with subprocess.Popen(command, env=helpers.environment(env={"AUTOGRAPH_TRACE_FILE": file}),
                          stdout=subprocess.DEVNULL) as process:
        limit = time.monotonic() + helpers.TIMEOUT
        while not (file.exists() and file.stat().st_size > 50_000) and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    trace = Trace(file)
    assert not trace.complete and sum(map(len, trace.ops.values())) > 100


def test_any_beginning_of_a_file_can_be_read(tmp_path):
    _, whole = traced(tmp_path, "memset", LOOP)
    data = (tmp_path / "trace").read_bytes()
    cut = tmp_path / "cut"
    for size in {64, 65, 90, *range(100, len(data), 997), len(data) - 1}:
        cut.write_bytes(data[:size])
        part = Trace(cut)
        assert not part.complete and len(part.records) < len(whole.records)
        assert part.records == whole.records[:len(part.records)]


def test_a_child_writes_none(tmp_path):
    """The child of a process that uses CUDA leaves the parent's file alone."""
    env = {"AUTOGRAPH_TRACE_FILE": tmp_path / "%p", **helpers.NO_LEAK_CHECK}
    done = helpers.run([compiled.program("live_life"), "children"], env=env)
    assert (done.stderr == "" or helpers.config()["sanitize"] == "thread") and os.listdir(tmp_path)
    for name in os.listdir(tmp_path):
        assert Trace(tmp_path / name).complete and Trace(tmp_path / name).pid == int(name)


def test_it_is_named_in_the_report(tmp_path):
    file = tmp_path / "r"
    run({"AUTOGRAPH_TRACE_FILE": tmp_path / "t", "AUTOGRAPH_REPORT": file})
    assert json.loads(file.read_text())["options"]["trace.file"] == str(tmp_path / "t")

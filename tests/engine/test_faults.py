# SPDX-License-Identifier: MIT
"""Each driver call that the library makes fails in turn: the program does not notice.

The simulated driver fails a use of a function by the library itself; calls that the doors pass on
for the program are told from these by their return address."""
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import tempfile

import pytest

import compiled
import helpers

SCENARIOS = {name: {} for name in
             ["arguments", "memsets", "copies", "uploads", "events", "forks", "legacy", "per_thread", "late", "capture",
              "streams", "exits", "values", "allocations", "kernels", "contexts", "priorities", "unwaited", "writes",
              "settings", "attributes", "no_stream", "reads", "reads_beside", "pinned_reads"]}
STRATEGIES = {"set_params": ["arguments", "memsets", "copies", "uploads", "events", "values"],
              "exec_update": ["arguments", "memsets", "copies", "uploads", "events", "values"]}
for strategy, scenarios in STRATEGIES.items():
    for scenario in scenarios:
        SCENARIOS[f"{scenario}/{strategy}"] = {"AUTOGRAPH_UPDATE_STRATEGY": strategy}
for scenario in ("events", "events/set_params", "events/exec_update"):  # each stream has graphs of its own
    SCENARIOS[scenario]["AUTOGRAPH_TRACE_FORKS"] = "false"
SCENARIOS["relay"] = {"AUTOGRAPH_HOLD_BOUND_US": 20000}
SCENARIOS["arguments/grow"] = {"AUTOGRAPH_GRAPH_FREE_EXECS": 0}  # only while the device is idle
SCENARIOS["arguments/profile"] = {}
# With threads and the watchdog, the number of calls is not the same in each run, and ops may go
# through a stream of the library's own.
TIMED = {"per_thread", "late", "relay"}
# Whether some calls are made also depends on how far the device is, or other threads are: an allocation gets memory
# that was freed, or other memory; and nothing is read back while somebody else has a stream's lock.
VARYING = {*TIMED, "allocations", "reads_beside"}
# Asked only while a stream has work left.
OF_BUSY_STREAMS = {"cuEventQuery"}

CODES = {"INVALID_VALUE": 1, "OUT_OF_MEMORY": 2, "INVALID_CONTEXT": 201, "INVALID_HANDLE": 400,
         "NOT_SUPPORTED": 801, "UNKNOWN": 999}

# An answer and no error: what the driver says of an index past the last parameter.
ANSWERS = {("cuFuncGetParamInfo", "INVALID_VALUE")}

ABSENT = "the fault did not happen"

# Facts for who reads of the run: without them less is said.
FACTS = {"cuDeviceGetName", "cuDeviceGetMemPool", "cuDriverGetVersion", "cuMemPoolGetAttribute"}

# Questions about what the program has named. The name may be wrong, so an error is no failure of
# the library's; what is asked about is not held. (And whether there is more than one device: yes.)
QUESTIONS = {"cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetCount", "cuDeviceGetAttribute", "cuStreamGetCtx", "cuStreamGetFlags",
             "cuStreamIsCapturing", "cuStreamQuery", "cuEventQuery", "cuPointerGetAttributes",
             "cuMemGetAddressRange_v2", "cuKernelGetFunction", "cuFuncGetParamInfo",
             "cuFuncGetAttribute", "cuKernelGetAttribute", "cuFuncGetName", "cuFuncGetModule",
             "cuKernelGetLibrary", "cuCtxGetCacheConfig", "cuCtxGetFlags", "cuCtxGetLimit", *FACTS}

# They give a held kernel the settings that it was called with, and the function those back that it has
# now. What is not taken decides about speed alone. That the driver takes nothing back that it once had
# taken is not to be hidden: there are no such cases.
SETTERS = {"cuFuncSetAttribute", "cuFuncSetCacheConfig", "cuKernelSetAttribute", "cuKernelSetCacheConfig"}


def submits(function, scenario):
    """Whether the call is an op of the program itself. If the driver refuses that, nothing is left to
    fall back on: a later call returns the error, like one of asynchronous execution. The rest of the
    promise holds."""
    if function in ("cuEventRecord", "cuStreamWaitEvent"):
        return scenario.startswith("events")
    return re.match(r"cuLaunchKernel|cuMemset|cuMemcpy|cuMemFreeAsync|cuStream(Write|Wait)Value", function)


READS = {"reads", "reads_beside", "pinned_reads"}


def is_own(function, scenario, which):
    """Whether one of these uses fails that is the library's own, and no op: the first launch of the kernel for
    read-backs."""
    return function == "cuLaunchKernel" and scenario in READS and which in ("1", "*")


# All that the library records there: marks behind the work of streams that go.
MARKED = ("events", "events/set_params", "events/exec_update")

# What is called only where there is a kernel for read-backs.
OF_READS = {"cuModuleLoadData", "cuModuleGetFunction", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"}

# What is known to be wrong, and whether every run shows it.
FAILING = {}


def functions():
    """The driver functions that the library calls, each with its mark."""
    text = (helpers.SOURCE / "src/driver/driver.h").read_text()
    for name in re.findall(r"^ *X\((cu\w+)\)", text, flags=re.M):
        strict, reason = FAILING.get(name, (None, None))
        marks = [pytest.mark.xfail(strict=strict, reason=reason)] if reason else []
        if name in OF_READS and not helpers.config()["nvcc"]:
            marks.append(pytest.mark.skip(reason="built without nvcc"))
        yield pytest.param(name, marks=marks)


# -- Runs ---------------------------------------------------------------------

Run = collections.namedtuple("Run", "status stdout stderr report log calls")


def run(scenario, fault=None, preload=True):
    with tempfile.TemporaryDirectory() as scratch:
        report, log, calls = (pathlib.Path(scratch, name) for name in ("report", "log", "calls"))
        env = {"AGSIM_LOG": log, "AGSIM_CALLS": calls, "AGSIM_CALLER": helpers.own_calls(),
               "AGSIM_FAIL": fault, "AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_UNROLL": 8,
               **(helpers.HASTY if scenario in TIMED else helpers.PATIENT),
               "AUTOGRAPH_TRACE_LENGTH": "fixed", **SCENARIOS[scenario]}
        if scenario.endswith("/profile"):
            env["AUTOGRAPH_TRACE_PROFILE"] = pathlib.Path(scratch, "profile")
        done = helpers.run([compiled.program("fault_loops"), scenario.split("/")[0]],
                           preload=preload, env=env, status=None)
        counts = dict(line.split() for line in calls.read_text().splitlines()) \
            if calls.exists() else {}
        return Run(done.returncode, done.stdout, done.stderr,
                   json.loads(report.read_text()) if report.exists() else None,
                   helpers.executed(log), {name: int(n) for name, n in counts.items()})


@functools.lru_cache(maxsize=None)
def plain(scenario):
    return run(scenario, preload=False)


@functools.lru_cache(maxsize=None)
def uses(scenario):
    """How often the library calls what; without a fault."""
    return run(scenario).calls


def order(scenario, log, function=""):
    if function in SETTERS or function.endswith("GetAttribute"):  # preferences only
        log = {stream: [re.sub(" carveout=.* stack=", " stack=", op) for op in ops]
               for stream, ops in log.items()}
    if scenario.startswith("uploads"):  # which records nothing: the library's own say when memory is free
        log = {stream: [op for op in ops if not op.startswith("op=record ")] for stream, ops in log.items()}
    if scenario == "pinned_reads":  # to a place of the library's own
        log = {stream: [op.split(" args=")[0] if op.startswith("op=copy ") else op for op in ops]
               for stream, ops in log.items()}
    if scenario in READS and function in ("cuStreamSynchronize", "cuEventSynchronize"):  # what has not come is read once more
        log = {stream: [op for op in ops if not op.startswith("op=copy")] for stream, ops in log.items()}
    if scenario in TIMED or scenario == "forks":  # a graph has the ops of several streams
        return sorted(op for ops in log.values() for op in ops if op.startswith("op=kernel"))
    if scenario == "allocations":  # allocations pass ahead, frees wait
        return {stream: [op.split(" args=")[0] for op in ops if not op.startswith(("op=alloc", "op=free"))]
                for stream, ops in log.items()}
    return log


def failures(got):
    """How many calls of the program failed."""
    return int(re.search(r"failures (\d+)$", got.stdout).group(1))


def errors(report):
    return report["errors"] + sum(report.get("updates_refused", {}).values())


def differences(scenario, fault, function):
    """What the program, or who reads its report, notices of a fault."""
    want, got = plain(scenario), run(scenario, fault)
    which = fault.split(":")[1]
    an_op = submits(function, scenario) and not (which == "1" and is_own(function, scenario, which))
    # That a wait which the program asked for is missing is a race for ThreadSanitizer.
    lost = an_op and helpers.config()["sanitize"] == "thread"
    if got.status != 0 and not lost:
        return [f"status {got.status}"]
    found = []
    if got.stderr and not lost:
        found.append(f"prints {got.stderr!r}")
    if not an_op:
        if got.stdout != want.stdout:
            found.append("other output")
        if order(scenario, got.log, function) != order(scenario, want.log, function):
            found.append("other execution")
    elif "failed" in got.calls and not lost and failures(got) <= failures(want) \
            and not is_own(function, scenario, which) and not (function == "cuEventRecord" and scenario in MARKED):
        found.append("refusal not told")
    if got.report is None:
        found.append("no report")
    elif "failed" in got.calls and function not in QUESTIONS and not errors(got.report):
        found.append("error not counted")
    if "failed" not in got.calls:  # the number of calls also depends on how busy the machine is
        found.append(ABSENT)
    return found


FEWER = helpers.by_scale(True, True, bool(helpers.config()["sanitize"]))  # each run takes ten times as long


def cases(function):
    """Scenario and fault. At the first use all codes in the first scenario, then each half of them in turn; some of
    these at every use, and some codes at later ones. With a sanitizer, and unless the scale is full, the first use
    or every use, in turn, and both in the first scenario; a quick check stops there. Scenarios whose number of
    calls varies come last."""
    counts = {scenario: uses(scenario).get(function, 0) for scenario in SCENARIOS
              # What waits for the lost value waits for ever.
              if not (scenario.startswith("values") and "Write" in function)}
    codes = [code for name, code in CODES.items() if (function, name) not in ANSWERS]
    for number, scenario in enumerate(sorted(filter(counts.get, counts), key=VARYING.__contains__)):
        count = counts[scenario]
        if helpers.SCALE == "quick" and number > 0:
            return
        if FEWER:
            for i, use in enumerate("1*"):
                if number == 0 or number % 2 == i:
                    yield scenario, f"{function}:{use}:{codes[(len(scenario) + i) % len(codes)]}"
            continue
        for i, code in enumerate(codes[number % 2::2] if number else codes):
            yield scenario, f"{function}:1:{code}"
            if i % 2 == 0:
                yield scenario, f"{function}:*:{code}"
        later = sorted(n for n in {2, count // 2, count} if 1 < n <= count)
        for i, use in enumerate(later):
            for_good = "+" if i % 2 and function not in SETTERS else ""
            yield scenario, f"{function}:{use}{for_good}:{codes[(i + 1) % len(codes)]}"


# -- Tests --------------------------------------------------------------------

@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_replays(scenario):
    """Without faults the library is at work, and nothing changes but that."""
    want, got = plain(scenario), run(scenario)
    assert (got.status, got.stdout, got.stderr) == (0, want.stdout, "")
    assert order(scenario, got.log) == order(scenario, want.log)
    assert got.report["replays"] > 0 and errors(got.report) == 0


def test_freed_memory_is_no_error(monkeypatch):
    """When the sequence has ended, the memory that its memsets named is gone, and it names no other: the graph
    is made while the memory lives, before it is freed the next time."""
    monkeypatch.setitem(SCENARIOS, "temporaries", {})
    want, got = plain("temporaries"), run("temporaries")
    assert (got.status, got.stdout, got.stderr) == (0, want.stdout, "")
    assert order("allocations", got.log) == order("allocations", want.log)
    assert got.calls["cuPointerGetAttributes"] > 0
    assert got.report["replays"] > 0 and errors(got.report) == 0


def test_a_launch_tells_of_a_refused_op():
    """A held op is refused when it is submitted; a launch that is not held returns the error, once,
    and then nothing is left to tell."""
    assert "failures of launches 0\n" in run("unwaited").stdout
    for code in CODES.values():
        got = run("unwaited", f"cuLaunchKernel:1:{code}")
        assert got.calls["failed"] == 1
        assert "failures of launches 1\n" in got.stdout and failures(got) == 1


@pytest.mark.parametrize("code", CODES.values())
def test_a_wait_between_streams_becomes_one_of_the_host(code):
    """Where the library cannot have one stream wait for another, the host waits for both. If that
    fails too, the order is lost and the failure counted; the program comes to its end."""
    want, refused = plain("per_thread"), f"cuStreamWaitEvent:*:{code}"
    got = run("per_thread", refused)
    assert got.calls["cuEventSynchronize"] > 0
    assert (got.status, got.stdout, got.stderr) == (0, want.stdout, "")
    if helpers.config()["sanitize"] == "thread":
        return  # kernels without an order are a race in the simulated device's memory
    both = run("per_thread", f"{refused},cuEventSynchronize:*:{code}")
    assert (both.status, both.stderr) == (0, "")
    assert errors(both.report) >= 2 * both.calls["cuEventSynchronize"] > 0


@pytest.mark.parametrize("code", CODES.values())
def test_a_branch_whose_stream_cannot_wait_for_it_is_waited_for_by_the_host(code):
    want, refused = plain("forks"), f"cuStreamWaitEvent:*:{code}"
    got = run("forks", refused)
    assert got.calls["cuEventSynchronize"] > 0 and errors(got.report) == got.calls["failed"]
    assert (got.status, got.stdout, got.stderr) == (0, want.stdout, "")
    both = run("forks", f"{refused},cuEventSynchronize:*:{code}")
    assert (both.status, both.stderr) == (0, "")
    assert errors(both.report) >= 2 * both.calls["cuEventSynchronize"] > 0


@pytest.mark.parametrize("code", CODES.values())
def test_relayed_work_without_its_mark_is_waited_for_by_the_host(code, monkeypatch):
    """The last record of an event is behind relayed work. Where it fails, the owner of the stream
    waits; if that fails too, the order is lost and both failures are counted."""
    for scenario in ("relay", "relay_lost"):  # only the one wait is longer
        monkeypatch.setitem(SCENARIOS, scenario, {"AUTOGRAPH_HOLD_BOUND_US": 1_000_000})
    want, last = plain("relay"), run("relay").calls["cuEventRecord"]
    got = run("relay", f"cuEventRecord:{last}:{code}")
    assert (got.status, got.stdout, got.stderr) == (0, want.stdout, "")
    assert got.calls["failed"] == got.calls["cuStreamSynchronize"] == errors(got.report) == 1
    if helpers.config()["sanitize"] == "thread":
        return  # the lost order is a race
    both = run("relay_lost", f"cuEventRecord:{last}:{code},cuStreamSynchronize:*:{code}")
    assert (both.status, both.stderr, errors(both.report)) == (0, "", 2)
    assert both.stdout != want.stdout


def test_memory_for_uploads_that_is_not_known_is_kept():
    """The driver gives it, and does not tell its number: then no upload is held. To free it waits for kernels."""
    without = run("uploads").calls
    for use in range(1, without["cuPointerGetAttributes"] + 1):
        got = run("uploads", f"cuPointerGetAttributes:{use}:{CODES['UNKNOWN']}")
        if errors(got.report) != 0:
            break
    assert got.calls["cuMemHostAlloc"] == errors(got.report) == 1 and "cuMemFreeHost" not in got.calls
    assert got.stdout == plain("uploads").stdout and without["cuMemHostAlloc"] == 1


@pytest.mark.parametrize("function", functions())
def test_failing_call(function):
    todo = list(cases(function))
    if not todo:
        # For the two waits see the tests above; on a busy machine no held memset of words goes out by itself.
        assert function in ("cuEventSynchronize", "cuStreamSynchronize", "cuMemsetD32Async")
        return
    found = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (scenario, fault), what in zip(
                todo, pool.map(lambda c: differences(*c, function), todo)):
            for difference in what:
                found[difference].append(f"{scenario} {fault}")
    absent = found.pop(ABSENT, [])
    # Whether a call is made for the n-th time also depends on how far the device is.
    firm = {f"{scenario} {fault}" for scenario, fault in todo
            if scenario not in VARYING and function not in OF_BUSY_STREAMS and fault.split(":")[1] in "1*"}
    assert len(firm & set(absent)) <= len(firm) / 2, absent
    assert not found, f"{len(todo)} cases\n" + "\n".join(
        f"{what}: {len(where)} of {len(todo)}: {', '.join(where[:6])}" for what, where in found.items())

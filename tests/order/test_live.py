# SPDX-License-Identifier: MIT
"""Liveness: what is held goes out even if the program makes no call of the driver that says so."""
import json
import os
import re
import signal

import pytest

import compiled
import helpers

LIMIT = 60  # seconds, then the program's own alarm ends it
# Short traces get hot soon, and their loops are held over several rounds.
SHORT = {"AUTOGRAPH_TRACE_UNROLL": 9, **helpers.OWN_SHAPES}
HELD = helpers.HELD
BOUND = 50_000  # microseconds: so long that it cannot be mistaken for a busy machine
SLACK = 5_000_000


def live(scenario, env=None, limit=LIMIT, status=0, **options):
    """The run, and its longest and median wait in microseconds."""
    done = helpers.run_logged([compiled.program("live_spin"), scenario, limit],
                              env={**SHORT, **(env or {})}, status=status, **options)
    return done, *map(float, done.stdout.split())


SPINNING = ["legacy", "blocking", "nonblocking", "per_thread", "callback", "poll_stream"]


@pytest.mark.parametrize("scenario", [*SPINNING, "threads", "streams", "poll_event"])
def test_host_waits_without_saying_so(scenario):
    """Something is held when the host waits. Twenty threads may leave the one that makes graphs no time: tried more
    than once."""
    def is_held():
        done, _, median = live(scenario, {"AUTOGRAPH_HOLD_BOUND_US": BOUND,
                                          "CUDA_DEVICE_MAX_CONNECTIONS": 32})  # no two streams share one
        assert done.stderr == "" and done.report["errors"] == 0
        assert median < SLACK
        replays = done.report["replays"] > 0 or scenario == "streams"  # which has more sequences than graphs
        return replays and (done.report["flushes"]["watchdog"] > 0 or scenario == "poll_event")

    assert any(is_held() for _ in range(4))


@pytest.mark.parametrize("scenario", ["poll_event", "poll_both"])
def test_who_polls_waits_for_no_watchdog(scenario):
    done, *_ = live(scenario, helpers.PATIENT)
    assert done.stderr == "" and done.report["errors"] == 0
    assert done.report["replays"] > 0 and done.report["flushes"].get("watchdog", 0) == 0


def test_a_question_hears_of_what_the_watchdog_has_submitted():
    done, *_ = live("poll_relayed", {"AUTOGRAPH_HOLD_BOUND_US": 2000})
    assert done.report["flushes"]["watchdog"] > 0


@pytest.mark.parametrize("scenario", SPINNING)
def test_held_no_longer_than_the_bound(scenario):
    """Some wait is as long as the bound, so ops were held; none is longer by more than the slack."""
    done, longest, _ = live(scenario, {"AUTOGRAPH_HOLD_BOUND_US": BOUND})
    assert done.report["flushes"]["watchdog"] > 0
    assert BOUND / 2 < longest < BOUND + SLACK


@pytest.mark.parametrize("scenario", ["blocking", "per_thread", "callback"])
def test_on_one_cpu_the_bound_is_ten_times_as_long(scenario):
    """There the watchdog would take the program's time each time that it looks."""
    cpu = min(os.sched_getaffinity(0))
    done, longest, _ = live(scenario, {"AUTOGRAPH_HOLD_BOUND_US": 4000},
                            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    assert done.report["flushes"]["watchdog"] > 0
    assert 5 * 4000 < longest < 10 * 4000 + SLACK


SMALL_STACKS = """
#include <limits.h>
#include <pthread.h>
#include "sim_test.h"

int main(void)
{
    CUdeviceptr buffer;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_setattr_default_np(&attributes) == 0);
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 8; k++)
            OK(launch_mix(buffer, 1, 7, 0));
        OK(cuCtxSynchronize());
    }
    return 0;
}
"""


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="a sanitizer needs more stack")
def test_threads_of_the_program_have_small_stacks(tmp_path):
    """Those of the library have enough for what they do."""
    env = {"AUTOGRAPH_REPORT": "report.json", "AUTOGRAPH_TRACE_FILE": "trace",
           "AUTOGRAPH_REPORT_LIVE": "true", "AUTOGRAPH_REPORT_CALLSITES": 1}
    helpers.run(compiled.text(SMALL_STACKS), env=env, cwd=tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["replays"] > 0


REAL_TIME = """
#include <pthread.h>
#include <sched.h>
#include "sim_test.h"

static void bind(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static pthread_barrier_t both;

static void *spin_in_real_time(void *cpu)
{
    struct sched_param priority = {.sched_priority = 10};
    bind(atoi(cpu));
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
        _exit(77);
    start(); /* and with it the watchdog */
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    volatile uint32_t *word = host_words(1);
    for (uint32_t i = 1; i < 60; i++) {
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
        OK(launch_word(flag, word, i, 0));
        if (i < 20)
            OK(cuCtxSynchronize());
        alarm(10);
        while (get_word(word) != i)
            continue;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CHECK(argc == 3 && pthread_barrier_init(&both, NULL, 2) == 0);
    bind(atoi(argv[1]));
    CHECK(pthread_create(&thread, NULL, spin_in_real_time, argv[2]) == 0);
    pthread_barrier_wait(&both);
    OK(cuCtxSetCurrent(ctx));
    OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL)); /* the device's thread stays here */
    OK(cuCtxSynchronize());
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    return 0;
}
"""


def test_a_thread_of_real_time_priority_spins():
    """On the CPU that it is bound to, and so is the watchdog, which came with its context."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    done = helpers.run([compiled.text(REAL_TIME), *cpus], env={"AUTOGRAPH_REPORT": "stderr"},
                       status=None)
    if done.returncode == 77:
        pytest.skip("needs the right to a real-time priority")
    assert done.returncode == 0 and json.loads(done.stderr)["replays"] > 0


LOOKS = """
#include <dirent.h>
#include <stdbool.h>
#include "sim_test.h"

/* How often the watchdog has gone to sleep. */
static int looks(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[100];
        bool is = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            is = is || strcmp(line, "Name:\\tag-watchdog\\n") == 0;
            if (is && strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                found = atoi(line + 24);
        }
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

/* KERNELS MS: says whether the watchdog looks, which may take so long to begin. */
int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    CHECK(argc == 3);
    start();
    OK(cuMemAlloc(&buffer, 4));
    int step = 0, ms = atoi(argv[2]);
    do {
        for (int i = 0; i < atoi(argv[1]); i++)
            OK(launch_mix(buffer, 1, 7, 0));
        OK(cuCtxSynchronize());
        if (step >= 300 && ms-- > 0)
            usleep(1000);
    } while (++step < 300 || (ms > 0 && looks() <= 16));
    puts(looks() > 16 ? "looks" : "sleeps");
    return 0;
}
"""


@pytest.mark.parametrize("kernels, hot, replays, looks", [
    (8, 3, True, True),
    (1, 3, True, False),  # each goes out before its call returns
    (8, 1000, False, False),
])
def test_the_watchdog_looks_only_where_something_stays_held(kernels, hot, replays, looks):
    """It looks up every 100 us, which takes time from threads on the same core."""
    env = {"AGSIM_DELAY_US": 0, "AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_TRACE_HOT": hot, **helpers.HASTY}
    done = helpers.run_logged([compiled.text(LOOKS), kernels, 30000 if looks else 50], env=env)
    assert (done.report["replays"] > 0) == replays
    assert done.stdout == ("looks\n" if looks else "sleeps\n")


PER_THREAD = """
#include "sim_test.h"

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    uint32_t sum;
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int step = 0; argc == 2 && step < 300; step++) {
        for (int i = 0; i < atoi(argv[1]); i++)
            OK(launch_mix(buffer, 1, 7, CU_STREAM_PER_THREAD));
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    OK(cuMemcpyDtoH(&sum, buffer, 4));
    printf("%08x\\n", sum);
    return 0;
}
"""


@pytest.mark.parametrize("kernels, relay", [(8, True), (1, False)])
def test_a_relay_only_where_something_stays_held(tmp_path, kernels, relay):
    """A stream and two events for each thread, and a record for each hold, would be for nothing."""
    command = [compiled.text(PER_THREAD), kernels]
    plain = helpers.run(command, preload=False)
    done = helpers.run_logged(command, env={"AGSIM_CALLS": tmp_path / "calls", "AGSIM_DELAY_US": 0})
    calls = dict(line.split() for line in (tmp_path / "calls").read_text().splitlines())
    assert done.stdout == plain.stdout and done.report["replays"] > 200
    assert ("cuStreamCreate" in calls) == ("cuEventRecord" in calls) == relay


def slow(bound, *arguments):
    """The report, and how many trips had a pause of nearly the bound, since the machine was busy."""
    command = [compiled.program("live_slow"), *arguments]
    plain = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command, env={**HELD, "AUTOGRAPH_HOLD_BOUND_US": bound,
                                            "LIVE_SLOW_LATE_US": bound * 8 // 10})
    assert (done.stdout, done.log) == (plain.stdout, plain.log)
    return done.report, int(done.stderr.split()[0])


def test_held_for_most_of_the_bound():
    """What pieces may take is not too long: the watchdog leaves nearly all such holds alone."""
    bound = 2 * BOUND
    data, late = slow(bound, 40, bound * 6 // 10)
    assert data["replays"] > 24 - late and data["flushes"]["watchdog"] < 8 + late


def test_hold_that_gets_longer_is_left_alone():
    """Two bounds in all, but never long without one more op."""
    data, late = slow(BOUND, 40, BOUND * 4 // 10, 6)
    assert data["replays"] > 24 - late and data["flushes"]["watchdog"] < 8 + late


def test_hold_that_gets_longer_for_ever_is_not():
    """Six bounds: it is late three times, and then shorter. On a busy machine the watchdog gets no CPU in time."""
    data, late = slow(BOUND // 2, 12, BOUND // 5, 16)
    assert late != 0 or (data["flushes"]["watchdog"] >= 3 and data["replays"] < 8)


def test_kernel_that_waits_for_the_host():
    """A context gives some graphs; making another waits for all kernels, in the driver's lock. The
    program goes on to make hundreds of loops before it lets its kernel end."""
    done, *_ = live("stuck", {"AGSIM_GRAPH_FREE": 31})
    assert done.report["replays"] > 100 and done.report["errors"] == 0


def test_kernel_that_waits_for_the_host_after_shorter_graphs():
    """What short graphs leave behind is not enough for long ones."""
    done, *_ = live("stuck_longer", {"AGSIM_GRAPH_FREE": 31, "AUTOGRAPH_TRACE_LENGTH": "fixed"})
    assert done.report["traces"] > 24 + 24 and done.report["errors"] == 0
    assert any(trace["length"] > 64 for trace in done.report["trace_list"])


@pytest.mark.parametrize("scenario", ["stuck_orphan", "waited_orphan", "graph_orphan",
                                      "captured_orphan", "released_orphan", "contextless_orphan"])
def test_kernel_that_waits_for_the_host_in_a_stream_that_is_gone(scenario):
    """Nobody can ask whether it still runs, so there is no moment for more graphs but the last wait."""
    done, *_ = live(scenario, {"AGSIM_GRAPH_FREE": 31, "AUTOGRAPH_TRACE_LENGTH": "fixed"})
    assert 0 < done.report["traces"] - done.report["evictions"] <= 24 + 16
    assert done.report["errors"] == 0


def test_what_streams_left_behind_ends():
    """After a wait for the whole context there is nothing left of them."""
    done, *_ = live("orphan_ends", {"AGSIM_GRAPH_FREE": 31, "AUTOGRAPH_TRACE_LENGTH": "fixed"})
    assert done.report["traces"] > 60 and done.report["errors"] == 0


def test_kernel_that_waits_for_the_host_can_deadlock():
    """The test above would notice: so it ends where more graphs are made than the context gives."""
    limits = {"AUTOGRAPH_GRAPH_EXECS": 4096, "AUTOGRAPH_GRAPH_FREE_EXECS": 4096, "AGSIM_STRICT": None}
    done = helpers.run([compiled.program("live_spin"), "stuck", 3], status=None,
                       env={**SHORT, "AGSIM_GRAPH_FREE": 31, **limits})
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize("scenario", ["loading", "asking", "naming", "setting", "adding", "changing", "patching",
                                      "creating"])
def test_a_kernel_is_loaded_while_another_waits(scenario):
    """Loading waits for running kernels, and so does creating many streams, or a node's first local memory:
    what they wait for has been submitted."""
    done, _, _ = live(scenario, {"AGSIM_LAZY": 1, "AGSIM_STREAMS_FREE": 32, **HELD})
    assert done.report["replays"] > 0 and done.report["flushes"]["barrier"] > 0


def test_a_kernel_that_is_known_is_no_barrier():
    done, _, _ = live("asking_again", HELD)
    assert done.report["flushes"]["barrier"] <= 1
    assert done.report["ops"]["replayed"] > done.report["ops"]["total"] / 2


def test_a_wait_for_a_word_comes_behind_its_write():
    done, _, _ = live("words", HELD)
    assert done.report["errors"] == 0


# -- Life -------------------------------------------------------------------------------

# Scenario: status it ends with, and whether its loops last long enough to be replayed.
LIFE = {"children": (0, True), "children_of_a_thread": (0, True), "simple": (0, True), "leaves_by_exit": (7, True),
        "leaves_by_return": (6, True), "leaves_at_once": (8, True),
        "leaves_others_behind": (9, True), "main_thread_exits": (0, True), "threads": (0, False),
        "shared_stream": (0, True), "signals": (0, True), "streams": (0, True),
        "contexts": (0, True), "devices": (0, True), "back_and_forth": (0, True), "current": (0, True),
        "streams_beside": (0, True), "streams_behind": (0, True), "streams_full": (0, True),
        "ahead_beside": (0, True), "asked_beside": (0, False),
        "released_beside": (0, True), "lost_beside": (0, True), "relayed_beside": (0, True),
        "waiters_beside": (0, False), "setter_beside": (0, True), "set_beside": (0, True),
        "grown_beside": (0, True), "exit_beside": (0, True),
        "reset": (0, True), "modules": (0, True), "attributes": (0, True), "callbacks": (0, True),
        "forbidden": (0, True), "captures": (0, True),
        "captured_events": (0, True), "passing_events": (0, True), "launched_events": (0, True), "forbidden_events": (0, True),
        "awaited_events": (0, True), "completed_events": (0, True), "timed_events": (0, True), "scattered_events": (0, True),
        "lost_events": (0, True),
        "plugins": (0, True)}
CONTEXT = ("contexts", "devices", "back_and_forth", "current", "reset", "modules", "attributes")


UNFIT = {"main_thread_exits": "ThreadSanitizer cannot wait for the main thread",
         "children_of_a_thread": "ThreadSanitizer cannot end a thread in a child (SIGSEGV in it)"}


def life(scenario, seed, **options):
    plugin = compiled.program("live_plugin.so", "-shared", source="live_plugin")
    env = {"AUTOGRAPH_TRACE_UNROLL": 12, "AGSIM_DEVICES": 3, "AGSIM_SEED": seed,
           "LIVE_PLUGIN": plugin, **options.pop("env", {})}
    if scenario.startswith("children"):
        env.update(helpers.NO_LEAK_CHECK)
    if scenario == "children_of_a_thread":  # forked while the watchdog submits
        env["AGSIM_LAUNCH_US"] = 2000
    if scenario == "grown_beside":  # most of them made at the thread's waits, each for long
        env.update({"AGSIM_GRAPH_FREE": 40, "AGSIM_INSTANTIATE_US": 300, "AUTOGRAPH_GRAPH_EXECS": 1000})
    if scenario == "streams_behind":
        env["AUTOGRAPH_GRAPH_VARIANTS"] = 1  # both streams' work has the same graph
    if scenario in ("ahead_beside", "lost_beside", "exit_beside"):
        env["AUTOGRAPH_TRACE_MAX_LENGTH"] = 12  # more graphs than the stream takes
    if scenario in ("asked_beside", "setter_beside", "set_beside"):
        env.update(HELD)
    if scenario == "setter_beside":
        env["AUTOGRAPH_TRACE_MIN_LENGTH"] = 4  # what is flushed goes out op by op
        env["AGSIM_SETTERS_PASS"] = 1  # as the program needs it
    if scenario == "lost_events":
        env.update(HELD, AGSIM_LAUNCH_US=1000)
    subjects = {"beside": "live_beside", "events": "live_event", **dict.fromkeys(CONTEXT, "live_context")}
    program = compiled.program(subjects.get(scenario, subjects.get(scenario.rpartition("_")[2], "live_life")))
    return helpers.run([program, scenario], env=env, status=LIFE[scenario][0], **options)


@pytest.mark.parametrize("scenario", LIFE)
@pytest.mark.parametrize("seed", [1] if "address" in helpers.config()["sanitize"] else [1, 2])
def test_life(scenario, seed, tmp_path):
    """Whatever begins and ends around held work, the program's output is the same."""
    if scenario in UNFIT and helpers.config()["sanitize"] == "thread":
        pytest.skip(UNFIT[scenario])
    report = tmp_path / "report.json"
    want = life(scenario, seed, preload=False)
    got = life(scenario, seed, env={"AUTOGRAPH_REPORT": report})
    assert (got.stdout, got.stderr) == (want.stdout, "")
    if scenario == "leaves_at_once":
        assert not report.exists()
        return
    counters = json.loads(report.read_text())
    assert counters["errors"] == 0
    if LIFE[scenario][1]:
        assert counters["replays"] > 0


def test_ops_in_the_stream_of_another_context_are_not_held(tmp_path):
    """The driver is asked which one is current whenever it may have changed: each eighth copy of 480."""
    log = tmp_path / "log"
    helpers.run([compiled.program("live_context"), "current"],
                env={**HELD, "AUTOGRAPH_TRACE_UNROLL": 12, "AGSIM_LOG": log})
    assert 300 < len(re.findall("op=copy.*via=graph", log.read_text())) <= 420


# Instrumented, a thread pauses where the program does not, and sequences end there, too.
SANITIZED = bool(helpers.config()["sanitize"])


@pytest.mark.parametrize("held", [{}, HELD], ids=["usual", "held"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_threads_in_step(seed, held):
    """What one has recorded, and is held, is submitted before the other waits for it: some times, then
    its sequences end with that record, and are replayed. On a busy machine the thread that makes graphs
    may be late for all of the loop: tried more than once."""
    command = [compiled.program("live_event"), "stepped_events"]
    env = {"AGSIM_SEED": seed, **held, **({"AUTOGRAPH_TRACE_DUEL": "false"} if held else {})}
    without = helpers.run_logged(command, preload=False, env=env)

    def replays():
        done = helpers.run_logged(command, env=env)
        assert (done.stdout, done.stderr, done.log) == (without.stdout, "", without.log)
        assert done.report["errors"] == 0 and done.report["flushes"]["event"] > 0
        return done.report["replays"]

    assert any(replays() > (0 if SANITIZED else 500) for _ in range(4))


AS_FAST_AS_IT_IS = pytest.mark.skipif(SANITIZED, reason="sanitizers are slow")


def issued_for_another(scenario, **env):
    """The report of a program in which one thread waits for what another one issues."""
    return helpers.run_logged([compiled.program("live_event"), scenario],
                              env={"AUTOGRAPH_TRACE_DUEL": "false", **env}).report


@AS_FAST_AS_IT_IS
def test_what_another_thread_waits_for_is_replayed():
    """For an event, a stream, and the context: sequences end there."""
    report = issued_for_another("completed_events")
    assert all(stream["replayed"] > stream["ops"] / 2 for stream in report["streams"])


@AS_FAST_AS_IT_IS
def test_where_it_waits_anywhere_sequences_end_nowhere_else():
    """Twelve ops in a step are one graph, once nobody else waits."""
    report = issued_for_another("scattered_events", **HELD)
    assert report["ops"]["replayed"] > 8 * report["replays"]


@pytest.mark.parametrize("held", [{}, HELD], ids=["usual", "held"])
def test_the_time_between_two_events_has_the_pauses_of_the_host(held, tmp_path):
    """A record of an event with timing does not wait for the host. It is in the graph of what it ends: of 240
    records of one loop few are calls."""
    calls = []
    for preload in (False, True):
        done = helpers.run([compiled.program("live_event"), "timed_events"], preload=preload,
                           env={**held, "AUTOGRAPH_TRACE_DUEL": "false", "AGSIM_CALLS": tmp_path / "calls"})
        assert done.stderr == "" and done.stdout.count("as long as the pause") == 5, done.stdout
        calls.append(dict(line.split() for line in (tmp_path / "calls").read_text().splitlines()))
    plain, library = (int(c["cuEventRecordWithFlags"]) for c in calls)
    assert plain == 240 and (library < 20 or not held)


@pytest.mark.parametrize("scenario, held", [("shared_events", False), ("own_events", True)])
def test_events_of_another_process_are_not_held(scenario, held, tmp_path):
    """Its calls pass no door here, and a record that it is told of must have been submitted."""
    calls = []
    for preload in (False, True):
        done = helpers.run([compiled.program("live_event"), scenario], preload=preload,
                           env={**HELD, "AGSIM_CALLS": tmp_path / "calls"})
        calls.append(dict(line.split() for line in (tmp_path / "calls").read_text().splitlines()))
        assert done.stderr == ""
    plain, library = ([int(c["cuEventRecord"]), int(c["cuStreamWaitEvent"])] for c in calls)
    assert int(calls[1]["cuGraphLaunch"]) > 100
    assert library[0] < plain[0] / 2 and library[1] < plain[1] / 2 if held else library == plain


GRAPHS_BESIDE = """
#include "sim_test.h"

enum { N = 32 };

int main(int argc, char **argv)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr buffer[3]; /* the last is a word that is waited for */
    CUstream own, other;
    uint32_t words[2];
    const char *kind = argv[argc - 1];
    start();
    for (int i = 0; i < 3; i++) {
        OK(cuMemAlloc(&buffer[i], 4 * N));
        OK(cuMemsetD32(buffer[i], 1, N));
    }
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (strcmp(kind, "captured") == 0)
        OK(cuStreamWaitValue32(own, buffer[2], 0, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_mix(buffer[1], N, 7, own));
    OK(cuStreamEndCapture(own, &graph));
    CUstreamBatchMemOpParams wait = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                   .address = buffer[2],
                                                   .flags = CU_STREAM_WAIT_VALUE_GEQ}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.ctx = ctx, .count = 1, .paramArray = &wait};
    if (strcmp(kind, "added") == 0) {
        CUgraphNode kernel; /* behind it, or both would run in any order */
        size_t count = 1;
        OK(cuGraphGetNodes(graph, &kernel, &count));
        OK(cuGraphAddBatchMemOpNode(&node, graph, &kernel, 1, &params));
    }
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t step = 0; step < 200; step++) {
        for (uint32_t k = 0; k < 6; k++)
            OK(launch_mix(buffer[0], N, k == 2 ? step : k, other));
        OK(cuGraphLaunch(exec, own));
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < 2; i++)
        OK(cuMemcpyDtoH(&words[i], buffer[i], 4));
    printf("%08x %08x\\n", words[0], words[1]);
    return 0;
}
"""


@pytest.mark.parametrize("kind", ["plain", "captured", "added"])
def test_graphs_that_wait_for_a_word(kind):
    """What another stream holds is submitted before them, and not before others."""
    command = [compiled.text(GRAPHS_BESIDE), kind]
    env = {**HELD, "AUTOGRAPH_TRACE_DUEL": "false"}
    without = helpers.run_logged(command, preload=False, env=env)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr, done.log) == (without.stdout, "", without.log)
    assert done.report["replays"] > 10
    cuts = [cut for cut in done.report["cuts"]
            if (cut["function"], cut["reason"]) == ("cuGraphLaunch", "barrier")]
    assert bool(cuts) == (kind != "plain"), done.report["cuts"]


LEAVES = """
#include <signal.h>
#include <sys/time.h>
#include "sim_test.h"

static void leave(int number)
{
    exit(number == SIGALRM ? 3 : 4);
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    struct itimerval soon = {.it_value.tv_usec = argc == 2 ? atoi(argv[1]) : 0};
    start();
    OK(cuMemAlloc(&buffer, 4));
    CHECK(signal(SIGALRM, leave) != SIG_ERR && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    for (int i = 0;; i++)
        OK(launch_mix(buffer, 1, i % 16, 0));
}
"""


@pytest.mark.parametrize("reports, length", [(False, "auto"), (True, "auto"), (True, "fixed")])
def test_exit_in_a_signal_handler(reports, length, tmp_path):
    """It may have interrupted a call: the thread has locks of the library's, or the driver's. The
    program ends with its status all the same, and its report is written."""
    report = tmp_path / "report.json"
    env = {"AGSIM_DELAY_US": 0, "AGSIM_LAUNCH_US": 4, **helpers.NO_LEAK_CHECK,
           "AUTOGRAPH_TRACE_LENGTH": length,
           **({"AUTOGRAPH_REPORT": report} if reports else {})}
    runs = replays = 0
    soon = 150_000 if helpers.config()["sanitize"] else 30_000  # us: mostly enough for a first graph
    while runs < 30 or (reports and replays == 0):
        us = soon + runs * 37 if runs < 30 else 900_000
        done = helpers.run([compiled.text(LEAVES), us], env=env, status=3)
        assert done.stderr == ""
        runs += 1
        assert runs < 40
        if reports and (report.exists() or "address" not in helpers.config()["sanitize"]):
            # That sanitizer's allocator has locks for all threads: who writes the report may wait for one in vain.
            counters = json.loads(report.read_text())
            assert counters["complete"]
            replays += counters["replays"]
            report.unlink()


HOLDS_AND_LEAVES = """
#include "sim_test.h"

int main(void)
{
    CUdeviceptr buffer;
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 300; i++) {
        OK(launch_mix(buffer, 1, i % 6, 0));
        if (i % 6 == 5)
            OK(cuCtxSynchronize());
    }
    for (int i = 0; i < 3; i++)
        OK(launch_mix(buffer, 1, i, 0));
    return 0;
}
"""


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="a program starts slowly with it")
def test_exit_does_not_wait_for_the_watchdogs_next_look(tmp_path):
    """Which comes after 33 s here: the longest bound, on one CPU."""
    report = tmp_path / "report.json"
    cpu = min(os.sched_getaffinity(0))
    helpers.run(compiled.text(HOLDS_AND_LEAVES), timeout=30, env={
        "AGSIM_DELAY_US": 0, **helpers.PATIENT, "AUTOGRAPH_REPORT": report},
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    counters = json.loads(report.read_text())
    assert counters["replays"] > 0 and counters["flushes"]["exit"] > 0


UNNOTICED_CHILD = """
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "sim_test.h"

/* Who leaves says that the report is complete. One that is written meanwhile may be there. */
static int is_complete(void)
{
    char text[65536] = "";
    FILE *file = fopen("report.json", "r");
    if (file != NULL) {
        CHECK(fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
    }
    return strstr(text, "\\"complete\\": true") != NULL;
}

int main(void)
{
    CUdeviceptr buffer;
    struct timespec began, ended;
    int status;
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 100; i++)
        OK(launch_mix(buffer, 1, 7, 0)); /* some is held now */
    clock_gettime(CLOCK_MONOTONIC, &began);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* as _Fork() */
    if (child == 0)
        exit(3);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%f %d\\n", ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) * 1e-9, is_complete());
    return 0;
}
"""


def test_a_child_of_which_no_handler_is_told(tmp_path):
    """It ends at once, although the library's threads are the parent's, and so is the report."""
    done = helpers.run(compiled.text(UNNOTICED_CHILD), cwd=tmp_path, env={
        "AUTOGRAPH_REPORT": "report.json", "AUTOGRAPH_TRACE_FILE": "trace", **helpers.PATIENT,
        **helpers.NO_LEAK_CHECK})
    seconds, complete = done.stdout.split()
    assert float(seconds) < 5 and complete == "0"  # it waited ten; ThreadSanitizer waits one
    assert sorted(os.listdir(tmp_path)) == ["report.json", "trace"]
    assert '"complete": true' in (tmp_path / "report.json").read_text()


# -- Soak ---------------------------------------------------------------------------------

SOAK_OPS = int(os.environ.get("AG_SOAK_OPS", 2_000_000))


@pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                    reason="a sanitizer keeps what has been freed")
def test_memory_stays_flat():
    """Loops that go on changing, streams that come and go: once the budgets are used up, memory no
    longer grows. AG_SOAK_OPS=100000000 makes it a long one."""
    report = helpers.build_dir() / "soak.json"
    done = helpers.run([compiled.program("live_soak"), SOAK_OPS],
                       env={"AGSIM_DELAY_US": 0, "AUTOGRAPH_REPORT": report,
                            "AUTOGRAPH_TRACE_MEMORY": 2048},
                       timeout=60 + SOAK_OPS / 20_000)
    counters = json.loads(report.read_text())
    assert counters["ops"]["total"] >= SOAK_OPS and counters["replays"] > 0
    assert counters["errors"] == 0
    resident = [int(line) for line in done.stdout.split()]  # KiB, at each eighth
    assert len(resident) == 8
    assert max(resident[4:]) < max(resident[1:4]) * 1.05 + 2048


@pytest.mark.parametrize("scenario", ["beside_allocations", "beside_waits", "end_in_a_host_function"])
def test_captures(scenario):
    """Beside other threads' graphs; and one that ends on another thread."""
    command = [compiled.program("live_capture"), scenario]
    env = {**HELD, "AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
    without = helpers.run(command, preload=False)
    done = helpers.run_logged(command, env=env)
    assert (done.stdout, done.stderr) == (without.stdout, without.stderr)
    assert done.report["errors"] == 0
    if scenario == "end_in_a_host_function":  # what comes behind it is held again
        assert done.report["ops"]["eager"] < 600

# SPDX-License-Identifier: MIT
"""The simulated driver: that it answers as a GPU's driver does, executes in the right order, and that
its own controls (log, faults, versions) work. The programs in programs/sim_* run on a GPU too."""
import collections
import os
import pathlib
import re

import pytest

import compiled
import helpers

PROGRAMS = helpers.SOURCE / "tests/programs"
EXPECTED = PROGRAMS / "sim_rules.expected"
SEEDS = [(1, 0), (2, 2), (3, 40)]  # seed and longest pause between operations, us


def program(name):
    """programs/sim_NAME*.c in one program."""
    first, *others = sorted(PROGRAMS.glob(f"sim_{name}*.c"))
    return compiled.program(first.stem, *others)


def run(name, *arguments, **options):
    return helpers.run([program(name), *arguments], preload=False, **options)


# -- Behaviour ------------------------------------------------------------------

def expected():
    """What an H200 printed, by part."""
    parts, lines = {}, None
    for line in EXPECTED.read_text().splitlines():
        if line.startswith("# "):
            lines = parts.setdefault(line[2:], [])
        else:
            lines.append(line)
    return parts


def answers(part, preload, **env):
    """What the part printed. A call that is late is taken for one that waits: then it is given more time."""
    for patience_ms in (60, 600, 3000):
        done = helpers.run([program("rules"), part, patience_ms], preload=preload, env=env)
        if done.stdout.splitlines() == expected()[part]:
            break
    return done.stdout.splitlines()


@pytest.mark.parametrize("part", expected())
def test_answers_as_a_gpu(part):
    assert answers(part, False) == expected()[part]


@pytest.mark.parametrize("part", sorted(set(expected()) - {"look_up"}))
def test_answers_are_the_same_with_the_library(part, tmp_path):
    """Errors, captures, stale handles: nothing that a program can ask tells it of the library, nor of its report.
    (The symbols that look_up names are the library's own.)"""
    assert answers(part, True) == expected()[part]
    assert answers(part, True, AUTOGRAPH_REPORT=tmp_path / "report.json") == expected()[part]


def test_every_part_of_the_rules_was_measured():
    parts = run("rules").stdout.split()
    assert set(expected()) == {p for p in parts if not p.startswith("crash_")}


@pytest.mark.parametrize("part", ["crash_no_context", "crash_stream", "crash_event",
                                  "crash_kernel", "crash_context"])
def test_what_crashes_a_gpu_driver_is_an_error(part):
    lines = run("rules", part).stdout.splitlines()
    assert lines
    assert not [line for line in lines if line.endswith(" = 0")]


@pytest.mark.parametrize("seed, delay", SEEDS)
@pytest.mark.parametrize("name", ["basic", "order", "graph", "threads"])
def test_executes_in_order(name, seed, delay):
    assert run(name, env={"AGSIM_SEED": seed, "AGSIM_DELAY_US": delay}).stdout == "ok\n"


LEFT = """
    #include "sim_test.h"
    #include <pthread.h>
    #include <setjmp.h>
    #include <signal.h>
    #include <stdatomic.h>
    #include <sys/syscall.h>

    static sigjmp_buf away;
    static CUstream stream;
    static CUevent event;
    static atomic_int waiter; /* the thread that is about to wait, or 0 */

    static void leave(int number)
    {
        siglongjmp(away, number);
    }

    static void begin_wait(void)
    {
        waiter = (int)syscall(SYS_gettid);
    }

    /* Until it sleeps. */
    static void await_sleep(void)
    {
        char path[64], line[256], state = 'R';
        while (state != 'S') {
            FILE *file;
            snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)waiter);
            if (waiter == 0 || (file = fopen(path, "r")) == NULL)
                continue;
            if (fgets(line, sizeof line, file) != NULL)
                state = strrchr(line, ')')[2];
            fclose(file);
        }
    }

    static CUresult wait_for(int how)
    {
        return how % 3 == 0   ? cuStreamSynchronize(stream)
               : how % 3 == 1 ? cuEventSynchronize(event)
                              : cuCtxSynchronize();
    }

    static void *send_signal(void *thread)
    {
        await_sleep();
        CHECK(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0);
        return NULL;
    }

    static void jump(int how)
    {
        pthread_t self = pthread_self(), sender;
        CHECK(pthread_create(&sender, NULL, send_signal, &self) == 0);
        if (sigsetjmp(away, 1) == 0) {
            begin_wait();
            OK(wait_for(how));
            CHECK(0);
        }
        CHECK(pthread_join(sender, NULL) == 0);
    }

    static void *wait_on(void *how)
    {
        OK(cuCtxSetCurrent(ctx));
        begin_wait();
        OK(wait_for((int)(intptr_t)how));
        return NULL;
    }

    static void cancel(int how)
    {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, wait_on, (void *)(intptr_t)how) == 0);
        await_sleep();
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }

    int main(int argc, char **argv)
    {
        alarm(60);
        start();
        volatile uint32_t *word = host_words(1);
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        signal(SIGUSR1, leave);
        for (int i = 0; i < 30; i++) {
            set_word(word, 0);
            waiter = 0;
            OK(launch_word(spin, word, 1, stream));
            OK(cuEventRecord(event, stream));
            (strcmp(argv[argc - 1], "jump") == 0 ? jump : cancel)(i);
            set_word(word, 1);
            OK(wait_for(i));
        }
        puts("ok");
        return 0;
    }"""


@pytest.mark.parametrize("how", ["jump", "cancel"])
def test_a_wait_may_be_left_at_once(how):
    """By a jump out of a signal handler, or as its thread is cancelled. Later waits end all the same."""
    if how == "cancel" and "address" in helpers.config()["sanitize"]:
        pytest.skip("the sanitizer keeps the stack of a cancelled thread poisoned")
    # What the wait had made is lost.
    done = helpers.run([compiled.text(LEFT), how], preload=False, env=helpers.NO_LEAK_CHECK)
    assert done.stdout == "ok\n"


# -- Exports and versions ---------------------------------------------------------

def exports(path):
    return {line.split()[-1] for line in
            helpers.tool("nm", "-D", "--defined-only", path).splitlines()}


def test_exports_what_libcuda_exports():
    mine = exports(helpers.sim_dir() / "libcuda.so.1")
    stub = pathlib.Path(helpers.config()["cuda_libdir"], "stubs", "libcuda.so")
    theirs = {name for name in exports(stub) if name.startswith("cu")}
    newer = re.findall(r"^CUresult (cu\w+)\(", (helpers.SOURCE / "tests/sim/newer.h").read_text(), re.M)
    ours = {"agsim_register_kernel", "agsim_fail", *newer, *(f"{name}_ptsz" for name in newer)}
    assert mine - ours == theirs - ours


def look_up(name, version, flags=0, **env):
    """Result, status and symbol of a look-up."""
    code = f"""
        #include <cuda.h>
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void)
        {{
            void *fn = NULL;
            Dl_info info = {{0}};
            CUdriverProcAddressQueryResult status = 9;
            int driver;
            CUresult r = cuGetProcAddress("{name}", &fn, {version}, {flags}, &status);
            cuDriverGetVersion(&driver);
            printf("%d %d %s %d\\n", r, (int)status,
                   fn && dladdr(fn, &info) ? info.dli_sname : "-", driver);
            return 0;
        }}"""
    done = helpers.run(compiled.text(code), preload=False, env=env)
    return done.stdout.split()


def test_an_older_driver_lacks_newer_functions():
    assert look_up("cuKernelGetParamInfo", 12040) == ["0", "0", "cuKernelGetParamInfo", "13040"]
    older = {"AGSIM_DRIVER_VERSION": 12030}
    assert look_up("cuKernelGetParamInfo", 12030, **older) == ["0", "1", "-", "12030"]
    assert look_up("cuGraphAddNode", 12030, **older)[2] == "cuGraphAddNode_v2"
    assert look_up("cuGraphAddNode", 12040, **older)[:2] == ["1", "9"]
    code = """
        #include "sim_test.h"
        int main(void)
        {
            size_t offset;
            start();
            EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuFuncGetParamInfo(mix, 0, &offset, NULL));
            return 0;
        }"""
    helpers.run(compiled.text(code), preload=False, env=older)


TWO_DEVICES = """
#include "sim_test.h"

int main(void)
{
    CUevent events[3];
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    start();
    for (int i = 0; i < 3; i++) {
        CUcontext context;
        OK(cuDevicePrimaryCtxRetain(&context, i / 2));
        OK(cuCtxSetCurrent(context));
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&node, graph, NULL, 0, events[0]));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphExecEventWaitNodeSetEvent(exec, node, events[1]));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecEventWaitNodeSetEvent(exec, node, events[2]));
    return 0;
}
"""


def test_an_exec_waits_for_events_of_one_device():
    """As measured on two GPUs."""
    helpers.run(compiled.text(TWO_DEVICES), preload=False, env={"AGSIM_DEVICES": 2})


# -- Controls -----------------------------------------------------------------------

LOOP = """
    #include "sim_test.h"
    int main(void)
    {
        CUstream s;
        CUdeviceptr p;
        unsigned failed = 0;
        start();
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&p, 4096));
        for (unsigned i = 0; i < 10; i++) {
            CUresult r = launch_mix(p, 4, i, s);
            if (r)
                failed = failed * 100 + i + 1;
            OK(cuMemsetD32Async(p + 64, i, 4, 0));
        }
        OK(cuCtxSynchronize());
        printf("%u\\n", failed);
        return 0;
    }"""


def test_log_says_what_ran(tmp_path):
    runs = []
    for seed in (1, 2):
        log = tmp_path / f"log{seed}"
        helpers.run(compiled.text(LOOP), preload=False, env={"AGSIM_LOG": log, "AGSIM_SEED": seed})
        runs.append(helpers.executed(log))
        lines = [dict(f.split("=", 1) for f in line.split())
                 for line in log.read_text().splitlines()]
        assert [int(line["seq"]) for line in lines] == list(range(1, 21))
        assert {line["via"] for line in lines} == {"eager"}
    assert runs[0] == runs[1]
    assert set(runs[0]) == {("0", "U1"), ("0", "L0")}
    kernels, memsets = runs[0][("0", "U1")], runs[0][("0", "L0")]
    assert len(kernels) == len(set(kernels)) == 10  # every call had other arguments
    assert all("op=kernel name=ag_mix grid=1,1,1 block=4,1,1 shared=0" in k for k in kernels)
    assert len(set(memsets)) == 10 and all("op=memset" in m for m in memsets)


def test_log_tells_graphs_from_calls(tmp_path):
    log = tmp_path / "log"
    run("graph", env={"AGSIM_LOG": log})
    via = collections.Counter(re.findall(r"op=(\w+).*via=(\w+)", log.read_text()))
    for op in ("kernel", "memset", "copy", "host", "record", "alloc", "free"):
        assert via[(op, "graph")] > 0, op
    assert via[("kernel", "eager")] > 0


@pytest.mark.parametrize("fault, failed", [
    ("cuLaunchKernel:3:2", "3"),
    ("cuLaunchKernel:3:2,cuLaunchKernel:5:700", "305"),
    ("cuMemAllocHost:1:2", "0"),
    ("cuLaunchKernel@no_such_file:3:2", "0"),
    ("cuLaunchKernel@program:4:2", "4"),
])
def test_faults(fault, failed):
    assert helpers.run(compiled.text(LOOP), preload=False,
                       env={"AGSIM_FAIL": fault}).stdout.strip() == failed


def test_a_fault_in_every_call_by_the_name_without_version():
    done = helpers.run(compiled.text(LOOP), preload=False, status=1,
                       env={"AGSIM_FAIL": "cuMemAlloc:*:2"})
    assert "cuMemAlloc_v2(&p, 4096) gave 2" in done.stderr


@pytest.mark.parametrize("fault", ["cuInit", "cuInit:x:1", "cuInit:0:1", "Init:1:1", "cuInit:1:1,,"])
def test_a_fault_that_makes_no_sense_ends_the_program(fault):
    done = helpers.run(compiled.text(LOOP), preload=False, status=99, env={"AGSIM_FAIL": fault})
    assert "bad AGSIM_FAIL" in done.stderr


def test_counts_calls(tmp_path):
    calls = tmp_path / "calls"
    helpers.run(compiled.text(LOOP), preload=False, env={"AGSIM_CALLS": calls})
    counts = dict(line.split() for line in calls.read_text().splitlines())
    assert counts["cuLaunchKernel"] == counts["cuMemsetD32Async"] == "10"
    assert counts["cuInit"] == "1" and "cuMemFree_v2" not in counts


# Whether the main thread sleeps: then it waits.
MAIN_SLEEPS = """
    #include "sim_test.h"
    static int main_sleeps(void)
    {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
        FILE *file = fopen(path, "r");
        CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
        fclose(file);
        return strrchr(line, ')')[2] == 'S';
    }
"""

INSTANTIATE = MAIN_SLEEPS + """
    #include <pthread.h>
    #include <stdbool.h>
    static volatile uint32_t *w;
    static CUstream s, t;
    static void *release(void *arg)
    {
        while (arg ? get_word(&w[1]) == 0 : !main_sleeps())
            usleep(1000); /* nothing waits for this */
        set_word(&w[0], 1);
        return NULL;
    }
    int main(int argc, char **argv)
    {
        enum { FREE = 31 };
        CUgraph g;
        CUgraphNode n;
        CUgraphExec x[FREE + 2];
        pthread_t th;
        start();
        w = host_words(4);
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
        OK(cuGraphCreate(&g, 0));
        OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
        OK(launch_word(spin, &w[0], 1, s));
        while (cuStreamQuery(s) != CUDA_ERROR_NOT_READY)
            ;
        usleep(10000);
        for (unsigned i = 0; i < FREE; i++)
            OK(cuGraphInstantiateWithFlags(&x[i], g, 0));
        for (unsigned i = 0; i < 100; i++) { /* what an exec had is used again */
            OK(cuGraphExecDestroy(x[0]));
            OK(cuGraphInstantiateWithFlags(&x[0], g, 0));
        }
        CHECK(get_word(&w[0]) == 0);
        alarm(60);
        CHECK(pthread_create(&th, NULL, release, argc > 1 ? argv[1] : NULL) == 0);
        OK(cuGraphInstantiateWithFlags(&x[FREE], g, 0));
        printf("%s\\n", get_word(&w[0]) ? "waited" : "did not wait");
        set_word(&w[1], 1);
        CHECK(pthread_join(th, NULL) == 0);
        return 0;
    }"""


def test_instantiation_waits_for_running_kernels_when_memory_is_short():
    assert helpers.run(compiled.text(INSTANTIATE), preload=False,
                       env={"AGSIM_GRAPH_FREE": 31}).stdout == "waited\n"
    assert helpers.run([compiled.text(INSTANTIATE), "released after it"],
                       preload=False).stdout == "did not wait\n"


LOCAL_MEMORY = MAIN_SLEEPS + """
    #include "agsim.h"
    #include <pthread.h>
    #include <sched.h>
    static const char ptx[] =
        ".version 7.0\\n.target sm_75\\n.address_size 64\\n"
        ".visible .entry ag_nop()\\n{\\n.local .align 4 .b8 words[1024];\\nret;\\n}\\n"
        ".visible .entry own()\\n{ ret; }\\n";
    static volatile uint32_t *w;
    void agsim_kernel_own(const struct agsim_launch *l, void **params)
    {
        (void)l, (void)params;
        set_word(&w[2], 1);
        while (get_word(&w[0]) == 0)
            sched_yield();
    }
    static void *release(void *arg)
    {
        while (arg ? get_word(&w[1]) == 0 : !main_sleeps())
            usleep(1000); /* nothing waits for this */
        set_word(&w[0], 1);
        return NULL;
    }
    int main(int argc, char **argv)
    {
        CUmodule m;
        CUfunction f, own;
        CUstream s, t;
        CUgraph g;
        CUgraphNode n;
        CUgraphExec x;
        CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                     .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
        int bytes;
        pthread_t th;
        alarm(60);
        start();
        w = host_words(4);
        OK(cuModuleLoadData(&m, ptx));
        OK(cuModuleGetFunction(&f, m, "ag_nop"));
        OK(cuModuleGetFunction(&own, m, "own"));
        OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
        CHECK(bytes == 1024);
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
        OK(cuGraphCreate(&g, 0));
        p.func = nop;
        OK(cuGraphAddKernelNode(&n, g, NULL, 0, &p));
        OK(cuGraphInstantiateWithFlags(&x, g, 0));
        OK(cuLaunchKernel(own, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        while (get_word(&w[2]) == 0)
            sched_yield(); /* until it runs */
        if (argc > 1)
            OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, NULL, NULL));
        OK(cuGraphExecKernelNodeSetParams(x, n, &p)); /* as it was */
        CHECK(pthread_create(&th, NULL, release, argc > 1 ? argv[1] : NULL) == 0);
        p.func = f;
        OK(cuGraphExecKernelNodeSetParams(x, n, &p));
        printf("%s\\n", get_word(&w[0]) ? "waited" : "did not wait");
        set_word(&w[1], 1);
        CHECK(pthread_join(th, NULL) == 0);
        return 0;
    }"""


def test_an_exec_waits_for_running_kernels_when_a_function_needs_local_memory_for_the_first_time():
    lazy = {"AGSIM_LAZY": 1}
    assert helpers.run(compiled.text(LOCAL_MEMORY), preload=False, env=lazy).stdout == "waited\n"
    assert helpers.run([compiled.text(LOCAL_MEMORY), "launched before"], preload=False,
                       env=lazy).stdout == "did not wait\n"


KERNEL = """
    #include "sim_test.h"
    #include "agsim.h"
    static const char ptx[] =
        ".version 7.0\\n.target sm_75\\n.address_size 64\\n"
        "// .entry of_a_comment (.param .u32 x)\\n"
        ".visible .entry own(\\n\\t.param .u64 .ptr .align 4 own_param_0,\\n"
        "\\t.param .align 16 .b8 own_param_1[24],\\n\\t.param .u8 own_param_2)\\n"
        ".maxntid 128, 1, 1\\n{ ret; }\\n"
        ".visible .entry bodiless()\\n{ ret; }\\n";
    void agsim_kernel_own(const struct agsim_launch *l, void **params)
    {
        *(uint32_t *)*(uint64_t *)params[0] =
            l->grid[0] * 100 + ((uint8_t *)params[1])[23] * 10 + *(uint8_t *)params[2];
    }
    static void registered(const struct agsim_launch *l, void **params)
    {
        (void)l;
        *(uint32_t *)*(uint64_t *)params[0] = *(uint32_t *)params[1];
    }
    int main(void)
    {
        CUmodule m;
        CUlibrary l;
        CUfunction f;
        CUkernel k;
        CUdeviceptr p;
        uint32_t got, value = 77;
        uint8_t block[24] = {[23] = 4}, last = 5;
        size_t offset, size;
        start();
        OK(cuMemAlloc(&p, 4));
        OK(cuModuleLoadData(&m, ptx));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "bodiless"));
        OK(cuModuleGetFunction(&f, m, "own"));
        OK(cuFuncGetParamInfo(f, 1, &offset, &size));
        CHECK(offset == 16 && size == 24);
        OK(cuFuncGetParamInfo(f, 2, &offset, &size));
        CHECK(offset == 40 && size == 1);
        void *args[] = {&p, block, &last};
        OK(cuLaunchKernel(f, 3, 1, 1, 1, 1, 1, 0, 0, args, NULL));
        OK(cuMemcpyDtoH(&got, p, 4));
        CHECK(got == 345);

        const size_t sizes[] = {8, 4};
        const void *image = agsim_register_kernel("registered", 2, sizes, registered);
        CHECK(image && image == agsim_register_kernel("registered", 2, sizes, registered));
        OK(cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0));
        OK(cuLibraryGetKernel(&k, l, "registered"));
        void *args2[] = {&p, &value};
        OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, 0, args2, NULL));
        OK(cuMemcpyDtoH(&got, p, 4));
        CHECK(got == 77);

        /* A handle's value comes again, with another layout. */
        OK(cuModuleUnload(m));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
        CUfunction old = f;
        OK(cuModuleLoadData(&m, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&f, m, "ag_nop"));
        CHECK(f == old);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 0, &offset, &size));
        puts("ok");
        return 0;
    }"""


def test_kernels_of_the_program():
    assert helpers.run(compiled.text(KERNEL), preload=False).stdout == "ok\n"


def test_several_devices():
    code = """
        #include "sim_test.h"
        int main(void)
        {
            int n;
            CUdevice d;
            CUcontext c;
            CUdeviceptr p, q;
            uint32_t got;
            start();
            OK(cuDeviceGetCount(&n));
            CHECK(n == 3);
            OK(cuMemAlloc(&p, 64));
            OK(cuMemsetD32(p, 5, 16));
            OK(cuCtxSynchronize());
            OK(cuDeviceGet(&d, 2));
            EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, 3));
            OK(cuDevicePrimaryCtxRetain(&c, d));
            OK(cuCtxSetCurrent(c));
            OK(cuMemAlloc(&q, 64));
            OK(cuMemcpyPeer(q, c, p, ctx, 64));
            OK(cuMemcpyDtoH(&got, q, 4));
            CHECK(got == 5);
            OK(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
            CHECK(n == 2);
            return 0;
        }"""
    helpers.run(compiled.text(code), preload=False, env={"AGSIM_DEVICES": 3})
    code = "#include <cuda.h>\nint main(void) { return cuInit(0); }"
    helpers.run(compiled.text(code), preload=False, env={"AGSIM_DEVICES": 0},
                status=100)  # CUDA_ERROR_NO_DEVICE


def test_the_driver_alone_needs_no_thread():
    """A program that only loads the driver and asks it for its version stays single-threaded."""
    code = """
        #include "sim_test.h"
        #include <dirent.h>
        int main(void)
        {
            unsigned n = 0;
            start();
            DIR *d = opendir("/proc/self/task");
            CHECK(d);
            for (struct dirent *e; (e = readdir(d));)
                n += e->d_name[0] != '.';
            closedir(d);
            printf("%u\\n", n);
            return 0;
        }"""
    threads = int(helpers.run(compiled.text(code), preload=False).stdout)
    own = helpers.config()["sanitize"] == "thread"  # the sanitizer may have one of its own
    assert threads in (1, 1 + own)


def test_source_has_no_leftovers():
    """Every door that a source file defines is a function that cuda.h declares."""
    known = set(re.findall(r"sim_(cu\w+)\(", (helpers.sim_dir() / "impl.h").read_text()))
    for path in (helpers.SOURCE / "tests/sim").glob("*.c"):
        defined = re.findall(r"^CUresult sim_(cu\w+)\(", path.read_text(), flags=re.M)
        assert not set(defined) - known, path
    assert os.path.getsize(EXPECTED)


# A kernel waits for a word, and another one is behind it, in a queue. What copies the word tells whether it does so
# before the word is set.
HELD_UP = """
    #include "sim_test.h"
    #include <pthread.h>
    static volatile uint32_t *w;
    static CUdeviceptr from;
    static CUstream first;
    static void *release(void *arg)
    {
        usleep(300000);
        set_word(&w[0], 1);
        return arg;
    }
    static void hold_up(void)
    {
        pthread_t thread;
        w = host_words(8);
        from = (CUdeviceptr)(uintptr_t)w;
        OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
        OK(launch_word(spin, w, 1, first));
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, first, NULL, NULL));
        CHECK(!pthread_create(&thread, NULL, release, NULL));
    }"""

DEALT = HELD_UP + """
    int main(void)
    {
        CUstream s[7];
        start();
        hold_up();
        for (unsigned i = 0; i < 7; i++) {
            uint32_t n = 1;
            CUdeviceptr to = from + 4 * (i + 1);
            void *args[] = {&to, &from, &n};
            OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
            OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, s[i], args, NULL));
        }
        OK(cuCtxSynchronize());
        for (unsigned i = 0; i < 7; i++)
            printf("%u", get_word(&w[i + 1]));
        return 0;
    }"""


def test_streams_that_share_a_queue_are_dealt_out_by_a_seed():
    """With AGSIM_QUEUES: of four queues the legacy stream, which is made first, and three more have one each."""
    program = compiled.text(DEALT)
    shared = {seed: helpers.run(program, preload=False, env={"CUDA_DEVICE_MAX_CONNECTIONS": 4, "AGSIM_QUEUES": seed}
                                ).stdout for seed in range(5)}
    assert shared.pop(0) == "0001000", "in turn"
    assert all(line.startswith("00") for line in shared.values()) and len(set(shared.values())) > 2


KEPT = HELD_UP + """
    int main(void)
    {
        CUstream s, idle;
        CUgraph graph;
        CUgraphExec exec;
        CUgraphNode node;
        uint32_t n = 1;
        CUdeviceptr to;
        void *args[] = {&to, &from, &n};
        CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                          .blockDimY = 1, .blockDimZ = 1, .kernelParams = args};
        start();
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, idle, NULL, NULL));
        OK(cuCtxSynchronize());
        OK(cuGraphCreate(&graph, 0));
        hold_up();
        params.func = word_copy;
        for (unsigned i = 1; i < 3; i++) {
            to = from + 4 * i;
            OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
        }
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        printf("%u%u", get_word(&w[1]), get_word(&w[2]));
        return 0;
    }"""


@pytest.mark.parametrize("queues, seed, copied", [(4, 0, "00"), (3, 0, "11"), (4, 1, "11"), (5, 1, "00")])
def test_an_idle_stream_may_keep_its_queue(queues, seed, copied):
    """From a path of a graph, with AGSIM_QUEUES. Else only work that is left takes one."""
    env = {"CUDA_DEVICE_MAX_CONNECTIONS": queues, "AGSIM_QUEUES": seed}
    assert helpers.run(compiled.text(KEPT), preload=False, env=env).stdout == copied


FULL = """
    #include "sim_test.h"
    #include <sched.h>
    #include "agsim.h"
    static volatile uint32_t *w;
    static void fill(const struct agsim_launch *launch, void **params)
    {
        (void)launch, (void)params;
        set_word(&w[1], 1);
        while (get_word(&w[0]) == 0)
            sched_yield();
    }
    int main(void)
    {
        CUmodule module;
        CUfunction f;
        CUstream s, kernels, copies;
        start();
        w = host_words(4);
        uint32_t n = 1;
        CUdeviceptr from = (CUdeviceptr)(uintptr_t)w, to = from + 8;
        void *args[] = {&to, &from, &n};
        OK(cuModuleLoadData(&module, agsim_register_kernel("fill", 0, NULL, fill)));
        OK(cuModuleGetFunction(&f, module, "fill"));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&kernels, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
        OK(cuLaunchKernel(f, 132 * 2, 1, 1, 1024, 1, 1, 0, s, NULL, NULL));
        while (get_word(&w[1]) == 0)
            sched_yield();
        OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, kernels, args, NULL));
        OK(cuMemcpyDtoHAsync((void *)&w[3], from, 4, copies));
        OK(cuStreamSynchronize(copies));
        usleep(20000); /* in which the kernel would end */
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(kernels));
        set_word(&w[0], 1);
        OK(cuStreamSynchronize(kernels));
        printf("%u%u", get_word(&w[2]), get_word(&w[3]));
        return 0;
    }"""


def test_no_kernel_runs_beside_one_that_fills_the_device():
    """But a copy does."""
    assert helpers.run(compiled.text(FULL), preload=False, env={"AGSIM_DELAY_US": 0}).stdout == "10"


LATE = """
    #include "sim_test.h"
    int main(void)
    {
        start();
        CUstream a, b;
        CUevent e;
        volatile uint32_t *w = host_words(2);
        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        OK(launch_word(flag, &w[0], 1, a));
        OK(cuEventRecord(e, a));
        OK(cuStreamWaitEvent(b, e, 0));
        OK(launch_word(flag, &w[1], 1, b));
        usleep(20000);
        printf("%u %u", get_word(&w[0]), get_word(&w[1]));
        OK(cuStreamSynchronize(b)); /* and what that is behind */
        printf(" %u %u", get_word(&w[0]), get_word(&w[1]));
        OK(launch_word(flag, &w[0], 2, a));
        while (cuStreamQuery(a) != CUDA_SUCCESS)
            usleep(10);
        printf(" %u\\n", get_word(&w[0]));
        return 0;
    }"""


def test_nothing_runs_before_a_thread_waits_for_it():
    """With AGSIM_LATE, for the time that it says."""
    program = compiled.text(LATE)
    assert helpers.run(program, preload=False, env={"AGSIM_LATE": 60_000_000}, timeout=20).stdout == "0 0 1 1 2\n"
    assert helpers.run(program, preload=False, env={"AGSIM_LATE": 100}).stdout == "1 1 1 1 2\n"

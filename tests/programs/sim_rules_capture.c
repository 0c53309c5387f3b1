/* SPDX-License-Identifier: MIT */
/* sim_rules_capture.c: the rules of stream capture, and which calls wait for
 * running work. */
#include "sim_rules.h"

#include <sched.h>
#include <stdatomic.h>

static CUevent recorded, fresh, captured; /* outside, never, inside the capture */
static CUgraphExec exec;
static uint32_t pageable[16];

/* -- Single calls during a capture of `stream` or `peer` -- */

static CUstream capturing;

static CUresult do_alloc(void)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, 64);
}
static CUresult do_free(void)
{
    static CUdeviceptr p;
    if (!p)
        p = mem;
    return cuMemFree(p + 4);
}
static CUdeviceptr managed;
static CUresult do_attach(void)
{
    return cuStreamAttachMemAsync(capturing, managed, 0, CU_MEM_ATTACH_SINGLE);
}
static CUresult do_alloc_host(void)
{
    void *p;
    return cuMemAllocHost(&p, 64);
}
static CUresult do_alloc_async(void)
{
    CUdeviceptr p;
    return cuMemAllocAsync(&p, 64, capturing);
}
static CUresult do_query_self(void)
{
    return cuStreamQuery(capturing);
}
static CUresult do_sync_self(void)
{
    return cuStreamSynchronize(capturing);
}
static CUresult do_query_other(void)
{
    return cuStreamQuery(capturing == stream ? peer : stream);
}
static CUresult do_sync_other(void)
{
    return cuStreamSynchronize(capturing == stream ? peer : stream);
}
static CUresult do_query_legacy(void)
{
    return cuStreamQuery(0);
}
static CUresult do_sync_legacy(void)
{
    return cuStreamSynchronize(0);
}
static CUresult do_sync_ctx(void)
{
    return cuCtxSynchronize();
}
static CUresult do_query_event(void)
{
    return cuEventQuery(recorded);
}
static CUresult do_sync_event(void)
{
    return cuEventSynchronize(recorded);
}
static CUresult do_query_captured(void)
{
    return cuEventQuery(captured);
}
static CUresult do_sync_captured(void)
{
    return cuEventSynchronize(captured);
}
static CUresult do_launch_legacy(void)
{
    return launch_mix(mem, 1, 1, 0);
}
static CUresult do_launch_other(void)
{
    return launch_mix(mem, 1, 1, capturing == stream ? peer : stream);
}
static CUresult do_record_legacy(void)
{
    return cuEventRecord(fresh, 0);
}
static CUresult do_wait_recorded(void)
{
    return cuStreamWaitEvent(capturing, recorded, 0);
}
static CUresult do_wait_external(void)
{
    return cuStreamWaitEvent(capturing, recorded, CU_EVENT_WAIT_EXTERNAL);
}
static CUresult do_wait_never(void)
{
    CUevent e;
    OK(cuEventCreate(&e, 0));
    return cuStreamWaitEvent(capturing, e, 0);
}
static CUresult do_legacy_waits_captured(void)
{
    return cuStreamWaitEvent(0, captured, 0);
}
static CUresult do_legacy_waits_recorded(void)
{
    return cuStreamWaitEvent(0, recorded, 0);
}
static CUresult do_memcpy_sync(void)
{
    return cuMemcpyHtoD(mem, pageable, 4);
}
static CUresult do_memcpy_dtod_sync(void)
{
    return cuMemcpyDtoD(mem, mem + 64, 4);
}
static CUresult do_memset_sync(void)
{
    return cuMemsetD32(mem, 1, 1);
}
static CUresult do_pageable_in(void)
{
    return cuMemcpyHtoDAsync(mem, pageable, 4, capturing);
}
static CUresult do_pageable_out(void)
{
    return cuMemcpyDtoHAsync(pageable, mem, 4, capturing);
}
static void nothing(void *p)
{
    (void)p;
}
static void nothing_called(CUstream s, CUresult r, void *p)
{
    (void)s, (void)r, (void)p;
}
static CUresult do_host_function(void)
{
    return cuLaunchHostFunc(capturing, nothing, NULL);
}
static CUresult do_callback(void)
{
    return cuStreamAddCallback(capturing, nothing_called, NULL, 0);
}
static CUresult do_module_load(void)
{
    CUmodule m;
    return cuModuleLoadData(&m, agsim_kernels_ptx);
}
static CUresult do_library_load(void)
{
    CUlibrary l;
    return cuLibraryLoadData(&l, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0);
}
static CUresult do_get_function(void)
{
    CUfunction f;
    return cuModuleGetFunction(&f, mod, "ag_axpy");
}
static CUresult do_set_attribute(void)
{
    return cuFuncSetAttribute(mix, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536);
}
static CUresult do_stream_create(void)
{
    CUstream s;
    return cuStreamCreate(&s, 0);
}
static CUresult do_event_create(void)
{
    CUevent e;
    return cuEventCreate(&e, 0);
}
static CUresult do_unload(void)
{
    static CUmodule m;
    CUmodule old = m;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    return old ? cuModuleUnload(old) : cuModuleUnload(m);
}
static CUresult do_stream_destroy(void)
{
    CUstream s;
    OK(cuStreamCreate(&s, 0));
    return cuStreamDestroy(s);
}
static CUresult do_event_destroy(void)
{
    CUevent e;
    OK(cuEventCreate(&e, 0));
    return cuEventDestroy(e);
}
static CUresult do_register(void)
{
    static char page[4096] __attribute__((aligned(4096)));
    CUresult r = cuMemHostRegister(page, sizeof page, 0);
    if (r == CUDA_SUCCESS)
        OK(cuMemHostUnregister(page));
    return r;
}
static CUresult do_kernel_function(void)
{
    CUfunction f;
    return cuKernelGetFunction(&f, kern);
}
static CUresult do_pointer_attribute(void)
{
    int i;
    return cuPointerGetAttribute(&i, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, mem);
}
static CUresult do_bad_copy(void)
{
    return cuMemcpyDtoDAsync(mem, 0, 4, capturing);
}
static CUresult do_bad_wait_value(void)
{
    return cuStreamWaitValue32(capturing, 0, 0, 0);
}
static CUresult do_bad_launch_other(void)
{
    return cuLaunchKernel(nop, 0, 1, 1, 1, 1, 1, 0, capturing == stream ? peer : stream, NULL,
                          NULL);
}
static CUresult do_bad_function(void)
{
    return cuLaunchKernel(other_mix, 1, 1, 1, 1, 1, 1, 0, capturing, NULL, NULL);
}
static CUresult do_mem_info(void)
{
    size_t a, b;
    return cuMemGetInfo(&a, &b);
}
static CUresult do_instantiate(void)
{
    CUgraph g;
    CUgraphExec x;
    OK(cuGraphCreate(&g, 0));
    return cuGraphInstantiateWithFlags(&x, g, 0);
}
static CUresult do_graph_launch(void)
{
    return cuGraphLaunch(exec, capturing);
}
static CUresult do_graph_launch_other(void)
{
    return cuGraphLaunch(exec, capturing == stream ? peer : stream);
}
static CUresult do_graph_upload(void)
{
    return cuGraphUpload(exec, capturing == stream ? peer : stream);
}
static CUresult do_graph_upload_self(void)
{
    return cuGraphUpload(exec, capturing);
}
static CUresult do_is_capturing_legacy(void)
{
    CUstreamCaptureStatus s;
    return cuStreamIsCapturing(0, &s);
}
static CUresult do_begin_again(void)
{
    return cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
static CUresult do_write_value(void)
{
    return cuStreamWriteValue32(capturing, mem, 1, 0);
}
static CUresult do_launch_bad(void)
{
    return cuLaunchKernel(nop, 0, 1, 1, 1, 1, 1, 0, capturing, NULL, NULL);
}
static CUresult do_memset_bad(void)
{
    return cuMemsetD32Async(mem + 2, 1, 1, capturing);
}
static CUresult do_elapsed(void)
{
    float ms;
    return cuEventElapsedTime(&ms, recorded, captured);
}

static const struct {
    const char *name;
    CUresult (*run)(void);
} calls[] = {
    {"allocate", do_alloc},
    {"free (not an allocation)", do_free},
    {"allocate host", do_alloc_host},
    {"allocate async", do_alloc_async},
    {"query self", do_query_self},
    {"synchronize self", do_sync_self},
    {"query other", do_query_other},
    {"synchronize other", do_sync_other},
    {"query legacy", do_query_legacy},
    {"synchronize legacy", do_sync_legacy},
    {"synchronize context", do_sync_ctx},
    {"query event", do_query_event},
    {"synchronize event", do_sync_event},
    {"query captured event", do_query_captured},
    {"synchronize captured event", do_sync_captured},
    {"elapsed with captured event", do_elapsed},
    {"launch on legacy", do_launch_legacy},
    {"launch on other", do_launch_other},
    {"record on legacy", do_record_legacy},
    {"wait for recorded", do_wait_recorded},
    {"wait for recorded, external", do_wait_external},
    {"wait for never recorded", do_wait_never},
    {"legacy waits for captured", do_legacy_waits_captured},
    {"legacy waits for recorded", do_legacy_waits_recorded},
    {"copy in, synchronous", do_memcpy_sync},
    {"copy on device, synchronous", do_memcpy_dtod_sync},
    {"memset, synchronous", do_memset_sync},
    {"copy in, pageable", do_pageable_in},
    {"copy out, pageable", do_pageable_out},
    {"host function", do_host_function},
    {"callback", do_callback},
    {"load module", do_module_load},
    {"load library", do_library_load},
    {"get function", do_get_function},
    {"set function attribute", do_set_attribute},
    {"create stream", do_stream_create},
    {"create event", do_event_create},
    {"memory info", do_mem_info},
    {"unload module", do_unload},
    {"destroy stream", do_stream_destroy},
    {"destroy event", do_event_destroy},
    {"register host memory", do_register},
    {"get kernel's function", do_kernel_function},
    {"pointer attribute", do_pointer_attribute},
    {"bad copy", do_bad_copy},
    {"bad wait value", do_bad_wait_value},
    {"bad launch on other", do_bad_launch_other},
    {"launch of another context's function", do_bad_function},
    {"instantiate", do_instantiate},
    {"launch graph", do_graph_launch},
    {"launch graph on other", do_graph_launch_other},
    {"upload graph on other", do_graph_upload},
    {"upload graph on self", do_graph_upload_self},
    {"is legacy capturing", do_is_capturing_legacy},
    {"begin again", do_begin_again},
    {"write value", do_write_value},
    {"attach memory", do_attach},
    {"bad launch", do_launch_bad},
    {"bad memset", do_memset_bad},
};

static CUresult (*thread_call)(void);
static CUresult thread_result;

static void call_in_thread(void)
{
    OK(cuCtxSetCurrent(ctx));
    thread_result = thread_call();
}

static void single_calls(CUstream s, CUstreamCaptureMode mode, bool thread)
{
    if (managed == 0)
        OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        CUgraph g = NULL;
        CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
        capturing = s;
        OK(cuCtxSynchronize());
        OK(cuStreamBeginCapture(s, mode));
        OK(launch_mix(mem, 1, 1, s));
        OK(cuEventRecord(captured, s));
        CUresult r;
        if (thread) {
            thread_call = calls[i].run;
            in_thread(call_in_thread);
            r = thread_result;
        } else {
            r = calls[i].run();
        }
        CUresult asked = cuStreamIsCapturing(s, &status);
        CUresult end = cuStreamEndCapture(s, &g);
        printf("capture %s mode %d%s: %s = %d, status %d/%d, end %d%s\n",
               s == stream ? "non-blocking" : "blocking", (int)mode, thread ? ", other thread" : "",
               calls[i].name, (int)r, (int)asked, (int)status, (int)end, g ? " graph" : "");
        fflush(stdout);
        if (g)
            OK(cuGraphDestroy(g));
        OK(cuEventDestroy(captured));
        OK(cuEventCreate(&captured, 0));
    }
}

/* -- Sequences -- */

static void end(const char *label, CUstream s)
{
    CUgraph g = NULL;
    size_t n = 0;
    CUresult r = cuStreamEndCapture(s, &g);
    if (g) {
        OK(cuGraphGetNodes(g, NULL, &n));
        OK(cuGraphDestroy(g));
    }
    printf("%s: %s = %d nodes %d\n", in, label, (int)r, g ? (int)n : -1);
    fflush(stdout);
}

static void end_in_thread(void)
{
    OK(cuCtxSetCurrent(ctx));
    end("end in another thread", stream);
}

static void sequences(void)
{
    CUevent e, f;
    CUstream s3;
    CUstreamCaptureStatus status;
    const CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, 0));
    OK(cuStreamCreate(&s3, CU_STREAM_NON_BLOCKING));
    in = "capture";
    SAY("begin on legacy", cuStreamBeginCapture(0, mode));
    SAY("begin, mode 3", cuStreamBeginCapture(stream, (CUstreamCaptureMode)3));
    SAY("begin on per-thread", cuStreamBeginCapture(CU_STREAM_PER_THREAD, mode));
    end("end it", CU_STREAM_PER_THREAD);
    end("end without begin", stream);
    OK(cuStreamBeginCapture(stream, mode));
    SAY("end, no graph", cuStreamEndCapture(stream, NULL));
    end("end it again", stream);
    OK(cuStreamBeginCapture(stream, mode));
    end("nothing captured", stream);
    for (int m = 0; m < 3; m++) {
        OK(cuStreamBeginCapture(stream, (CUstreamCaptureMode)m));
        in_thread(end_in_thread);
        end("then in the right one", stream);
    }

    in = "fork and join";
    OK(cuStreamBeginCapture(stream, mode));
    OK(launch_mix(mem, 1, 1, stream));
    OK(cuEventRecord(e, stream));
    SAY("fork", cuStreamWaitEvent(peer, e, 0));
    OK(cuStreamIsCapturing(peer, &status));
    SAY("fork captures", status);
    OK(launch_mix(mem, 1, 1, peer));
    OK(cuEventRecord(f, peer));
    SAY("join", cuStreamWaitEvent(stream, f, 0));
    OK(launch_mix(mem, 1, 1, stream));
    end("joined", stream);
    OK(cuStreamIsCapturing(peer, &status));
    SAY("fork captures after it", status);
    SAY("query captured event after it", cuEventQuery(f));
    SAY("wait for captured event after it", cuStreamWaitEvent(stream, f, 0));
    SAY("record it anew", cuEventRecord(f, stream));
    SAY("synchronize it", cuEventSynchronize(f));

    OK(cuStreamBeginCapture(stream, mode));
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(peer, e, 0));
    end("fork without work, no join", stream);
    OK(cuStreamBeginCapture(stream, mode));
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(peer, e, 0));
    OK(launch_mix(mem, 1, 1, peer));
    end("fork with work, no join", stream);
    SAY("fork is free again", cuStreamQuery(peer));
    OK(cuStreamBeginCapture(stream, mode));
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(peer, e, 0));
    OK(launch_mix(mem, 1, 1, peer));
    end("end on the fork", peer);
    end("then on the origin", stream);
    OK(cuStreamBeginCapture(stream, mode));
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(peer, e, 0));
    OK(launch_mix(mem, 1, 1, peer));
    OK(cuEventRecord(f, peer));
    OK(cuStreamWaitEvent(stream, f, 0));
    OK(launch_mix(mem, 1, 1, peer));
    end("work after the join", stream);

    in = "two captures";
    OK(cuStreamBeginCapture(stream, mode));
    SAY("begin a second", cuStreamBeginCapture(peer, mode));
    OK(launch_mix(mem, 1, 1, stream));
    OK(launch_mix(mem, 1, 1, peer));
    OK(cuEventRecord(e, stream));
    SAY("wait across", cuStreamWaitEvent(peer, e, 0));
    end("end first", stream);
    end("end second", peer);

    in = "invalidated";
    OK(cuStreamBeginCapture(stream, mode));
    OK(launch_mix(mem, 1, 1, stream));
    SAY("synchronize", cuStreamSynchronize(stream));
    SAY("launch after it", launch_mix(mem, 1, 1, stream));
    SAY("memset after it", cuMemsetD32Async(mem, 1, 1, stream));
    SAY("record after it", cuEventRecord(e, stream));
    SAY("wait after it", cuStreamWaitEvent(stream, recorded, 0));
    SAY("query after it", cuStreamQuery(stream));
    end("end", stream);
    SAY("query after the end", cuStreamQuery(stream));

    in = "relaxed thread";
    CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuStreamBeginCapture(stream, mode));
    SAY_CALL(cuThreadExchangeStreamCaptureMode(&m));
    SAY("before", m);
    SAY("allocate", do_alloc());
    SAY("query event", cuEventQuery(recorded));
    SAY("synchronize context", cuCtxSynchronize());
    end("end", stream);
    OK(cuThreadExchangeStreamCaptureMode(&m));

    in = "capture information";
    cuuint64_t id;
    CUgraph g;
    const CUgraphNode *deps;
    const CUgraphEdgeData *data;
    CUgraphNode n;
    size_t count;
    OK(cuStreamBeginCapture(stream, mode));
    SAY("dependencies at first",
        cuStreamGetCaptureInfo(stream, &status, &id, &g, &deps, &data, &count));
    SAY("count", count);
    OK(launch_mix(mem, 1, 1, stream));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &g, &deps, &data, &count));
    SAY("count after a launch", count);
    SAY("add an empty node to the graph", cuGraphAddEmptyNode(&n, g, deps, count));
    SAY("set it",
        cuStreamUpdateCaptureDependencies(stream, &n, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    SAY("flags 2", cuStreamUpdateCaptureDependencies(stream, &n, NULL, 1, 2));
    SAY("destroy the graph", cuGraphDestroy(g));
    end("end", stream);
    SAY("set on a free stream", cuStreamUpdateCaptureDependencies(stream, &n, NULL, 1, 0));
    OK(cuGraphCreate(&g, 0));
    SAY("begin to a graph", cuStreamBeginCaptureToGraph(stream, g, NULL, NULL, 0, mode));
    OK(launch_mix(mem, 1, 1, stream));
    CUgraph same = NULL;
    SAY("end", cuStreamEndCapture(stream, &same));
    SAY("it is the graph", same == g);

    in = "capturing stream destroyed";
    OK(cuStreamBeginCapture(s3, mode));
    OK(launch_mix(mem, 1, 1, s3));
    SAY("destroy", cuStreamDestroy(s3));
    SAY("allocate after it", do_alloc());
}

/* -- In a host function -- */

enum { CAPTURES = 3 };
static CUstream captures[CAPTURES];
static atomic_bool returned;

static void say_captures(void)
{
    for (int i = 0; i < CAPTURES; i++) {
        CUstreamCaptureStatus status;
        OK(cuStreamIsCapturing(captures[i], &status));
        printf("%s: status of %d = %d\n", in, i, (int)status);
    }
}

/* The first two were begun by the program's thread: relaxed, and of its own. */
static void capture_there(void *what)
{
    CUgraph g = NULL;
    in = what;
    for (int i = 0; i < 2; i++) {
        SAY("end one begun elsewhere", cuStreamEndCapture(captures[i], &g));
        SAY("has a graph", g != NULL);
    }
    SAY("begin", cuStreamBeginCapture(captures[2], CU_STREAM_CAPTURE_MODE_RELAXED));
    say_captures();
    SAY("end it", cuStreamEndCapture(captures[2], &g));
    say_captures();
    atomic_store(&returned, true);
}

void rules_capture_in_callback(void)
{
    for (int i = 0; i < CAPTURES; i++)
        OK(cuStreamCreate(&captures[i], CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(captures[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture(captures[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch_mix(mem, 1, 1, captures[0]));
    OK(cuLaunchHostFunc(stream, capture_there, "captures in a host function"));
    while (!atomic_load(&returned)) /* the driver may not be waited for during such a capture */
        sched_yield();
    in = "captures after it";
    say_captures();
    for (int i = 0; i < CAPTURES; i++) {
        CUgraph g = NULL;
        SAY("end", cuStreamEndCapture(captures[i], &g));
        SAY("has a graph", g != NULL);
    }
    OK(cuStreamSynchronize(stream));
}

void rules_capture(void)
{
    CUgraph g;
    CUgraphNode n;
    OK(cuEventCreate(&recorded, 0));
    OK(cuEventCreate(&fresh, 0));
    OK(cuEventCreate(&captured, 0));
    OK(cuEventRecord(recorded, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
    CUDA_MEMSET_NODE_PARAMS m = {.dst = mem, .elementSize = 4, .width = 4, .height = 1};
    OK(cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    OK(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int mode = 0; mode < 3; mode++)
        single_calls(stream, (CUstreamCaptureMode)mode, false);
    single_calls(peer, CU_STREAM_CAPTURE_MODE_RELAXED, false);
    single_calls(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, true);
    single_calls(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true);
    sequences();
}

/* -- Which calls wait for a running kernel -- */

unsigned patience_ms = 60;

static void *release_word(void *p)
{
    usleep(patience_ms * 1000);
    set_word(p, 1);
    return NULL;
}

/* Runs the call while a kernel spins on s: does it return before the end? */
static void waits(const char *label, CUstream s, CUresult (*run)(void))
{
    pthread_t t;
    const char *where = s == stream ? "a non-blocking stream"
                        : s == peer ? "a blocking stream"
                                    : "legacy";
    set_word(&words[0], 0);
    OK(launch_word(spin, &words[0], 1, s));
    CHECK(pthread_create(&t, NULL, release_word, (void *)&words[0]) == 0);
    CUresult r = run();
    bool waited = get_word(&words[0]) == 1;
    CHECK(pthread_join(t, NULL) == 0);
    OK(cuCtxSynchronize());
    printf("while a kernel runs on %s: %s = %d, %s\n", where, label, (int)r,
           waited ? "waits" : "returns");
    fflush(stdout);
}

static CUdeviceptr victim;
static void *host_victim;
static CUstream stream_victim;

static CUresult w_free(void)
{
    return cuMemFree(victim);
}
static CUresult w_free_host(void)
{
    return cuMemFreeHost(host_victim);
}
static CUresult w_stream_create(void)
{
    return cuStreamCreate(&stream_victim, 0);
}
static CUresult w_stream_destroy(void)
{
    return cuStreamDestroy(stream_victim);
}
static CUresult w_destroy_busy(void)
{
    CUstream s = peer;
    OK(cuStreamCreate(&peer, 0));
    return cuStreamDestroy(s);
}
static CUresult w_out(void)
{
    return cuMemcpyDtoHAsync(pageable, mem, 4, stream_victim);
}
static CUresult w_in(void)
{
    return cuMemcpyHtoDAsync(mem, pageable, 4, stream_victim);
}
static CUresult w_in_behind(void)
{
    return cuMemcpyHtoDAsync(mem, pageable, 4, stream);
}
static CUresult w_query_legacy(void)
{
    return cuStreamQuery(0);
}
static CUresult w_query_per_thread(void)
{
    return cuStreamQuery(CU_STREAM_PER_THREAD);
}
static CUresult w_query_peer(void)
{
    return cuStreamQuery(peer);
}
static CUresult w_launch_peer_query(void)
{
    OK(launch_mix(mem, 1, 1, peer));
    return cuStreamQuery(peer);
}
static CUresult w_exec_destroy(void)
{
    return cuGraphExecDestroy(exec);
}

void rules_waiting(void)
{
    CUgraph g;
    CUgraphNode n;
    OK(cuEventCreate(&recorded, 0));
    OK(cuMemAlloc(&victim, 1 << 20));
    OK(cuMemAllocHost(&host_victim, 1 << 20));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
    OK(cuGraphInstantiateWithFlags(&exec, g, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamCreate(&stream_victim, CU_STREAM_NON_BLOCKING));
    OK(cuMemcpyDtoHAsync(pageable, mem, 4, stream_victim));
    OK(cuMemcpyHtoDAsync(mem, pageable, 4, stream_victim));
    OK(cuCtxSynchronize());
    waits("synchronize legacy", stream, do_sync_legacy);
    waits("synchronize legacy", peer, do_sync_legacy);
    waits("query legacy", stream, w_query_legacy);
    waits("query legacy", peer, w_query_legacy);
    waits("query per-thread", 0, w_query_per_thread);
    waits("query a blocking stream", 0, w_query_peer);
    waits("launch on and query a blocking stream", 0, w_launch_peer_query);
    waits("synchronize context", stream, do_sync_ctx);
    waits("copy in, synchronous", stream, do_memcpy_sync);
    waits("copy in, synchronous", peer, do_memcpy_sync);
    waits("memset, synchronous", stream, do_memset_sync);
    waits("memset, synchronous", peer, do_memset_sync);
    waits("copy on device, synchronous", peer, do_memcpy_dtod_sync);
    waits("copy out, pageable, on a third stream", stream, w_out);
    waits("copy in, pageable, on a third stream", stream, w_in);
    waits("copy in, pageable, behind it", stream, w_in_behind);
    waits("destroy exec", stream, w_exec_destroy);
    waits("destroy a stream", stream, w_stream_destroy);
    waits("create a stream", stream, w_stream_create);
    waits("create an event", stream, do_event_create);
    waits("query an event", stream, do_query_event);
    waits("destroy the busy stream", peer, w_destroy_busy);
    waits("free", stream, w_free);
    waits("free host", stream, w_free_host);
}

# SPDX-License-Identifier: MIT
"""What keeps work out of graphs, and what to change in the program: a sentence, and a line of code or "" where
there is nothing to do."""

import options

# By driver function (beginning of its name), then by reason. The first that fits counts.
ADVICE = [
    ("cuMemcpyHtoD", "A copy of more than 1 KiB of pageable memory is in no graph: pin the memory.",
     "cudaMallocHost(&buffer, bytes);"),
    ("cuMemcpyDtoH", "A copy to the host ends a graph: copy less often, and to pinned memory.",
     "if (step % 100 == 0) cudaMemcpyAsync(to, from, bytes, kind, stream);"),
    ("cuMemcpyAsync", "A copy to the host, or of more than 1 KiB of pageable memory, is in no graph: pin it.",
     "cudaMallocHost(&buffer, bytes);"),
    ("cuMemcpy2DAsync", "A copy to the host, of arrays or of pageable memory is in no graph: pin it.",
     "cudaMallocHost(&buffer, bytes);"),
    ("cuMemcpy3DAsync", "A copy to the host, of arrays or of pageable memory is in no graph: pin it.",
     "cudaMallocHost(&buffer, bytes);"),
    ("cuMemcpyPeer", "A copy between GPUs ends a graph: copy once, at the end of an iteration.",
     "cudaMemcpyPeerAsync(to, 1, from, 0, bytes, stream);  // once"),
    ("cuMemcpyDtoDAsync", "A first copy, or one of managed memory or to another GPU, is in no graph: copy other memory.",
     "cudaMalloc(&buffer, bytes);  // in place of managed memory"),
    ("cuMemcpy", "The host waits for this copy: copy asynchronously, with pinned memory.",
     "cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);"),
    ("cuMemsetD", "A graph sets memory of the device, within one allocation: other memory ends it.",
     "cudaMalloc(&buffer, bytes);  // in place of managed or host memory"),
    ("cuMemAllocAsync", "Allocate before the loop, and use the memory again.",
     "cudaMallocAsync(&buffer, bytes, stream);  // once, before the loop"),
    ("cuMemFreeAsync", "Free behind the loop.", "cudaFreeAsync(buffer, stream);  // behind the loop"),
    ("cuMemAlloc", "An allocation ends all graphs: allocate before the loop, or in stream order.",
     "cudaMallocAsync(&buffer, bytes, stream);"),
    ("cuMemFree", "A free ends all graphs: free behind the loop, or in stream order.",
     "cudaFreeAsync(buffer, stream);"),
    ("cuMemHostAlloc", "Allocate pinned memory before the loop.", "cudaMallocHost(&buffer, bytes);  // once"),
    ("cuMemPrefetch", "Prefetch before the loop.",
     "cudaMemPrefetchAsync(buffer, bytes, device, stream);  // once"),
    ("cuStreamSynchronize", "Each wait ends a graph: wait less often, as once for many steps.",
     "if (step % 100 == 0) cudaStreamSynchronize(stream);"),
    ("cuCtxSynchronize", "A wait for the whole device ends all graphs: wait for one stream, and less often.",
     "cudaStreamSynchronize(stream);  // in place of cudaDeviceSynchronize()"),
    ("cuEventSynchronize", "Each wait ends a graph: wait less often, as once for many steps.",
     "if (step % 100 == 0) cudaEventSynchronize(event);"),
    ("cuEventQuery", "A loop of questions submits what is held: wait in its place.",
     "cudaEventSynchronize(event);"),
    ("cuStreamQuery", "A loop of questions submits what is held: wait in its place.",
     "cudaStreamSynchronize(stream);"),
    ("cuEventElapsedTime", "Times that are read in the loop end graphs: read them behind it.",
     "cudaEventElapsedTime(&ms, start, stop);  // behind the loop"),
    ("cuEventCreate", "Create events before the loop, and use them again.",
     "cudaEventCreateWithFlags(&event, cudaEventDisableTiming);  // once"),
    ("cuEventDestroy", "Destroy events behind the loop.", "cudaEventDestroy(event);  // behind the loop"),
    ("cuStreamCreate", "Create streams before the loop.", "cudaStreamCreate(&stream);  // once"),
    ("cuStreamDestroy", "Destroy streams behind the loop.", "cudaStreamDestroy(stream);  // behind the loop"),
    ("cuStreamWaitEvent", "Streams wait for each other here: let them wait less often, with more work between.",
     "cudaStreamWaitEvent(stream, event, 0);  // once for many kernels"),
    ("cuEventRecord", "A record of an event with timing ends a graph: events that only order work need none.",
     "cudaEventCreateWithFlags(&event, cudaEventDisableTiming);"),
    ("cuLaunchHostFunc", "A host function ends a graph: call one at the end of an iteration.",
     "cudaLaunchHostFunc(stream, f, data);  // behind the last kernel"),
    ("cuStreamAddCallback", "A callback ends a graph: add one at the end of an iteration.",
     "cudaLaunchHostFunc(stream, f, data);  // behind the last kernel"),
    ("cuLaunchKernel", "The first launch of a kernel, or one with attributes that no graph has: nothing to do.", ""),
    ("cuGraphLaunch", "This is the program's own graph, which runs as it is: nothing to do.", ""),
    ("cuGraph", "The program makes graphs of its own: make them before the loop.",
     "cudaGraphInstantiate(&exec, graph, 0);  // once"),
    ("cuModule", "Code is loaded in the loop: load it at the start.", "CUDA_MODULE_LOADING=EAGER autograph ./app"),
    ("cuLibrary", "Code is loaded in the loop: load it at the start.", "CUDA_MODULE_LOADING=EAGER autograph ./app"),
    ("cuFuncSet", "Set a kernel's attributes before the loop.",
     "cudaFuncSetAttribute(kernel, attribute, value);  // once"),
    ("cuKernelSet", "Set a kernel's attributes before the loop.",
     "cudaFuncSetAttribute(kernel, attribute, value);  // once"),
    ("autograph_", "The program asked for it: nothing to do.", ""),
    ("side_exit", "The operations change from one iteration to the next: nothing to do if they must.", ""),
    ("stream_barrier", "A call that can be in no graph: move it to the end of the iteration.",
     "cudaStreamSynchronize(stream);  // such calls from here on"),
    ("host_wait", "Each wait ends a graph: wait less often, as once for many steps.",
     "if (step % 100 == 0) cudaStreamSynchronize(stream);"),
    ("barrier", "Allocate, create and load before the loop.", "cudaMalloc(&buffer, bytes);  // once"),
    ("legacy_order", "The default stream and other streams wait for each other: make streams that do not.",
     "cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);"),
    ("watchdog", "The program is slow between launches: let operations wait longer, unless it watches memory.",
     "autograph --set hold.bound_us=3000 ./app"),
    ("event", "Events of held work are asked about or used again: use several in turn.",
     "cudaEventRecord(events[step % 8], stream);"),
    ("capture", "The program captures graphs of its own: nothing to do.", ""),
    ("destroy", "Destroy streams and contexts behind the loop.", "cudaStreamDestroy(stream);  // behind the loop"),
    ("attributes", "Set attributes of functions and streams before the loop.",
     "cudaFuncSetAttribute(kernel, attribute, value);  // once"),
    ("failure", "The driver refused a call: look at what it returns.", "cudaError_t error = cudaGetLastError();"),
    ("exit", "The program ended: nothing to do.", ""),
    ("request", "The program asked for it (autograph_flush, autograph_pause): nothing to do.", ""),
    ("sequence_end", "A loop began anew, or a graph was full: nothing to do.", ""),
    ("shared_queue", "There are more streams than queues of the device: use fewer streams, or more queues.",
     "CUDA_DEVICE_MAX_CONNECTIONS=32 autograph ./app"),
]

# By the reason why an operation was not held. These say more than a function's name.
WHY = {
    "no_room": ("Graphs have no room: let them take more memory.",
                "autograph --set graph.memory_mb=1024 --set graph.execs=1000 ./app"),
    "many_copies": ("Copies within the device cost much in a graph: let kernels copy.", "copy<<<blocks, threads, 0, stream>>>(to, from);"),
    "many_branches": ("A graph needs a queue for each branch: use fewer streams, or more queues.",
                      "CUDA_DEVICE_MAX_CONNECTIONS=32 autograph ./app"),
    "unjoined": ("Let the streams join before the step ends.", "cudaStreamWaitEvent(stream, joined, 0);"),
    "graph_refused": ("The driver refused a graph: please report it, with what this prints.",
                      "autograph --set log.level=3 ./app"),
    "paused": ("The program asked for it (autograph_pause): nothing to do.", ""),
    "barred": ("The attributes of the stream, or its context, are in no graph: nothing to do.", ""),
    "green_context": ("No graph is in a green context: nothing to do.", ""),
    "banned": ("The program captured, or was about to end: nothing to do.", ""),
    "no_relay": ("The driver gave the library no stream: use streams of the program's own.",
                 "cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);"),
    "function_settings": ("The settings of the function change too often: set them once.",
                          "cudaFuncSetAttribute(kernel, attribute, value);  // once"),
    "refusable": ("The driver may refuse a call with such arguments: nothing to do if it does not.", ""),
    "other_context": ("Make the stream's context current before the call.", "cuCtxSetCurrent(context);"),
    "unknown_function": ("The first launch of a kernel is in no graph: nothing to do.", ""),
    "launch_attributes": ("The launch has attributes that no graph has: nothing to do if it needs them.", ""),
    "hidden_arguments": ("Pass arguments by pointers to each (kernelParams).",
                         "cuLaunchKernel(f, x, 1, 1, 64, 1, 1, 0, stream, parameters, NULL);"),
    "empty": ("It has no bytes: leave the call out.", "if (bytes != 0) cudaMemcpyAsync(to, from, bytes, kind, stream);"),
    "refused": ("The driver refuses the call: look at what it returns.", "cudaError_t error = cudaGetLastError();"),
    "new_shape": ("The driver may refuse the launch: nothing to do if it must change.", ""),
    "host_waits": ("The host waits in the call: use the asynchronous one, and pinned memory.",
                   "cudaMemcpyAsync(to, from, bytes, kind, stream);"),
    "to_host": ("A copy to the host ends a graph: copy less often, and to pinned memory.",
                "if (step % 100 == 0) cudaMemcpyAsync(to, from, bytes, kind, stream);"),
    "array": ("Copies of arrays are in no graph: nothing to do, unless they can be copied behind the loop.", ""),
    "other_memory": ("Use memory of this device, from one allocation.",
                     "cudaMalloc(&buffer, bytes);  // in place of managed memory"),
    "pageable": ("Pin the memory.", "cudaMallocHost(&buffer, bytes);"),
    "not_looked_at": ("Copies in this stream could not be held, often for pageable memory: pin it.",
                      "cudaMallocHost(&buffer, bytes);"),
    "refused": ("The driver refused a call: look at what it returns.", "cudaError_t error = cudaGetLastError();"),
    "no_staging": ("Pin the memory.", "cudaMallocHost(&buffer, bytes);"),
    "new_event": ("Create events before the loop, and use them again.",
                  "cudaEventCreateWithFlags(&event, cudaEventDisableTiming);  // once"),
    "other_event": ("An event of another context is in no graph: nothing to do if it must be.", ""),
}

POOL = ("The memory pool gives its memory back at each wait, and the next step waits for new memory: let it keep all.",
        "uint64_t all = UINT64_MAX; cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);")

# Options that keep work eager where they are less, or more, than their defaults.
LEAST = ("graph.execs", "graph.memory_mb", "graph.free_execs", "graph.credit_ms", "trace.memory", "trace.max_length",
         "hold.bound_us")
MOST = ("trace.hot", "trace.min_length")


def advice(function, reason, why=None):
    """(sentence, line of code) for a driver function, which may be None, and the reasons."""
    if why in WHY:
        return WHY[why]
    for key, text, code in ADVICE:
        if function and function.startswith(key):
            return text, code
    return next(((text, code) for key, text, code in ADVICE if key == reason), ("", ""))


def default(name):
    """The default of an option that is a number."""
    return int(options.table()[name].default)


def holds_back(name, value):
    """Whether this value of an option keeps more work eager than the option's default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return (name in LEAST and value < default(name)) or (name in MOST and value > default(name))

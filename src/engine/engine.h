/* SPDX-License-Identifier: MIT */
/*
 * What doors ask of the engine: whether an op is held, what a barrier must submit, and the life of
 * streams, contexts and modules.
 *
 * All functions may be called by any thread, with or without a current CUDA context. None of them
 * fails towards the caller: what goes wrong inside turns into eager launches and is counted.
 * While a thread is inside the engine (ag_depth != 0), doors must pass its calls straight
 * through: they are the engine's own, or come from a profiler's callback within one.
 *
 * Locks: none may be held by the caller. See engine/stream/stream.h for the order of the engine's
 * own.
 */
#ifndef AG_ENGINE_H
#define AG_ENGINE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/call.h"
#include "engine/hot.h"
#include "observe/counters.h"
#include "observe/tracefile.h"
#include "trace/op.h"

/* Asks the driver. NULL: there is none. */
CUcontext ag_engine_ask_current(void);

/* The current context, for an op in that stream. For a stream with a handle the driver is not asked
   again. For a default stream it is: which stream NULL and its like mean depends on the context. */
static inline CUcontext ag_engine_current(CUstream stream)
{
    if (__builtin_expect(ag_current.context != NULL &&
                             ag_current.changes ==
                                 atomic_load_explicit(&ag_changes, memory_order_relaxed) &&
                             (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD,
                         1))
        return ag_current.context;
    return ag_engine_ask_current();
}

/* Whether this is a host function, in which the driver refuses what ends a context or a module. */
bool ag_engine_refused(void);

/* -- Ops ------------------------------------------------------------------ */

/*
 * True: the op is held (or has just been replayed); the door returns CUDA_SUCCESS and does not
 * call the driver. False: everything that must precede the op has been submitted; the door calls
 * the real function with the caller's arguments, and ag_engine_failed() if that fails.
 */
bool ag_engine_kernel(const struct ag_kernel_call *call);

/*
 * Whether an op "passes": goes to the driver without a further word to the engine. It does where
 * its stream's recorder rests, no trace begins with an op like it, and nothing is held in the
 * process. The op is counted here: call this once for each op, and not for a launch that
 * ag_engine_kernel() was asked about. The engine need not hear how the op ends. `func` and `grid`
 * (its x) are for kernels only.
 */
bool ag_engine_passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid);

/* The name of a stream as one word, never 0: ag_passing.key. */
static inline uintptr_t ag_passing_key(CUstream stream, bool ptsz)
{
    return (uintptr_t)stream << 2 | (uintptr_t)ptsz << 1 | 1;
}

/* Whether the next op of this stream is likely to pass. Then a caller need not prepare what only
   ag_engine_kernel() wants. */
bool ag_engine_stream_rests(CUstream stream);

/* ag_engine_stream_rests() without a call, where ag_passing has the answer. */
static inline bool ag_engine_rests(CUstream stream)
{
    return atomic_load(&ag_subscribers) == 0 &&
           (((ag_passing.key | 2) == ag_passing_key(stream, true) &&
             ag_passing.heads != AG_COPIES_PASS &&
             atomic_load_explicit(ag_passing.left, memory_order_relaxed) > 1) ||
            ag_engine_stream_rests(stream));
}

/* ag_engine_passes() without a call, where ag_passing has the answer. False: it has none. */
static inline bool ag_engine_still_passes(CUstream stream, bool ptsz, enum ag_op_kind kind,
                                          CUfunction func, uint32_t grid)
{
    if (ag_passing.key != ag_passing_key(stream, ptsz) || atomic_load(&ag_subscribers) != 0 ||
        (__builtin_expect(ag_passing.heads != 0, 0) &&
         !(kind == AG_OP_COPY && ag_passing.heads == AG_COPIES_PASS) &&
         (ag_passing.heads & ag_mark(kind, func, grid)) != 0) ||
        ag_passing.life != atomic_load_explicit(ag_passing.living, memory_order_acquire))
        return false;
    uint32_t left = atomic_load_explicit(ag_passing.left, memory_order_relaxed);
    if (left <= 1)
        return false;
    atomic_store_explicit(ag_passing.left, left - 1, memory_order_relaxed);
    atomic_store_explicit(ag_passing.passed,
                          atomic_load_explicit(ag_passing.passed, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return true;
}

/*
 * Whether the default stream has a state. Without one an op that names no stream is a barrier, and
 * makes none: a program that only sets up memory there would have one stream more in use, and might
 * lose the gain of many that share no queue.
 */
bool ag_engine_follows_default(bool ptsz);

/* Whether the op is held. If not, the door calls the driver. */
bool ag_engine_memset(const struct ag_memset_call *call);
bool ag_engine_copy(const struct ag_copy_call *call);
bool ag_engine_event(const struct ag_event_call *call);

/* cuStreamWriteValue and cuStreamWaitValue, of 32 and 64 bits. */
struct ag_value_call {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    uint64_t value;
    unsigned flags;
    CUstream stream;
    bool ptsz;
};
bool ag_engine_value(const struct ag_value_call *call);

/*
 * What has become of a read-back (fetch.h). DONE: the bytes are at their place, or the copy, which
 * is to pinned memory, is held (pinned.h). RECORDED: the door calls the driver, for an op that goes
 * out eagerly. NOT: it is no op, and the door calls the driver behind a barrier; or the driver has
 * an error to tell.
 */
enum ag_read { AG_READ_NOT, AG_READ_RECORDED, AG_READ_DONE };
enum ag_read ag_engine_read(const struct ag_read_call *call);

/* The driver has made the copy. Read-backs are counted, and the kernel for them is loaded in time:
   this may be a safe point. */
void ag_engine_read_eager(const struct ag_read_call *call);

/* Before cuStreamSynchronize: as ag_engine_barrier_wait(), but a copy to pinned memory that is held
   may become a read-back. Then *wait says so. It lies on the stack of the door: the thread may
   leave the wait by a longjmp, or be cancelled there. */
void ag_engine_stream_waits(CUstream stream, bool ptsz, struct ag_wait_call *wait);

/* Behind it, if ag_done.reads, with its result. */
void ag_engine_stream_waited(const struct ag_wait_call *wait, CUresult result);

/*
 * cuMemFreeAsync. It has no place in a trace. True: its stream holds ops, and the free goes out
 * behind them; memory may be freed later than the program asks. False: the door calls the driver.
 * (An allocation needs no such function: it may overtake held ops, since it can only take memory
 * whose free has been submitted.)
 */
bool ag_engine_free(CUdeviceptr address, CUstream stream, bool ptsz);

/* The event has been created. Its handle may be that of an event whose context has gone. */
void ag_engine_event_created(CUevent event, unsigned flags);

/* An eager record of the event has failed: no record of it is held until one has succeeded. */
void ag_engine_event_failed(CUevent event);

/* The program has converted a green context into this context. */
void ag_engine_context_green(CUcontext context);

/* Another process may look at the event: its records and waits are never held from now on. */
void ag_engine_event_shared(CUevent event);

/* The program destroys an event. True: that is done later, behind held ops that name it. */
bool ag_engine_event_destroy(CUevent event);

/* The eager call that this thread was just told to make has failed: what fails is never held. */
void ag_engine_failed(void);

/* While ag_refused is not 0: the error of the current context, once; then CUDA_SUCCESS. Ops that
   pass do not return it, but the next wait does. */
CUresult ag_engine_refusal(void);

/*
 * Before a free in a stream, and before an allocation in one. The driver may allocate memory that
 * another stream is still about to free, and make this stream wait for that stream (CUDA driver
 * API, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES). Then what this stream holds must be
 * submitted before the allocation. If only one stream has frees, its own allocations wait for
 * nobody.
 */
void ag_engine_frees(CUstream stream, bool ptsz);
void ag_engine_allocates(CUstream stream, bool ptsz);

/* After an allocation: what is held from now on may use the memory, and is submitted behind it. */
void ag_engine_allocated(CUstream stream, bool ptsz);

/* -- Barriers ------------------------------------------------------------- */

/*
 * Before a call that other work of `stream` must precede: submits what this stream holds, and what
 * CUDA's implicit ordering (legacy default stream) puts before it.
 */
void ag_engine_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason);

/* Before managed memory is attached to a stream: ag_engine_barrier_stream(), and the next ops of
   the stream are not held, if it is the calling thread's. */
void ag_engine_barrier_attach(CUstream stream, bool ptsz);

/* Before a call that makes the host wait for a stream: ag_engine_barrier_stream(), and submits what
   the calling thread holds in other streams. */
void ag_engine_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason);

/* Before a copy without a stream that may be one between two devices: ag_engine_barrier_wait(), and
   submits all that is held, since such a copy comes behind all work of both devices. */
void ag_engine_barrier_copy(bool ptsz, enum ag_reason reason);

/* Before a call that anything may be ordered against: submits all that is held in the process. */
void ag_engine_barrier_all(enum ag_reason reason);

/* Before a call that nothing is ordered against, but that may wait in the driver for running
   kernels, which may wait for what is held: submits all that is held in the process. If another
   thread is submitting, waits for it for 20 ms and then leaves the rest to it: its stream takes no
   more work. */
void ag_engine_barrier_most(enum ag_reason reason);

/* Before a call that waits for an event: submits the event's record, if it is held, and all else
   that is held and that no other thread is submitting. */
void ag_engine_barrier_event(CUevent event, enum ag_reason reason);

/* Before a call that asks whether an event has happened, or whether a stream is idle. True: it has
   not, or is not, since what is asked about is held, and stays so. The door answers. False: the
   door asks the driver. To a thread that polls this is a barrier. */
bool ag_engine_asks_event(CUevent event);
bool ag_engine_asks_stream(CUstream stream, bool ptsz);

/* Before a call that may load this function (or kernel, cast to one): submits all that is held, and
   loads the function. Does nothing if the function is known. Loading waits for running kernels,
   which may wait for what is held. */
void ag_engine_barrier_load(CUfunction func);

/* After the host has waited for work with success, while ag_wanted_traces is not 0: makes these
   graphs, if the device has nothing to do for this process. */
void ag_engine_waited(void);

/*
 * A stream may be destroyed with work left in it, and nobody can ask whether that is done. Before
 * the host waits for a whole context (NULL: the current one): the number of its streams that have
 * gone with work left. After the wait: tells that the work of so many is done.
 */
unsigned ag_engine_orphans(CUcontext context);
void ag_engine_orphans_done(CUcontext context, unsigned left);

/*
 * Saves a question. When a stream is destroyed the engine must know whether it has work left, and
 * to ask the driver takes 2 us. So once streams are destroyed that have a state (ag_streams_go),
 * doors tell of waits. Before the host waits for a stream: how much has been issued there; 0: not
 * known. After the wait: tells that so much is done.
 */
uint64_t ag_engine_issued(CUstream stream, bool ptsz);
void ag_engine_waited_for(CUstream stream, bool ptsz, uint64_t issued);

/* Before a call that puts kernels into a stream in a way that the engine does not follow. */
void ag_engine_stream_used(CUstream stream, bool ptsz);

/* Before a call that puts other work into a stream, a function of the host for instance: the stream
   has a queue of the device from now on. */
void ag_engine_stream_works(CUstream stream, bool ptsz);

/* Before a call that puts kernels into some stream, which the door does not know. */
void ag_engine_launch_unseen(void);

/* -- Life ----------------------------------------------------------------- */

/* After cuStreamCreate, in the current context. */
void ag_engine_stream_created(CUstream stream, unsigned flags);

/* Before cuStreamDestroy: flushes and forgets the stream; its handle may come back. */
void ag_engine_stream_destroy(CUstream stream);

/* After a stream's attributes were changed: nothing is held there any more, since launches from a
   graph would lose the attributes. */
void ag_engine_stream_attributes(CUstream stream, bool ptsz);

/* Around the program's own capture. */
void ag_engine_capture_prepare(CUstream stream, bool ptsz); /* before the call: flushes all */
void ag_engine_capture_begun(CUstream stream, bool ptsz);   /* it has begun */
void ag_engine_capture_refused(void);                       /* or it has not */
void ag_engine_capture_ended(CUstream stream, bool ptsz);

/*
 * The program has a context, or uses a stream. The first time, makes the library's threads and asks
 * the system for all that they need. Later a sandbox that the program sets up may forbid it, or
 * kill the program for it. If the system refuses something nothing is ever held.
 */
void ag_engine_context_begins(void);
bool ag_engine_has_context(void);

/* The program has a context on this device: reports and traces have the device's name. */
void ag_engine_device(CUdevice device);

/* Before cuCtxDestroy: flushes and forgets the context. */
void ag_engine_context_destroy(CUcontext ctx);

/* Before a primary context of `device` is released or reset: forgets every context of the device.
 */
void ag_engine_device_reset(CUdevice device);

/* Before and after a module or a library is unloaded; the other argument is NULL. Nothing may be
   held. Destroys every trace that contains a function of it. */
void ag_engine_code_gone(CUmodule module, CUlibrary library);

/* Whether the driver has said before which function of the module has the name, and the function
   has been launched: to ask again loads nothing. And that the driver has just said it. */
bool ag_engine_is_named(CUmodule module, const char *name);
void ag_engine_named(CUmodule module, const char *name, const CUfunction *func);

/*
 * Around a call that sets something for a function, or for all functions of the current context
 * (see graph/setting.h). False: the call changes nothing, and ag_engine_setter_ends() is not to be
 * called. True: the calling thread has a lock, makes this one call and then says how it ended.
 */
struct ag_setter;
bool ag_engine_setter_begins(struct ag_setter *setter);
void ag_engine_setter_ends(struct ag_setter *setter, CUresult result);

/* Whether the limit of the current context has that value already. */
bool ag_engine_limit_repeats(CUlimit limit, size_t value);

/* Around a call that changes the current context's stack size. Nothing is held meanwhile, and every
   exec of the context is destroyed. An exec keeps the stack size with which it was made. If the
   size has grown since, a kernel that needs more makes an illegal access; if it has shrunk, every
   launch of the exec fails (H100, H200, driver 580). */
void ag_engine_stack_begins(void);
void ag_engine_stack_ends(bool changed);

/* After the program has instantiated a graph exec of its own: the library then makes fewer, since a
   context has few. And after it has destroyed one, whose launches may still run. */
void ag_engine_program_made_exec(void);
void ag_engine_program_destroyed_exec(void);

/* The program is told the flags of the current context: hides one that execs of the library's own
   have set (driver 580), as long as the program has made no execs, and has set no flags itself. */
void ag_engine_flags_told(unsigned *flags);

/* After the program has done so in the current context. */
void ag_engine_flags_set(void);

/* -- Trace file: all to be called through AG_NOTE() ------------------------- */

/* The driver's call for the eager op that this thread was just told to make is over. */
void ag_note_return(CUresult result);

/* The program's own call is about to make this copy, and all that it comes behind is submitted. */
void ag_note_read_call(const struct ag_read_call *call);

/* The program calls the driver function `name`, a constant string. `began` 0: the call begins;
   otherwise it is over, and began at that time (ag_tracefile_now()). */
void ag_note_barrier(const char *name, uint64_t began);

/* Memory was allocated, or is about to be freed. */
void ag_note_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes);

/* -- Process -------------------------------------------------------------- */

/* Sets the engine up; called once by the first door that sees a loaded driver. */
void ag_engine_start(void);

/*
 * Flushes everything and stops holding, for good. Before ag_engine_start(): nothing is ever held.
 * `why` is a constant sentence without a full stop, for the report; the first one stays. Afterwards
 * nothing is held, except for ops that a thread has been submitting for longer than 20 ms.
 */
void ag_engine_stop(const char *why);

/* Why nothing is held; NULL: ops may be held. */
const char *ag_engine_stopped(void);

/*
 * ag_engine_stop() at exit. A signal handler may have called exit(), in a thread that has locks of
 * the library and of the driver. So the watchdog submits what is held; the thread waits for a
 * second at most. If that does not succeed, or the thread has the lock of a stream, all its later
 * calls go past the library.
 */
void ag_engine_leave(void);

#endif

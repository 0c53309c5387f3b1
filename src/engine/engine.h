/* SPDX-License-Identifier: MIT */
/*
 * What the doors ask of the engine: "this op, hold it?", "this barrier, flush first", and
 * the life of streams, contexts and modules.
 *
 * All functions may be called by any thread, with or without a current CUDA context. None of them
 * fails towards the caller: what goes wrong inside turns into eager launches and is counted.
 * While a thread is inside the engine (ag_inside() != 0), doors must pass its calls straight
 * through: they are the engine's own, or come from a profiler's callback within one.
 *
 * Locks: none may be held by the caller. See engine/stream.h for the order of the engine's own.
 */
#ifndef AG_ENGINE_H
#define AG_ENGINE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/account.h"
#include "observe/counters.h"
#include "observe/tracefile.h"
#include "trace/op.h"

/*
 * The number of streams that hold ops now. A barrier door has nothing to do while it is zero:
 * this load and its branch are all that a pass-through call pays.
 */
extern _Atomic unsigned ag_held_streams;

/* Streams that hold nothing, and want to hear of the next barrier nevertheless: it tells how often
   the program waits, and where its sequences begin. */
extern _Atomic unsigned ag_curious_streams;

/* Whether a barrier is to be told of. */
static inline bool ag_engine_listens(void)
{
    return atomic_load(&ag_held_streams) != 0 ||
           atomic_load_explicit(&ag_curious_streams, memory_order_relaxed) != 0;
}

/* 1 while the trace file wants to hear of every barrier: it is counted in ag_held_streams then. */
extern _Atomic unsigned ag_watching;

static inline bool ag_anything_held(void)
{
    return atomic_load(&ag_held_streams) > atomic_load_explicit(&ag_watching, memory_order_relaxed);
}

/*
 * Goes up when memory may have been freed, after which nothing that was found out about memory
 * holds any more (engine/memory.h); odd: something has been found out since then. An even one need
 * not go up: so calls that may free memory only look at one word where nobody has asked.
 */
extern _Atomic uint64_t ag_memory_state;

/* Before a call that may free, unmap or unregister memory. */
static inline void ag_memory_changed(void)
{
    uint64_t state = atomic_load(&ag_memory_state);
    if (state % 2 != 0) /* if it is another one by now, then because it has gone up */
        (void)atomic_compare_exchange_strong(&ag_memory_state, &state, state + 1);
}

/* Of these, the streams that may hold records of events or waits for them. */
extern _Atomic unsigned ag_open_events;

/* Graphs of the program may wait for a word: what all streams hold goes to the GPU before them. */
extern _Atomic bool ag_graphs_wait;

/* False: every door passes straight through (disabled, forked child, after exit). */
extern _Atomic bool ag_engine_on;

/* Depth of the calling thread inside the library's own driver calls. */
extern _Thread_local unsigned ag_depth __attribute__((tls_model("initial-exec")));

/* The driver function that the calling thread is in, a constant string: what is to blame for a cut.
   Launches of kernels set it only where they are not held, to the second. */
extern _Thread_local const char *ag_cause __attribute__((tls_model("initial-exec")));
extern const char ag_cause_kernel[];

/*
 * The calling thread's current context as the driver has said it, and what ag_changes was then: it
 * goes up when a function or a context goes away or changes, after which nothing counts that has
 * been found out of either. No context: it must be asked, since the thread may have another one.
 */
extern _Thread_local struct ag_current {
    CUcontext context;
    unsigned changes;
} ag_current __attribute__((tls_model("initial-exec")));
extern _Atomic unsigned ag_changes;

/* Asks the driver. NULL: there is none. */
CUcontext ag_engine_ask_current(void);

/* The current context, for an op in that stream: where the stream has a handle the driver need not
   be asked again. (What NULL and its like mean depends on the context: then there is no doubt.) */
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

/* A function or a context is about to go away or change, or has. */
static inline void ag_engine_changed(void)
{
    atomic_fetch_add(&ag_changes, 1);
}

/* The calling thread may have, or be about to get, another current context. */
static inline void ag_engine_forget_current(void)
{
    ag_current.context = NULL;
}

/* -- Ops ------------------------------------------------------------------ */

/*
 * A kernel launch as the program made it. `params` and `extra` are the caller's own pointers, read
 * during the call only. `ptsz` says that stream 0 means the per-thread default stream.
 */
struct ag_kernel_call {
    struct ag_shape {
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t shared; /* bytes of dynamic shared memory */
        uint32_t nattrs;
    } shape;
    CUfunction func; /* or a CUkernel cast to one */
    CUstream stream;
    bool ptsz;
    void **params;
    void **extra;
    const CUlaunchAttribute *attrs; /* shape.nattrs of them */
    CUcontext current;              /* the thread's, where that is known already; NULL: asked for */
};

struct ag_memset_call {
    CUdeviceptr dst;
    size_t count;   /* elements of a row */
    size_t height;  /* rows */
    size_t pitch;   /* bytes from row to row; of no meaning where there is one row */
    uint32_t value; /* in the low `width` bytes */
    uint32_t width; /* bytes of an element: 1, 2, 4 */
    CUstream stream;
    bool ptsz;
    bool blocks; /* the call has no stream: the host waits unless all is memory of the device */
};

/*
 * A copy in a stream, as three-dimensional ones are described. Addresses whose kind the call leaves
 * open are in srcDevice and dstDevice, with CU_MEMORYTYPE_UNIFIED.
 */
struct ag_copy_call {
    CUDA_MEMCPY3D params;
    CUstream stream;
    bool ptsz;
    bool blocks; /* as of a memset */
};

/* A record of an event in a stream, or a stream's wait for it; both without flags. */
struct ag_event_call {
    CUevent event;
    CUstream stream;
    bool wait;
    bool ptsz;
};

/* cuStreamWriteValue and cuStreamWaitValue, of 32 and 64 bits. */
struct ag_value_call {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    uint64_t value;
    unsigned flags;
    CUstream stream;
    bool ptsz;
};

/*
 * True: the op is held (or has just been replayed); the door returns CUDA_SUCCESS and does not
 * call the driver. False: everything that must precede the op has been submitted; the door calls
 * the real function with the caller's arguments, and ag_engine_failed() if that fails.
 */
bool ag_engine_kernel(const struct ag_kernel_call *call);

/*
 * Whether an op may go out without being asked about: its stream's recorder rests, no trace begins
 * with such an op, and nothing is held in the process. It is counted, so each op is to be
 * asked for once; there is nothing to be said of its result. A launch that ag_engine_kernel() has
 * been asked about must not go this way. `func` and `grid` (x) are of kernels.
 */
bool ag_engine_passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid);

/*
 * The stream whose ops the calling thread has let pass last, so that the next ones cost little:
 * what ag_engine_passes() has found out. Stale ones do no harm: where nothing is held, and no
 * sequence is open, any op may pass; only its stream may learn less.
 */
struct ag_passing {
    uintptr_t key; /* ag_passing_key(); 0: none */
    uint32_t life; /* what *living was */
    const _Atomic uint32_t *living;
    uint64_t heads;         /* marks that do not pass; AG_COPIES_PASS: nothing else passes */
    _Atomic uint32_t *left; /* ops that may still pass */
    _Atomic uint64_t *passed;
};
#define AG_COPIES_PASS UINT64_MAX
extern _Thread_local struct ag_passing ag_passing __attribute__((tls_model("initial-exec")));

static inline uintptr_t ag_passing_key(CUstream stream, bool ptsz)
{
    return (uintptr_t)stream << 2 | (uintptr_t)ptsz << 1 | 1;
}

/* Whether the next op of this stream, with a suffix or without, is likely to pass: whoever would
   only prepare to ask ag_engine_kernel() about it may leave it. */
bool ag_engine_stream_rests(CUstream stream);

static inline bool ag_engine_rests(CUstream stream)
{
    return atomic_load(&ag_held_streams) == 0 &&
           (((ag_passing.key | 2) == ag_passing_key(stream, true) &&
             ag_passing.heads != AG_COPIES_PASS &&
             atomic_load_explicit(ag_passing.left, memory_order_relaxed) > 1) ||
            ag_engine_stream_rests(stream));
}

/* ag_engine_passes(), where that is known already. */
static inline bool ag_engine_still_passes(CUstream stream, bool ptsz, enum ag_op_kind kind,
                                          CUfunction func, uint32_t grid)
{
    if (ag_passing.key != ag_passing_key(stream, ptsz) || atomic_load(&ag_held_streams) != 0 ||
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

bool ag_engine_memset(const struct ag_memset_call *call);
bool ag_engine_copy(const struct ag_copy_call *call);
bool ag_engine_event(const struct ag_event_call *call);
bool ag_engine_value(const struct ag_value_call *call);

/*
 * cuMemFreeAsync, which needs no place in a trace: while its stream holds ops it waits until they
 * are submitted (true), for memory may be given back later than asked for. False: it has nothing to
 * wait for. An allocation may pass ahead of held ops likewise, since it can only take memory whose
 * return has been submitted.
 */
bool ag_engine_free(CUdeviceptr address, CUstream stream, bool ptsz);

/* An eager record of the event has failed: none is held before one has succeeded. */
void ag_engine_event_failed(CUevent event);

/* The program has made this context of a green one. */
void ag_engine_context_green(CUcontext context);

/* Another process may look at the event: its records and waits are never held from now on. */
void ag_engine_event_shared(CUevent event);

/* Before an event is destroyed. */
void ag_engine_event_destroy(CUevent event);

/* The eager call that this thread was just told to make has failed: what fails is never held. */
void ag_engine_failed(void);

/*
 * Contexts in which the driver refused a held op. While there are any, doors whose call succeeded
 * return what ag_engine_refusal() gives: the error in the current context, once, or CUDA_SUCCESS.
 * Ops that pass as the one before did say nothing; a wait does at the latest.
 */
extern _Atomic unsigned ag_refused;
CUresult ag_engine_refusal(void);

/*
 * Before a free in a stream, and before an allocation in one. The driver may give memory that
 * another stream is about to give back, and have this stream wait for that (CUDA driver API,
 * CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES): then the allocation must not come ahead of
 * what is held. Where one stream alone has frees it waits for nobody.
 */
void ag_engine_frees(CUstream stream, bool ptsz);
void ag_engine_allocates(CUstream stream, bool ptsz);

/* After an allocation: what is held from now on may use the memory, and comes behind. */
void ag_engine_allocated(CUstream stream, bool ptsz);

/* -- Barriers ------------------------------------------------------------- */

/*
 * Before a call that other work of `stream` must precede: submits what this stream holds, and what
 * CUDA's implicit ordering (legacy default stream) puts before it.
 */
void ag_engine_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason);

/* The same before memory is attached to it: the ops that follow at once are not held, if the stream
   is this thread's. */
void ag_engine_barrier_attach(CUstream stream, bool ptsz);

/* As above for a call that makes the host wait: also what this thread holds in other streams. */
void ag_engine_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason);

/* The same for a copy without a stream, which may be one between two devices: that comes behind all
   work of both. */
void ag_engine_barrier_copy(bool ptsz, enum ag_reason reason);

/* Before a call that anything may be ordered against: submits all that is held in the process. */
void ag_engine_barrier_all(enum ag_reason reason);

/* The same before a call that nothing is ordered against, but that may wait in the driver for
   kernels that run, and those for what is held. What another thread has been submitting for 20 ms,
   because its stream takes no more, is left to that. */
void ag_engine_barrier_most(enum ag_reason reason);

/* Before a call that asks about an event, or waits for it: submits its record, if that is held, and
   what else is held and no other thread is working on. */
void ag_engine_barrier_event(CUevent event, enum ag_reason reason);

/* Before a call that may load this function, or kernel cast to one: submits all that is held, and
   loads it, unless it is known. Loading waits for running kernels, which may wait for what is held.
 */
void ag_engine_barrier_load(CUfunction func);

/*
 * Hot sequences that have no graph yet, since making more might wait for running kernels. While
 * there are any, doors call ag_engine_waited() after the host has waited for work successfully: if
 * the device then has nothing to do for this process, they are made.
 */
extern _Atomic unsigned ag_wanted_traces;
void ag_engine_waited(void);

/* Vacant states whose streams had left work behind: waits for a context are told of them, too. */
extern _Atomic unsigned ag_unsettled;

/*
 * Streams may go with work left in them, and what runs then cannot be asked for. Before the host
 * waits for a whole context (NULL: the current one): how many of its streams have gone so. After it
 * has: these have no work left.
 */
unsigned ag_engine_left(CUcontext context);
void ag_engine_settled(CUcontext context, unsigned left);

/*
 * To ask the driver whether a stream has work left takes two microseconds, which the end of a
 * stream does not take if the program has waited for the stream. Since streams end that the engine
 * follows (ag_streams_go), it is told: before the host waits for a stream, how much has been issued
 * there, 0 if that is not known; after it has, that so much is done.
 */
extern _Atomic bool ag_streams_go;
uint64_t ag_engine_issued(CUstream stream);
void ag_engine_waited_for(CUstream stream, uint64_t issued);

/* Before a call that puts kernels into a stream in a way that the engine does not follow. */
void ag_engine_stream_used(CUstream stream, bool ptsz);

/* The same where it is not known into which stream. */
void ag_engine_launch_unseen(void);

/* -- Life ----------------------------------------------------------------- */

/* After cuStreamCreate, in the current context. */
void ag_engine_stream_created(CUstream stream, unsigned flags);

/* Before cuStreamDestroy: flushes and forgets the stream; its handle may come back. */
void ag_engine_stream_destroy(CUstream stream);

/* After a stream's attributes were changed: its launches are no longer held (they would lose them).
 */
void ag_engine_stream_attributes(CUstream stream, bool ptsz);

/* Around the program's own capture. Before the call (flushes all); after a successful begin; after
 * an end. */
void ag_engine_capture_prepare(CUstream stream, bool ptsz);
void ag_engine_capture_begun(CUstream stream, bool ptsz);
void ag_engine_capture_refused(void); /* in place of begun: it has not begun */
void ag_engine_capture_ended(CUstream stream, bool ptsz);

/*
 * The program has a context, or uses a stream. The first time, all is asked of the system that a
 * sandbox may forbid, and that the program may be killed for, once it has set itself up: threads and
 * what they want for themselves. Where something is refused nothing is ever held.
 */
void ag_engine_context_begins(void);

/* Before cuCtxDestroy: flushes and forgets the context. Before a primary context of `device` is
   released or reset: forgets every context of that device. */
void ag_engine_context_destroy(CUcontext ctx);
void ag_engine_device_reset(CUdevice device);

/* Before and after a module or library is unloaded, when nothing is held: no trace that contains a
   function of it survives. One of the two is given. */
void ag_engine_code_gone(CUmodule module, CUlibrary library);

/*
 * Around a call that sets something for a function or for those of the current context (see
 * graph/setting.h). False: it changes nothing, and there is nothing to be said behind it. True: the
 * calling thread has a lock until it has said how the call ended, and makes no other call.
 */
struct ag_setter;
bool ag_engine_setter_begins(struct ag_setter *setter);
void ag_engine_setter_ends(struct ag_setter *setter, CUresult result);

/* Whether the limit of the current context has that value already. */
bool ag_engine_limit_repeats(CUlimit limit, size_t value);

/* Around a call that changes the context's stack size. Nothing is held meanwhile, and no exec of the
   context survives. An exec keeps the size from when it was made: a kernel that needs more is an
   illegal access, and with a lesser size no launch of the exec succeeds (H100, H200, driver 580). */
void ag_engine_stack_begins(void);
void ag_engine_stack_ends(bool changed);

/* After the program instantiated (+1) or destroyed (-1) a graph exec of its own: execs are scarce.
 */
void ag_engine_program_execs(int change);

/* -- Trace file (observe.c): all to be called through AG_TRACE() ------------ */

/* The driver's call for the eager op that this thread was just told to make is over. */
void ag_note_return(CUresult result);

/* The program calls the driver function `name`, a constant string; or that call, which began at
   `began` (ag_trace_now()), is over. */
void ag_note_barrier(const char *name, uint64_t began);

enum ag_memory { AG_MEMORY_DEVICE, AG_MEMORY_HOST, AG_MEMORY_MANAGED, AG_MEMORY_ASYNC };

/* Memory was allocated, or is about to be freed. */
void ag_note_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes);

/* -- Accounts for the report (account.c) ------------------------------------- */

/* Whether a report is wanted; constant once CUDA is initialised. */
extern bool ag_accounting;

/* -- Watching (watch.c) -------------------------------------------------------- */

/* After CUDA was initialised: starts what the options ask for. */
void ag_watch_start(void);

/* At exit, after ag_engine_leave(): ends it and writes the report. */
void ag_watch_stop(void);

/* In a forked child: it is all the parent's. From now on ag_unwatched: what takes a lock that a
   thread of the parent may have held does nothing. */
void ag_watch_child(void);
extern _Atomic bool ag_unwatched;

/* -- Process -------------------------------------------------------------- */

/* Sets the engine up; called once by the first door that sees a loaded driver. */
void ag_engine_start(void);

/*
 * Flushes everything and stops holding, for good; before the start: nothing is ever held. `why` is a
 * constant sentence without a full stop, for the report: the first one stays. Once it returns nothing
 * is held any more, but for what a thread has been submitting for longer than 20 ms.
 */
void ag_engine_stop(const char *why);

/* Why nothing is held; NULL: ops may be held. */
const char *ag_engine_stopped(void);

/*
 * The same at exit, where it may be a signal handler that calls exit(), in a thread that has locks
 * of the library's and the driver's. So the watchdog submits what is held, for a second at most.
 * Where that did not succeed, or the thread has the lock of a stream, all of its later calls go
 * past the library.
 */
void ag_engine_leave(void);

/* Adds up the counters of all streams, living and gone, without waiting for a thread that waits for
   the GPU: of a stream that is in use, the numbers of the last look. Counts the streams that live.
 */
void ag_engine_peek(struct ag_counters *sum, uint64_t *streams);

/* All that the report has of the engine but streams whose threads wait for the GPU, to be given
   back by the second. */
void ag_engine_account(struct ag_account *account);
void ag_engine_account_free(struct ag_account *account);

#endif

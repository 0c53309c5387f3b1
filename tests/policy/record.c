/* SPDX-License-Identifier: MIT */
/*
 * The recording engine: it holds nothing, and writes down each call that the doors make of it.
 * Linked with the doors it is a library to preload. POLICY_RECORD names the file; README.md in this
 * folder describes its lines, of which tests/policy/record makes a recorded program.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "graph/setting.h"
#include "observe/verbose.h"

enum {
    MOST_LINES = 4000000,
    NAMES = 1 << 16, /* handles and addresses that are told apart */
    MOST_PARAMETERS = 256,
};

_Atomic bool ag_tracefile_on = true; /* doors tell when calls end */
struct ag_options ag_opt = {.general_enable = true};

/* -- Lines ------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static FILE *out;
static unsigned lines;

static __thread struct self {
    unsigned number;       /* 0: has no line yet */
    uint64_t left;         /* when its last line had been written, ns; 0: it has none */
    const struct name *of; /* the stream of its last line, for what a door tells in two calls */
} self;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What handles are called in the file. */
static struct name {
    uintptr_t handle, more;
    char kind; /* 0: free */
    unsigned number;
} names[NAMES];
static unsigned counts[128];

static struct name *find(char kind, uintptr_t handle, uintptr_t more)
{
    uint64_t hash = ((uint64_t)handle * 31 + more * 7 + (unsigned char)kind) * 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < NAMES; i++) {
        struct name *name = &names[((hash >> 40) + i) & (NAMES - 1)];
        if (name->kind == 0 || (name->kind == kind && name->handle == handle && name->more == more))
            return name;
    }
    _exit(99);
}

/* *fresh: it has no number before this. */
static struct name *name_of(char kind, const void *handle, uintptr_t more, bool *fresh)
{
    struct name *name = find(kind, (uintptr_t)handle, more);
    *fresh = name->number == 0;
    if (*fresh)
        *name = (struct name){(uintptr_t)handle, more, kind, ++counts[(unsigned char)kind]};
    return name;
}

static void forget(char kind, const void *handle, uintptr_t more)
{
    struct name *name = find(kind, (uintptr_t)handle, more);
    name->number = 0; /* the next with that handle is another one */
}

static unsigned context_of(CUcontext context)
{
    bool fresh;
    struct name *name = name_of('C', context, 0, &fresh);
    if (fresh)
        fprintf(out, "context %u\n", name->number);
    return name->number;
}

static CUcontext current(void)
{
    CUcontext context = NULL;
    return ag_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

static unsigned stream_of(CUstream stream, bool ptsz)
{
    bool fresh;
    if (stream == NULL)
        stream = ptsz ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    bool own = stream == CU_STREAM_PER_THREAD, legacy = stream == CU_STREAM_LEGACY;
    CUcontext context = current();
    uintptr_t more = own ? self.number : legacy ? (uintptr_t)context : 0;
    struct name *name = name_of('S', stream, more, &fresh);
    self.of = name;
    if (!fresh)
        return name->number;
    unsigned flags = 0;
    if (!own && !legacy)
        (void)ag_real.cuStreamGetFlags(stream, &flags);
    unsigned of = context_of(context);
    fprintf(out, "stream %u %u %d %u %u\n", name->number, of,
            own      ? 3
            : legacy ? 2
                     : (flags & CU_STREAM_NON_BLOCKING) != 0,
            flags, self.number);
    return name->number;
}

static unsigned event_of(CUevent event)
{
    bool fresh;
    struct name *name = name_of('E', event, 0, &fresh);
    if (fresh)
        fprintf(out, "event %u ?\n", name->number);
    return name->number;
}

/* Begins a line of the calling thread. False: no more lines are wanted. */
static bool begin(void)
{
    uint64_t at = now();
    pthread_mutex_lock(&lock);
    if (out == NULL || ++lines > MOST_LINES) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    if (self.number == 0) {
        self.number = ++counts['T'];
        unsigned of = context_of(current());
        fprintf(out, "thread %u %u\n", self.number, of);
    }
    self.of = NULL;
    uint64_t gap = self.left != 0 ? at - self.left : 0;
    self.left = gap; /* until done() */
    return true;
}

static void head(const char *verb)
{
    fprintf(out, "%llu %u %s", (unsigned long long)self.left, self.number, verb);
}

static void done(void)
{
    fputc('\n', out);
    pthread_mutex_unlock(&lock);
    self.left = now();
}

/* The driver's call of the thread's last line is over. */
static void over(CUresult result)
{
    uint64_t at = now(), took = self.left != 0 ? at - self.left : 0;
    pthread_mutex_lock(&lock);
    if (out != NULL && lines <= MOST_LINES && self.number != 0)
        fprintf(out, "0 %u = %llu %d\n", self.number, (unsigned long long)took, (int)result);
    pthread_mutex_unlock(&lock);
    self.left = now();
}

static void plain(const char *verb, CUstream stream, bool ptsz)
{
    if (!begin())
        return;
    unsigned s = stream_of(stream, ptsz);
    head(verb);
    fprintf(out, " %u", s);
    done();
}

static void of_event(const char *verb, CUevent event)
{
    if (!begin())
        return;
    unsigned e = event_of(event);
    head(verb);
    fprintf(out, " %u", e);
    done();
}

/* -- Memory ------------------------------------------------------------------------ */

struct answer {
    CUdeviceptr address, start;
    unsigned long long id;
    size_t size;
    int type;
};
static struct answer answers[NAMES];

/* What the driver says of the address, if it is news. */
static void tell_memory(CUdeviceptr address)
{
    unsigned type = 0, managed = 0;
    struct answer fresh = {.address = address};
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&type, &managed, &fresh.start, &fresh.size, &fresh.id};
    if (ag_captures_about() ||
        ag_real.cuPointerGetAttributes(5, which, values, address) != CUDA_SUCCESS)
        return;
    fresh.type = managed ? 3 : (int)type;
    struct answer *known = &answers[(address * 0x9e3779b97f4a7c15u) >> 48];
    if (memcmp(known, &fresh, sizeof fresh) == 0)
        return;
    *known = fresh;
    fprintf(out, "memory %llx %d %llx %zu %llu\n", address, fresh.type, fresh.start, fresh.size,
            fresh.id);
}

/* -- Kernels ------------------------------------------------------------------------ */

struct layout {
    int count; /* -1: not known */
    size_t offset[MOST_PARAMETERS], size[MOST_PARAMETERS];
};
static struct layout *layouts[NAMES]; /* by the function's number */

static void learn(unsigned number, CUfunction func)
{
    struct layout *layout = calloc(1, sizeof *layout);
    const char *name = NULL;
    CUfunction real = func, of;
    if (layout == NULL || number >= NAMES)
        _exit(99);
    if (ag_real.cuKernelGetFunction(&of, (CUkernel)func) == CUDA_SUCCESS)
        real = of;
    layout->count = -1;
    for (int i = 0; ag_real.cuFuncGetParamInfo != NULL && i < MOST_PARAMETERS; i++) {
        CUresult result =
            ag_real.cuFuncGetParamInfo(real, (size_t)i, &layout->offset[i], &layout->size[i]);
        if (result == CUDA_ERROR_INVALID_VALUE)
            layout->count = i;
        if (result != CUDA_SUCCESS)
            break;
    }
    if (ag_real.cuFuncGetName == NULL || ag_real.cuFuncGetName(&name, real) != CUDA_SUCCESS)
        name = "?";
    fprintf(out, "function %u 0 kernel ", number);
    for (int i = 0; i < layout->count; i++)
        fprintf(out, "%s%zu", i ? "," : "", layout->size[i]);
    fprintf(out, "%s %s\n", layout->count < 0 ? "?" : layout->count == 0 ? "-" : "", name);
    layouts[number] = layout;
}

static uint64_t word_of(const unsigned char *bytes, size_t size)
{
    uint64_t word = 0;
    if (size <= sizeof word) {
        memcpy(&word, bytes, size);
        return word;
    }
    word = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        word = (word ^ bytes[i]) * 0x100000001b3u;
    return word;
}

static const unsigned char *buffer_of(void **extra)
{
    for (; extra != NULL && *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            return extra[1];
    return NULL;
}

static void tell_arguments(const struct layout *layout, const struct ag_kernel_call *call)
{
    const unsigned char *buffer = buffer_of(call->extra);
    if (layout->count <= 0 || (call->params == NULL && buffer == NULL)) {
        fputs(" -", out);
        return;
    }
    for (int i = 0; i < layout->count; i++) {
        const unsigned char *at = buffer != NULL ? buffer + layout->offset[i] : call->params[i];
        fprintf(out, "%c%llx", i ? ',' : ' ', (unsigned long long)word_of(at, layout->size[i]));
    }
}

bool ag_engine_kernel(const struct ag_kernel_call *call)
{
    const struct ag_shape *s = &call->shape;
    bool fresh;
    if (!begin())
        return false;
    struct name *name = name_of('F', call->func, (uintptr_t)current(), &fresh);
    if (fresh)
        learn(name->number, call->func);
    unsigned stream = stream_of(call->stream, call->ptsz);
    head("k");
    fprintf(out, " %u %u %u %u %u %u %u %u %u %u", name->number, stream, s->grid[0], s->grid[1],
            s->grid[2], s->block[0], s->block[1], s->block[2], s->shared, s->nattrs);
    tell_arguments(layouts[name->number], call);
    done();
    return false;
}

/* -- Other ops ----------------------------------------------------------------------- */

bool ag_engine_memset(const struct ag_memset_call *c)
{
    if (!begin())
        return false;
    tell_memory(c->dst);
    unsigned stream = stream_of(c->stream, c->ptsz);
    head("m");
    fprintf(out, " %u %llx %zu %zu %zu %u %u %d", stream, c->dst, c->count, c->height, c->pitch,
            c->value, c->width, c->blocks);
    done();
    return false;
}

bool ag_engine_copy(const struct ag_copy_call *c)
{
    const CUDA_MEMCPY3D *p = &c->params;
    CUdeviceptr dst =
        p->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->dstHost : p->dstDevice;
    CUdeviceptr src =
        p->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->srcHost : p->srcDevice;
    if (!begin())
        return false;
    if (p->dstMemoryType != CU_MEMORYTYPE_ARRAY)
        tell_memory(dst);
    if (p->srcMemoryType != CU_MEMORYTYPE_ARRAY)
        tell_memory(src);
    unsigned stream = stream_of(c->stream, c->ptsz);
    head("c");
    fprintf(out, " %u %d %llx %d %llx %zu %zu %zu %zu %zu %d", stream, (int)p->dstMemoryType, dst,
            (int)p->srcMemoryType, src, p->WidthInBytes, p->Height, p->Depth, p->dstPitch,
            p->srcPitch, c->blocks);
    done();
    return false;
}

enum ag_read ag_engine_read(const struct ag_read_call *c)
{
    if (!begin())
        return AG_READ_NOT;
    tell_memory(c->src);
    tell_memory((CUdeviceptr)c->dst);
    unsigned stream = stream_of(c->stream, c->ptsz);
    head("r");
    fprintf(out, " %u %llx %llx %zu %d", stream, (CUdeviceptr)c->dst, c->src, c->bytes, c->blocks);
    done();
    return AG_READ_RECORDED;
}

void ag_engine_read_eager(const struct ag_read_call *c)
{
    (void)c;
}

bool ag_engine_event(const struct ag_event_call *c)
{
    if (!begin())
        return false;
    unsigned e = event_of(c->event), stream = stream_of(c->stream, c->ptsz);
    head(c->wait ? "w" : "e");
    fprintf(out, " %u %u", stream, e);
    done();
    return false;
}

bool ag_engine_value(const struct ag_value_call *c)
{
    if (!begin())
        return false;
    tell_memory(c->address);
    unsigned stream = stream_of(c->stream, c->ptsz);
    head("v");
    fprintf(out, " %u %d %llx %llx %u", stream, (int)c->operation, c->address,
            (unsigned long long)c->value, c->flags);
    done();
    return false;
}

bool ag_engine_free(CUdeviceptr address, CUstream stream, bool ptsz)
{
    if (!begin())
        return false;
    unsigned s = stream_of(stream, ptsz);
    head("f");
    fprintf(out, " %u %llx", s, address);
    done();
    return false;
}

void ag_engine_allocates(CUstream stream, bool ptsz)
{
    plain("a", stream, ptsz);
}

void ag_engine_allocated(CUstream stream, bool ptsz)
{
    (void)stream, (void)ptsz;
    over(CUDA_SUCCESS);
}

void ag_engine_frees(CUstream stream, bool ptsz)
{
    (void)stream, (void)ptsz;
}

/* -- Barriers ------------------------------------------------------------------------- */

static const char *const reasons[] = {
#define AG_REASON(id, word, help) word,
#include "observe/reasons.def"
};

static bool called(const char *name)
{
    return ag_cause != NULL && strncmp(ag_cause, name, strlen(name)) == 0;
}

/* `number` 0: the barrier names nothing. */
static void barrier(const char *who, enum ag_reason reason, unsigned number)
{
    head("b");
    fprintf(out, " %s %s %s", who, reasons[reason], ag_cause != NULL ? ag_cause : "?");
    if (number != 0)
        fprintf(out, " %u", number);
    done();
}

void ag_engine_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason)
{
    if (called("cuGraphLaunch")) /* another line tells of it */
        return;
    if (called("cuLaunchHostFunc") || called("cuStreamAddCallback"))
        plain("h", stream, ptsz);
    else if (begin())
        barrier("stream", reason, stream_of(stream, ptsz));
}

void ag_engine_barrier_attach(CUstream stream, bool ptsz)
{
    if (begin())
        barrier("attach", AG_REASON_STREAM_BARRIER, stream_of(stream, ptsz));
}

void ag_engine_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason)
{
    if (begin())
        barrier("wait", reason, stream_of(stream, ptsz));
}

void ag_engine_stream_waits(CUstream stream, bool ptsz, struct ag_wait_call *wait)
{
    (void)wait;
    plain("s", stream, ptsz);
}

void ag_engine_stream_waited(const struct ag_wait_call *wait, CUresult result)
{
    (void)wait, (void)result;
}

void ag_engine_barrier_copy(bool ptsz, enum ag_reason reason)
{
    if (begin())
        barrier("copy", reason, stream_of(NULL, ptsz));
}

void ag_engine_barrier_all(enum ag_reason reason)
{
    if (called("cuGraphLaunch") || !begin())
        return;
    if (called("cuCtxSynchronize")) {
        head("x");
        done();
    } else {
        barrier("all", reason, 0);
    }
}

void ag_engine_barrier_most(enum ag_reason reason)
{
    if (begin())
        barrier("most", reason, 0);
}

void ag_engine_barrier_event(CUevent event, enum ag_reason reason)
{
    if (called("cuEventSynchronize"))
        of_event("y", event);
    else if (begin())
        barrier("event", reason, event_of(event));
}

bool ag_engine_asks_event(CUevent event)
{
    of_event("Q", event);
    return false;
}

bool ag_engine_asks_stream(CUstream stream, bool ptsz)
{
    plain("q", stream, ptsz);
    return false;
}

void ag_engine_barrier_load(CUfunction func)
{
    bool fresh;
    if (!begin())
        return;
    struct name *name = name_of('F', func, (uintptr_t)current(), &fresh);
    if (fresh)
        learn(name->number, func);
    barrier("load", AG_REASON_BARRIER, name->number);
}

/* The call is recorded by its barrier. */
void ag_engine_stream_works(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
}

void ag_engine_stream_used(CUstream stream, bool ptsz)
{
    plain("g", stream, ptsz);
}

void ag_note_return(CUresult result)
{
    over(result);
}

void ag_note_barrier(const char *name, uint64_t began)
{
    ag_cause = name;
    if (began != 0)
        over(CUDA_SUCCESS);
}

/* -- Life ------------------------------------------------------------------------------- */

void ag_engine_event_created(CUevent event, unsigned flags)
{
    bool fresh;
    pthread_mutex_lock(&lock);
    if (out != NULL && lines <= MOST_LINES) {
        forget('E', event, 0);
        fprintf(out, "event %u %d\n", name_of('E', event, 0, &fresh)->number,
                (flags & CU_EVENT_DISABLE_TIMING) == 0);
    }
    pthread_mutex_unlock(&lock);
}

void ag_note_read_call(const struct ag_read_call *call)
{
    (void)call;
}

void ag_engine_stream_created(CUstream stream, unsigned flags)
{
    (void)flags;
    plain("created", stream, false);
}

void ag_engine_stream_destroy(CUstream stream)
{
    plain("destroyed", stream, false);
    pthread_mutex_lock(&lock);
    forget('S', stream, 0);
    pthread_mutex_unlock(&lock);
}

bool ag_engine_event_destroy(CUevent event)
{
    of_event("gone", event);
    pthread_mutex_lock(&lock);
    forget('E', event, 0);
    pthread_mutex_unlock(&lock);
    return false;
}

static void capture(CUstream stream, bool ptsz, int begins)
{
    if (!begin())
        return;
    unsigned s = stream_of(stream, ptsz);
    head("capture");
    fprintf(out, " %u %d", s, begins);
    done();
}

void ag_engine_capture_begun(CUstream stream, bool ptsz)
{
    atomic_fetch_add(&ag_hold_bans, 1); /* the driver must not be asked */
    capture(stream, ptsz, 1);
}

void ag_engine_capture_ended(CUstream stream, bool ptsz)
{
    atomic_fetch_sub(&ag_hold_bans, 1);
    capture(stream, ptsz, 0);
}

bool ag_engine_setter_begins(struct ag_setter *setter)
{
    int value = 0;
    bool repeats = setter->attribute != AG_SETTING_CACHE &&
                   ag_real.cuFuncGetAttribute(&value, (CUfunction_attribute)setter->attribute,
                                              setter->handle) == CUDA_SUCCESS &&
                   value == setter->value;
    if (!repeats && begin())
        barrier("setter", AG_REASON_BARRIER, 0);
    return false; /* the door makes the call, and says no more */
}

CUcontext ag_engine_ask_current(void)
{
    ag_current.changes = ag_changes;
    ag_current.context = current();
    return ag_current.context;
}

/* -- What says nothing -------------------------------------------------------------------- */

bool ag_engine_follows_default(bool ptsz)
{
    return (void)ptsz, true;
}
bool ag_engine_stream_rests(CUstream stream)
{
    return (void)stream, false;
}
bool ag_engine_passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid)
{
    return (void)stream, (void)ptsz, (void)kind, (void)func, (void)grid, false;
}
CUresult ag_engine_refusal(void)
{
    return CUDA_SUCCESS;
}
uint64_t ag_engine_issued(CUstream stream, bool ptsz)
{
    return (void)stream, (void)ptsz, 0;
}
unsigned ag_engine_orphans(CUcontext context)
{
    return (void)context, 0;
}
bool ag_engine_is_named(CUmodule module, const char *name)
{
    return (void)module, (void)name, false;
}
bool ag_engine_limit_repeats(CUlimit limit, size_t value)
{
    return (void)limit, (void)value, false;
}
const char *ag_engine_stopped(void)
{
    return NULL;
}
uint64_t ag_tracefile_clock(void)
{
    return now();
}
void ag_engine_failed(void) {}
void ag_engine_waited(void) {}
void ag_engine_orphans_done(CUcontext context, unsigned left)
{
    (void)context, (void)left;
}
void ag_engine_waited_for(CUstream stream, bool ptsz, uint64_t issued)
{
    (void)stream, (void)ptsz, (void)issued;
}
void ag_engine_launch_unseen(void) {}
void ag_engine_capture_prepare(CUstream stream, bool ptsz)
{
    (void)stream, (void)ptsz;
}
void ag_engine_capture_refused(void) {}
void ag_engine_event_shared(CUevent event)
{
    (void)event;
}
void ag_engine_event_failed(CUevent event)
{
    (void)event;
}
void ag_engine_context_green(CUcontext context)
{
    (void)context;
}
void ag_engine_stream_attributes(CUstream stream, bool ptsz)
{
    (void)stream, (void)ptsz;
}
void ag_engine_context_begins(void) {}
void ag_engine_device(CUdevice device)
{
    (void)device;
}
void ag_engine_context_destroy(CUcontext context)
{
    (void)context;
}
void ag_engine_device_reset(CUdevice device)
{
    (void)device;
}
void ag_engine_code_gone(CUmodule module, CUlibrary library)
{
    (void)module, (void)library;
}
void ag_engine_setter_ends(struct ag_setter *setter, CUresult result)
{
    (void)setter, (void)result;
}
void ag_engine_named(CUmodule module, const char *name, const CUfunction *func)
{
    (void)module, (void)name, (void)func;
}
void ag_engine_stack_begins(void) {}
void ag_engine_stack_ends(bool changed)
{
    (void)changed;
}
void ag_engine_program_execs(int change)
{
    (void)change;
}
void ag_engine_flags_told(unsigned *flags)
{
    (void)flags;
}
void ag_engine_flags_set(void) {}
void ag_note_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes)
{
    (void)alloc, (void)kind, (void)address, (void)bytes;
}
void ag_config_load(void (*complain)(const char *mistake))
{
    (void)complain;
}
const char *ag_config_off(void)
{
    return NULL;
}
enum ag_log_level ag_verbose_level(void)
{
    return AG_LOG_WARNING;
}
bool ag_engine_refused(void)
{
    return false;
}
void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level, (void)format;
}
void ag_watch_start(void) {}
void ag_watch_stop(void) {}
void ag_watch_child(void) {}
void ag_range_before_fork(void) {}
void ag_range_behind_fork(void) {}

/* -- Process -------------------------------------------------------------------------------- */

void ag_engine_start(void)
{
    const char *file = getenv("POLICY_RECORD");
    out = file != NULL ? fopen(file, "we") : NULL;
    if (out == NULL)
        return;
    setvbuf(out, NULL, _IOFBF, 1 << 20);
    ag_subscribers = 1; /* doors tell of all barriers */
    ag_engine_on = true;
}

void ag_engine_leave(void)
{
    ag_engine_on = false;
    pthread_mutex_lock(&lock);
    if (out != NULL)
        fclose(out);
    out = NULL;
    pthread_mutex_unlock(&lock);
}

void ag_engine_stop(const char *why)
{
    (void)why;
    ag_engine_leave();
}

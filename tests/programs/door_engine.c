/* SPDX-License-Identifier: MIT */
/*
 * An engine that writes down what the doors ask of it, and the few things beside it that the doors
 * need: linked with the doors into a library for tests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "graph/setting.h"
#include "observe/range.h"
#include "observe/log.h"
#include "observe/verbose.h"

#define EXPORT __attribute__((visibility("default")))

_Atomic bool ag_tracefile_on; /* there is no trace here */
struct ag_options ag_opt = {.general_enable = true};

/* What has been asked since the program last looked. */
EXPORT char door_events[4096];
EXPORT bool door_accept;

EXPORT void door_want(int traces)
{
    ag_wanted_traces = (unsigned)traces;
}

EXPORT void door_hold_events(int streams)
{
    ag_event_streams = (unsigned)streams;
}

EXPORT void door_hold(int streams)
{
    ag_subscribers = (unsigned)streams;
}

EXPORT void door_subscribe(int streams)
{
    ag_next_subscribers = (unsigned)streams;
}

EXPORT void door_go(int streams)
{
    ag_streams_go = streams != 0;
}

/* Leaves nothing in the registers that carry floating-point arguments. */
static void scramble(void)
{
#ifdef __x86_64__
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\t"
                     "pcmpeqd %%xmm2, %%xmm2\n\tpcmpeqd %%xmm3, %%xmm3\n\t"
                     "pcmpeqd %%xmm4, %%xmm4\n\tpcmpeqd %%xmm5, %%xmm5\n\t"
                     "pcmpeqd %%xmm6, %%xmm6\n\tpcmpeqd %%xmm7, %%xmm7" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
#else
    __asm__ volatile("movi v0.16b, #255\n\tmovi v1.16b, #255\n\tmovi v2.16b, #255\n\t"
                     "movi v3.16b, #255\n\tmovi v4.16b, #255\n\tmovi v5.16b, #255\n\t"
                     "movi v6.16b, #255\n\tmovi v7.16b, #255" ::
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
#endif
}

#define NOTE(...)                                                                                  \
    do {                                                                                           \
        scramble();                                                                                \
        size_t used = strlen(door_events);                                                         \
        snprintf(door_events + used, sizeof door_events - used, __VA_ARGS__);                      \
    } while (0)

static const char *const reasons[] = {
#define AG_REASON(id, word, help) word,
#include "observe/reasons.def"
};

CUcontext ag_engine_ask_current(void)
{
    ag_current.changes = ag_changes;
    if (ag_real.cuCtxGetCurrent(&ag_current.context) != CUDA_SUCCESS)
        ag_current.context = NULL;
    return ag_current.context;
}

bool ag_engine_refused(void)
{
    return false;
}

bool ag_engine_kernel(const struct ag_kernel_call *c)
{
    const struct ag_shape *s = &c->shape;
    NOTE("kernel(%u %u %u, %u %u %u, %u, %p, %p %d, %p, %p, %u%s) ", s->grid[0], s->grid[1],
         s->grid[2], s->block[0], s->block[1], s->block[2], s->shared, (void *)c->func,
         (void *)c->stream, c->ptsz, (void *)c->params, (void *)c->extra, s->nattrs,
         s->nattrs && c->attrs->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? " cooperative" : "");
    return door_accept;
}

bool ag_engine_follows_default(bool ptsz)
{
    (void)ptsz;
    return true;
}

bool ag_engine_memset(const struct ag_memset_call *c)
{
    NOTE("memset(%#llx, %zux%zu, %zu, %#x, %u, %p %d) ", c->dst, c->count, c->height, c->pitch,
         c->value, c->width, (void *)c->stream, c->ptsz);
    return door_accept;
}

bool ag_engine_copy(const struct ag_copy_call *c)
{
    const CUDA_MEMCPY3D *p = &c->params;
    NOTE("copy(%d %#llx, %d %#llx, %zux%zux%zu, %p %d) ", p->dstMemoryType, p->dstDevice,
         p->srcMemoryType, p->srcDevice, p->WidthInBytes, p->Height, p->Depth, (void *)c->stream,
         c->ptsz);
    return door_accept;
}

enum ag_read ag_engine_read(const struct ag_read_call *c)
{
    NOTE("read(%p, %#llx, %zu, %p %d%s) ", c->dst, c->src, c->bytes, (void *)c->stream, c->ptsz,
         c->blocks ? " blocks" : "");
    return door_accept ? AG_READ_DONE : AG_READ_NOT;
}

void ag_engine_read_eager(const struct ag_read_call *c)
{
    NOTE("read_eager(%zu) ", c->bytes);
}

bool ag_engine_event(const struct ag_event_call *c)
{
    NOTE("%s(%p, %p %d) ", c->wait ? "wait_event" : "record", (void *)c->event, (void *)c->stream,
         c->ptsz);
    return door_accept;
}

bool ag_engine_value(const struct ag_value_call *c)
{
    NOTE("value(%d, %#llx, %#llx, %u, %p %d) ", c->operation, c->address,
         (unsigned long long)c->value, c->flags, (void *)c->stream, c->ptsz);
    return door_accept;
}

bool ag_engine_free(CUdeviceptr address, CUstream stream, bool ptsz)
{
    NOTE("free(%#llx, %p %d) ", address, (void *)stream, ptsz);
    return door_accept;
}

void ag_engine_frees(CUstream stream, bool ptsz)
{
    NOTE("frees(%p %d) ", (void *)stream, ptsz);
}

void ag_engine_allocates(CUstream stream, bool ptsz)
{
    NOTE("allocates(%p %d) ", (void *)stream, ptsz);
}

void ag_engine_allocated(CUstream stream, bool ptsz)
{
    NOTE("allocated(%p %d) ", (void *)stream, ptsz);
}

void ag_engine_capture_refused(void)
{
    NOTE("capture_refused ");
}

void ag_engine_event_created(CUevent event, unsigned flags)
{
    NOTE("event_created(%p %u) ", (void *)event, flags);
}

bool ag_engine_event_destroy(CUevent event)
{
    NOTE("event_destroy(%p) ", (void *)event);
    return false;
}

void ag_engine_event_shared(CUevent event)
{
    NOTE("event_shared(%p) ", (void *)event);
}

void ag_engine_event_failed(CUevent event)
{
    NOTE("event_failed(%p) ", (void *)event);
}

void ag_engine_context_green(CUcontext ctx)
{
    NOTE("context_green(%p) ", (void *)ctx);
}

void ag_engine_waited(void)
{
    NOTE("waited ");
}

uint64_t ag_engine_issued(CUstream stream, bool ptsz)
{
    NOTE("issued(%p) ", (void *)stream);
    return 7;
}

void ag_engine_waited_for(CUstream stream, bool ptsz, uint64_t issued)
{
    NOTE("waited_for(%p, %llu) ", (void *)stream, (unsigned long long)issued);
}

void ag_engine_launch_unseen(void)
{
    NOTE("launch_unseen() ");
}

void ag_engine_stream_used(CUstream stream, bool ptsz)
{
    NOTE("stream_used(%p, %d) ", (void *)stream, ptsz);
}

/* Not told: it comes before each call that puts work into a stream. */
void ag_engine_stream_works(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
}

bool ag_engine_stream_rests(CUstream stream)
{
    (void)stream;
    return false;
}

bool ag_engine_passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid)
{
    (void)stream;
    (void)ptsz;
    (void)kind;
    (void)func;
    (void)grid;
    return false;
}

CUresult ag_engine_refusal(void)
{
    return CUDA_SUCCESS;
}

void ag_engine_failed(void)
{
    NOTE("failed ");
}

void ag_engine_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason)
{
    NOTE("stream(%p, %d, %s) ", (void *)stream, ptsz, reasons[reason]);
}

void ag_engine_barrier_attach(CUstream stream, bool ptsz)
{
    NOTE("attach(%p, %d) ", (void *)stream, ptsz);
}

void ag_engine_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason)
{
    NOTE("wait(%p, %d, %s) ", (void *)stream, ptsz, reasons[reason]);
}

void ag_engine_stream_waits(CUstream stream, bool ptsz, struct ag_wait_call *wait)
{
    wait->number = 1;
    ag_engine_barrier_wait(stream, ptsz, AG_REASON_HOST_WAIT);
}

void ag_engine_stream_waited(const struct ag_wait_call *wait, CUresult result)
{
    NOTE("waited(%d) ", wait->number == 1 && result == CUDA_SUCCESS);
}

void ag_engine_barrier_copy(bool ptsz, enum ag_reason reason)
{
    NOTE("copy(%d, %s) ", ptsz, reasons[reason]);
}

void ag_engine_barrier_all(enum ag_reason reason)
{
    NOTE("all(%s) ", reasons[reason]);
}

void ag_engine_barrier_most(enum ag_reason reason)
{
    NOTE("most(%s) ", reasons[reason]);
}

void ag_engine_barrier_event(CUevent event, enum ag_reason reason)
{
    NOTE("event(%p, %s) ", (void *)event, reasons[reason]);
}

bool ag_engine_asks_event(CUevent event)
{
    NOTE("asks_event(%p) ", (void *)event);
    return false;
}

bool ag_engine_asks_stream(CUstream stream, bool ptsz)
{
    NOTE("asks_stream(%p, %d) ", (void *)stream, ptsz);
    return false;
}

void ag_engine_barrier_load(CUfunction func)
{
    NOTE("load(%p) ", (void *)func);
}

void ag_engine_stream_created(CUstream stream, unsigned flags)
{
    NOTE("stream_created(%p, %u) ", (void *)stream, flags);
}

void ag_engine_stream_destroy(CUstream stream)
{
    NOTE("stream_destroy(%p) ", (void *)stream);
}

void ag_engine_stream_attributes(CUstream stream, bool ptsz)
{
    NOTE("stream_attributes(%p, %d) ", (void *)stream, ptsz);
}

void ag_engine_capture_prepare(CUstream stream, bool ptsz)
{
    NOTE("capture_prepare(%p, %d) ", (void *)stream, ptsz);
}

void ag_engine_capture_begun(CUstream stream, bool ptsz)
{
    NOTE("capture_begun(%p, %d) ", (void *)stream, ptsz);
}

void ag_engine_capture_ended(CUstream stream, bool ptsz)
{
    NOTE("capture_ended(%p, %d) ", (void *)stream, ptsz);
}

void ag_engine_context_begins(void) {}
void ag_engine_device(CUdevice device)
{
    (void)device;
}

void ag_engine_context_destroy(CUcontext ctx)
{
    NOTE("context_destroy(%p) ", (void *)ctx);
}

void ag_engine_device_reset(CUdevice device)
{
    NOTE("device_reset(%d) ", device);
}

void ag_engine_code_gone(CUmodule module, CUlibrary library)
{
    NOTE("gone(%p, %p) ", (void *)module, (void *)library);
}

/* Like the engine's: what is set again changes nothing. */
bool ag_engine_setter_begins(struct ag_setter *setter)
{
    int now = 0;
    NOTE("sets(%p%s, %d, %d) ", (void *)setter->handle, setter->kernel ? " kernel" : "",
         setter->attribute, setter->value);
    return setter->attribute == AG_SETTING_CACHE || !ag_real.cuFuncGetAttribute ||
           ag_real.cuFuncGetAttribute(&now, (CUfunction_attribute)setter->attribute,
                                      setter->handle) != CUDA_SUCCESS ||
           now != setter->value;
}

void ag_engine_setter_ends(struct ag_setter *setter, CUresult result)
{
    (void)setter;
    NOTE("set(%d) ", (int)result);
}

bool ag_engine_is_named(CUmodule module, const char *name)
{
    (void)name;
    return (uintptr_t)module == 3;
}

void ag_engine_named(CUmodule module, const char *name, const CUfunction *func)
{
    (void)name;
    NOTE("named(%p, %p) ", (void *)module, (const void *)func);
}

bool ag_engine_limit_repeats(CUlimit limit, size_t value)
{
    return (size_t)limit == value;
}

void ag_engine_stack_begins(void)
{
    NOTE("stack ");
}

void ag_engine_stack_ends(bool changed)
{
    NOTE("stack(%d) ", (int)changed);
}

void ag_engine_program_made_exec(void)
{
    NOTE("made_exec ");
}

void ag_engine_program_destroyed_exec(void)
{
    NOTE("destroyed_exec ");
}

void ag_engine_flags_told(unsigned *flags)
{
    NOTE("flags(%d) ", flags != NULL);
}

void ag_engine_flags_set(void)
{
    NOTE("flags ");
}

static const char *stopped;

void ag_engine_start(void)
{
    ag_engine_on = stopped == NULL;
}

const char *ag_engine_stopped(void)
{
    return stopped;
}

void ag_engine_stop(const char *why)
{
    if (!stopped)
        stopped = why;
    if (ag_engine_on)
        NOTE("stop ");
    ag_engine_on = false;
}

void ag_engine_leave(void)
{
    NOTE("leave ");
    ag_engine_on = false;
}

void ag_config_load(void (*complain)(const char *mistake))
{
    (void)complain;
    const char *slow = getenv("DOOR_SLOW"); /* us */
    if (slow)
        usleep((useconds_t)atoi(slow));
    errno = ENOENT; /* as after a look for files */
}

const char *ag_config_off(void)
{
    return ag_opt.general_enable ? NULL : "general.enable is false";
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

enum ag_log_level ag_verbose_level(void)
{
    return AG_LOG_NOTE;
}

/* -- Trace file: never on ------------------------------------------------- */

void ag_watch_start(void) {}

void ag_watch_stop(void) {}

void ag_watch_child(void) {}

void ag_range_before_fork(void) {}

void ag_range_behind_fork(void) {}

uint64_t ag_tracefile_clock(void)
{
    return 0;
}

void ag_note_return(CUresult result)
{
    (void)result;
}

void ag_note_barrier(const char *name, uint64_t began)
{
    (void)name;
    (void)began;
}

void ag_note_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes)
{
    (void)alloc;
    (void)kind;
    (void)address;
    (void)bytes;
}

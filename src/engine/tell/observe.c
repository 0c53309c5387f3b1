/* SPDX-License-Identifier: MIT */
/* Records of ops for the trace file. */
#include "engine/tell/observe.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "engine/hot.h"
#include "engine/stream/eager.h"
#include "graph/function.h"
#include "graph/node.h"
#include "observe/definitions.h"

/* -- Functions ---------------------------------------------------------------- */

/* A function as the trace file has it. Kept until the process ends: threads remember pointers. */
struct known {
    struct known *next;
    CUfunction handle;
    uint32_t number;
    uint32_t generation;
    struct ag_function *function; /* layout.count 0 and size 0: the parameters are not known */
};

enum {
    BUCKETS = 1024,     /* of the table of functions */
    REMEMBERED = 64,    /* functions that are found without the table's lock */
    MOST_KNOWN = 65536, /* functions that have a number in the trace file */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct known *table[BUCKETS];
static uint32_t known_count;
static _Atomic uint32_t generation;

/* By any thread; what is known of a function stays as it is. */
static const struct known *_Atomic remembered[REMEMBERED];

static uint64_t mix(CUfunction handle)
{
    return ((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u;
}

void ag_note_functions_changed(void)
{
    atomic_fetch_add(&generation, 1);
}

/* The lock is held. */
static void define(const struct known *known, const char *name)
{
    static uint32_t body[4 + 2 * 4096]; /* more than some threads have of stack */
    const struct ag_layout *layout = &known->function->layout;
    memcpy(body, &known->handle, 8);
    body[2] = layout->count;
    body[3] = layout->size;
    for (uint32_t i = 0; i < layout->count; i++) {
        body[4 + 2 * i] = layout->field[i].offset;
        body[5 + 2 * i] = layout->field[i].size;
    }
    ag_define(AG_RECORD_FUNCTION, layout->size != 0, known->number, body, 16 + 8 * layout->count,
              name != NULL ? name : "");
}

/*
 * Asks the driver for the name of a function that is new. While the program captures, nothing is
 * asked; nor of a function that the engine does not know, which the question might load.
 */
static struct known *ask(CUfunction handle)
{
    if (atomic_load(&ag_hold_bans) > atomic_load(&ag_pauses))
        return NULL;
    struct ag_function *function = ag_function_copy(handle, ag_context_current());
    struct known *known = function != NULL ? malloc(sizeof *known) : NULL;
    if (known == NULL) {
        free(function);
        return NULL;
    }
    const char *name = NULL;
    if (ag_real.cuFuncGetName == NULL ||
        ag_real.cuFuncGetName(&name, function->func) != CUDA_SUCCESS)
        name = NULL;
    known->handle = handle;
    known->function = function;
    pthread_mutex_lock(&lock);
    known->generation = generation;
    known->number = known_count < MOST_KNOWN ? ++known_count : 0;
    if (known->number != 0) {
        define(known, name);
        known->next = table[mix(handle) >> 54];
        table[mix(handle) >> 54] = known;
    }
    pthread_mutex_unlock(&lock);
    if (known->number == 0) {
        free(function);
        free(known);
        return NULL;
    }
    return known;
}

static const struct known *function_of(CUfunction handle)
{
    const struct known *_Atomic *place = &remembered[mix(handle) >> 58];
    const struct known *known = atomic_load_explicit(place, memory_order_acquire);
    uint32_t now = atomic_load_explicit(&generation, memory_order_relaxed);
    if (__builtin_expect(known != NULL && known->handle == handle && known->generation == now, 1))
        return known;
    pthread_mutex_lock(&lock);
    known = table[mix(handle) >> 54];
    while (known != NULL && !(known->handle == handle && known->generation == now))
        known = known->next;
    pthread_mutex_unlock(&lock);
    if (known == NULL)
        known = ask(handle);
    if (known != NULL)
        atomic_store_explicit(place, known, memory_order_release);
    return known;
}

/* -- Ops ----------------------------------------------------------------------- */

/* The op that this thread was told of last, for RETURN. */
static _Thread_local struct {
    uint32_t stream;
    uint64_t sequence;
    const struct ag_read_call *read; /* the call that it belongs to, which goes on; NULL: no read */
    const struct ag_stream *of;      /* has the reason why the op is not held; NULL: `why` has */
    enum ag_why why;
} last __attribute__((tls_model("initial-exec")));

enum { OP_WORDS = 3, SHAPE_WORDS = 4 };

#define NO_OP UINT64_MAX /* the thread's last call is a barrier in the trace file */

uint64_t ag_note_number(const struct ag_stream *stream)
{
    return stream->counters.ops - stream->id.ops_before;
}

void ag_note_uncounted(struct ag_stream *stream, int ops)
{
    stream->id.ops_before -= (uint64_t)ops;
}

/* An op of `size` bytes of arguments, of which `stored` will be in the record. */
static struct ag_record *op_begin(const struct ag_stream *stream, unsigned kind, uint32_t function,
                                  size_t words, size_t size)
{
    last.read = NULL;
    last.of = stream;
    last.why = AG_WHY_STATELESS;
    last.stream = stream != NULL ? stream->id.number : 0;
    last.sequence = stream != NULL ? ag_note_number(stream) + 1 : 0;
    struct ag_record *record = ag_record_begin(AG_RECORD_OP, kind, last.stream, 0, words);
    if (record != NULL) {
        record->word[0] = last.sequence;
        record->word[1] = (uint64_t)size << 32 | function;
        record->word[2] = 0;
    }
    return record;
}

static inline uint64_t hash_word(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 32;
}

static uint64_t hash(uint64_t sum, const void *data, size_t size)
{
    const unsigned char *from = data;
    uint64_t word = 0;
    for (; size >= 8; size -= 8, from += 8) {
        memcpy(&word, from, 8);
        sum = hash_word(sum, word);
    }
    if (size == 0)
        return sum;
    word = 0;
    memcpy(&word, from, size);
    return hash_word(sum, word);
}

/* The buffer of a launch's `extra`, which has all parameters at their offsets. */
static const unsigned char *extra_buffer(void **extra, size_t *size)
{
    const unsigned char *buffer = NULL;
    *size = 0;
    for (; extra != NULL && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *size = *(const size_t *)extra[1];
        else
            return NULL;
    }
    return buffer;
}

/* Stores the parameters at their offsets, as far as there is room; returns their hash. */
static uint64_t store_params(unsigned char *to, size_t room, const struct ag_layout *layout,
                             void *const *params)
{
    uint64_t sum = 0;
    memset(to, 0, room);
    for (uint32_t i = 0; i < layout->count; i++) {
        size_t offset = layout->field[i].offset, size = layout->field[i].size;
        uint64_t word = 0;
        if (size == 8 && offset + 8 <= room) {
            memcpy(&word, params[i], 8);
            memcpy(to + offset, &word, 8);
            sum = hash_word(sum, word);
        } else if (size == 4 && offset + 4 <= room) {
            memcpy(&word, params[i], 4);
            memcpy(to + offset, &word, 4);
            sum = hash_word(sum, word);
        } else {
            sum = hash(sum, params[i], size);
            if (offset < room)
                memcpy(to + offset, params[i], size < room - offset ? size : room - offset);
        }
    }
    return sum;
}

void ag_note_kernel(const struct ag_stream *stream, const struct ag_kernel_call *call)
{
    static const struct ag_layout nothing;
    const struct known *known = function_of(call->func);
    const struct ag_layout *layout = known != NULL ? &known->function->layout : &nothing;
    size_t size = layout->size, given = 0;
    const unsigned char *buffer = NULL;
    if (call->params == NULL && size != 0) {
        buffer = extra_buffer(call->extra, &given);
        if (buffer == NULL || given < size)
            size = 0;
    }
    size_t room = (size < AG_RECORD_ARGUMENTS ? size : AG_RECORD_ARGUMENTS) + 7;
    room &= ~(size_t)7;
    struct ag_record *record = op_begin(stream, AG_OP_KERNEL, known != NULL ? known->number : 0,
                                        OP_WORDS + SHAPE_WORDS + room / 8, size);
    if (record == NULL)
        return;
    unsigned char *to = (unsigned char *)&record->word[OP_WORDS + SHAPE_WORDS];
    memcpy(&record->word[OP_WORDS], &call->shape, sizeof call->shape);
    if (size != 0 && buffer == NULL) {
        record->word[2] = store_params(to, room, layout, call->params);
    } else if (size != 0) {
        memset(to, 0, room);
        memcpy(to, buffer, size < room ? size : room);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < layout->count; i++)
            sum = hash(sum, buffer + layout->field[i].offset, layout->field[i].size);
        record->word[2] = sum;
    }
    ag_record_end(record);
}

void ag_note_words(const struct ag_stream *stream, enum ag_op_kind kind, const uint64_t *words,
                   size_t count)
{
    struct ag_record *record = op_begin(stream, kind, 0, OP_WORDS + count, count * 8);
    if (record == NULL)
        return;
    memcpy(&record->word[OP_WORDS], words, count * 8);
    record->word[2] = hash(0, words, count * 8);
    ag_record_end(record);
}

void ag_note_memset(const struct ag_stream *stream, const struct ag_memset_call *call)
{
    AG_NOTE_WORDS(stream, AG_OP_MEMSET, call->dst, call->count, call->height, call->pitch,
                  call->value, call->width);
}

static uint64_t place(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
                      const size_t *from, size_t pitch, size_t height)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return (uintptr_t)array;
    return (type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device) + from[0] +
           (from[1] + from[2] * height) * pitch;
}

void ag_note_copy(const struct ag_stream *stream, const struct ag_copy_call *call)
{
    const CUDA_MEMCPY3D *p = &call->params;
    const size_t dst[] = {p->dstXInBytes, p->dstY, p->dstZ};
    const size_t src[] = {p->srcXInBytes, p->srcY, p->srcZ};
    AG_NOTE_WORDS(stream, AG_OP_COPY,
                  place(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, dst, p->dstPitch,
                        p->dstHeight),
                  place(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, src, p->srcPitch,
                        p->srcHeight),
                  p->WidthInBytes, p->Height, p->Depth, p->dstPitch, p->srcPitch, p->dstMemoryType,
                  p->srcMemoryType);
}

void ag_note_no_op(void)
{
    ag_observe_barrier(ag_cause, 0);
    last.sequence = NO_OP;
}

void ag_note_read(const struct ag_stream *stream, const struct ag_read_call *call)
{
    if (stream == NULL) {
        ag_note_no_op();
        return;
    }
    AG_NOTE_WORDS(stream, AG_OP_COPY, (uintptr_t)call->dst, call->src, call->bytes, 1, 1, 0, 0,
                  CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
    last.read = call;
}

void ag_note_why(enum ag_why why)
{
    last.of = NULL;
    last.why = why;
}

void ag_note_read_begins(void)
{
    last.read = NULL;
}

bool ag_note_has_read(const struct ag_read_call *call)
{
    return last.read == call;
}

void ag_note_event(const struct ag_stream *stream, const struct ag_event_call *call)
{
    AG_NOTE_WORDS(stream, call->wait ? AG_OP_WAIT : AG_OP_RECORD, (uintptr_t)call->event);
}

void ag_observe_return(CUresult result)
{
    last.read = NULL;
    if (last.sequence == NO_OP)
        return;
    enum ag_why why = last.of != NULL ? ag_eager_why(last.of) : last.why;
    struct ag_record *record = ag_record_begin(AG_RECORD_RETURN, why, last.stream, 0, 2);
    if (record == NULL)
        return;
    record->word[0] = last.sequence;
    record->word[1] = result;
    ag_record_end(record);
}

/* -- Streams and traces ------------------------------------------------------------ */

void ag_note_stream(const struct ag_stream *stream)
{
    const uint64_t body[] = {(uintptr_t)stream->id.handle, (uintptr_t)stream->id.context->ctx};
    ag_define(AG_RECORD_STREAM, stream->id.kind, stream->id.number, body, sizeof body, NULL);
}

void ag_note_trace(const struct ag_stream *stream, const struct ag_trace *trace)
{
    uint32_t body[2 + 2 * AG_MOST_LENGTH] = {stream->id.number, trace->length};
    _Static_assert(sizeof body <= AG_RECORD_MOST, "the longest trace fits a record");
    const CUfunction fetch = atomic_load(&stream->id.context->fetch.func);
    for (uint32_t i = 0; i < trace->length; i++) {
        const struct ag_op *op = &trace->step[i].node->op;
        bool kernel = op->kind == AG_OP_KERNEL, reads = kernel && (CUfunction)op->func == fetch;
        const struct known *known = kernel && !reads ? function_of((CUfunction)op->func) : NULL;
        body[2 + 2 * i] = reads ? AG_OP_COPY : op->kind;
        body[3 + 2 * i] = known != NULL ? known->number : 0;
    }
    ag_define(AG_RECORD_TRACE, 0, trace->number, body, 8 + 8 * trace->length, NULL);
}

void ag_note_submit(struct ag_stream *stream, uint32_t replayed, enum ag_reason reason,
                    uint64_t began, uint64_t patches, uint32_t behind)
{
    uint32_t held = stream->seq.held - behind + stream->reading.flushed;
    stream->reading.flushed = false;
    behind += stream->reading.bytes != 0;
    struct ag_record *record =
        ag_record_begin(AG_RECORD_SUBMIT, reason, stream->id.number, began, 4);
    if (record == NULL)
        return;
    uint64_t trace = replayed != 0 ? stream->seq.path[replayed]->trace->number : 0;
    record->word[0] = ag_note_number(stream) - behind;
    record->word[1] = (uint64_t)replayed << 32 | held;
    record->word[2] = (stream->counters.patches - patches) << 32 | trace;
    record->word[3] = began != 0 ? ag_tracefile_now() - began : 0;
    ag_record_end(record);
}

/* -- Calls of the program -------------------------------------------------------------- */

void ag_observe_barrier(const char *name, uint64_t began)
{
    uint32_t string = ag_define_string(name);
    struct ag_record *record = ag_record_begin(AG_RECORD_BARRIER, 0, string, began, 1);
    if (record == NULL)
        return;
    record->word[0] = began != 0 ? ag_tracefile_now() - began : 0;
    ag_record_end(record);
}

void ag_observe_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes)
{
    struct ag_record *record =
        ag_record_begin(alloc ? AG_RECORD_ALLOC : AG_RECORD_FREE, kind, 0, 0, 2);
    if (record == NULL)
        return;
    record->word[0] = address;
    record->word[1] = bytes;
    ag_record_end(record);
}

/* SPDX-License-Identifier: MIT */
/* strict.c: finds calls of the library under test that may wait for the program's work.
 *
 * A program may need its thread, or the driver's lock, for that work to end. So a call of the
 * library's own (AGSIM_LIBRARY) is told if it may wait for work for which the program's own call
 * would not. It is told even if the work happens to end. Work is what the program has submitted and
 * is not done, in any stream. What the library enqueues for itself is none: records of its events
 * and waits for them, and uploads of graphs.
 *
 * AGSIM_STRICT=FILE gets a line for each place: its kind, the driver's function, the library's
 * frames, the thread, and the work. Frames are those from there up to the door, as offsets in the
 * library's file. Kinds:
 *
 * quiet: it waits for all running kernels with the driver locked. That is an exec more than a
 * context has memory for, a stream more than it gives freely, a module, or memory that is freed.
 * Where the environment sets no such number, it is that of an H200, and the call goes on. The
 * program's call is no excuse: other threads wait for the lock, too.
 *
 * load: it waits likewise, for a kernel that is loaded. The reader of the file knows which calls of
 * the program load it, too.
 *
 * wait: it waits for a stream or an event. The reader knows which calls of the program wait, too.
 *
 * room: it waits for room in a stream where the program's own calls would have found some. The
 * library has put more entries there than graphs have saved. Or a thread of the library's waits.
 *
 * extra: it waits for room for what the library enqueues for itself. The reader knows which calls
 * of the program may wait there.
 *
 * alone: it waits behind another thread's submission that waits for room.
 *
 * fetch: the kernel for read-backs needs room on the device, beside work of its context that may
 * have taken it. The device leaves its room to other contexts by turns.
 *
 * chain: an exec is launched behind its last launch, in a stream that does not come behind that.
 *
 * queues: a graph with branches is launched, and too few queues of the device are free. A path then
 * shares the queue of a stream, whose work may wait for the host.
 */
#include "sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { FRAMES = 64, PLACES = 256, WORDS = 640 };

/* Of an H200, driver 580: execs of any length that a context has memory for, and streams. */
enum { GRAPHS_FREE = 31, STREAMS_FREE = 39 };

bool strict_on;
static const char *file;
static uint64_t places[PLACES]; /* that have been told; under sim.lock */
static unsigned nplaces;

void strict_init(void)
{
    void *frame[1];
    file = sim_env("AGSIM_STRICT");
    if (!file || !sim_env("AGSIM_LIBRARY"))
        return;
    (void)backtrace(frame, 1); /* it loads a library the first time */
    strict_on = true;
    if (!sim.graphs_wait)
        sim.graph_free = GRAPHS_FREE;
    if (!sim.streams_wait)
        sim.streams_free = STREAMS_FREE;
}

/* -- What is left to do ------------------------------------------------------------ */

static bool has_work(const struct stream *s)
{
    return s->completed < s->program;
}

static bool legacy_orders(const struct stream *s, const struct stream *t)
{
    return s->ctx == t->ctx && ((s->kind == STREAM_LEGACY && stream_blocking(t)) ||
                                (t->kind == STREAM_LEGACY && stream_blocking(s)));
}

/* Whether what is behind that operation of the stream comes behind work of t, up to `goal`.
   `visit`: no stream is looked at twice up to one place. */
static bool follows(struct stream *s, uint64_t seq, const struct stream *t, uint64_t goal,
                    uint64_t visit)
{
    if (s == t)
        return seq >= goal;
    if (s->visit == visit && s->visited >= seq)
        return false;
    s->visit = visit;
    s->visited = seq;
    if (seq > s->submitted && legacy_orders(s, t))
        return true;
    for (const struct op *op = s->head; op && op->seq <= seq; op = op->next)
        for (unsigned i = 0; i < op->ndeps; i++) {
            const struct dep *d = &op->deps[i];
            if (follows(d->marker ? d->marker->stream : d->stream,
                        d->marker ? d->marker->seq : d->seq, t, goal, visit))
                return true;
        }
    return false;
}

static uint64_t visits;

/* Whether what the stream gets next comes behind all work of t. */
static bool is_behind(struct stream *s, const struct stream *t)
{
    return follows(s, UINT64_MAX, t, t->program, ++visits);
}

/* Whether that operation of the stream comes behind any work of t. */
static bool waits_for(struct stream *s, uint64_t seq, const struct stream *t)
{
    return follows(s, seq, t, t->completed + 1, ++visits);
}

static const char *const names[] = {"empty", "kernel", "memset", "copy", "host", "record",
                                    "wait",  "memop",  "alloc",  "free", "graph"};

static size_t tell_stream(char *text, size_t room, const struct stream *s)
{
    const struct work *w = s->head ? &s->head->work : NULL;
    bool kernel = w && w->kind == WORK_KERNEL;
    return (size_t)snprintf(text, room, " %c%u:%u:%s%s%.40s", "ULP"[s->kind], s -> number,
                            s -> depth, w ? names[w->kind] : "-", kernel ? "." : "",
                            kernel ? w->kernel.def->name : "");
}

/* For what the library may have to wait. BEHIND: what a stream is behind, up to an operation of it.
   BESIDE: what may run beside it. */
struct scope {
    enum { KERNELS, BEHIND, BESIDE } what;
    struct stream *stream;
    uint64_t seq;
};

/* A copy from or to the host is the copy engine's. */
static bool is_kernel(const struct work *w)
{
    return w->kind == WORK_KERNEL || w->kind == WORK_MEMSET || w->kind == WORK_GRAPH ||
           (w->kind == WORK_COPY && !w->copy.staging &&
            !range_is_host((uintptr_t)copy_row(&w->copy.src, 0, 0)) &&
            !range_is_host((uintptr_t)copy_row(&w->copy.dst, 0, 0)));
}

/* Whether something of the stream is to come that a kernel may do. */
static bool has_kernel(const struct stream *s)
{
    for (const struct op *op = s->head; op; op = op->next)
        if (is_kernel(&op->work))
            return true;
    return false;
}

static bool concerns(const struct scope *scope, struct stream *s)
{
    switch (scope->what) {
    case KERNELS:
        return has_kernel(s);
    case BEHIND: /* s has work up to there, or the stream waits for the first of it */
        return s == scope->stream ? s->completed < scope->seq
                                  : waits_for(scope->stream, scope->seq, s);
    default:
        return s->ctx == scope->stream->ctx && !is_behind(scope->stream, s);
    }
}

/* Writes the work that is left and concerns the call. Returns the length. */
static size_t tell_work(char *text, size_t room, const struct scope *scope)
{
    size_t n = 0;
    struct ctx *ctx = NULL;
    while ((ctx = obj_next(OBJ_CTX, ctx)))
        for (struct stream *s = ctx->streams; s && n + 160 < room; s = s->next_in_ctx)
            if (has_work(s) && concerns(scope, s))
                n += tell_stream(text + n, room - n, s);
    return n;
}

/* -- Where the call comes from -------------------------------------------------------- */

/* The library's frames, from the driver's function up to the program or to where a thread begins,
   as offsets. Returns the length; *place tells places apart. */
static size_t tell_frames(char *text, size_t room, uint64_t *place)
{
    void *frame[FRAMES];
    bool begun = false;
    size_t n = 0;
    int count = backtrace(frame, FRAMES);
    for (int i = 0; i < count && n + 24 < room; i++) {
        struct dl_find_object found;
        if (_dl_find_object(frame[i], &found) != 0)
            break;
        const char *name = found.dlfo_link_map->l_name;
        if (!*name)
            name = program_invocation_name;
        bool in_library = sim_is_library(name);
        if (begun && !in_library)
            break;
        if (!in_library)
            continue;
        begun = true;
        unsigned long at = (uintptr_t)frame[i] - found.dlfo_link_map->l_addr;
        *place = sim_hash(*place, &at, sizeof at);
        n += (size_t)snprintf(text + n, room - n, "%s%lx", n ? "," : "", at);
    }
    return n;
}

static bool is_new(uint64_t place)
{
    for (unsigned i = 0; i < nplaces; i++)
        if (places[i] == place)
            return false;
    if (nplaces == PLACES)
        return false;
    places[nplaces++] = place;
    return true;
}

static const char *thread_name(char name[static 17])
{
    (void)prctl(PR_GET_NAME, name);
    return name;
}

static void tell(const char *kind, const char *work)
{
    char text[2048], frames[WORDS] = "-", thread[17] = "";
    uint64_t place = sim_hash(0, kind, strlen(kind));
    (void)tell_frames(frames, sizeof frames, &place);
    if (!is_new(place))
        return;
    struct ctx *ctx = NULL;
    unsigned execs = ctx_current(&ctx) == CUDA_SUCCESS ? ctx->nexecs[0] + ctx->nexecs[1] : 0;
    int n = snprintf(
        text, sizeof text, "kind=%s call=%s frames=%s thread=%s execs=%u program=%s work=%s\n",
        kind, sim_tls.api, frames, thread_name(thread), execs, program_invocation_short_name, work);
    /* No descriptor is kept: the program may count its own. */
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (n >= (int)sizeof text)
        n = (int)sizeof text - 1;
    if (fd < 0 || write(fd, text, (size_t)n) != n || close(fd) != 0) {
        perror(file);
        _exit(99); /* the test must not pass */
    }
}

static bool listens(void)
{
    return strict_on && !atomic_load(&sim.forked) && !sim_tls.callback && sim_called_by_library();
}

static void tell_if_work(const char *kind, const struct scope *scope)
{
    char work[WORDS] = "";
    if (listens() && tell_work(work, sizeof work, scope))
        tell(kind, work);
}

/* -- Kinds ---------------------------------------------------------------------------- */

static const struct scope kernels = {.what = KERNELS};

void strict_quiet(void)
{
    tell_if_work("quiet", &kernels);
}

void strict_load(void)
{
    tell_if_work("load", &kernels);
}

void strict_wait(struct stream *s, uint64_t seq)
{
    tell_if_work("wait", &(struct scope){BEHIND, s, seq});
}

/* One of the library's threads is there for calls that wait behind a submission. */
void strict_alone(const struct ctx *ctx)
{
    char thread[17] = "";
    if (strict_on && ctx->in_room && strcmp(thread_name(thread), "ag-helper") != 0)
        tell_if_work("alone", &kernels);
}

/* If the library enqueues it. */
static bool is_own(const struct work *w)
{
    bool of_event = w->kind == WORK_RECORD || w->kind == WORK_WAIT;
    bool test = work_is_read_back(w) && read_back_bytes(w) == 0;
    return w->kind == WORK_EMPTY || (of_event && w->event.own) || test;
}

/* Entries of the stream that the program's own calls would not have taken. */
static long surplus(const struct stream *s)
{
    long n = 0;
    for (const struct op *op = s->head; op; op = op->next)
        n += op->surplus;
    return n;
}

/* CUDA promises no number of entries: an op that the program itself issues there may wait. */
void strict_room(const struct stream *s, const struct work *w)
{
    char thread[17] = "", text[WORDS];
    if (!listens())
        return;
    long n = surplus(s);
    snprintf(text, sizeof text, " %c%u:%u, %ld more than the program's", "ULP"[s->kind],
             s -> number, s -> depth, n);
    if (n > 0 || !strncmp(thread_name(thread), "ag-", 3))
        tell("room", text);
    else if (is_own(w))
        tell("extra", text);
}

/* Streams that are idle may get such work before the graph has ended. */
static void strict_queues(const struct stream *s, const struct shape *shape)
{
    char text[WORDS];
    unsigned lack = listens() ? branches_lack(shape, s) : 0;
    snprintf(text, sizeof text, " %u paths lack %u queues", shape->fewest, lack);
    if (lack)
        tell("queues", text);
}

/* A graph is launched, behind its last launch. */
void strict_launch(struct stream *s, const struct shape *shape, const struct dep *last)
{
    strict_queues(s, shape);
    if (last->stream && last->stream->completed < last->seq && !is_behind(s, last->stream))
        tell_if_work("chain", &(struct scope){.what = BESIDE, .stream = s});
}

/* -- What is enqueued -------------------------------------------------------------------- */

/* The library's kernel for read-backs, which first copies nothing, as a test. */
static bool reads_back(const struct work *w)
{
    if (w->kind != WORK_GRAPH)
        return work_is_read_back(w) && read_back_bytes(w) != 0;
    const struct plan *p = w->graph.plan;
    for (unsigned i = 0; i < p->shape->nnodes; i++)
        if (!p->nodes[i].disabled && work_is_read_back(&p->nodes[i].work))
            return true;
    return false;
}

/* For so long threads wait for a read-back (docs/semantics.md, "Known gaps"). */
#define PATIENCE_NS 20000000u

/* Work comes beside a read-back that is not done, and may take the room that this one needs. */
static void beside(struct stream *s, const struct work *w)
{
    const struct stream *reading = s->ctx->reading;
    bool patient = reading && machine_ns() - s->ctx->reading_since < PATIENCE_NS;
    if (patient && (w->kind == WORK_KERNEL || w->kind == WORK_GRAPH) && reading != s &&
        reading->completed < s->ctx->reading_seq && !is_behind(s, reading))
        tell("fetch", " comes later");
}

void strict_enqueued(struct op *op)
{
    struct stream *s = op->stream;
    const struct work *w = &op->work;
    bool own = is_own(w) && listens();
    if (w->kind != WORK_EMPTY && !own)
        s->program = op->seq;
    if (own)
        op->surplus = 1;
    else if (w->kind == WORK_GRAPH && listens())
        op->surplus = 1 - (int)w->graph.plan->shape->nnodes;
    if (!strict_on || atomic_load(&sim.forked))
        return;
    if (!own)
        beside(s, w);
    if (reads_back(w) && listens()) {
        tell_if_work("fetch", &(struct scope){.what = BESIDE, .stream = s});
        s->ctx->reading = s;
        s->ctx->reading_seq = op->seq;
        s->ctx->reading_since = machine_ns();
    }
}

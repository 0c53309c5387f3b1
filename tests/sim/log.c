/* SPDX-License-Identifier: MIT */
/* log.c: AGSIM_LOG=FILE, what the device executed, a line per operation at its
 * start. The order of a stream's lines is the order of its execution. Written
 * when the buffer is full, when a worker has nothing to do, and at exit.
 *
 * Fields: seq, ctx (device, or c and the context's number), stream (L: legacy,
 * P: per-thread, U: the program's, each with its number in order of creation),
 * op, name, grid, block, shared, priority, carveout, cache (the L1 cache's preference), stack
 * (bytes of a thread), modes (attributes of CUDA 12.8 and later: preferred cluster, NVLink, cluster
 * mode, shared memory mode; only if there is one), args (hash of argument bytes or of the
 * operation's own figures), via (eager or graph). */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static char buffer[1 << 16];
static size_t used;
static unsigned long seq;
static atomic_bool on;

void log_init(void)
{
    const char *path = sim_env("AGSIM_LOG");
    if (!path)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        perror(path);
        _exit(99); /* a test that compares logs must not pass without one */
    }
    atomic_store(&on, true);
}

bool log_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

static void flush(void)
{
    for (size_t done = 0; done < used;) {
        ssize_t n = write(fd, buffer + done, used - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    used = 0;
}

void log_flush(void)
{
    pthread_mutex_lock(&lock);
    flush();
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void finish(void)
{
    if (!log_on() || atomic_load(&sim.forked))
        return;
    log_flush();
}

static const char *const names[] = {
    [WORK_EMPTY] = "empty", [WORK_KERNEL] = "kernel", [WORK_MEMSET] = "memset",
    [WORK_COPY] = "copy",   [WORK_HOST] = "host",     [WORK_RECORD] = "record",
    [WORK_WAIT] = "wait",   [WORK_MEM_OP] = "memop",  [WORK_ALLOC] = "alloc",
    [WORK_FREE] = "free",
};

void log_op(struct stream *s, const struct work *w, bool in_graph)
{
    if (w->kind == WORK_GRAPH || w->kind == WORK_EMPTY)
        return; /* a graph's nodes speak for themselves */
    if (work_is_read_back(w) && !read_back_bytes(w))
        return; /* the first one */
    char ctx[24], kernel[400] = " name=-";
    if (s->ctx->primary)
        snprintf(ctx, sizeof ctx, "%d", s->ctx->device);
    else
        snprintf(ctx, sizeof ctx, "c%llu", (unsigned long long)s->ctx->o.id);
    enum work_kind kind = work_is_read_back(w) ? WORK_COPY : w->kind;
    if (kind == WORK_KERNEL) {
        const unsigned *g = w->kernel.grid, *b = w->kernel.block;
        int priority = in_graph && s->graph_priority != PRIORITY_OF_NODES
                           ? s->graph_priority
                           : w->kernel.attrs.priority;
        int n = snprintf(kernel, sizeof kernel,
                         " name=%.256s grid=%u,%u,%u block=%u,%u,%u shared=%u priority=%d"
                         " carveout=%d cache=%d stack=%zu",
                         w->kernel.def->name, g[0], g[1], g[2], b[0], b[1], b[2], w->kernel.shared,
                         priority, w->kernel.attrs.carveout, w->kernel.attrs.cache,
                         in_graph ? s->graph_stack : w->kernel.stack);
        const struct kernel_attrs *a = &w->kernel.attrs;
        if (a->set >> ATTR_PREFERRED_CLUSTER)
            snprintf(kernel + n, sizeof kernel - (size_t)n, " modes=%u,%u,%u/%u/%u/%u",
                     a->preferred[0], a->preferred[1], a->preferred[2], a->nvlink, a->cluster_mode,
                     a->shared_mode);
    }
    uint64_t hash = work_hash(w);
    pthread_mutex_lock(&lock);
    if (sizeof buffer - used < 640)
        flush();
    used +=
        (size_t)snprintf(buffer + used, sizeof buffer - used,
                         "seq=%lu ctx=%s stream=%c%u op=%s%s args=%016llx via=%s\n", ++seq, ctx,
                         "ULP"[s->kind], s -> number, names[kind], kernel, (unsigned long long)hash,
                         w -> kind == WORK_RECORD && w -> event.own  ? "own"
                                                          : in_graph ? "graph"
                                                                     : "eager");
    pthread_mutex_unlock(&lock);
}

/* SPDX-License-Identifier: MIT */
/* work.c: the payload of an operation or graph node: its life and execution. */
#include "sim.h"

#include <sched.h>
#include <time.h>

/* -- Life -- */

void work_clear(struct work *w)
{
    switch (w->kind) {
    case WORK_KERNEL:
        free(w->kernel.args);
        break;
    case WORK_COPY:
        free(w->copy.staging);
        break;
    case WORK_RECORD:
    case WORK_WAIT:
        marker_drop(w->event.marker);
        break;
    case WORK_ALLOC:
        if (w->mem.of_graph)
            alloc_hold(w->mem.ptr, w->mem.id, -1);
        break;
    case WORK_GRAPH:
        for (unsigned i = 0; i < w->graph.nmarkers; i++)
            marker_drop(w->graph.markers[i]);
        free(w->graph.markers);
        plan_drop(w->graph.plan);
        if (w->graph.graph)
            graph_free(w->graph.graph);
        break;
    default:
        break;
    }
    w->kind = WORK_EMPTY;
}

CUresult work_copy(struct work *to, const struct work *from)
{
    *to = *from;
    switch (from->kind) {
    case WORK_KERNEL: {
        size_t n = from->kernel.def->args_size;
        to->kernel.args = malloc(n ? n : 1);
        if (!to->kernel.args)
            break;
        memcpy(to->kernel.args, from->kernel.args, n);
        return CUDA_SUCCESS;
    }
    case WORK_GRAPH:
        if (to->graph.plan)
            to->graph.plan->refs++;
        if (!to->graph.graph)
            return CUDA_SUCCESS;
        if (graph_clone(from->graph.graph, &to->graph.graph) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        plan_drop(to->graph.plan);
        break;
    case WORK_ALLOC:
        if (to->mem.of_graph)
            alloc_hold(to->mem.ptr, to->mem.id, 1);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
    to->kind = WORK_EMPTY;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* -- Execution: without the lock, on a worker -- */

/* Kernels share the threads of their device, and a kernel waits until there is room for it. One
 * that is larger than the device takes all of it. Copies and memsets need none. */
static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room_given = PTHREAD_COND_INITIALIZER;
static uint64_t room_taken[MAX_DEVICES];

static uint64_t take_room(const struct work *w, int device)
{
    const uint64_t all = 132 * 2048; /* multiprocessors, and threads of each (device.c) */
    const unsigned *g = w->kernel.grid, *b = w->kernel.block;
    uint64_t threads = (uint64_t)g[0] * g[1] * g[2] * b[0] * b[1] * b[2];
    uint64_t room = threads < all ? threads : all;
    pthread_mutex_lock(&room_lock);
    while (room_taken[device] + room > all)
        pthread_cond_wait(&room_given, &room_lock);
    room_taken[device] += room;
    pthread_mutex_unlock(&room_lock);
    return room;
}

static void give_room(uint64_t room, int device)
{
    pthread_mutex_lock(&room_lock);
    room_taken[device] -= room;
    pthread_cond_broadcast(&room_given);
    pthread_mutex_unlock(&room_lock);
}

static void run_kernel(const struct work *w, int device)
{
    const struct kernel_def *def = w->kernel.def;
    const struct kernel_attrs *attrs = &w->kernel.attrs;
    struct agsim_launch l = {.name = def->name,
                             .shared = w->kernel.shared,
                             .nparams = def->nparams,
                             .cooperative = attrs->cooperative,
                             .mem_sync_domain = attrs->mem_sync_domain};
    memcpy(l.cluster, attrs->cluster, sizeof l.cluster);
    memcpy(l.grid, w->kernel.grid, sizeof l.grid);
    memcpy(l.block, w->kernel.block, sizeof l.block);
    void *few[32], **params = few;
    if (def->nparams > COUNT(few) && !(params = malloc(def->nparams * sizeof *params)))
        abort(); /* a kernel cannot fail half-way, and must not be lost */
    for (unsigned i = 0; i < def->nparams; i++)
        params[i] = w->kernel.args + def->param[i].offset;
    if (sim.graph_free || sim.lazy || sim.streams_free) {
        pthread_mutex_lock(&sim.lock);
        sim.running++;
        pthread_mutex_unlock(&sim.lock);
    }
    uint64_t room = take_room(w, device);
    def->body(&l, params);
    give_room(room, device);
    if (sim.graph_free || sim.lazy || sim.streams_free) {
        pthread_mutex_lock(&sim.lock);
        if (--sim.running == 0)
            pthread_cond_broadcast(&sim.quiet);
        pthread_mutex_unlock(&sim.lock);
    }
    if (params != few)
        free(params);
}

static void run_memset(const struct work *w)
{
    for (size_t y = 0; y < w->memset.height; y++) {
        char *row = (char *)w->memset.dst + y * w->memset.pitch;
        if (w->memset.elem == 1) {
            memset(row, (int)w->memset.value, w->memset.width);
            continue;
        }
        uint16_t half = (uint16_t)w->memset.value;
        for (size_t x = 0; x < w->memset.width; x++)
            if (w->memset.elem == 2)
                memcpy(row + 2 * x, &half, 2);
            else
                memcpy(row + 4 * x, &w->memset.value, 4);
    }
}

char *copy_row(const struct copy_side *s, size_t y, size_t z)
{
    return (char *)(s->base + ((s->z + z) * s->rows + s->y + y) * s->pitch + s->x);
}

static void run_copy(const struct work *w)
{
    const char *staged = (const char *)w->copy.staging;
    for (size_t z = 0; z < w->copy.depth; z++)
        for (size_t y = 0; y < w->copy.height; y++) {
            memmove(copy_row(&w->copy.dst, y, z), staged ? staged : copy_row(&w->copy.src, y, z),
                    w->copy.width);
            if (staged)
                staged += w->copy.width;
        }
}

static void run_mem_op(const struct work *w)
{
    uint64_t v = w->mem_op.value;
    if (!w->mem_op.wait) {
        if (w->mem_op.wide)
            __atomic_store_n((uint64_t *)w->mem_op.addr, v, __ATOMIC_SEQ_CST);
        else
            __atomic_store_n((uint32_t *)w->mem_op.addr, (uint32_t)v, __ATOMIC_SEQ_CST);
        return;
    }
    sim_tls.by_host = true;
    for (;; sched_yield()) {
        int64_t now, ahead;
        if (w->mem_op.wide) {
            now = (int64_t)__atomic_load_n((uint64_t *)w->mem_op.addr, __ATOMIC_SEQ_CST);
            ahead = (int64_t)((uint64_t)now - v);
        } else {
            uint32_t word = __atomic_load_n((uint32_t *)w->mem_op.addr, __ATOMIC_SEQ_CST);
            now = word;
            ahead = (int32_t)(word - (uint32_t)v);
        }
        uint64_t mask = w->mem_op.wide ? UINT64_MAX : UINT32_MAX;
        switch (w->mem_op.flags) {
        case CU_STREAM_WAIT_VALUE_GEQ:
            if (ahead >= 0)
                return;
            break;
        case CU_STREAM_WAIT_VALUE_EQ:
            if (ahead == 0)
                return;
            break;
        case CU_STREAM_WAIT_VALUE_AND:
            if ((uint64_t)now & v & mask)
                return;
            break;
        default: /* NOR */
            if (~((uint64_t)now | v) & mask)
                return;
        }
    }
}

static void run_host(const struct work *w)
{
    sim_tls.by_host = sim_tls.callback = true;
    if (w->host.fn)
        w->host.fn(w->host.data);
    else
        w->host.callback(w->host.stream, CUDA_SUCCESS, w->host.data);
    sim_tls.callback = false;
}

void work_execute(struct stream *s, struct work *w, bool in_graph)
{
    if (log_on())
        log_op(s, w, in_graph);
    if (!work_may_run(w, s->ctx)) {
        agsim_fail(w->kind == WORK_MEM_OP ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    switch (w->kind) {
    case WORK_KERNEL:
        run_kernel(w, s->ctx->device);
        break;
    case WORK_MEMSET:
        run_memset(w);
        break;
    case WORK_COPY:
        run_copy(w);
        break;
    case WORK_HOST:
        run_host(w);
        break;
    case WORK_MEM_OP:
        run_mem_op(w);
        break;
    case WORK_GRAPH:
        plan_execute(s, w);
        break;
    default: /* what work_finish does, or nothing */
        break;
    }
    if (sim_tls.by_host)
        s->late = 0;
    sim_tls.by_host = false;
}

void work_finish(struct work *w)
{
    if (w->kind == WORK_RECORD && w->event.marker)
        marker_complete(w->event.marker);
    else if (w->kind == WORK_FREE)
        alloc_free_done(w->mem.ptr, w->mem.id);
}

/* -- The log's hash: everything that the program gave and that is the same in
 * another run of it -- */

/* Where the first byte is (0: that does not matter), and the steps that are taken. */
static uint64_t side_hash(uint64_t h, const struct copy_side *s, uintptr_t at, size_t height,
                          size_t depth)
{
    size_t row = height > 1 ? s->pitch : 0, slice = depth > 1 ? s->pitch * s->rows : 0;
    h = sim_hash(h, &at, sizeof at);
    h = sim_hash(h, &row, sizeof row);
    return sim_hash(h, &slice, sizeof slice);
}

/* The library's own kernel for read-backs (src/engine/context/fetch.c) stands for a copy to memory
 * that is the program's own. */
bool work_is_read_back(const struct work *w)
{
    return w->kind == WORK_KERNEL && !strcmp(w->kernel.def->name, "autograph_fetch");
}

CUdeviceptr read_back_source(const struct work *w)
{
    CUdeviceptr source;
    memcpy(&source, w->kernel.args, sizeof source);
    return source;
}

uint32_t read_back_bytes(const struct work *w)
{
    uint32_t bytes;
    memcpy(&bytes, w->kernel.args + w->kernel.def->param[2].offset, sizeof bytes);
    return bytes;
}

static struct work copy_of(const struct work *w)
{
    struct work copy = {.kind = WORK_COPY, .copy = {.height = 1, .depth = 1}};
    copy.copy.src.base = read_back_source(w);
    copy.copy.width = read_back_bytes(w);
    return copy;
}

/* Of bytes that come from the host, it matters what they are, not where. */
static uint64_t copy_hash(uint64_t h, const struct work *w)
{
    uintptr_t src = (uintptr_t)copy_row(&w->copy.src, 0, 0);
    uintptr_t dst = (uintptr_t)copy_row(&w->copy.dst, 0, 0);
    const char *staged = (const char *)w->copy.staging;
    size_t width = w->copy.width;
    bool uploads = staged || range_is_host(src);
    h = side_hash(h, &w->copy.src, uploads ? 0 : src, w->copy.height, w->copy.depth);
    /* The program's own memory moves between runs. */
    h = side_hash(h, &w->copy.dst, range_is_ours(dst) ? dst : 0, w->copy.height, w->copy.depth);
    h = sim_hash(h, &width, sizeof width);
    h = sim_hash(h, &w->copy.height, sizeof w->copy.height);
    h = sim_hash(h, &w->copy.depth, sizeof w->copy.depth);
    for (size_t z = 0; uploads && z < w->copy.depth; z++)
        for (size_t y = 0; y < w->copy.height; y++, staged += staged ? width : 0)
            h = sim_hash(h, staged ? staged : copy_row(&w->copy.src, y, z), width);
    return h;
}

uint64_t work_hash(const struct work *w)
{
    uint64_t h = 0xcbf29ce484222325u;
    struct work copy;
    if (work_is_read_back(w)) {
        copy = copy_of(w);
        w = &copy;
    }
    switch (w->kind) {
    case WORK_KERNEL:
        for (unsigned i = 0; i < w->kernel.def->nparams; i++)
            h = sim_hash(h, w->kernel.args + w->kernel.def->param[i].offset,
                         w->kernel.def->param[i].size);
        return h;
    case WORK_MEMSET:
        h = sim_hash(h, &w->memset.dst, sizeof w->memset.dst);
        h = sim_hash(h, &w->memset.value, sizeof w->memset.value);
        h = sim_hash(h, &w->memset.width, sizeof w->memset.width);
        h = sim_hash(h, &w->memset.elem, sizeof w->memset.elem);
        if (w->memset.height > 1)
            h = sim_hash(h, &w->memset.pitch, sizeof w->memset.pitch);
        return sim_hash(h, &w->memset.height, sizeof w->memset.height);
    case WORK_COPY:
        return copy_hash(h, w);
    case WORK_MEM_OP:
        h = sim_hash(h, &w->mem_op.addr, sizeof w->mem_op.addr);
        h = sim_hash(h, &w->mem_op.value, sizeof w->mem_op.value);
        return sim_hash(h, &w->mem_op.flags, sizeof w->mem_op.flags);
    case WORK_ALLOC:
    case WORK_FREE:
        return sim_hash(h, &w->mem.ptr, sizeof w->mem.ptr);
    default:
        return h;
    }
}

uint64_t sim_hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; size; p++, size--)
        h = (h ^ *p) * 0x100000001b3u;
    return h ^ h >> 32;
}

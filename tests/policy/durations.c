/* SPDX-License-Identifier: MIT */
/*
 * How long the GPU works on each kind of op: a tool that the driver loads (CUDA_INJECTION64_PATH).
 * POLICY_DURATIONS names a file, which gets a line for each kind when the process ends:
 * number of ops, median ns, and what the op is:
 *   kernel NAME GRID BLOCK     blocks and threads of a block
 *   copy KIND BYTES            KIND: CUpti_ActivityMemcpyKind
 *   memset BYTES
 */
#include <cupti.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 1 << 20, KINDS = 1 << 14, KEPT = 255 };

/* A kind of op, and the times of its first ops. */
static struct kind {
    char *what;
    unsigned count;
    uint32_t ns[KEPT];
} kinds[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *what, uint64_t ns)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = what; *c != 0; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    for (unsigned i = 0; i < KINDS; i++) {
        struct kind *kind = &kinds[(hash + i) % KINDS];
        if (kind->what == NULL)
            kind->what = strdup(what);
        if (kind->what == NULL || strcmp(kind->what, what) != 0)
            continue;
        if (kind->count < KEPT)
            kind->ns[kind->count] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
        kind->count++;
        return;
    }
}

static void read_record(const CUpti_Activity *record)
{
    char what[512];
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const void *)record;
        snprintf(what, sizeof what, "kernel %.60s %lld %lld", k->name ? k->name : "?",
                 (long long)k->gridX * k->gridY * k->gridZ,
                 (long long)k->blockX * k->blockY * k->blockZ);
        note(what, k->end - k->start);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const void *)record;
        snprintf(what, sizeof what, "copy %d %llu", c->copyKind, (unsigned long long)c->bytes);
        note(what, c->end - c->start);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *m = (const void *)record;
        snprintf(what, sizeof what, "memset %llu", (unsigned long long)m->bytes);
        note(what, m->end - m->start);
    }
}

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most)
{
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *most = 0;
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
    pthread_mutex_lock(&lock);
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        read_record(record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void write_all(void)
{
    (void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const char *file = getenv("POLICY_DURATIONS");
    FILE *out = file != NULL ? fopen(file, "we") : NULL;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; out != NULL && i < KINDS; i++) {
        struct kind *kind = &kinds[i];
        unsigned kept = kind->count < KEPT ? kind->count : KEPT;
        if (kept == 0)
            continue;
        qsort(kind->ns, kept, sizeof kind->ns[0], compare);
        fprintf(out, "%u %u %s\n", kind->count, kind->ns[kept / 2], kind->what);
    }
    if (out != NULL)
        fclose(out);
    pthread_mutex_unlock(&lock);
}

int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) != CUPTI_SUCCESS)
        return 0;
    (void)atexit(write_all);
    return 1;
}

/* SPDX-License-Identifier: MIT */
/* proc.c: what every call does first, the look-up of functions by name, and
 * the faults that AGSIM_FAIL asks for. */
#include "sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

/* AGSIM_FAIL=FUNCTION[@CALLER]:N:CODE,... fails the N-th use (N+ for each from
 * there, * for each) of FUNCTION by code in a file whose name contains CALLER.
 * FUNCTION is the exported name, or that without _ptsz or _ptds, or without
 * _vN too.
 *
 * AGSIM_CALLER=FILE[:LOW-HIGH] limits faults and counts to calls by code in a
 * file whose name contains FILE, but not at offsets LOW to HIGH (hexadecimal)
 * in it: a library's own calls can be told from those that it passes on. */
struct fault {
    char name[96], caller[64];
    unsigned long nth; /* 0: every use */
    bool on;           /* every use from there */
    unsigned long used;
    int code;
};
static struct fault faults[64];
static unsigned nfaults;
static atomic_ulong nfailed;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *calls_path;
static struct code {
    char file[64];
    unsigned long low, high;
} watched, library; /* AGSIM_LIBRARY: the library under test, but for what it passes on */

bool name_matches(const char *asked, const char *name)
{
    size_t n = strlen(asked);
    if (strncmp(asked, name, n) != 0)
        return false;
    const char *rest = name + n;
    if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '2' && rest[2] <= '9')
        rest += 3;
    return !*rest || !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds");
}

/* Code in a file so named; *offset is where in it. The program may be in a constructor, with the
   loader's lock: so only where the program itself has called is that lock taken. */
static bool called_from(const char *file, const void *caller, unsigned long *offset)
{
    Dl_info info;
    struct dl_find_object found;
    if (_dl_find_object((void *)caller, &found) == 0 && found.dlfo_link_map->l_name[0]) {
        *offset = (uintptr_t)caller - found.dlfo_link_map->l_addr;
        return strstr(found.dlfo_link_map->l_name, file) != NULL;
    }
    if (!dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, file))
        return false;
    *offset = (uintptr_t)caller - (uintptr_t)info.dli_fbase;
    return true;
}

static bool is_in(const struct code *code, const void *caller)
{
    unsigned long at;
    return called_from(code->file, caller, &at) && (at < code->low || at >= code->high);
}

static bool caller_watched(const void *caller)
{
    return !watched.file[0] || is_in(&watched, caller);
}

bool sim_called_by_library(void)
{
    return library.file[0] && is_in(&library, sim_tls.caller);
}

bool sim_is_library(const char *file)
{
    return strstr(file, library.file) != NULL;
}

static CUresult fault_for(const char *name, const void *caller)
{
    CUresult r = CUDA_SUCCESS;
    unsigned long at;
    for (unsigned i = 0; i < nfaults; i++) {
        struct fault *f = &faults[i];
        if (!name_matches(f->name, name) || (f->caller[0] && !called_from(f->caller, caller, &at)))
            continue;
        pthread_mutex_lock(&fault_lock);
        unsigned long use = ++f->used; /* counted also when another fault comes first */
        pthread_mutex_unlock(&fault_lock);
        if (r == CUDA_SUCCESS && (use == f->nth || !f->nth || (f->on && use > f->nth)))
            r = f->code;
    }
    if (r != CUDA_SUCCESS)
        atomic_fetch_add(&nfailed, 1);
    return r;
}

static void bad_setting(const char *name, const char *value)
{
    fprintf(stderr, "simulated driver: bad %s: %s\n", name, value);
    _exit(99); /* a test that asks for the impossible must not go on */
}

static void parse_faults(const char *text)
{
    for (const char *p = text; *p;) {
        if (nfaults == COUNT(faults))
            bad_setting("AGSIM_FAIL", text);
        struct fault *f = &faults[nfaults++];
        char nth[24], rest[96];
        int used = 0;
        if (sscanf(p, "%95[^:,]:%23[^:,]:%d%n", rest, nth, &f->code, &used) != 3 ||
            (p[used] && p[used] != ','))
            bad_setting("AGSIM_FAIL", text);
        char *at = strchr(rest, '@'), *end = "";
        if (at) {
            *at = 0;
            snprintf(f->caller, sizeof f->caller, "%s", at + 1);
        }
        snprintf(f->name, sizeof f->name, "%s", rest);
        if (strcmp(nth, "*"))
            f->nth = strtoul(nth, &end, 10);
        f->on = *end == '+';
        end += f->on;
        if (*end || (!f->nth && strcmp(nth, "*")) || strncmp(f->name, "cu", 2) || f->code <= 0)
            bad_setting("AGSIM_FAIL", text);
        p += used + (p[used] == ',');
    }
}

static void parse_code(struct code *code, const char *name)
{
    int used = 0;
    const char *text = sim_env(name);
    if (text && (sscanf(text, "%63[^:]%n:%lx-%lx%n", code->file, &used, &code->low, &code->high,
                        &used) < 1 ||
                 text[used]))
        bad_setting(name, text);
}

unsigned long sim_env_number(const char *name, unsigned long otherwise)
{
    const char *text = sim_env(name);
    if (!text)
        return otherwise;
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (*end || errno || text[0] == '-')
        bad_setting(name, text);
    return v;
}

const char *sim_env(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static void child_after_fork(void)
{
    atomic_store(&sim.forked, true);
}

/* Nothing here may need the C library's later initialisation, nor take long:
 * every program that merely loads the driver pays for it. */
__attribute__((constructor)) static void start(void)
{
    const char *fail = sim_env("AGSIM_FAIL");
    clock_start();
    calls_path = sim_env("AGSIM_CALLS");
    if (fail)
        parse_faults(fail);
    parse_code(&watched, "AGSIM_CALLER");
    parse_code(&library, "AGSIM_LIBRARY");
    sim.version = (int)sim_env_number("AGSIM_DRIVER_VERSION", AGSIM_NEWEST);
    const bool deep = sim_env_number("AGSIM_STACK", 0) != 0;
    if (deep)
        stack_init();
    atomic_store(&sim.watched, fail || calls_path || deep || sim.version < AGSIM_NEWEST);
}

__attribute__((destructor)) static void finish(void)
{
    FILE *f = calls_path && !atomic_load(&sim.forked) ? fopen(calls_path, "w") : NULL;
    if (!f)
        return;
    for (unsigned i = 0; i < sim_napis; i++) {
        unsigned long n = atomic_load(&sim_apis[i].calls);
        if (n)
            fprintf(f, "%s %lu\n", sim_apis[i].name, n);
    }
    if (nfailed)
        fprintf(f, "failed %lu\n", atomic_load(&nfailed));
    if (sim.spun)
        fprintf(f, "spun %lu\n", atomic_load(&sim.spun));
    fclose(f);
}

static CUresult watch(struct sim_api *api, void *caller)
{
    if (api->since > sim.version)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (api->stack)
        stack_use(api->stack);
    if (!caller_watched(caller))
        return CUDA_SUCCESS;
    atomic_fetch_add_explicit(&api->calls, 1, memory_order_relaxed);
    return nfaults ? fault_for(api->name, caller) : CUDA_SUCCESS;
}

CUresult sim_enter(struct sim_api *api, void *caller)
{
    sim_tls.caller = caller;
    sim_tls.api = api->name;
    if (UNLIKELY(atomic_load_explicit(&sim.watched, memory_order_relaxed))) {
        CUresult r = watch(api, caller);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (UNLIKELY(atomic_load_explicit(&sim.forked, memory_order_relaxed)))
        return api->before_init && strcmp(api->name, "cuInit") ? CUDA_SUCCESS
                                                               : CUDA_ERROR_NOT_INITIALIZED;
    if (api->before_init)
        return CUDA_SUCCESS;
    if (UNLIKELY(!atomic_load_explicit(&sim.initialized, memory_order_acquire)))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (UNLIKELY(sim_tls.callback && !api->in_callback))
        return CUDA_ERROR_NOT_PERMITTED;
    return sim_leave(CUDA_SUCCESS);
}

CUresult sim_leave(CUresult result)
{
    int error = atomic_load_explicit(&sim.error, memory_order_relaxed);
    return UNLIKELY(error != 0) && result == CUDA_SUCCESS ? (CUresult)error : result;
}

EXPORT void agsim_fail(int error)
{
    int none = 0;
    (void)atomic_compare_exchange_strong(&sim.error, &none, error);
}

/* What NVIDIA's driver makes of other values is not documented. */
static bool is_set(const char *name)
{
    const char *value = sim_env(name);
    return value && strcmp(value, "0") != 0;
}

void variables_read(void)
{
    if (is_set("CUDA_LAUNCH_BLOCKING"))
        sim.blocking = true;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_busy(unsigned us)
{
    if (!us)
        return;
    for (uint64_t end = now_ns() + us * 1000ull; now_ns() < end;)
        continue;
}

/* As CUDA documents the variable. What a driver makes of other values is not known. */
static unsigned connections(void)
{
    const char *text = sim_env("CUDA_DEVICE_MAX_CONNECTIONS");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n < 1 ? 8 : n > MAX_CONNECTIONS ? MAX_CONNECTIONS : (unsigned)n;
}

CUresult sim_cuInit(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&sim.initialized))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim.lock);
    if (!atomic_load(&sim.initialized)) {
        sim.ndevices = (int)sim_env_number("AGSIM_DEVICES", 1);
        if (sim.ndevices > MAX_DEVICES)
            bad_setting("AGSIM_DEVICES", sim_env("AGSIM_DEVICES"));
        sim.seed = sim_env_number("AGSIM_SEED", 1);
        sim.delay_us = (unsigned)sim_env_number("AGSIM_DELAY_US", 2);
        sim.launch_us = (unsigned)sim_env_number("AGSIM_LAUNCH_US", 0);
        sim.graph_launch_us = (unsigned)sim_env_number("AGSIM_GRAPH_LAUNCH_US", 0);
        sim.switch_us = (unsigned)sim_env_number("AGSIM_SWITCH_US", 0);
        sim.instantiate_us = (unsigned)sim_env_number("AGSIM_INSTANTIATE_US", 0);
        sim.pointer_us = (unsigned)sim_env_number("AGSIM_POINTER_US", 0);
        sim.sync_us = (unsigned)sim_env_number("AGSIM_SYNC_US", 0);
        sim.graph_free = (unsigned)sim_env_number("AGSIM_GRAPH_FREE", 0);
        sim.streams_free = (unsigned)sim_env_number("AGSIM_STREAMS_FREE", 0);
        sim.graphs_wait = sim.graph_free != 0;
        sim.streams_wait = sim.streams_free != 0;
        strict_init();
        sim.room_entries = (unsigned)sim_env_number("AGSIM_ROOM", 1024);
        sim.late_us = (unsigned)sim_env_number("AGSIM_LATE", 0);
        sim.connections = connections();
        sim.deal = sim_env_number("AGSIM_QUEUES", 0);
        sim.lazy = sim_env_number("AGSIM_LAZY", 0) != 0;
        sim.events_by_handle = sim_env_number("AGSIM_HANDLES", 0) != 0;
        sim.setters_pass = sim_env_number("AGSIM_SETTERS_PASS", 0) != 0;
        sim.reuse = sim_env_number("AGSIM_REUSE", 0) != 0;
        sim.early = sim_env_number("AGSIM_EARLY", 0) != 0;
        sim.launch_only = (unsigned)sim_env_number("AGSIM_LAUNCH_ONLY", 0);
        variables_read();
        sim.node_priorities =
            sim_env("CUDA_GRAPHS_USE_NODE_PRIORITY") ? is_set("CUDA_GRAPHS_USE_NODE_PRIORITY") : -1;
        pthread_atfork(NULL, NULL, child_after_fork);
        alloc_init();
        log_init();
        if (sim.ndevices > 0)
            atomic_store_explicit(&sim.initialized, true, memory_order_release);
    }
    pthread_mutex_unlock(&sim.lock);
    return sim.ndevices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult sim_cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim.version;
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !pfn || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    if (version > sim.version)
        return CUDA_ERROR_INVALID_VALUE;
    const bool want_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const struct sim_look_up *best[2] = {NULL, NULL};
    bool known[2] = {false, false};         /* plain, per-thread */
    unsigned low = 0, high = sim_nlook_ups; /* the table is sorted by name */
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (strcmp(sim_look_ups[mid].name, symbol) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < sim_nlook_ups && !strcmp(sim_look_ups[low].name, symbol); low++) {
        const struct sim_look_up *l = &sim_look_ups[low];
        if (l->version > sim.version)
            continue;
        known[l->per_thread] = true;
        if (l->version <= version &&
            (!best[l->per_thread] || l->version > best[l->per_thread]->version))
            best[l->per_thread] = l;
    }
    /* What has a per-thread variant is looked for among those variants only. */
    bool thread = want_thread && known[1];
    const struct sim_look_up *found = best[thread];
    if (found)
        *pfn = found->symbol;
    CUdriverProcAddressQueryResult what = found ? CU_GET_PROC_ADDRESS_SUCCESS
                                          : known[thread]
                                              ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (status)
        *status = what;
    return CUDA_SUCCESS; /* also when nothing was found */
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    CUresult r = sim_cuGetProcAddress_v2(symbol, pfn, version, flags, &status);
    return r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : r;
}

CUresult sim_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND; /* the private tables are not modelled */
}

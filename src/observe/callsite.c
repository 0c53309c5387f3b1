/* SPDX-License-Identifier: MIT */
/* Samples of the program's stacks. */
#include "observe/callsite.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <string.h>

#include "config/config.h"
#include "observe/strings.h"

enum {
    SITES = 256, /* places that are told apart */
    DEPTH = 48,  /* frames that are walked, those of the library and of the runtime among them */
};

_Thread_local const char *ag_site_wanted __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t counted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct ag_callsite sites[SITES];
static unsigned site_count;

void ag_callsite_prepare(void)
{
    void *frame;
    if (ag_opt.report_callsites)
        (void)backtrace(&frame, 1); /* loads the unwinder */
}

void ag_callsite_count(const char *function)
{
    uint64_t every = (uint64_t)ag_opt.report_callsites;
    if (every && atomic_fetch_add(&counted, 1) % every == 0)
        ag_site_wanted = function;
}

/* Whether the address lies in this library, the driver or the runtime. */
static bool is_cuda(const Dl_info *info)
{
    Dl_info own;
    const char *slash = strrchr(info->dli_fname, '/');
    const char *name = slash ? slash + 1 : info->dli_fname;
    return (dladdr((void *)ag_callsite_sample, &own) && own.dli_fbase == info->dli_fbase) ||
           strncmp(name, "libcuda.so", 10) == 0 || strncmp(name, "libcudart.so", 12) == 0;
}

static void resolve(struct ag_callsite *site)
{
    for (unsigned i = 0; i < site->frames; i++) {
        Dl_info info;
        uintptr_t address = (uintptr_t)site->address[i];
        if (!dladdr(site->address[i], &info))
            continue;
        site->frame[i].module = ag_keep(info.dli_fname);
        site->frame[i].offset = address - (uintptr_t)info.dli_fbase;
        if (info.dli_sname) {
            site->frame[i].symbol = ag_keep(info.dli_sname);
            site->frame[i].symbol_offset = address - (uintptr_t)info.dli_saddr;
        }
    }
}

__attribute__((noinline)) void ag_callsite_sample(void)
{
    struct ag_callsite found = {.function = ag_site_wanted, .samples = 1};
    void *stack[DEPTH];
    int depth = backtrace(stack, DEPTH);
    ag_site_wanted = NULL;
    for (int i = 0; i < depth && found.frames < AG_SITE_FRAMES; i++) {
        Dl_info info;
        /* A return address may be the first byte behind its function. */
        const void *call = (const char *)stack[i] - 1;
        if (dladdr(call, &info) && !(found.frames == 0 && is_cuda(&info)))
            found.address[found.frames++] = call;
    }
    pthread_mutex_lock(&lock);
    struct ag_callsite *site = sites;
    while (site < sites + site_count &&
           !(site->function == found.function && site->frames == found.frames &&
             memcmp(site->address, found.address, sizeof found.address) == 0))
        site++;
    bool known = site < sites + site_count;
    site->samples += known;
    pthread_mutex_unlock(&lock);
    if (known || found.frames == 0)
        return;
    resolve(&found);
    pthread_mutex_lock(&lock);
    if (site_count < SITES)
        sites[site_count++] = found; /* twice, if two threads come at once: no harm */
    pthread_mutex_unlock(&lock);
}

bool ag_callsite_get(unsigned i, struct ag_callsite *site)
{
    pthread_mutex_lock(&lock);
    bool there = i < site_count;
    if (there)
        *site = sites[i];
    pthread_mutex_unlock(&lock);
    return there;
}

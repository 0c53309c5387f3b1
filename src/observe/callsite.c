/* SPDX-License-Identifier: MIT */
/* Samples of the program's stacks. */
#include "observe/callsite.h"

#include <execinfo.h>
#include <pthread.h>
#include <string.h>

#include "config/config.h"
#include "config/program.h"
#include "observe/object.h"
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

/* -- Naming addresses ---------------------------------------------------------- */

/* A stack: of each call, where it lies. */
struct walk {
    uintptr_t call[DEPTH];
    enum { NOWHERE, CUDA, ELSEWHERE } in[DEPTH]; /* NOWHERE: in no object, or in this library */
    int depth;
};

static bool is_cuda(const struct ag_object *object)
{
    return ag_object_is_named(object, "libcuda.so") || ag_object_is_named(object, "libcudart.so");
}

/* Called for each object that is loaded. */
static int find_calls(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct walk *walk = context;
    struct ag_object object;
    bool read = false;
    for (int i = 0; i < walk->depth; i++)
        if (ag_object_has(info, walk->call[i]) && (read || ag_object_read(info, &object))) {
            read = true;
            walk->in[i] = is_cuda(&object) ? CUDA : ELSEWHERE;
        }
    return 0;
}

/* The program itself has no name for the loader. */
static const char *path_of(const struct ag_object *object)
{
    char path[AG_PATH_MAX];
    if (*object->path != '\0')
        return ag_keep(object->path);
    ag_program_path(path, sizeof path);
    return ag_keep(path);
}

static void name_frame(struct ag_frame *frame, const struct ag_object *object, uintptr_t call)
{
    const ElfW(Sym) *symbol = ag_object_around(object, call);
    frame->module = path_of(object);
    frame->offset = call - object->base;
    if (symbol == NULL)
        return;
    frame->symbol = ag_keep(object->strings + symbol->st_name);
    frame->symbol_offset = frame->offset - symbol->st_value;
}

static int name_frames(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct ag_callsite *site = context;
    struct ag_object object;
    for (unsigned i = 0; i < site->frames; i++)
        if (ag_object_has(info, (uintptr_t)site->address[i]) && ag_object_read(info, &object)) {
            ag_object_count(&object);
            name_frame(&site->frame[i], &object, (uintptr_t)site->address[i]);
        }
    return 0;
}

/* -- Samples ------------------------------------------------------------------- */

/* The program's innermost calls. */
static void take_stack(struct ag_callsite *site)
{
    void *stack[DEPTH];
    struct walk walk = {.depth = backtrace(stack, DEPTH)};
    for (int i = 0; i < walk.depth; i++)
        /* A return address may be the first byte behind its function. */
        walk.call[i] = (uintptr_t)stack[i] - 1;
    dl_iterate_phdr(find_calls, &walk);
    for (int i = 0; i < walk.depth && site->frames < AG_SITE_FRAMES; i++)
        if (walk.in[i] == ELSEWHERE || (walk.in[i] == CUDA && site->frames != 0))
            site->address[site->frames++] = (const void *)walk.call[i];
}

__attribute__((noinline)) void ag_callsite_sample(void)
{
    struct ag_callsite found = {.function = ag_site_wanted, .samples = 1};
    ag_site_wanted = NULL;
    take_stack(&found);
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
    dl_iterate_phdr(name_frames, &found);
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

/* SPDX-License-Identifier: MIT */
/*
 * Looks names up as its arguments say, one after the other, and prints what it finds: the file that
 * the address lies in and, if it is the address of an exported symbol, that symbol.
 *
 *   open FILE, openglobal FILE       dlopen; the last handle is used by `handle`
 *   touch NAME                       as handle; prints nothing
 *   handle|default|next|self|thirdnext|thirddefault|linked NAME
 *   gpa NAME FLAGS                   through the last handle's cuGetProcAddress_v2
 *   call A|config                    calls the last address with A (or the address of a
 *                                    CUlaunchConfig), 2, ... 10 and 0.5, 1.5, ... 7.5
 *   apart A|config                   the same in a thread of its own
 *   hold N, accept N, go N, attribute N, context N, events, fork
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LINKED
#undef cuMemcpyBatchAsync
int cuMemcpyBatchAsync(void); /* the first version: its stream lies on the stack */
#ifdef WEAK
#pragma weak cuCtxSynchronize
#pragma weak cuEventQuery
#pragma weak cuMemcpyBatchAsync
#pragma weak cuLaunchKernel
#pragma weak cuDeviceGet
#pragma weak cuInit
#endif
#endif

struct door_call {
    const char *name;
    long integers[10];
    double reals[8];
};

typedef int function(long, long, long, long, long, long, long, long, long, long, double, double,
                     double, double, double, double, double, double);

static void print(const char *how, const char *name, void *address)
{
    Dl_info info;
    const char *error = dlerror();
    if (!address || !dladdr(address, &info)) {
        printf("%s %s: %s%s\n", how, name, address ? "nowhere" : "nothing", error ? ", error" : "");
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %s: %s %s%s\n", how, name, slash ? slash + 1 : info.dli_fname,
           info.dli_saddr == address ? info.dli_sname : "?", error ? ", error" : "");
}

/* `handle`: where that library is, if it is not in the global scope. */
static void *in_third(void *handle, const char *function, const char *name)
{
    void *(*find)(const char *) = (void *(*)(const char *))dlsym(RTLD_DEFAULT, function);
    if (!find)
        find = (void *(*)(const char *))dlsym(handle, function);
    dlerror();
    return find ? find(name) : NULL;
}

static void *linked(const char *name)
{
#ifdef LINKED
    if (strcmp(name, "cuCtxSynchronize") == 0)
        return (void *)cuCtxSynchronize;
    if (strcmp(name, "cuEventQuery") == 0)
        return (void *)cuEventQuery;
    if (strcmp(name, "cuMemcpyBatchAsync") == 0)
        return (void *)cuMemcpyBatchAsync;
    if (strcmp(name, "cuLaunchKernel") == 0)
        return (void *)cuLaunchKernel;
    if (strcmp(name, "cuDeviceGet") == 0)
        return (void *)cuDeviceGet;
    if (strcmp(name, "cuInit") == 0)
        return (void *)cuInit;
#endif
    (void)name;
    return NULL;
}

static void call(void *address, const char *first)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    CUlaunchConfig config = {11, 12, 13, 14, 15, 16, 17, (CUstream)18, &cooperative, 1};
    long value = strcmp(first, "config") == 0 ? (long)&config : strtol(first, NULL, 0);
    int result = ((function *)address)(value, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0.5, 1.5, 2.5, 3.5, 4.5,
                                       5.5, 6.5, 7.5);
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    struct door_call *last = driver ? dlsym(driver, "door_last") : NULL;
    printf("call: %d", result);
    if (last && last->name) {
        printf(" %s", last->name);
        for (int i = 0; i < 10; i++)
            printf(" %ld", last->integers[i]);
        for (int i = 0; i < 8; i++)
            printf(" %g", last->reals[i]);
        last->name = NULL;
    }
    printf("\n");
}

struct apart {
    void *address;
    const char *first;
};

static void *apart(void *arg)
{
    struct apart *what = arg;
    call(what->address, what->first);
    return NULL;
}

static void set(const char *what, int value)
{
    if (strcmp(what, "hold") == 0)
        ((void (*)(int))dlsym(RTLD_DEFAULT, "door_hold"))(value);
    else if (strcmp(what, "curious") == 0)
        ((void (*)(int))dlsym(RTLD_DEFAULT, "door_subscribe"))(value);
    else if (strcmp(what, "go") == 0)
        ((void (*)(int))dlsym(RTLD_DEFAULT, "door_go"))(value);
    else
        *(char *)dlsym(RTLD_DEFAULT, "door_accept") = (char)value;
}

int main(int argc, char **argv)
{
    void *handle = NULL, *address = NULL;
    (void)argc;
    for (char **word = argv + 1; *word; word++) {
        const char *how = *word;
        if (strcmp(how, "fork") == 0) {
            fflush(stdout);
            pid_t child = fork();
            int status;
            if (child && (waitpid(child, &status, 0) != child || status != 0))
                return 1;
            if (child)
                return 0;
            continue;
        }
        if (strcmp(how, "events") == 0) {
            char *events = dlsym(RTLD_DEFAULT, "door_events");
            printf("events: %s\n", events ? events : "none");
            if (events)
                *events = '\0';
            continue;
        }
        const char *name = *++word;
        if (!name)
            return 2;
        errno = 77;
        dlerror();
        if (strcmp(how, "open") == 0 || strcmp(how, "openglobal") == 0) {
            handle = dlopen(name, RTLD_LAZY | (how[4] ? RTLD_GLOBAL : RTLD_LOCAL));
            printf("%s: %s\n", how, handle ? "yes" : "no");
            continue;
        } else if (strcmp(how, "touch") == 0) {
            (void)dlsym(handle, name);
            continue;
        } else if (strcmp(how, "call") == 0) {
            call(address, name);
            continue;
        } else if (strcmp(how, "apart") == 0) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, apart, &(struct apart){address, name}) != 0 ||
                pthread_join(thread, NULL) != 0)
                return 1;
            continue;
        } else if (strcmp(how, "hold") == 0 || strcmp(how, "accept") == 0 ||
                   strcmp(how, "curious") == 0 || strcmp(how, "go") == 0) {
            set(how, atoi(name));
            continue;
        } else if (strcmp(how, "attribute") == 0) {
            *(int *)dlsym(handle, "door_attribute") = atoi(name);
            continue;
        } else if (strcmp(how, "context") == 0) {
            *(long *)dlsym(handle, "door_context") = atoi(name);
            continue;
        } else if (strcmp(how, "handle") == 0) {
            address = dlsym(handle, name);
        } else if (strcmp(how, "default") == 0) {
            address = dlsym(RTLD_DEFAULT, name);
        } else if (strcmp(how, "next") == 0) {
            address = dlsym(RTLD_NEXT, name);
        } else if (strcmp(how, "self") == 0) {
            address = dlsym(dlopen(NULL, RTLD_LAZY), name);
        } else if (strcmp(how, "thirdnext") == 0) {
            address = in_third(handle, "third_next", name);
        } else if (strcmp(how, "thirddefault") == 0) {
            address = in_third(handle, "third_default", name);
        } else if (strcmp(how, "linked") == 0) {
            address = linked(name);
        } else if (strcmp(how, "gpa") == 0 && word[1]) {
            int (*get)(const char *, void **, int, unsigned long, int *) =
                (int (*)(const char *, void **, int, unsigned long, int *))dlsym(
                    handle, "cuGetProcAddress_v2");
            int status = 0;
            int result = get(name, &address, 13000, strtoul(*++word, NULL, 0), &status);
            printf("%d %d ", result, status);
        } else {
            return 2;
        }
        if (strncmp(name, "cu", 2) == 0 && address && errno != 77)
            printf("errno %d ", errno);
        print(how, name, address);
    }
    return 0;
}

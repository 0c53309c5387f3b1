/* SPDX-License-Identifier: MIT */
/*
 * libautograph's public interface, for programs that want to cooperate. A program needs none of it:
 * LD_PRELOAD=libautograph.so is enough.
 *
 * Nothing has to be linked: these functions look the library up in the running process, once, and
 * do nothing if it is not there. (With a C library older than glibc 2.34, link with -ldl.) All may
 * be called from any thread, at any time; none of them fails.
 */
#ifndef AUTOGRAPH_H
#define AUTOGRAPH_H

#include <stddef.h>
#include <stdint.h>
#ifndef AUTOGRAPH_IMPLEMENTATION
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What the library has done so far, in all streams. Later versions may add fields at the end. */
struct autograph_statistics {
    size_t size;       /* bytes of this struct, as the program knows it: to be set by the caller */
    uint64_t ops;      /* operations that the program has issued */
    uint64_t replayed; /* of these, submitted by the launch of a graph */
    uint64_t replays;  /* launches of graphs */
    uint64_t patches;  /* arguments of graph nodes that were set before a launch */
    uint64_t traces;   /* graphs made */
    uint64_t side_exits; /* times the program left a recorded sequence */
    uint64_t flushes;    /* times that operations were held and then submitted one by one */
    uint64_t errors;     /* calls of the library into the driver that failed */
};

/*
 *   int autograph_version(void)
 * The library's version as a number: 10000 * major + 100 * minor + patch. 0: it is not loaded.
 *
 *   const char *autograph_version_string(void)
 * The same as text, "major.minor.patch". NULL: it is not loaded.
 *
 *   void autograph_pause(void)
 *   void autograph_resume(void)
 * Between the two, nothing is held in the whole process: every operation goes out by its own call.
 * What is held at the first is submitted. Pauses nest, and those of several threads add up; a
 * resume without a pause does nothing.
 *
 *   void autograph_flush(void)
 * Submits all that is held, in all streams, without waiting for it to be executed.
 *
 *   int autograph_get_statistics(struct autograph_statistics *statistics)
 * Fills the first `size` bytes of the struct, as far as the library knows it; what it does not know
 * is zero. 0: the library is not loaded, and all is zero.
 *
 *   void autograph_region_begin(const char *name)
 *   void autograph_region_end(void)
 * Gives what this thread does in between a name, which report and trace file show. Regions nest; an
 * end without a beginning does nothing. Of a long name the first 127 bytes count.
 */

#ifdef AUTOGRAPH_IMPLEMENTATION

#define AUTOGRAPH_FUNCTION(type, name, parameters, arguments, otherwise)                           \
    __attribute__((visibility("default"))) type name parameters;
#define AUTOGRAPH_PROCEDURE(name, parameters, arguments)                                           \
    __attribute__((visibility("default"))) void name parameters;

#else

/* The address of a function of the library, NULL if it is not there. `found` remembers it. */
static inline void *autograph_find_(void **found, const char *name)
{
    static char absent;
    void *address = __atomic_load_n(found, __ATOMIC_RELAXED);
    if (address == NULL) {
        address = dlsym((void *)0 /* RTLD_DEFAULT */, name);
        if (address == NULL)
            address = &absent;
        __atomic_store_n(found, address, __ATOMIC_RELAXED);
    }
    return address == &absent ? NULL : address;
}

#define AUTOGRAPH_FUNCTION(type, name, parameters, arguments, otherwise)                           \
    static inline type name parameters                                                             \
    {                                                                                              \
        static void *found_;                                                                       \
        void *address_ = autograph_find_(&found_, #name);                                          \
        type(*function_) parameters;                                                               \
        __builtin_memcpy(&function_, &address_, sizeof function_);                                 \
        return function_ != NULL ? function_ arguments : (otherwise);                              \
    }
#define AUTOGRAPH_PROCEDURE(name, parameters, arguments)                                           \
    static inline void name parameters                                                             \
    {                                                                                              \
        static void *found_;                                                                       \
        void *address_ = autograph_find_(&found_, #name);                                          \
        void(*function_) parameters;                                                               \
        __builtin_memcpy(&function_, &address_, sizeof function_);                                 \
        if (function_ != NULL)                                                                     \
            function_ arguments;                                                                   \
    }

/* What there is to say of a library that is not there. */
static inline int autograph_nothing_(struct autograph_statistics *statistics)
{
    size_t i;
    for (i = sizeof statistics->size; i < statistics->size; i++)
        ((unsigned char *)statistics)[i] = 0;
    return 0;
}

#endif

AUTOGRAPH_FUNCTION(int, autograph_version, (void), (), 0)
AUTOGRAPH_FUNCTION(const char *, autograph_version_string, (void), (), NULL)
AUTOGRAPH_PROCEDURE(autograph_pause, (void), ())
AUTOGRAPH_PROCEDURE(autograph_resume, (void), ())
AUTOGRAPH_PROCEDURE(autograph_flush, (void), ())
AUTOGRAPH_FUNCTION(int, autograph_get_statistics, (struct autograph_statistics * statistics),
                   (statistics), autograph_nothing_(statistics))
AUTOGRAPH_PROCEDURE(autograph_region_begin, (const char *name), (name))
AUTOGRAPH_PROCEDURE(autograph_region_end, (void), ())

#undef AUTOGRAPH_FUNCTION
#undef AUTOGRAPH_PROCEDURE

#ifdef __cplusplus
}
#endif

#endif

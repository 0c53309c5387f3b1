/* SPDX-License-Identifier: MIT */
/*
 * The C library's functions by their oldest versions, so that a library built here can be loaded
 * where glibc is older: from 2.28 on (tests/build/test_build.py). Included before all else in each
 * source of the library.
 *
 * These functions got a new version when glibc 2.34 moved them into libc.so.6; nothing else about
 * them is new. stat(), lstat() and fstat() became functions in 2.33, see glibc.c.
 */
#ifndef AG_GLIBC_H
#define AG_GLIBC_H

#ifndef __ASSEMBLER__
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>

#include "sanitize.h"

/*
 * musl has none of these. Its dynamic linker starts no program with a library that refers to
 * something else than NULL if it is not there (preload/musl.c). glibc has all of them.
 */
#pragma weak backtrace
#pragma weak dlvsym
#pragma weak __register_atfork
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *object);
extern void *__dso_handle __attribute__((visibility("hidden")));
/* glibc's own is a part of each library that calls it, and refers to this function. */
#define pthread_atfork(prepare, parent, child)                                                     \
    (__register_atfork ? __register_atfork(prepare, parent, child, &__dso_handle) : ENOSYS)

/* Nor has musl those that check arguments at run time. */
#if defined(__USE_FORTIFY_LEVEL) && __USE_FORTIFY_LEVEL > 0
__asm__(".weak __memcpy_chk, __memmove_chk, __mempcpy_chk, __memset_chk, __strcpy_chk, "
        "__stpcpy_chk, __strncpy_chk, __strcat_chk, __strncat_chk, __sprintf_chk, "
        "__snprintf_chk, __vsprintf_chk, __vsnprintf_chk, __read_chk, __pread_chk, "
        "__pread64_chk, __readlink_chk, __readlinkat_chk, __recv_chk, __getcwd_chk, "
        "__realpath_chk, __poll_chk, __open_2, __openat_2");
#endif

/* A sanitizer's runtime stands in for some of them, whatever their version. */
#if defined(__GLIBC__) && !defined(AG_SANITIZED)

#ifdef __x86_64__
#define AG_OLD(name, version) __asm__(".symver " #name ", " #name "@GLIBC_" version);
#else /* aarch64 began with 2.17 */
#define AG_OLD(name, version) __asm__(".symver " #name ", " #name "@GLIBC_2.17");
#endif

AG_OLD(dlclose, "2.2.5")
AG_OLD(dlerror, "2.2.5")
AG_OLD(dlopen, "2.2.5")
AG_OLD(dlvsym, "2.2.5")
AG_OLD(pthread_attr_getstacksize, "2.2.5")
AG_OLD(pthread_attr_setstacksize, "2.2.5")
AG_OLD(pthread_condattr_setclock, "2.3.3")
AG_OLD(pthread_create, "2.2.5")
AG_OLD(pthread_detach, "2.2.5")
AG_OLD(pthread_getspecific, "2.2.5")
AG_OLD(pthread_join, "2.2.5")
AG_OLD(pthread_key_create, "2.2.5")
AG_OLD(pthread_mutex_trylock, "2.2.5")
AG_OLD(pthread_once, "2.2.5")
AG_OLD(pthread_setname_np, "2.12")
AG_OLD(pthread_setspecific, "2.2.5")
AG_OLD(pthread_sigmask, "2.2.5")

#endif
#endif

#endif

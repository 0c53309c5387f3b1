/* SPDX-License-Identifier: MIT */
/*
 * What a build with a sanitizer differs in. gcc and clang say in different ways that there is one.
 */
#ifndef AG_SANITIZE_H
#define AG_SANITIZE_H

/* The program has a sanitizer's runtime in it, which stands in for functions of the C library. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AG_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AG_SANITIZED
#endif
#endif

/* Said of a function that a sanitizer's runtime calls before it is ready for instrumented code. */
#define AG_UNINSTRUMENTED __attribute__((no_sanitize("address", "thread", "undefined")))

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What C and assembly must agree on.
 */
#ifndef AG_ARCH_H
#define AG_ARCH_H

#define AG_SLOT_SIZE     16   /* bytes of struct ag_slot */
#define AG_THUNK_SIZE    16   /* bytes of a thunk */
#define AG_SLOTS_UNKNOWN 1024 /* slots for driver functions that this build never heard of */

#ifdef __x86_64__
#define AG_REGISTER_ARGUMENTS 6
#define AG_DLSYM_VERSION      "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define AG_REGISTER_ARGUMENTS 8
#define AG_DLSYM_VERSION      "GLIBC_2.17"
#else
#error "the doors are written for x86-64 and aarch64"
#endif

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The kernels of fuzz programs: PTX for a GPU, the same in C for the simulated driver.
 *
 * All do one thing, fz_fold: a chain of integer arithmetic through dst and src, in which every word
 * depends on all before it, on the argument k and on the launch's grid, block and dynamic shared
 * memory. It is one-to-one in dst's first word, so what once went wrong there stays wrong. One
 * thread of the grid works, so the result does not depend on how the threads run.
 */
#ifndef FUZZ_KERNELS_H
#define FUZZ_KERNELS_H

enum { KERNEL_BIG_WORDS = 128, KERNEL_HUGE_WORDS = 1250 /* over 4 KiB of arguments */ };

#include <stdint.h>

/* On the simulated driver, a sum over all launches of a hash of their attributes, which change no
   result but must be kept; it does not depend on the order of launches. */
extern _Atomic uint64_t kernel_attributes;

/* The layouts of the arguments, in the order of kernel_names. */
enum kernel_layout {
    KERNEL_PLAIN,  /* (u64 dst, u64 src, u32 n, u32 k) */
    KERNEL_TURNED, /* (u32 k, u64 src, u32 n, u64 dst) */
    KERNEL_MIXED,  /* (u8 k0, u64 dst, u16 k1, u64 src, u32 n, u8 k2) */
    KERNEL_BIG,    /* (u64 dst, u64 src, u32 n, struct of 128 words, u32 k) */
    KERNEL_HUGE,   /* the same with 1250 words */
    KERNEL_NONE,   /* () */
    KERNEL_LAYOUTS
};
extern const char *const kernel_names[KERNEL_LAYOUTS];

/* A module with all of them. */
extern const char kernel_module[];

/* A module with two kernels of (u64 word, u32 value): fz_wait waits until the word has come to the
   value, fz_set sets it. And with fz_fork, of the layout PLAIN, which passes values from lane to
   lane at forks: by its name one sees in a log how often they are replayed. */
extern const char kernel_words[];

/* Modules with the one kernel fz_own, in three layouts: PLAIN, MIXED, BIG. */
enum { KERNEL_VARIANTS = 3 };
extern const char *const kernel_variant[KERNEL_VARIANTS];
extern const enum kernel_layout kernel_variant_layout[KERNEL_VARIANTS];

#endif

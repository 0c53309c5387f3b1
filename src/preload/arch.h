/* SPDX-License-Identifier: MIT */
/*
 * What C and assembly must agree on.
 */
#ifndef AG_ARCH_H
#define AG_ARCH_H

#define AG_SLOT_SIZE     16   /* bytes of struct ag_slot */
#define AG_THUNK_SIZE    32   /* bytes of a thunk */
#define AG_SLOTS_UNKNOWN 1024 /* slots for driver functions that this build never heard of */
#define AG_LIBCUDAS      8    /* files named libcuda */
#define AG_GATE_SIZE     16   /* bytes of a gate */

/*
 * Some tools hook the functions for memory. They replace a function's first instructions by a jump
 * of 5 or 12 bytes (x86-64) or 16 bytes (aarch64), and execute the replaced instructions elsewhere.
 * UCX is one of them: it hooks all functions or none, and knows few instructions (its
 * src/ucm/bistro). So the doors of these functions begin with instructions that UCX knows, as many
 * as the longest jump replaces.
 *
 * No landing pad (endbr64, bti c) may stand before these instructions. None is needed: libcuda has
 * none, and since our assembly has no note for them the linker does not mark this library.
 */
#ifdef __x86_64__
#define AG_REGISTER_ARGUMENTS 6
#define AG_JUMP               "jmp "
/* %rax belongs to nobody at a call. */
#define AG_REPLACEABLE   "movl $0, %eax\n movl $0, %eax\n movl $0, %eax\n"
#define AG_DLSYM_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define AG_REGISTER_ARGUMENTS 8
#define AG_JUMP               "b "
/* x16 belongs to nobody at a call. */
#define AG_REPLACEABLE        "mov x16, #0\n mov x16, #0\n mov x16, #0\n mov x16, #0\n"
#define AG_DLSYM_VERSION      "GLIBC_2.17"
#else
#error "the doors are written for x86-64 and aarch64"
#endif

#ifndef __ASSEMBLER__
/* Defines the entry of a door that is written in C: begins as such tools know, and jumps to
 * `function`. */
#define AG_ENTRY(entry, function)                                                                  \
    __asm__(".pushsection .text\n .p2align 5\n .globl " #entry "\n .hidden " #entry                \
            "\n .type " #entry ", %function\n" #entry                                              \
            ":\n .cfi_startproc\n" AG_REPLACEABLE AG_JUMP #function                                \
            "\n .cfi_endproc\n .size " #entry ", . - " #entry "\n .popsection")
#endif

#endif

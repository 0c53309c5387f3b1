/* SPDX-License-Identifier: MIT */
/*
 * Barrier thunks and gates, x86-64. Both end in a jump, so that the real
 * function finds registers and stack as the caller left them. %r11 belongs to nobody at a call, nor
 * does %rax: no driver function takes a variable number of arguments.
 */
#include "preload/arch.h"

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif

    .hidden ag_slots
    .hidden ag_gate_words
    .hidden ag_subscribers
    .hidden ag_next_subscribers
    .hidden ag_memory_state
    .hidden ag_thunk_barrier
    .hidden ag_gate_decide

/* Saves all that can carry an argument, and %r11. */
.macro save_arguments
    pushq   %r11
    .cfi_adjust_cfa_offset 8
    pushq   %rax
    .cfi_adjust_cfa_offset 8
    pushq   %r10
    .cfi_adjust_cfa_offset 8
    pushq   %r9
    .cfi_adjust_cfa_offset 8
    pushq   %r8
    .cfi_adjust_cfa_offset 8
    pushq   %rcx
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    subq    $128, %rsp
    .cfi_adjust_cfa_offset 128
    movups  %xmm0, 0(%rsp)
    movups  %xmm1, 16(%rsp)
    movups  %xmm2, 32(%rsp)
    movups  %xmm3, 48(%rsp)
    movups  %xmm4, 64(%rsp)
    movups  %xmm5, 80(%rsp)
    movups  %xmm6, 96(%rsp)
    movups  %xmm7, 112(%rsp)
.endm

/* From %rsp, after save_arguments. */
#define SAVED_INTEGERS 128
#define SAVED_SCRATCH  (128 + 8 * 8)
#define RETURN_ADDRESS (128 + 9 * 8)
#define STACK_ARGUMENTS (RETURN_ADDRESS + 8)

.macro restore_arguments
    movups  0(%rsp), %xmm0
    movups  16(%rsp), %xmm1
    movups  32(%rsp), %xmm2
    movups  48(%rsp), %xmm3
    movups  64(%rsp), %xmm4
    movups  80(%rsp), %xmm5
    movups  96(%rsp), %xmm6
    movups  112(%rsp), %xmm7
    addq    $128, %rsp
    .cfi_adjust_cfa_offset -128
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    popq    %r8
    .cfi_adjust_cfa_offset -8
    popq    %r9
    .cfi_adjust_cfa_offset -8
    popq    %r10
    .cfi_adjust_cfa_offset -8
    popq    %rax
    .cfi_adjust_cfa_offset -8
    popq    %r11
    .cfi_adjust_cfa_offset -8
.endm

/* -- Thunks --------------------------------------------------------------- */

    .text
    .type   ag_thunk, @function
    .p2align 5
ag_thunk: /* %rax: the slot's distance from the first; ag_subscribers is 0 */
    .cfi_startproc
    cmpl    $0, ag_next_subscribers(%rip)
    jne     ag_thunk_seen
    testb   $1, ag_memory_state(%rip)
    jne     ag_thunk_seen
    leaq    ag_slots(%rip), %r11
    jmp     *(%r11,%rax)
ag_thunk_seen: /* the same, also where nothing is held */
    leaq    ag_slots(%rip), %r11
    addq    %rax, %r11
    save_arguments
    movq    %r11, %rdi
    leaq    SAVED_INTEGERS(%rsp), %rsi
    leaq    STACK_ARGUMENTS(%rsp), %rdx
    call    ag_thunk_barrier
    restore_arguments
    jmp     *(%r11)
    .cfi_endproc
    .size   ag_thunk, . - ag_thunk

/* The first three instructions may be replaced and executed elsewhere, see arch.h. */
.macro thunk by=ag_thunk
    .p2align 5
    movl    $AG_SLOT_SIZE * index, %eax
    .byte   0x81, 0x3d /* cmpl $0, ag_subscribers(%rip), the immediate in 4 bytes */
    .long   ag_subscribers - . - 8
    .long   0
    jne     1f
    jmp     \by
1:  jmp     ag_thunk_seen
    .set index, index + 1
.endm

/* A call that puts work into a stream is always seen. */
.macro thunk_of class
    .ifc    \class, STREAM
    thunk   ag_thunk_seen
    .else
    thunk
    .endif
.endm

    .globl  ag_thunks
    .hidden ag_thunks
    .type   ag_thunks, @function
    .p2align 5
ag_thunks:
    .cfi_startproc
    .set index, 0
#define AG_SLOT(name, class, argument, ptsz) thunk_of class
#include "preload/slots.inc"
#undef AG_SLOT
    .rept AG_SLOTS_UNKNOWN
    thunk   ag_thunk_seen
    .endr
    .org ag_thunks + AG_THUNK_SIZE * index /* an error if a thunk is larger than that */
    .cfi_endproc
    .size   ag_thunks, . - ag_thunks

/* -- Gates ---------------------------------------------------------------- */

    .globl  ag_gate_undecided
    .hidden ag_gate_undecided
    .type   ag_gate_undecided, @function
    .p2align 4
ag_gate_undecided: /* %rax: the word of a gate */
    .cfi_startproc
    save_arguments
    movq    %rax, %rdi
    call    ag_gate_decide
    movq    %rax, SAVED_SCRATCH(%rsp)
    restore_arguments
    jmp     *%r11
    .cfi_endproc
    .size   ag_gate_undecided, . - ag_gate_undecided

    .set slots, index
    .set index, 0
    .globl  ag_gates
    .hidden ag_gates
    .type   ag_gates, @function
    .p2align 4
ag_gates:
    .cfi_startproc
    .rept AG_LIBCUDAS * slots
    .p2align 4
    _CET_ENDBR
    leaq    ag_gate_words + 8 * index(%rip), %rax
    jmp     *(%rax)
    .set index, index + 1
    .endr
    .org ag_gates + AG_GATE_SIZE * index /* an error if a gate is larger than that */
    .cfi_endproc
    .size   ag_gates, . - ag_gates

    .section .note.GNU-stack, "", @progbits

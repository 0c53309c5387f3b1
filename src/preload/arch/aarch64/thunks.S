/* SPDX-License-Identifier: MIT */
/*
 * Barrier thunks and gates, aarch64. Both end in a jump, so that the real
 * function finds registers and stack as the caller left them. x15, x16 and x17 belong to nobody at a
 * call.
 */
#include "preload/arch.h"

    .hidden ag_slots
    .hidden ag_gate_words
    .hidden ag_subscribers
    .hidden ag_next_subscribers
    .hidden ag_memory_state
    .hidden ag_thunk_barrier
    .hidden ag_gate_decide

#define FRAME          240
#define SAVED_INTEGERS 16
#define SAVED_SCRATCH  96

/* Saves all that can carry an argument, and x16. */
.macro save_arguments
    stp     x29, x30, [sp, #-FRAME]!
    .cfi_def_cfa_offset FRAME
    .cfi_offset x29, -FRAME
    .cfi_offset x30, -FRAME + 8
    mov     x29, sp
    stp     x0, x1, [sp, #SAVED_INTEGERS]
    stp     x2, x3, [sp, #SAVED_INTEGERS + 16]
    stp     x4, x5, [sp, #SAVED_INTEGERS + 32]
    stp     x6, x7, [sp, #SAVED_INTEGERS + 48]
    str     x8, [sp, #SAVED_INTEGERS + 64]
    str     x16, [sp, #SAVED_SCRATCH]
    stp     q0, q1, [sp, #112]
    stp     q2, q3, [sp, #144]
    stp     q4, q5, [sp, #176]
    stp     q6, q7, [sp, #208]
.endm

.macro restore_arguments
    ldp     q0, q1, [sp, #112]
    ldp     q2, q3, [sp, #144]
    ldp     q4, q5, [sp, #176]
    ldp     q6, q7, [sp, #208]
    ldr     x16, [sp, #SAVED_SCRATCH]
    ldr     x8, [sp, #SAVED_INTEGERS + 64]
    ldp     x0, x1, [sp, #SAVED_INTEGERS]
    ldp     x2, x3, [sp, #SAVED_INTEGERS + 16]
    ldp     x4, x5, [sp, #SAVED_INTEGERS + 32]
    ldp     x6, x7, [sp, #SAVED_INTEGERS + 48]
    ldp     x29, x30, [sp], #FRAME
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
.endm

/* -- Thunks --------------------------------------------------------------- */

    .text
    .type   ag_thunk, %function
    .p2align 5
ag_thunk: /* x16: the slot's distance from the first; ag_subscribers is 0 */
    .cfi_startproc
    adrp    x17, ag_next_subscribers
    ldr     w17, [x17, #:lo12:ag_next_subscribers]
    cbnz    w17, ag_thunk_seen
    adrp    x17, ag_memory_state
    ldr     w17, [x17, #:lo12:ag_memory_state]
    tbnz    w17, #0, ag_thunk_seen
    add     x15, x15, #:lo12:ag_slots
    ldr     x16, [x15, x16]
    br      x16
ag_thunk_seen: /* the same, also where nothing is held */
    add     x15, x15, #:lo12:ag_slots
    add     x16, x15, x16
    save_arguments
    mov     x0, x16
    add     x1, sp, #SAVED_INTEGERS
    add     x2, sp, #FRAME
    bl      ag_thunk_barrier
    restore_arguments
    ldr     x16, [x16]
    br      x16
    .cfi_endproc
    .size   ag_thunk, . - ag_thunk

/* The first four instructions may be replaced and executed elsewhere, see arch.h. */
.macro thunk by=ag_thunk
    .p2align 5
    mov     x16, #AG_SLOT_SIZE * index
    adrp    x17, ag_subscribers
    ldr     w17, [x17, #:lo12:ag_subscribers]
    adrp    x15, ag_slots
    cbnz    w17, ag_thunk_seen
    b       \by
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
    .type   ag_thunks, %function
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
    .type   ag_gate_undecided, %function
    .p2align 4
ag_gate_undecided: /* x16: the word of a gate */
    .cfi_startproc
    save_arguments
    mov     x0, x16
    bl      ag_gate_decide
    str     x0, [sp, #SAVED_SCRATCH]
    restore_arguments
    br      x16
    .cfi_endproc
    .size   ag_gate_undecided, . - ag_gate_undecided

/* The load acquires: what the function's slot holds was written before its word. */
    .set slots, index
    .set index, 0
    .globl  ag_gates
    .hidden ag_gates
    .type   ag_gates, %function
    .p2align 4
ag_gates:
    .cfi_startproc
    .rept AG_LIBCUDAS * slots
    adrp    x16, ag_gate_words + 8 * index
    add     x16, x16, #:lo12:(ag_gate_words + 8 * index)
    ldar    x17, [x16]
    br      x17
    .set index, index + 1
    .endr
    .org ag_gates + AG_GATE_SIZE * index /* an error if a gate is larger than that */
    .cfi_endproc
    .size   ag_gates, . - ag_gates

    .section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: MIT */
/*
 * Barrier thunks and exported driver functions, aarch64. Both end in a jump, so that the real
 * function finds registers and stack as the caller left them. x15, x16 and x17 belong to nobody at a
 * call.
 */
#include "preload/arch.h"

    .hidden ag_slots
    .hidden ag_exports
    .hidden ag_listeners
    .hidden ag_curious_streams
    .hidden ag_memory_state
    .hidden ag_thunk_barrier
    .hidden ag_export_bind

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
ag_thunk: /* x16: the slot's distance from the first; ag_listeners is 0 */
    .cfi_startproc
    adrp    x17, ag_curious_streams
    ldr     w17, [x17, #:lo12:ag_curious_streams]
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
    adrp    x17, ag_listeners
    ldr     w17, [x17, #:lo12:ag_listeners]
    adrp    x15, ag_slots
    cbnz    w17, ag_thunk_seen
    b       \by
    .set index, index + 1
.endm

    .globl  ag_thunks
    .hidden ag_thunks
    .type   ag_thunks, %function
    .p2align 5
ag_thunks:
    .cfi_startproc
    .set index, 0
#define AG_SLOT(name, class, argument, ptsz) thunk
#include "preload/slots.inc"
#undef AG_SLOT
    .rept AG_SLOTS_UNKNOWN
    thunk   ag_thunk_seen
    .endr
    .org ag_thunks + AG_THUNK_SIZE * index /* an error if a thunk is larger than that */
    .cfi_endproc
    .size   ag_thunks, . - ag_thunks

/* -- Exports -------------------------------------------------------------- */

    .type   ag_export, %function
    .p2align 4
ag_export: /* w16: index of an exported function that has not been bound yet */
    .cfi_startproc
    save_arguments
    mov     w0, w16
    mov     x1, x30
    bl      ag_export_bind
    str     x0, [sp, #SAVED_SCRATCH]
    restore_arguments
    br      x16
    .cfi_endproc
    .size   ag_export, . - ag_export

/*
 * The load acquires: what the function's slot holds was written before its address.
 *
 * Without a size: a program that has a copy of a variable of this name begins with the variable's
 * value, which the dynamic linker copies from the first symbol of the name: from here, as many bytes
 * as it has.
 */
.macro export name
    .globl  \name
    .type   \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint    #34 /* bti c */
    adrp    x16, ag_exports + 8 * index
    add     x16, x16, #:lo12:(ag_exports + 8 * index)
    ldar    x16, [x16]
    cbz     x16, 1f
    br      x16
1:  mov     w16, #index
    b       ag_export
    .cfi_endproc
    .set index, index + 1
.endm

    .set index, 0
#define AG_SLOT(name, class, argument, ptsz) export name
#include "preload/slots.inc"
#undef AG_SLOT

    .section .note.GNU-stack, "", %progbits

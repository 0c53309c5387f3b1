/* SPDX-License-Identifier: MIT */
/*
 * The exported dlopen() and dlmopen(), aarch64. Each lets its door look, then jumps to the real one
 * with registers and stack as the caller left them.
 */
    .hidden ag_dlopen_door
    .hidden ag_dlmopen_door
    .hidden ag_real_dlopen
    .hidden ag_real_dlmopen

/* `caller`: the register of the door's last argument, the return address. */
.macro opens name, caller
    .globl  \name
    .type   \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint    #34 /* bti c */
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    str     x2, [sp, #32]
    mov     \caller, x30
    bl      ag_\name\()_door
    ldr     x2, [sp, #32]
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #48
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    adrp    x16, ag_real_\name
    ldr     x16, [x16, #:lo12:ag_real_\name]
    br      x16
    .cfi_endproc
    .size   \name, . - \name
.endm

    .text
    opens   dlopen, x2
    opens   dlmopen, x3

    .section .note.GNU-stack, "", %progbits

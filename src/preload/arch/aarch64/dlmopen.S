/* SPDX-License-Identifier: MIT */
/*
 * The exported dlmopen(), aarch64. It lets its door look, then jumps to the real one with registers
 * and stack as the caller left them.
 */
    .hidden ag_dlmopen_door
    .hidden ag_real_dlmopen

    .text
    .globl  dlmopen
    .type   dlmopen, %function
    .globl  ag_dlmopen /* not that of another library in front */
    .hidden ag_dlmopen
    .p2align 4
dlmopen:
ag_dlmopen:
    .cfi_startproc
    hint    #34 /* bti c */
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    str     x2, [sp, #32]
    mov     x3, x30
    bl      ag_dlmopen_door
    ldr     x2, [sp, #32]
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #48
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    adrp    x16, ag_real_dlmopen
    ldr     x16, [x16, #:lo12:ag_real_dlmopen]
    br      x16
    .cfi_endproc
    .size   dlmopen, . - dlmopen

    .section .note.GNU-stack, "", %progbits

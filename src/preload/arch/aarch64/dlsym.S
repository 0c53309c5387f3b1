/* SPDX-License-Identifier: MIT */
/*
 * The exported dlsym(), aarch64. Unless the door decides, it jumps to the real one with the link
 * register as the caller left it: the C library takes the return address for the caller when it
 * searches for RTLD_NEXT and RTLD_DEFAULT.
 */
    .hidden ag_dlsym_door
    .hidden ag_real_dlsym

    .text
    .globl  dlsym
    .type   dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint    #34 /* bti c */
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    mov     x2, x30      /* return address */
    add     x3, sp, #32  /* where the answer goes */
    bl      ag_dlsym_door
    tst     w0, #0xff
    ldr     x2, [sp, #32]
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #48
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    b.eq    1f
    mov     x0, x2
    ret
1:  adrp    x16, ag_real_dlsym
    ldr     x16, [x16, #:lo12:ag_real_dlsym]
    br      x16
    .cfi_endproc
    .size   dlsym, . - dlsym

    .section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: MIT */
/* The machine code of fetch.ptx for each kind of device, as the toolkit's compiler puts it together
   (local.mk); zeros where there was no compiler. */
    .section .rodata
    .balign 16
    .globl  ag_fetch_image
    .hidden ag_fetch_image
    .type   ag_fetch_image, %object
ag_fetch_image:
    .incbin "src/engine/context/fetch.fatbin"
    .size   ag_fetch_image, . - ag_fetch_image

    .section .note.GNU-stack, "", %progbits

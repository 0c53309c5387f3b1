/* SPDX-License-Identifier: MIT */
/* The biased lock as it is on other architectures than x86-64: local.mk says so. */
#include "unit/test_lock.c"

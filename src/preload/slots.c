/* SPDX-License-Identifier: MIT */
/* The table of the driver's functions: doors and thunks find the real ones in it. route.c fills it.
 */
#include "preload/preload.h"

struct ag_slot ag_slots[AG_SLOTS];

/* SPDX-License-Identifier: MIT */
/*
 * The doors of the program's own captures, into a graph or into the command list of a graphics
 * interface (CIG): either way what is submitted does not run now. All are alike: capture.doors.
 */
#include "preload/door.h"

#include "preload/capture_doors.inc"

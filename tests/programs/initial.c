/* SPDX-License-Identifier: MIT */
/*
 * initial.c CHANGE [DIRECTORY]: changes what the process began with, then repeats a few launches.
 *
 *   none, clear (the environment), overwrite (its memory, as programs that give themselves a title
 *   do), set (AUTOGRAPH_DISABLE=1); then goes to the directory
 */
#include "sim_test.h"

extern char **environ;

static void change(const char *how)
{
    if (strcmp(how, "clear") == 0)
        CHECK(clearenv() == 0);
    else if (strcmp(how, "set") == 0)
        CHECK(setenv("AUTOGRAPH_DISABLE", "1", 1) == 0);
    else if (strcmp(how, "overwrite") == 0)
        for (char **variable = environ; *variable; variable++)
            memset(*variable, 'x', strlen(*variable));
    else
        CHECK(strcmp(how, "none") == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    change(argv[1]);
    if (argc == 3)
        CHECK(chdir(argv[2]) == 0);
    start();
    CUdeviceptr words;
    OK(cuMemAlloc(&words, 128));
    OK(cuMemsetD32(words, 3, 32));
    for (unsigned i = 0; i < 500; i++)
        OK(launch_mix(words, 32, i % 8, 0));
    OK(cuCtxSynchronize());
    return 0;
}

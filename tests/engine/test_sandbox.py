# SPDX-License-Identifier: MIT
"""A program that has itself killed for system calls that it does not make: the library makes none of its
own then, having asked for all that it needs when the program made its first context."""
import pathlib
import re

import pytest

import compiled
import helpers

SCENARIOS = re.findall(r'\{"(\w+)", \w+\}',
                       pathlib.Path(compiled.PROGRAMS, "live_sandbox.c").read_text())

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer makes system calls of its own")


def sandboxed(scenario, preload):
    done = helpers.run([compiled.program("live_sandbox"), scenario], preload=preload,
                       env={"AUTOGRAPH_TRACE_DUEL": "false", **helpers.HASTY})
    begins, sums, replays = done.stdout.splitlines()
    assert begins == "begins" and done.stderr == ""
    return sums, int(replays)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_system_call_that_the_program_does_not_make(scenario):
    sums, replays = sandboxed(scenario, preload=True)
    assert sums == sandboxed(scenario, preload=False)[0]
    assert replays > 0 or scenario == "spins"  # there the watchdog submits most


THREADS = """
#include <dirent.h>
#include "sim_test.h"

static void list(void)
{
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%31s", name) == 1)
            printf("%s ", name);
        if (file != NULL)
            fclose(file);
    }
    printf("\\n");
    closedir(tasks);
}

int main(int argc, char **argv)
{
    CUcontext made;
    CHECK(argc == 2);
    OK(cuInit(0));
    OK(cuDeviceGet(&dev, 0));
    list();
    if (*argv[1] == 'r')
        OK(cuDevicePrimaryCtxRetain(&made, dev));
    else
        OK(create_context(&made));
    list();
    return 0;
}
"""


@pytest.mark.parametrize("how", ["retains", "creates"])
def test_threads_come_with_the_first_context(how):
    """Before, the program may still fork, or only look at its devices."""
    before, after = helpers.run([compiled.text(THREADS), how]).stdout.splitlines()
    assert not re.search("ag-", before)
    assert {"ag-watchdog", "ag-helper"} <= set(after.split())


NO_THREADS = """
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include "sim_test.h"

static int refuse = 1;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    static __typeof__(pthread_create) *real;
    if (refuse)
        return EAGAIN;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, run, argument);
}

int main(void)
{
    CUdeviceptr buffer;
    uint32_t sum;
    start();
    refuse = 0;
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 8; k++)
            OK(launch_mix(buffer, 1, 7, 0));
        OK(cuCtxSynchronize());
        OK(launch_mix(buffer, 1, 7, CU_STREAM_PER_THREAD)); /* by itself */
        OK(cuCtxSynchronize());
    }
    OK(cuMemcpyDtoH(&sum, buffer, 4));
    printf("%08x\\n", sum);
    return 0;
}
"""


def test_nothing_is_held_without_threads():
    """They are asked for once; the driver gets its own later."""
    command = [compiled.text(NO_THREADS)]
    plain = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command, env={"AUTOGRAPH_LOG_LEVEL": 1})
    assert (done.stdout, done.log) == (plain.stdout, plain.log)
    assert done.report["replays"] == 0 
    assert "nothing is held: there is no thread for the watchdog" in done.stderr

# SPDX-License-Identifier: MIT
"""Objects that are bound in unusual ways. Those that are opened with RTLD_DEEPBIND come through the doors; what is
loaded into another namespace passes them by, and nothing is held from then on."""
import os

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer refuses RTLD_DEEPBIND and other namespaces")

WHATS = ("sync", "launch", "mix", "read")
# In another namespace a library has a driver of its own, or the program's by a handle.
PASSING = [("space", "asks")]
BOUND = [("plain", "links"), ("plain", "asks"), ("deep", "links"), ("deep", "asks")]


def source(name):
    return compiled.PROGRAMS / f"{name}.c"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return compiled.once(tmp_path_factory, "bypass", make_libraries)


def make_libraries(place):
    for name in "links", "asks":
        shared(place / f"lib{name}.so", "-DLIBRARY", source("door_deep"),
               *(["-DLINKS", "-Wl,--no-as-needed", helpers.sim_dir() / "libcuda.so.1"]
                 if name == "links" else []))


def shared(output, *arguments):
    config = helpers.config()
    helpers.tool(*config["cc"].split(), "-isystem", f"{config['cuda']}/include", "-std=gnu11", "-O1",
                 "-Wall", "-fPIC", "-shared", "-o", output, *arguments)
    return output


def run(libraries, how, what, when, file, **options):
    return helpers.run_logged([compiled.program("door_deep"), how, what, when,
                               libraries / f"lib{file}.so"], **options)


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("when", ["first", "early", "late"])
@pytest.mark.parametrize("how,file", PASSING)
def test_order_and_values_are_the_same(libraries, how, file, when, what):
    plain = run(libraries, how, what, when, file, preload=False)
    done = run(libraries, how, what, when, file)
    assert done.stdout == plain.stdout and done.log == plain.log
    assert "dlmopen" in done.report["stopped"] and f"lib{file}.so" in done.report["stopped"]
    assert (done.report["replays"] > 10) == (when == "late"), "replayed until then, and no longer"


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("how,file", PASSING)
def test_opened_by_one_thread_while_another_launches(libraries, how, file, what):
    for _ in range(5):
        done = run(libraries, how, what, "beside", file)
        assert "wrong 0" in done.stdout
        assert done.report["stopped"] and done.report["replays"] > 10


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("when", ["first", "early", "late"])
@pytest.mark.parametrize("how,file", BOUND)
def test_what_is_opened_otherwise_comes_through_the_doors(libraries, how, file, when, what):
    plain = run(libraries, how, what, when, file, preload=False)
    done = run(libraries, how, what, when, file)
    assert done.stdout == plain.stdout and done.log == plain.log
    assert done.report["stopped"] is None and done.report["replays"] > 50


def test_the_log_says_why(libraries):
    done = run(libraries, "space", "sync", "early", "asks", env={"AUTOGRAPH_LOG_LEVEL": "1"})
    lines = [line for line in done.stderr.splitlines() if "nothing is held" in line]
    assert len(lines) == 1 and "libasks.so was loaded into another namespace" in lines[0]
    assert run(libraries, "space", "sync", "early", "asks").stderr == ""


NESTED = """
#define _GNU_SOURCE
#include <dlfcn.h>
void *opens(const char *name)
{
    void *volatile opened = dlmopen(LM_ID_NEWLM, name, RTLD_NOW);
    return opened;
}
"""

OPENS = """
#include <dlfcn.h>
#include "sim_test.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    if (strcmp(argv[3], "late") == 0)
        start();
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    CHECK(library);
    void *(*opens)(const char *) = (void *(*)(const char *))dlsym(library, "opens");
    if (strcmp(argv[3], "early") == 0)
        start();
    CHECK(opens(argv[2]));
    return 0;
}
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_another_namespace_from_an_object_that_is_bound_deep(libraries, tmp_path, when):
    """It is bound to the C library's dlmopen(): before there is a driver, or by the symbol as it is then."""
    (tmp_path / "nested.c").write_text(NESTED)
    nested = shared(tmp_path / "libnested.so", tmp_path / "nested.c", "-ldl")
    done = helpers.run_logged([compiled.text(OPENS), nested, libraries / "libasks.so", when])
    assert "dlmopen" in done.report["stopped"]


def test_the_callers_search_path_counts(tmp_path):
    """RUNPATH is that of the object which calls, not of the library."""
    (tmp_path / "deep").mkdir()
    for name, text in (("deep/libinner", "int seven(void) { return 7; }"), ("libouter", """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int outer(int space)
{
    void *volatile found = space ? dlmopen(LM_ID_BASE, "libinner.so", RTLD_NOW)
                                 : dlopen("libinner.so", RTLD_NOW);
    int (*seven)(void) = found ? (int (*)(void))dlsym(found, "seven") : NULL;
    return seven ? seven() : 0;
}
""")):
        (tmp_path / f"{name}.c").write_text(text)
        shared(tmp_path / f"{name}.so", tmp_path / f"{name}.c", "-Wl,-rpath,$ORIGIN/deep", "-ldl")
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(
        "int outer(int); int main(void) { return outer(0) != 7 || outer(1) != 7; }")
    helpers.tool(*helpers.config()["cc"].split(), tmp_path / "program.c", tmp_path / "libouter.so",
                 "-Wl,-rpath,$ORIGIN", "-o", program)
    helpers.run([program], sim=False)
    assert os.path.exists(program)

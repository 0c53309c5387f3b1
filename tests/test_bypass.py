# SPDX-License-Identifier: MIT
"""Objects that pass the doors by: nothing is held once one may reach the driver."""
import os

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer refuses RTLD_DEEPBIND and other namespaces")

WHATS = ("sync", "launch", "mix", "read")
# In another namespace a library has a driver of its own, or the program's by a handle.
WAYS = [("deep", "links"), ("deep", "asks"), ("space", "asks")]


def source(name):
    return compiled.PROGRAMS / f"{name}.c"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    place = tmp_path_factory.mktemp("bypass")
    for name in "links", "asks":
        shared(place / f"lib{name}.so", "-DLIBRARY", source("door_deep"),
               *(["-DLINKS", "-Wl,--no-as-needed", helpers.sim_dir() / "libcuda.so.1"]
                 if name == "links" else []))
    return place


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
@pytest.mark.parametrize("how,file", WAYS)
def test_order_and_values_are_the_same(libraries, how, file, when, what):
    plain = run(libraries, how, what, when, file, preload=False)
    done = run(libraries, how, what, when, file)
    assert done.stdout == plain.stdout and done.log == plain.log
    words = "RTLD_DEEPBIND" if how == "deep" else "dlmopen"
    assert words in done.report["stopped"] and f"lib{file}.so" in done.report["stopped"]
    assert (done.report["replays"] > 10) == (when == "late"), "replayed until then, and no longer"


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("how,file", WAYS)
def test_opened_by_one_thread_while_another_launches(libraries, how, file, what):
    for _ in range(5):
        done = run(libraries, how, what, "beside", file)
        assert "wrong 0" in done.stdout
        assert done.report["stopped"] and done.report["replays"] > 10


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("file", ["links", "asks"])
def test_what_is_opened_otherwise_comes_through_the_doors(libraries, file, what):
    plain = run(libraries, "plain", what, "late", file, preload=False)
    done = run(libraries, "plain", what, "late", file)
    assert done.stdout == plain.stdout and done.log == plain.log
    assert done.report["stopped"] is None and done.report["replays"] > 50


def test_the_log_says_why(libraries):
    done = run(libraries, "deep", "sync", "early", "asks", env={"AUTOGRAPH_LOG_LEVEL": "1"})
    lines = [line for line in done.stderr.splitlines() if "nothing is held" in line]
    assert len(lines) == 1 and "libasks.so was opened with RTLD_DEEPBIND" in lines[0]
    assert run(libraries, "deep", "sync", "early", "asks").stderr == ""


# -- What stops it, and what does not ------------------------------------------------

OPENS = """
#include <dlfcn.h>
#include "sim_test.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    if (strcmp(argv[1], "loaded") == 0)
        CHECK(dlopen(argv[2], RTLD_NOW));
    int flags = RTLD_NOW | RTLD_DEEPBIND | (strcmp(argv[1], "noload") == 0 ? RTLD_NOLOAD : 0);
    void *opened = dlopen(*argv[2] ? argv[2] : NULL, flags);
    const char *error = dlerror();
    printf("%s\\n", opened ? "yes" : error ? error : "no");
    start();
    CUdeviceptr words;
    OK(cuMemAlloc(&words, 128));
    OK(cuMemsetD32(words, 3, 32));
    for (unsigned i = 0; i < 1000; i++)
        OK(launch_mix(words, 32, i % 8, 0));
    uint32_t now;
    OK(cuMemcpyDtoH(&now, words, 4));
    printf("%x\\n", now);
    return 0;
}
"""


@pytest.fixture(scope="module")
def opens(tmp_path_factory):
    """Opens an object with RTLD_DEEPBIND, and returns whether the library stopped for that."""
    place = tmp_path_factory.mktemp("opens")
    def write(name, text, *arguments):
        (place / f"{name}.c").write_text(text)
        shared(place / f"lib{name}.so", f"-Wl,-soname,lib{name}.so", place / f"{name}.c", *arguments)
    write("plain", "int seven(void) { return 7; }")
    write("other", "int eight(void) { return 8; }")
    write("needs", "int eight(void); int nine(void) { return eight() + 1; }", place / "libother.so",
          "-Wl,-rpath,$ORIGIN")
    for name in "dlsym", "dlopen", "dlmopen", "cuLaunchKernel":
        write(name, f"void {name}(void); void f(void) {{ {name}(); }}")
    write("filter", "int ten;", f"-Wl,-F,{place}/libother.so")
    (place / "libtext.so").write_text("text")
    (place / "libcut.so").write_bytes((place / "libplain.so").read_bytes()[:100])

    def stops(name, how="new", **env):
        env = {"LD_LIBRARY_PATH": f"{helpers.sim_dir()}:{place}", **env}
        name = name.replace("PLACE", str(place))
        plain = helpers.run([compiled.text(OPENS), how, name], preload=False, env=env, cwd=place)
        done = helpers.run_logged([compiled.text(OPENS), how, name], env=env, cwd=place)
        assert done.stdout == plain.stdout
        assert (done.report["replays"] > 0) == (done.report["stopped"] is None)
        return done.report["stopped"] is not None
    return stops


@pytest.mark.parametrize("name", ["PLACE/libplain.so", "./libplain.so", "", "PLACE/libmissing.so",
                                  "libcuda.so.1", "libc.so.6"])
def test_what_cannot_reach_the_driver(opens, name):
    assert not opens(name)


@pytest.mark.parametrize("name", [
    "libplain.so", "$ORIGIN/libplain.so", "PLACE/libneeds.so", "PLACE/libdlsym.so",
    "PLACE/libdlopen.so", "PLACE/libdlmopen.so", "PLACE/libcuLaunchKernel.so",
    "PLACE/libfilter.so", "PLACE/libtext.so", "PLACE/libcut.so"])
def test_what_may_reach_the_driver(opens, name):
    assert opens(name)


@pytest.mark.parametrize("name", ["libdlsym.so", "PLACE/libdlsym.so", "PLACE/libneeds.so"])
def test_what_is_loaded_is_bound_already(opens, name):
    assert not opens(name, "loaded")
    assert not opens(name, "noload")


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

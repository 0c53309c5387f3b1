# SPDX-License-Identifier: MIT
"""Options and names of files are those of whoever started the process, whatever it has done to its
environment and directory since."""
import json
import os

import pytest

import compiled
import helpers

CHANGES = ("clear", "overwrite", "set")


@pytest.fixture
def places(tmp_path):
    """Where the process begins, and where it goes."""
    for name in "begin", "go":
        (tmp_path / name).mkdir()
    return tmp_path / "begin", tmp_path / "go"


def run(places, change, env, go=True):
    begin, there = places
    # The simulated driver reads its own variables when it is loaded.
    return helpers.run([compiled.program("initial"), change, *([there] if go else [])],
                       env={**helpers.PATIENT, **env}, cwd=begin)


def names(place):
    return sorted(p.name for p in place.iterdir())


@pytest.mark.parametrize("change", ["none", "clear", "overwrite"])
def test_it_stays_disabled(places, change):
    run(places, change, {"AUTOGRAPH_DISABLE": "1", "AUTOGRAPH_REPORT": "r"})
    assert names(places[0]) == names(places[1]) == []


@pytest.mark.parametrize("change", ["none", *CHANGES])
def test_options_and_files_stay(places, change):
    run(places, change, {"AUTOGRAPH_REPORT": "r.%r.json", "AUTOGRAPH_TRACE_FILE": "t", "RANK": "7",
                         "AUTOGRAPH_TRACE_UNROLL": "32"})
    assert names(places[0]) == ["r.7.json", "t"] and names(places[1]) == []
    report = json.loads((places[0] / "r.7.json").read_text())
    assert report["options"]["trace.unroll"] == 32 and report["replays"] > 0
    assert report["options"]["report.file"] == "r.%r.json"


@pytest.mark.parametrize("change", ["none", *CHANGES])
@pytest.mark.parametrize("named", ["sub/my.ini", None])
def test_the_configuration_is_that_of_the_start(places, change, named):
    begin, there = places
    (begin / "sub").mkdir()
    (begin / (named or "autograph.ini")).write_text("[trace]\nunroll = 32\n[report]\nfile = r\n")
    (there / "autograph.ini").write_text("[report]\nfile = other\n")
    run(places, change, {"AUTOGRAPH_CONFIG": named})
    assert names(there) == ["autograph.ini"]
    assert json.loads((begin / "r").read_text())["options"]["trace.unroll"] == 32


@pytest.mark.parametrize("change", ["none", *CHANGES])
def test_the_users_configuration_is_that_of_the_start(places, change):
    begin, there = places
    (there / "autograph").mkdir()
    (there / "autograph/autograph.ini").write_text("[report]\nfile = r\n")
    run(places, change, {"AUTOGRAPH_CONFIG": None, "XDG_CONFIG_HOME": there})
    assert names(begin) == ["r"]


def test_a_directory_that_is_gone(places):
    """Then names are those of the directory in which the process is."""
    begin, there = places
    program = compiled.program("initial")
    helpers.run(["sh", "-c", f"rmdir '{begin}'; exec {program} none '{there}'"], cwd=begin,
                env={"AUTOGRAPH_REPORT": "r"})
    assert names(there) == ["r"] and not os.path.exists(begin)


def test_names_that_are_too_long(places):
    """One line says so."""
    done = run(places, "none", {"AUTOGRAPH_REPORT": "x" * 1020})
    assert "the report x" in done.stderr and "cannot be written" in done.stderr
    assert names(places[0]) == []


CONSTRUCTOR = """
#include <cuda.h>
#include <stdlib.h>
__attribute__((constructor)) static void begin(void)
{
    cuInit(0);
    clearenv();
}
void used(void) {}
"""


def test_a_library_that_uses_cuda_before_main(tmp_path):
    """Its constructor may run before this library's."""
    config = helpers.config()
    (tmp_path / "c.c").write_text(CONSTRUCTOR)
    (tmp_path / "p.c").write_text("void used(void); int main(void) { used(); return 0; }")
    sanitize = [f"-fsanitize={config['sanitize']}"] if config["sanitize"] else []
    cc = [*config["cc"].split(), *sanitize]
    helpers.tool(*cc, "-isystem", f"{config['cuda']}/include", "-fPIC", "-shared", "-o",
                 tmp_path / "libc1.so", tmp_path / "c.c", f"-L{helpers.sim_dir()}", "-lcuda")
    helpers.tool(*cc, "-o", tmp_path / "p", tmp_path / "p.c", tmp_path / "libc1.so",
                 f"-Wl,-rpath-link,{helpers.sim_dir()}", "-L", helpers.sim_dir(), "-lcuda")
    helpers.run([tmp_path / "p"], env={"AUTOGRAPH_REPORT": "r"}, cwd=tmp_path)
    assert (tmp_path / "r").exists()


def test_a_program_without_cuda_keeps_its_errno_and_directory(tmp_path):
    done = helpers.run(["sh", "-c", "pwd; cd /; pwd"], sim=False, cwd=tmp_path)
    assert done.stdout == f"{tmp_path}\n/\n" and done.stderr == ""


@helpers.unsanitized
def test_an_object_that_begins_before_the_c_library(places, tmp_path):
    """As valgrind's: there is no environment yet."""
    (tmp_path / "early.c").write_text("int early;\n")
    early = tmp_path / "libearly.so"
    helpers.tool(*helpers.config()["cc"].split(), "-shared", "-fPIC", "-nodefaultlibs", "-Wl,-z,initfirst",
                 tmp_path / "early.c", "-o", early)
    preload = f"{early}:{helpers.library()}"
    run(places, "none", {"LD_PRELOAD": preload, "AUTOGRAPH_REPORT": "r"})
    assert names(places[0]) == ["r"]
    run(places, "none", {"LD_PRELOAD": preload, "AUTOGRAPH_REPORT": "s", "AUTOGRAPH_DISABLE": "1"})
    assert names(places[0]) == ["r"]

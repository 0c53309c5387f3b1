# SPDX-License-Identifier: MIT
"""Libraries with variables that are named like the driver's functions (tests/programs/pointers_lib.c):
what they and others keep in these variables is theirs, whatever this library exports."""
import pytest

import compiled
import helpers
from commands import WIDE, autograph

PROGRAMS = helpers.SOURCE / "tests/programs"
WAYS = pytest.mark.parametrize("env", [{}, {"AUTOGRAPH_DISABLE": "1"}], ids=["on", "off"])


def build(place, output, *arguments):
    helpers.tool(*helpers.config()["cc"].split(), "-g", "-o", place / output, *arguments)
    return place / output


@pytest.fixture(scope="module", name="place", params=["-O0", "-O2", "-O2 -Wl,-z,relro,-z,now"])
def fixture_place(request, tmp_path_factory):
    return compiled.once(tmp_path_factory, f"pointers{request.param_index}", lambda place: make(place, *request.param.split()))


def make(place, *options):
    library = [*options, "-shared", "-fPIC", PROGRAMS / "pointers_lib.c"]
    here = [f"-L{place}", "-Wl,-rpath,$ORIGIN"]
    build(place, "liblibrary.so", *library, "-ldl")
    build(place, "libuser.so", *library, "-DUSER", *here, "-llibrary")
    build(place, "libplugin.so", *library, "-DLINKED", helpers.sim_dir() / "libcuda.so.1")
    build(place, "loads", PROGRAMS / "pointers.c", "-ldl")
    for name, flags in (("linked", []), ("fixed", ["-no-pie", "-fno-pie"]),
                        ("independent", ["-fPIC", "-pie"])):
        build(place, name, *options, "-DLINKED", *flags, PROGRAMS / "pointers.c", *here, "-llibrary", "-luser")


def without(*command, env):
    """The simulated driver needs a sanitizer's runtime also here."""
    return helpers.run(command, preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime(), **env})


def compare(*command, env):
    plain = without(*command, env=env)
    ours = helpers.run(command, env=env)
    assert ours.stdout == plain.stdout and "-1" not in plain.stdout
    return plain.stderr, ours.stderr


@WAYS
@pytest.mark.parametrize("program", ["linked", "fixed", "independent"])
def test_a_program_that_links_them(place, program, env):
    """Two of these have copies of the variables. All variables begin as NULL."""
    if program == "independent" and helpers.config()["sanitize"]:
        pytest.skip("with a sanitizer the library waits for the first look-up")
    assert compare(place / program, env=env) == ("", "")


@WAYS
def test_a_program_that_loads_them(place, env):
    assert compare(place / "loads", place / "liblibrary.so", place / "libuser.so", env=env) == ("", "")


def test_functions_stay_functions(place):
    """A plugin that links libcuda is led through the library, before and behind."""
    plain, ours = compare(place / "loads", place / "liblibrary.so", place / "libuser.so",
                          place / "libplugin.so", env={})
    assert plain == 2 * "libcuda.so.1\n" and ours == 2 * "libautograph.so\n"


def test_doctor_recognises_them(place):
    # It has no kernel for the simulated driver: not useful.
    done = autograph("doctor", place / "linked", status=1, env={**helpers.NO_LEAK_CHECK, **WIDE})
    lines = [line for line in done.stdout.splitlines() if line.startswith("CUDA:")]
    assert [line.split(None, 1)[1] for line in lines] == ["liblibrary.so looks the driver's functions up (cuDeviceGet)"]


def test_the_launcher_needs_nothing_else(place):
    assert autograph(place / "linked").stdout == without(place / "linked", env={}).stdout

# SPDX-License-Identifier: MIT
"""Several files named libcuda in a process: what counts is the one whose functions are used."""
import shutil

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a copy of the instrumented driver reports itself")

SOURCE = compiled.PROGRAMS / "door_several.c"
SHIMS = {"shim": [], "raw": ["-DRAW"], "early": ["-DEARLY"], "early_raw": ["-DEARLY", "-DRAW"]}
DRIVER = helpers.sim_dir() / "libcuda.so.1"


def build(output, *arguments):
    config = helpers.config()
    output.parent.mkdir(exist_ok=True)
    helpers.tool(*config["cc"].split(), "-isystem", f"{config['cuda']}/include",
                 f"-I{helpers.SOURCE}/tests/sim", "-std=gnu11", "-Wall", "-fPIC", "-o", output,
                 *arguments, "-ldl")
    return output


def names():
    symbols = helpers.tool("nm", "-D", "--defined-only", helpers.sim_dir() / "libcuda.so.1")
    return [line.split()[-1] for line in symbols.splitlines() if " T cu" in line]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{name: path} of drivers, stubs and shims, and of the program."""
    place = compiled.once(tmp_path_factory, "drivers", make)
    return {"driver": DRIVER, "program": place / "program", "renamed": place / "renamed/driver.so",
            **{name: place / name / "libcuda.so" for name in ("stub", "broken")},
            **{name: place / name / "libcuda.so.1" for name in ("copy", *SHIMS, "hides")}}


def make(place):
    build(place / "program", SOURCE)
    # A copy has the driver's name for itself too, by which the linker would take it for the first.
    for copy in "copy/libcuda.so.1", "renamed/driver.so":
        (place / copy).parent.mkdir()
        shutil.copy(DRIVER, place / copy)
    for name, version, status in (("stub", 34, 34), ("broken", 0, 100)):
        (place / f"{name}.c").write_text(
            f"int cuInit(void) {{ return {status}; }} int cuDriverGetVersion(void) {{ return {version}; }}\n"
            + "".join(f"int {n}(void) {{ return {status}; }}\n" for n in names()
                      if n not in ("cuInit", "cuDriverGetVersion")))
        build(place / name / "libcuda.so", "-shared", place / f"{name}.c")
    (place / "names.inc").write_text("".join(
        f"NAME({n})\n" for n in names() if not n.startswith("cuGetProcAddress")))
    shim = ["-shared", "-DSHIM", f"-I{place}", "-Wl,-Bsymbolic", SOURCE]
    for name, options in SHIMS.items():
        build(place / name / "libcuda.so.1", f'-DDRIVER="{DRIVER}"', *options, *shim)
    build(place / "hides/libcuda.so.1", f'-DDRIVER="{place}/renamed/driver.so"', "-DRAW", *shim)


def run(files, way, *drivers, **options):
    command = [files["program"], way, *(files[d] for d in drivers)]
    plain = helpers.run(command, preload=False)
    done = helpers.run_logged(command, **options)
    assert done.stdout == plain.stdout
    return done


def replays(done):
    assert done.report["stopped"] is None
    return done.report["replays"] > 50 and done.report["ops"]["total"] >= 3200


@pytest.mark.parametrize("way", ["name", "ask", "both"])
@pytest.mark.parametrize("drivers", [
    ["stub", "driver"], ["copy"], ["renamed"], ["shim"], ["early"], ["stub", "stub", "early"]])
def test_the_one_that_works_counts(files, way, drivers):
    assert replays(run(files, way, *drivers))


@pytest.mark.parametrize("driver", ["raw", "early_raw", "hides"])
def test_a_shim_that_gives_the_drivers_own_functions(files, driver):
    """By name the program gets the shim's functions, by cuGetProcAddress the driver's: either is
    replayed; where it has some of both, nothing is held."""
    assert replays(run(files, "name", driver))
    assert replays(run(files, "ask", driver))
    done = run(files, "both", driver)
    assert done.report["replays"] == 0
    assert done.report["stopped"].startswith("the program uses two drivers: ")
    assert str(files[driver]) in done.report["stopped"]


def test_two_drivers(files):
    done = run(files, "all", "driver", "copy", env={"AUTOGRAPH_LOG_LEVEL": "1"})
    for name in "driver", "copy":
        assert str(files[name]) in done.report["stopped"] and str(files[name]) in done.stderr
    assert "two drivers" in done.stderr


def test_a_driver_that_does_not_work(files):
    """It is looked up like one that does: nothing is held, and the report says so."""
    done = run(files, "name", "broken", "driver")
    assert done.stdout.startswith("cuInit: 100\ncuInit: 0\n")
    assert "two drivers" in done.report["stopped"]

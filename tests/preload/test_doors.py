# SPDX-License-Identifier: MIT
"""The doors: what a program gets when it looks a CUDA function up, and what calling it does.

Most of it runs over a driver and an engine that only write down how they are called
(programs/door_*.c), so that each argument and each barrier can be seen."""
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

import compiled
import helpers

PROGRAMS = helpers.SOURCE / "tests/programs"
PRELOAD = helpers.SOURCE / "src/preload"
DOORS = "libdoors.so"

# The fake driver's own functions, and two that no header declares: a new one, and one whose address
# is that of a query and of a barrier.
SPECIAL = {"cuInit", "cuDriverGetVersion", "cuCtxGetCurrent", "cuFuncGetAttribute", "cuGetProcAddress", "cuGetProcAddress_v2"}
UNKNOWN = "cuNotYetInvented"

Slot = collections.namedtuple("Slot", "kind argument ptsz")


def read_slots():
    """The generated table: name to class."""
    rows = re.findall(r"^AG_SLOT\((\w+), (\w+), (\d+), (\d)\)$",
                      (helpers.build_dir() / "src/preload/slots.inc").read_text(), flags=re.M)
    return {name: Slot(kind, int(argument), bool(int(ptsz))) for name, kind, argument, ptsz in rows}


SLOTS = read_slots()
# What only other systems' headers declare is not in the driver.
EXPORTED = [n for n in SLOTS if not re.match(r"cu(GL|EGL|VDPAU|Graphics.*(GL|EGL|VDPAU|Egl))", n)]


class Built:
    """The programs, in a directory of their own for each variant of the driver."""

    def __init__(self, directory, machine=os.uname().machine, cc=None, emulator=()):
        self.directory = directory
        self.machine = machine
        self.cc = cc or helpers.config()["cc"].split()
        self.emulator = emulator

    def compile(self, output, *arguments):
        output = self.directory / output
        output.parent.mkdir(exist_ok=True)
        command = [*self.cc, "-isystem", f"{helpers.config()['cuda']}/include", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-o", output,
                   *arguments]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return output

    def sources(self):
        """The library's, but not its engine."""
        return [*PRELOAD.glob("*.c"), *PRELOAD.glob("*.S"),
                *(PRELOAD / "arch" / self.machine).glob("*.S"),
                helpers.SOURCE / "src/driver/driver.c", helpers.SOURCE / "src/config/cuda.c",
                helpers.SOURCE / "src/config/initial.c", helpers.SOURCE / "src/engine/hot.c",
                helpers.SOURCE / "src/observe/object.c"]

    def include(self):
        return [f"-I{helpers.SOURCE}/src", f"-I{helpers.SOURCE}/include", f"-I{helpers.build_dir()}/src"]

    def doors(self):
        """The doors with the test's engine: the library's own objects where they fit."""
        if self.machine == os.uname().machine and not helpers.config()["sanitize"]:
            objects = [helpers.build_dir() / source.parent.relative_to(helpers.SOURCE) / ".libs" /
                       f"libautograph_la-{source.stem}.o" for source in self.sources()]
            self.compile(DOORS, "-shared", *objects, *self.include(), PROGRAMS / "door_engine.c")
            return
        flags = ["-D_GNU_SOURCE", "-DPACKAGE_VERSION=\"1.2.3\"", "-fvisibility=hidden", *self.include()]
        sources = [*self.sources(), PROGRAMS / "door_engine.c"]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(
                lambda s: self.compile(f"objects/{s.parent.name}-{s.name}.o", "-c", *flags, s),
                sources))
        self.compile(DOORS, "-shared", *objects)

    def driver(self, where, rows):
        """A fake libcuda.so.1 with these functions."""
        place = self.directory / where
        place.mkdir()
        (place / "functions.inc").write_text("\n".join(rows))
        return self.compile(f"{where}/libcuda.so.1", "-shared", "-O0", f"-I{place}", "-Wl,-Bsymbolic",
                            "-Wl,-soname,libcuda.so.1", PROGRAMS / "door_driver.c")

    def run(self, *words, program="door_lookup", driver="driver", preload=(DOORS,), env=None):
        """Runs the look-ups and returns the lines that it prints."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("AUTOGRAPH_", "LD_"))}
        command = [*self.emulator, str(self.directory / program), *" ".join(words).split()]
        if self.emulator:  # the variables are for the program, not for the emulator
            command[1:1] = [word for name, value in (
                ("LD_LIBRARY_PATH", f"{self.directory / driver}:{self.directory}"),
                ("LD_PRELOAD", str(self.directory / DOORS))) for word in ("-E", f"{name}={value}")]
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=60, check=True)
            return done.stdout.splitlines()
        environment["LD_LIBRARY_PATH"] = f"{self.directory / driver}:{self.directory}"
        if preload:
            environment["LD_PRELOAD"] = ":".join(str(self.directory / p) for p in preload)
        environment.update(env or {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        assert done.stderr == ""
        return done.stdout.splitlines()

    def same(self, *words, **options):
        """What it prints must not depend on the library."""
        without = self.run(*words, **{**options, "preload": [
            p for p in options.get("preload", ()) if p != DOORS]})
        assert self.run(*words, **{"preload": (DOORS,), **options}) == without
        return without


def rows(names):
    return [f"FUNCTION({name})" for name in names if name not in SPECIAL]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return Built(compiled.once(tmp_path_factory, "doors", lambda folder: make_all(Built(folder))))


def make_all(b):
    b.doors()
    b.driver("driver", rows([*EXPORTED, UNKNOWN]))
    b.compile("door_lookup", "-rdynamic", PROGRAMS / "door_lookup.c", "-ldl")
    b.compile("linked", "-DLINKED", PROGRAMS / "door_lookup.c", b.directory / "driver/libcuda.so.1",
              "-ldl")
    b.compile("weak", "-DLINKED", "-DWEAK", "-Wl,-z,dynamic-undefined-weak",
              PROGRAMS / "door_lookup.c", "-ldl")
    b.compile("libthird.so", "-shared", PROGRAMS / "door_third.c", "-ldl")
    b.compile("libwrap.so", "-shared", "-DWRAPS_CUDA", PROGRAMS / "door_third.c", "-ldl")
    b.compile("libuser.so", "-shared", "-DLINKS_CUDA", "-Wl,--no-as-needed",
              PROGRAMS / "door_third.c", b.directory / "driver/libcuda.so.1", "-ldl")
    b.compile("liblate.so", "-shared", "-DLINKS_CUDA", "-Wl,-z,lazy", PROGRAMS / "door_third.c", "-ldl")
    b.compile("libbare.so", "-shared", "-DLINKS_CUDA", "-nostartfiles", "-Wl,-z,now", PROGRAMS / "door_third.c",
              b.directory / "driver/libcuda.so.1", "-ldl")
    b.compile("libnests.so", "-shared", "-DNESTS", PROGRAMS / "door_third.c", "-ldl")
    b.compile("libneeds.so", "-shared", "-Wl,--no-as-needed", PROGRAMS / "door_third.c", b.directory / "libnests.so",
              "-ldl")
    b.compile("threads", "-rdynamic", "-pthread", PROGRAMS / "door_threads.c", "-ldl")
    b.compile("libconstructor.so", "-shared", "-DCONSTRUCTOR", PROGRAMS / "door_threads.c", "-ldl")
    for version in (11080, 12000):
        runtime = b.compile(f"libcudart.so.{version}", "-shared", f"-DVERSION={version}",
                            f"-Wl,-soname,libcudart.so.{version}", PROGRAMS / "door_cudart.c", "-ldl")
        b.compile(f"libapp{version}.so", "-shared", "-DUSER", PROGRAMS / "door_cudart.c", runtime)
    for number in (12, 13):
        (b.directory / f"{number}.map").write_text(f"libcudart.so.{number} {{ *; }};\n")
        runtime = b.compile(f"libcudart.so.{number}", "-shared", f"-DRUNTIME={number}",
                            f"-Wl,-soname,libcudart.so.{number}",
                            f"-Wl,--version-script={b.directory}/{number}.map",
                            PROGRAMS / "door_runtime.c")
        b.compile(f"libuse{number}.so", "-shared", "-DCALLS", PROGRAMS / "door_runtime.c", runtime)
    b.compile("libown.so", "-shared", "-DCALLS", "-DRUNTIME=99", PROGRAMS / "door_runtime.c")
    b.compile("libplugin.so", "-shared", "-DCALLS", PROGRAMS / "door_runtime.c")
    b.compile("libhost.so", "-shared", "-Wl,--no-as-needed", b.directory / "libplugin.so",
              b.directory / "libcudart.so.12", "-x", "c", "/dev/null")


OPEN = "open libcuda.so.1"


# -- The route of a static runtime ----------------------------------------------

def test_static_route(built):
    """dlopen, dlsym of cuGetProcAddress_v2, the empty name, then look-ups, all before cuInit."""
    out = built.run(OPEN, "handle cuGetProcAddress_v2", "gpa cuLaunchKernel 0", "gpa cuCtxCreate 0",
                    "gpa cuDeviceGet 0", "gpa cuInit 0")
    assert out == ["open: yes",
                   f"handle cuGetProcAddress_v2: {DOORS} ?",
                   f"0 0 gpa cuLaunchKernel: {DOORS} ?",
                   f"0 0 gpa cuCtxCreate: {DOORS} ?",
                   "0 0 gpa cuDeviceGet: libcuda.so.1 cuDeviceGet",
                   f"0 0 gpa cuInit: {DOORS} ?"]


def test_missing_names_are_missing(built):
    """The driver's own answer, also for the empty name."""
    done = built.run(OPEN, "gpa cuNoSuchFunction 0", "handle cuNoSuchFunction")
    assert done[1:] == ["500 1 gpa cuNoSuchFunction: nothing",
                        "handle cuNoSuchFunction: nothing, error"]
    assert built.directory.joinpath("door_lookup").exists()
    environment = {"LD_PRELOAD": str(built.directory / DOORS),
                   "LD_LIBRARY_PATH": str(built.directory / "driver")}
    done = subprocess.run([str(built.directory / "door_lookup"), "open", "libcuda.so.1", "gpa", "",
                           "0", "handle", "", "default", ""], env=environment, capture_output=True,
                          text=True, timeout=60, check=True)
    # dlsym of an empty name is an error as well, and leaves one.
    assert done.stdout.splitlines()[1:] == ["500 1 gpa : nothing", "handle : nothing, error",
                                            "default : nothing, error"]


def test_both_stream_variants_are_told_apart(built):
    for kind in ("cuLaunchKernel", "cuMemcpyAsync", "cuStreamSynchronize"):
        out = built.run(OPEN, "hold 1", f"gpa {kind} 0", "call 0x11", f"gpa {kind} 2", "call 0x11")
        assert out[2].startswith(f"call: 0 {kind} ")
        assert out[4].startswith(f"call: 0 {kind}_ptsz ")


# Doors that look into a structure, which the numbers given here are not.
READS_ITS_ARGUMENT = re.compile(
    r"cuLaunchKernelEx|cuMemcpy[23]D|cuIpcOpenEventHandle|cuCtxFromGreenCtx|cuDevicePrimaryCtxRetain"
    r"|cuStreamCreate|cuEventCreate$")


@pytest.mark.parametrize("how", ["handle", "gpa"])
def test_every_exported_function_is_reached(built, how):
    """Each answer calls the function that was asked for, with all its arguments, and each that is
    not a query is ours; while something is held, so that all pass the slow path."""
    names = [n for n in [*EXPORTED, UNKNOWN] if n not in SPECIAL and not READS_ITS_ARGUMENT.match(n)]
    if how == "gpa":  # without suffix, as programs ask
        names = [n for n in names if not re.search(r"_(v\d|ptsz|ptds)$", n)]
    assert len(names) > 300
    asked = (f"{how} {name} 0" if how == "gpa" else f"{how} {name}" for name in names)
    out = built.run(OPEN, "hold 1", *(f"{a} call 0x55 events" for a in asked))[1:]
    assert len(out) == 3 * len(names)
    arguments = "85 2 3 4 5 6 7 8 9 10 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5"
    for name, found, called, events in zip(names, out[0::3], out[1::3], out[2::3]):
        reached = called.split()[2]
        assert called == f"call: 0 {reached} {arguments}" or SLOTS[reached].kind in ("OP", "WRAP")
        assert reached == name if how == "handle" else re.sub(r"_v\d$", "", reached) == name
        kind, argument, ptsz = SLOTS.get(reached, Slot("BARRIER", 0, False))
        assert found.split()[-2] == ("libcuda.so.1" if kind == "QUERY" else DOORS)
        stream = 0x55 if argument == 0 else argument + 1
        expected = {
            "QUERY": "events: ",
            "FUNCTION": f"events: load({stream:#x}) ",
            "EVENT": f"events: event({stream:#x}, barrier) ",
            "STREAM": f"events: stream({stream:#x}, {int(ptsz)}, stream_barrier) ",
            "DEFAULT_STREAM": f"events: wait((nil), {int(ptsz)}, host_wait) ",
            "DEVICE_COPY": f"events: copy({int(ptsz)}, host_wait) ",
            "ALLOCATION": "events: most(barrier) ",
            "BARRIER": "events: all(barrier) ",
        }.get(kind)
        if expected:
            assert events == expected, reached
        elif reached.startswith("cuMemAlloc"):  # passes ahead of what is held, but where frees are
            assert re.match(r"events: allocates(\(0x[34] [01]\)) allocated\1 $", events), reached
        elif reached == "cuModuleGetFunction":  # of a name that has not been asked for
            assert events == "events: all(barrier) named(0x2, 0x55) ", reached
        elif re.match("cuCtx(Set|Push|Pop)Current", reached):
            assert events == "events: ", reached
        else:
            assert events != "events: ", f"{reached} says nothing to the engine"


def test_nothing_is_asked_while_nothing_is_held(built):
    out = built.run(OPEN, "hold 0", "handle cuMemcpyHtoD_v2_ptds", "call 1", "events", "hold 2", "call 1",
                    "events")
    assert [line for line in out if line.startswith("events")] == \
        ["events: ", "events: wait((nil), 1, host_wait) "]


@pytest.mark.parametrize("name,event", [("cuMemcpyHtoD_v2_ptds", "wait((nil), 1, host_wait)"),
                                        ("cuStreamSynchronize", "wait(0x1, 0, host_wait)")])
def test_who_wants_to_know_hears_of_barriers(built, name, event):
    """By thunks and by doors, although nothing is held."""
    out = built.run(OPEN, "curious 1", f"handle {name}", "call 1", "events", "curious 0", "call 1",
                    "events")
    assert [line.strip() for line in out if line.startswith("events")] == \
        [f"events: {event}", "events:"]


# -- Ops and life ---------------------------------------------------------------

CALL = "call 0x77"
PASSED = "2 3 4 5 6 7 8 9 10"


@pytest.mark.parametrize("name, event", [
    ("cuLaunchKernel", "kernel(2 3 4, 5 6 7, 8, 0x77, 0x9 {ptsz}, 0xa, {extra}, 0) "),
    ("cuLaunchCooperativeKernel", "kernel(2 3 4, 5 6 7, 8, 0x77, 0x9 {ptsz}, 0xa, (nil), 1 cooperative) "),
    ("cuMemsetD8Async", "memset(0x77, 3x1, 0, 0x2, 1, 0x4 {ptsz}) "),
    ("cuMemsetD16Async", "memset(0x77, 3x1, 0, 0x2, 2, 0x4 {ptsz}) "),
    ("cuMemsetD32Async", "memset(0x77, 3x1, 0, 0x2, 4, 0x4 {ptsz}) "),
    ("cuMemsetD2D8Async", "memset(0x77, 4x5, 2, 0x3, 1, 0x6 {ptsz}) "),
    ("cuMemsetD2D16Async", "memset(0x77, 4x5, 2, 0x3, 2, 0x6 {ptsz}) "),
    ("cuMemsetD2D32Async", "memset(0x77, 4x5, 2, 0x3, 4, 0x6 {ptsz}) "),
    ("cuMemcpyAsync", "copy(4 0x77, 4 0x2, 3x1x1, 0x4 {ptsz}) "),
    ("cuMemcpyDtoDAsync_v2", "copy(4 0x77, 2 0x2, 3x1x1, 0x4 {ptsz}) "),
    ("cuMemcpyHtoDAsync_v2", "copy(4 0x77, 4 0x2, 3x1x1, 0x4 {ptsz}) "),
    ("cuEventRecord", "record(0x77, 0x2 {ptsz}) "),
    ("cuStreamWaitValue32_v2", "value(1, 0x2, 0x3, 4, 0x77 {ptsz}) "),
    ("cuStreamWriteValue32_v2", "value(2, 0x2, 0x3, 4, 0x77 {ptsz}) "),
    ("cuStreamWaitValue64_v2", "value(4, 0x2, 0x3, 4, 0x77 {ptsz}) "),
    ("cuStreamWriteValue64_v2", "value(5, 0x2, 0x3, 4, 0x77 {ptsz}) "),
    ("cuMemFreeAsync", "frees(0x2 {ptsz}) free(0x77, 0x2 {ptsz}) "),
])
@pytest.mark.parametrize("suffix", ["", "_ptsz"])
def test_ops_reach_the_engine(built, name, event, suffix):
    """What the engine takes never reaches the driver; what it refuses does, unchanged."""
    held = built.run(OPEN, f"handle {name}{suffix} accept 1", CALL, "events")
    eager = built.run(OPEN, f"handle {name}{suffix} accept 0", CALL, "events")
    event = re.escape("events: " + event.format(ptsz=int(bool(suffix)), extra="EXTRA"))
    for out in (held, eager):
        # The eleventh argument of cuLaunchKernel lies on the stack behind those that the test gives.
        assert re.fullmatch(event.replace("EXTRA", r"\S+"), out[-1]), out[-1]
    assert held[-2] == "call: 0"
    count = 10 if "Launch" in name else 6 if "D2D" in name and "Memset" in name else \
        2 if name in ("cuEventRecord", "cuMemFreeAsync") else 4
    assert eager[-2].split()[2:][:count + 1] == \
        [name + suffix, "119", *PASSED.split()[:count - 1]]


@pytest.mark.parametrize("name, event, barrier", [
    ("cuMemsetD8_v2", "memset(0x77, 3x1, 0, 0x2, 1, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemsetD16_v2", "memset(0x77, 3x1, 0, 0x2, 2, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemsetD32_v2", "memset(0x77, 3x1, 0, 0x2, 4, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemsetD2D8_v2", "memset(0x77, 4x5, 2, 0x3, 1, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemsetD2D16_v2", "memset(0x77, 4x5, 2, 0x3, 2, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemsetD2D32_v2", "memset(0x77, 4x5, 2, 0x3, 4, (nil) {ptds}) ", "wait((nil), {ptds}, host_wait) "),
    ("cuMemcpy", "copy(4 0x77, 4 0x2, 3x1x1, (nil) {ptds}) ", "copy({ptds}, host_wait) "),
    ("cuMemcpyDtoD_v2", "copy(4 0x77, 2 0x2, 3x1x1, (nil) {ptds}) ", "copy({ptds}, host_wait) "),
])
@pytest.mark.parametrize("suffix", ["", "_ptds"])
def test_ops_without_a_stream_reach_the_engine(built, name, event, barrier, suffix):
    """What the engine takes never reaches the driver; before the rest goes what the host may wait for."""
    held = built.run(OPEN, f"handle {name}{suffix} accept 1", CALL, "events")
    eager = built.run(OPEN, f"handle {name}{suffix} accept 0", CALL, "events")
    event, barrier = (text.format(ptds=int(bool(suffix))) for text in (event, barrier))
    assert held[-2:] == ["call: 0", f"events: {event}"]
    assert eager[-1] == f"events: {event}{barrier}"
    assert eager[-2].split()[2:4] == [name + suffix, "119"]


@pytest.mark.parametrize("name, ptsz, read, barrier", [
    (f"{name}{suffix}", ptsz, read, barrier)
    for name, suffixes, read, barrier in [
        ("cuMemcpyDtoH_v2", ["", "_ptds"], "(nil) {} blocks", "wait((nil), {}, host_wait)"),
        ("cuMemcpyDtoHAsync_v2", ["", "_ptsz"], "0x4 {}", "stream(0x4, {}, stream_barrier)")]
    for ptsz, suffix in enumerate(suffixes)])
def test_read_backs_reach_the_engine(built, name, ptsz, read, barrier):
    """Before those that the engine does not take goes what is held."""
    out = built.run(OPEN, f"handle {name}", "accept 1", CALL, "events", "accept 0", CALL, "events", "hold 1", CALL,
                    "events")
    read, barrier = (text.format(ptsz) for text in (f"read(0x77, 0x2, 3, {read}) ", barrier))
    assert out[2:4] == ["call: 0", f"events: {read}"]
    assert out[4].split()[2:4] == [name, "119"] and out[5] == f"events: {read}read_eager(3) "
    assert out[7] == f"events: {read}{barrier} read_eager(3) "


@pytest.mark.parametrize("suffix", ["", "_ptsz"])
def test_launch_with_configuration(built, suffix):
    out = built.run(OPEN, f"handle cuLaunchKernelEx{suffix}", "accept 1", "call config", "events",
                    "accept 0", "call config", "events", "call 0", "events")
    event = f"events: kernel(11 12 13, 14 15 16, 17, 0x2, 0x12 {int(bool(suffix))}, 0x3, 0x4, 1 cooperative) "
    assert out[2:4] == ["call: 0", event]
    assert re.match(rf"call: 0 cuLaunchKernelEx{suffix} \d+ 2 3 4 ", out[4]) and out[5] == event
    # Without a configuration there is nothing to look at: the driver says what is wrong.
    assert out[6].startswith(f"call: 0 cuLaunchKernelEx{suffix} 0 2 3 ") and out[7] == "events: "


@pytest.mark.parametrize("name", ["cuStreamCreate", "cuStreamCreateWithPriority"])
def test_streams_that_are_created(built, name):
    """What is held goes first; the stream is what the driver has written, here the two first numbers there."""
    out = built.run(OPEN, "hold 1", f"handle {name}", "call config", "events")
    assert out[-2].startswith(f"call: 0 {name} ")
    assert out[-1] == f"events: most(barrier) stream_created({12 << 32 | 11:#x}, 2) "


def test_a_green_context_that_goes(built):
    """The driver names no context for it: what is held anywhere goes first."""
    out = built.run(OPEN, "hold 1", "handle cuGreenCtxDestroy", CALL, "events")
    assert out[-2].startswith("call: 0 cuGreenCtxDestroy 119 ")
    assert out[-1] == "events: all(barrier) "


@pytest.mark.parametrize("name, before, after", [
    ("cuStreamDestroy", "stream_destroy(0x77)", ""),
    ("cuStreamDestroy_v2", "stream_destroy(0x77)", ""),
    ("cuStreamSetAttribute", "stream(0x77, 0, attributes)", "stream_attributes(0x77, 0)"),
    ("cuStreamSetAttribute_ptsz", "stream(0x77, 1, attributes)", "stream_attributes(0x77, 1)"),
    ("cuStreamCopyAttributes_ptsz", "stream(0x77, 1, attributes)", "stream_attributes(0x77, 1)"),
    ("cuStreamBeginCapture", "capture_prepare(0x77, 0)", "capture_begun(0x77, 0)"),
    ("cuStreamBeginCapture_v2", "capture_prepare(0x77, 0)", "capture_begun(0x77, 0)"),
    ("cuStreamBeginCapture_v2_ptsz", "capture_prepare(0x77, 1)", "capture_begun(0x77, 1)"),
    ("cuStreamBeginCaptureToGraph_ptsz", "capture_prepare(0x77, 1)", "capture_begun(0x77, 1)"),
    ("cuStreamBeginRecaptureToGraph", "capture_prepare(0x77, 0)", "capture_begun(0x77, 0)"),
    ("cuStreamBeginCaptureToCig", "capture_prepare(0x77, 0)", "capture_begun(0x77, 0)"),
    ("cuStreamBeginCaptureToCig_ptsz", "capture_prepare(0x77, 1)", "capture_begun(0x77, 1)"),
    ("cuStreamEndCaptureToCig", "", "capture_ended(0x77, 0)"),
    ("cuStreamEndCaptureToCig_ptsz", "", "capture_ended(0x77, 1)"),
    ("cuStreamEndCapture", "", "capture_ended(0x77, 0)"),
    ("cuStreamEndCapture_ptsz", "", "capture_ended(0x77, 1)"),
    ("cuCtxDestroy", "context_destroy(0x77)", ""),
    ("cuCtxDestroy_v2", "context_destroy(0x77)", ""),
    ("cuDevicePrimaryCtxRelease_v2", "device_reset(119)", ""),
    ("cuDevicePrimaryCtxReset", "device_reset(119)", ""),
    ("cuModuleUnload", "gone(0x77, (nil))", "gone(0x77, (nil))"),
    ("cuLibraryUnload", "gone((nil), 0x77)", "gone((nil), 0x77)"),
    ("cuCtxSetCacheConfig", "sets((nil), -1, 119)", "set(0)"),
    ("cuFuncSetCacheConfig", "sets(0x77, -1, 2)", "set(0)"),
    ("cuKernelSetCacheConfig", "sets(0x77 kernel, -1, 2)", "set(0)"),
    ("cuKernelSetAttribute", "sets(0x3 kernel, 119, 2)", "set(0)"),
    ("cuGraphInstantiate", "most(barrier)", "made_exec"),
    ("cuGraphInstantiate_v2", "most(barrier)", "made_exec"),
    ("cuGraphInstantiateWithFlags", "most(barrier)", "made_exec"),
    ("cuGraphInstantiateWithParams_ptsz", "most(barrier)", "made_exec"),
    ("cuGraphExecDestroy", "", "destroyed_exec"),
    ("cuEventDestroy", "event_destroy(0x77)", ""),
    ("cuIpcGetEventHandle", "event_shared(0x2) all(barrier)", ""),
    ("cuEventDestroy_v2", "event_destroy(0x77)", ""),
    # Flags that are not understood: whatever they mean, everything has been submitted before.
    ("cuEventRecordWithFlags", "all(barrier)", ""),
    ("cuStreamWaitEvent_ptsz", "all(barrier)", ""),
    ("cuGraphLaunch", "", "stream_used(0x2, 0)"),
    ("cuStreamAttachMemAsync", "attach(0x77, 0)", ""),
    ("cuStreamAttachMemAsync_ptsz", "attach(0x77, 1)", ""),
    ("cuMemAllocAsync", "allocates(0x3 0)", "allocated(0x3 0)"),
    ("cuMemAllocFromPoolAsync_ptsz", "allocates(0x4 1)", "allocated(0x4 1)"),
    *[(name, "launch_unseen()", "") for name in (
        "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync", "cuLaunchCooperativeKernelMultiDevice")],
])
def test_life_cycle_calls(built, name, before, after):
    out = built.run(OPEN, f"handle {name}", CALL, "events")
    assert out[-2].startswith(f"call: 0 {name} 119 ")
    assert out[-1] == "".join(f"{e} " for e in ("events:", before, after) if e)


@pytest.mark.parametrize("name", [
    "cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3", "cuGraphAddBatchMemOpNode", "cuStreamBatchMemOp",
    "cuStreamBatchMemOp_v2_ptsz", "cuStreamWaitValue32", "cuStreamWaitValue64_ptsz"])
def test_graphs_that_may_wait_for_a_word(built, name):
    """From then on what other streams hold goes to the driver before them, too."""
    launch = ["handle cuGraphLaunch", CALL, "events"]
    out = built.run(OPEN, "hold 1", *launch, f"handle {name}", CALL, "events", *launch, "hold 0", *launch)
    assert [line for line in out if line.startswith("events")] == [
        "events: stream(0x2, 0, stream_barrier) stream_used(0x2, 0) ", "events: all(barrier) ",
        "events: all(barrier) stream_used(0x2, 0) ", "events: stream_used(0x2, 0) "]
    assert [line.split()[2] for line in out if line.startswith("call")] == [
        "cuGraphLaunch", name, "cuGraphLaunch", "cuGraphLaunch"]


def test_an_attribute_that_is_set_again_changes_nothing(built):
    out = built.run(OPEN, "attribute 3", "handle cuFuncSetAttribute", CALL, "events", "attribute 4",
                    CALL, "events")
    assert [line for line in out if line.startswith("events")] == \
        ["events: sets(0x77, 2, 3) ", "events: sets(0x77, 2, 3) set(0) "]
    assert [line[:29] for line in out if line.startswith("call")] == \
        ["call: 0 cuFuncSetAttribute 11"] * 2


def test_limits_of_a_context(built):
    """Of the stack, which execs keep; another one; and the value that is set."""
    out = built.run(OPEN, "hold 1", "handle cuCtxSetLimit", "call 0", "events", "call 1", "events", "call 2", "events")
    assert [line for line in out if line.startswith("events")] == [
        "events: all(barrier) stack stack(1) ", "events: all(barrier) ", "events: "]
    assert [line.split()[2] for line in out if line.startswith("call")] == 3 * ["cuCtxSetLimit"]


# -- Doors as plain C ------------------------------------------------------------

TABLE = """/* What is
   dropped. */
shape tells(WHOM, WHEN)
/* kept */
AG_DOOR CUresult ag_door_NAME(PARAMETERS)
{
    tell(WHOM, "BASE", WHEN);
    return AG_REAL(NAME)(ARGUMENTS);
}
end

tells about(PER_THREAD) |
        a || b
    cuStreamQuery(CUstream stream)
    cuMemAlloc_v2(CUdeviceptr *to,
                  size_t size)
tells NULL | 0
    cuCtxSynchronize()

shape numbers
static int get_NAME;
end
numbers
    0 1
"""


def generate(directory, table):
    (directory / "slots.inc").write_text("".join(
        f"AG_SLOT({name}, WRAP, 0, 0)\n" for name in ("cuStreamQuery", "cuStreamQuery_ptsz", "cuMemAlloc_v2",
                                                      "cuMemAlloc", "cuCtxSynchronize")))
    (directory / "x.doors").write_text(table)
    return subprocess.run([sys.executable, PRELOAD / "doors.py", directory / "slots.inc", directory / "x.doors",
                           directory / "x.inc"], capture_output=True, text=True, check=False)


def test_doors_are_generated_for_each_form(tmp_path):
    assert generate(tmp_path, TABLE).stderr == ""
    assert (tmp_path / "x.inc").read_text().partition("\n")[2] == "".join(f"""
/* kept */
AG_DOOR CUresult ag_door_{name}({parameters or "void"})
{{
    tell({values});
    return AG_REAL({name})({arguments});
}}
""" for name, parameters, values, arguments in (
        ("cuStreamQuery", "CUstream stream", 'about(false), "cuStreamQuery", a || b', "stream"),
        ("cuStreamQuery_ptsz", "CUstream stream", 'about(true), "cuStreamQuery", a || b', "stream"),
        ("cuMemAlloc_v2", "CUdeviceptr *to, size_t size", 'about(false), "cuMemAlloc_v2", a || b', "to, size"),
        ("cuCtxSynchronize", "", 'NULL, "cuCtxSynchronize", 0', ""),
    )) + "\nstatic int get_0;\n\nstatic int get_1;\n"


@pytest.mark.parametrize("change, complaint", [
    (("cuStreamQuery(", "cuStreamQuerry("), "12: the driver has no cuStreamQuerry(CUstream stream)"),
    (("    cuCtxSynchronize()\n", ""), "17: tells wants WHOM | WHEN, and functions"),
    (("NULL | 0", "NULL"), "17: tells wants WHOM | WHEN, and functions"),
    (("tells NULL", "tell NULL"), "17: no shape is called tell"),
    (("shape tells", "    lost\nshape tells"), "3: it belongs to no row"),
])
def test_mistakes_in_a_table_of_doors(tmp_path, change, complaint):
    assert TABLE.count(change[0]) == 1
    done = generate(tmp_path, TABLE.replace(*change))
    assert done.returncode == 1 and done.stderr == f"{tmp_path}/x.doors:{complaint}\n"
    assert not (tmp_path / "x.inc").exists()


@pytest.mark.skipif("-g" not in helpers.config()["cflags"].split(), reason="there are no lines in the library")
def test_a_debugger_can_stop_in_each_door():
    """Each door begins at a line of its own, which names it."""
    places = {}
    for line in helpers.tool("nm", "--line-numbers", "--defined-only", helpers.library()).splitlines():
        found = re.fullmatch(r"\w+ [tT] (ag_(?:door|memory_op)_(cu\w+))\t(.*):(\d+)", line)
        if found:  # an entry that tools may patch has no line: it jumps to what has
            places[found[2]] = (found[1], found[3], int(found[4]))
    assert places.keys() == {n for n, slot in SLOTS.items() if slot.kind in ("OP", "WRAP")}
    assert len({place[1:] for place in places.values()}) == len(places)
    for name, path, number in places.values():
        file = next(place / path for place in (helpers.build_dir(), helpers.SOURCE) if (place / path).exists())
        assert f" {name}(" in file.read_text().splitlines()[number - 1]


# -- What is not CUDA's, and what is not there ------------------------------------

@helpers.without_driver
def test_a_probe_without_a_driver_finds_nothing(built):
    """Every way to look a name up gives what it gives without the library."""
    words = [f"{how} {name}" for how in ("default", "next", "self", "thirddefault", "thirdnext")
             for name in ("cuInit", "cuLaunchKernel", "cudaLaunchKernel", "cudnnCreate", "cuFoo",
                          "malloc", "__cudaLaunchKernel", "cu", "")]
    words = [w for w in words if len(w.split()) == 2]
    for preload in ((DOORS,), (DOORS, "libthird.so"), ("libthird.so", DOORS)):
        out = built.same("open libcuda.so.1 open libthird.so", *words, driver="none", preload=preload)
        assert out[0] == "open: no"
        assert "default cuInit: nothing, error" in out


def test_names_that_are_not_cudas(built):
    """A result outside libcuda is the program's own affair."""
    for preload in ((DOORS, "libthird.so"), ("libthird.so", DOORS)):
        out = built.same(OPEN, "default cuFoo", "call 1", "default cudnnCreate", "call 1", "self cuFoo",
                         "thirddefault cuFoo", "thirdnext cuFoo", "open libthird.so",
                         "handle cuFoo", "handle cudnnCreate", preload=preload)
        assert "default cuFoo: libthird.so cuFoo" in out
        assert [line for line in out if line.startswith("call")] == ["call: 7", "call: 8"]


def test_next_of_another_library(built):
    """dlsym(RTLD_NEXT) finds what comes after the library that asks, not after ours."""
    for preload in ((DOORS, "libthird.so"), ("libthird.so", DOORS)):
        out = built.same("thirdnext malloc", "next malloc", "thirdnext dlclose", "thirdnext free",
                         preload=preload)
        assert out[0] == "thirdnext malloc: libc.so.6 malloc"
        assert out[1] == "next malloc: libthird.so malloc"


def test_global_driver(built):
    """In the global scope each way of looking up finds the driver, and we route it."""
    for preload in ((DOORS, "libthird.so"), ("libthird.so", DOORS)):
        out = built.run("openglobal libcuda.so.1", "hold 1",
                        *(f"{how} cuCtxSynchronize {CALL} events {how} cuDeviceGet {how} {UNKNOWN}"
                          for how in ("default", "next", "self", "thirddefault", "thirdnext")),
                        preload=preload)[1:]
        assert len(out) == 25
        for i in range(0, 25, 5):
            assert out[i].endswith(f"cuCtxSynchronize: {DOORS} ?")
            assert out[i + 1].startswith("call: 0 cuCtxSynchronize ")
            assert out[i + 2] == "events: all(host_wait) "
            assert out[i + 3].endswith("cuDeviceGet: libcuda.so.1 cuDeviceGet")
            assert out[i + 4].endswith(f"{UNKNOWN}: {DOORS} ?")


def test_local_driver_is_not_found_globally(built):
    out = built.same(OPEN, "default cuInit", "self cuInit", "next cuInit", "thirddefault cuInit",
                     "thirdnext cuInit", preload=(DOORS, "libthird.so"))
    assert set(line.split(": ")[1] for line in out[1:]) == {"nothing, error"}


def test_local_scope_of_the_caller(built):
    """A library opened locally finds the driver that it links, as without us, but routed."""
    words = ("open libuser.so", "thirddefault cuDeviceGet", "thirddefault cuCtxSynchronize",
             "thirdnext cuCtxSynchronize", f"thirddefault {UNKNOWN}", f"thirdnext {UNKNOWN}")
    out = built.run(*words)
    assert out[1:] == ["thirddefault cuDeviceGet: libcuda.so.1 cuDeviceGet",
                       f"thirddefault cuCtxSynchronize: {DOORS} ?",
                       f"thirdnext cuCtxSynchronize: {DOORS} ?",
                       f"thirddefault {UNKNOWN}: {DOORS} ?", f"thirdnext {UNKNOWN}: {DOORS} ?"]
    # Opened locally; its own call is bound to the driver in its scope.
    out = built.run("hold 1", "open libuser.so", "handle third_synchronize", "call 1", "events")
    assert out[-1] == "events: all(host_wait) "
    assert out[-2].startswith("call: 0 cuCtxSynchronize ")


@pytest.mark.parametrize("words", [
    ("open liblate.so", "openglobal libcuda.so.1", "open liblate.so"), ("open libbare.so",),
    ("open libcuda.so.1", "handle cuLaunchKernel", "open libbare.so")], ids=["late", "bare", "bare later"])
def test_libraries_that_are_bound_in_unusual_ways(built, words):
    """One is bound at its first call, to a driver that came after it; another one has no start files."""
    out = built.run("hold 1", *words, "handle third_synchronize", "call 1", "events")
    assert out[-2].startswith("call: 0 cuCtxSynchronize ") and out[-1] == "events: all(host_wait) "


def test_a_driver_that_is_loaded_after_something_has_left(built):
    """A constructor opens and closes a library before another object of the same dlopen() begins."""
    out = built.run("open libneeds.so", OPEN, "handle cuLaunchKernel")
    assert out[-1] == f"handle cuLaunchKernel: {DOORS} ?"


def test_interposer_between_program_and_driver(built):
    """Somebody else's wrapper in front of the driver is found and finds the driver behind it."""
    for preload in ((DOORS, "libwrap.so"), ("libwrap.so", DOORS)):
        out = built.run("linked cuCtxSynchronize", "hold 1", "call 1", "events",
                        "default third_count", program="linked", preload=preload)
        assert out[0] == "linked cuCtxSynchronize: libwrap.so cuCtxSynchronize"
        assert out[1].startswith("call: 0 cuCtxSynchronize ")
        assert out[2] == "events: all(host_wait) "


# -- Programs that link the driver -----------------------------------------------

def test_linked_program(built):
    """Arguments on the stack and in floating-point registers survive, bound for the first time and
    later, with something held and without."""
    out = built.run("hold 0", "open libcuda.so.1", "linked cuMemcpyBatchAsync", CALL, "hold 1", CALL,
                    "events", "linked cuDeviceGet", CALL, "events", "linked cuLaunchKernel",
                    "accept 1", CALL, "events", program="linked")
    arguments = f"119 {PASSED} 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5"
    assert out[1] == f"linked cuMemcpyBatchAsync: {DOORS} ?"
    assert out[2] == out[3] == f"call: 0 cuMemcpyBatchAsync {arguments}"
    assert out[4] == "events: stream(0x9, 0, stream_barrier) "
    assert out[6] == f"call: 0 cuDeviceGet {arguments}"
    assert out[7] == "events: "
    assert out[9] == "call: 0"
    assert out[10].startswith("events: kernel(2 3 4, 5 6 7, 8, 0x77, 0x9 0, 0xa, ")


def test_linked_program_without_a_driver(built):
    """A weak reference to a function of the driver stays NULL, also once there is a driver."""
    out = built.same("linked cuInit", "linked cuCtxSynchronize", program="weak", driver="none")
    assert out == ["linked cuInit: nothing", "linked cuCtxSynchronize: nothing"]
    assert built.same("open libcuda.so.1", "linked cuInit", program="weak")[1] == "linked cuInit: nothing"


# -- Programs that link a runtime -------------------------------------------------

def launches(*libraries):
    return [word for name in libraries for word in (f"open {name}", "handle launch", "call 0")]


def test_each_caller_gets_its_own_runtime(built):
    """Also where two runtimes are loaded, or a library brings its own and exports it."""
    users = {"libuse12.so": 12, "libuse13.so": 13, "libown.so": 99}
    for order in (list(users), list(reversed(users))):
        for how in ("open", "openglobal"):
            words = [w.replace("open", how, 1) for w in launches(*order)]
            out = built.same(*words)
            if how == "open":
                assert out[2::3] == [f"call: {users[name]}" for name in order]
    for preload in (("libuse13.so", "libuse12.so"), ("libuse12.so", "libown.so", "libuse13.so")):
        for where in range(len(preload) + 1):
            built.same(*launches(*users), preload=(*preload[:where], DOORS, *preload[where:]))


def test_runtime_in_the_scope_of_the_loader(built):
    """A library without dependencies of its own uses those of what loaded it."""
    out = built.same("open libhost.so", "handle launch", "call 0")
    assert out[2] == "call: 12"


def test_runtime_that_is_looked_up(built):
    """A program that asks a runtime for its function gets that one's, by whatever way."""
    for number in (12, 13):
        words = ("openglobal libcudart.so.12", f"open libcudart.so.{number}", "handle cudaLaunchKernel",
                 "default __cudaLaunchKernel_ptsz", "self cudaLaunchKernelExC")
        out, without = built.run(*words), built.run(*words, preload=())
        assert out[2:4] == [f"handle cudaLaunchKernel: {DOORS} ?", f"default __cudaLaunchKernel_ptsz: {DOORS} ?"]
        assert out[4] == without[4] == "self cudaLaunchKernelExC: libcudart.so.12 cudaLaunchKernelExC"


# -- What <<<>>> pushes and pops -----------------------------------------------------

QUIET_CONTACT = "open libcuda.so.1 touch cuMemAlloc_v2"
USERS = ["libuse12.so", "libuse13.so", "libown.so"]


def configure(library, *scripts):
    """Opens the library, and has it push (1, 2) and pop (3, past the library 4), as the digits of
    each script say, the first one first."""
    calls = (f"handle configure call 0x{script[::-1]}" for script in scripts)
    return f"open {library} " + " ".join(calls)


@pytest.mark.parametrize("seed", range(12))
def test_configurations_are_the_runtimes(built, seed):
    """In any order, of several runtimes in turn, with more of them than are kept, and with pops
    where there is nothing."""
    chance = random.Random(seed)
    words = [QUIET_CONTACT] if seed % 4 else []
    if seed % 2:  # what is pushed stays in the library from now on
        words += [configure(library, "13", "23") for library in USERS]
    for _ in range(60):
        weights = chance.choice([(5, 5, 10), (8, 2, 4), (2, 2, 5)])
        scripts = ("".join(chance.choices("123", weights, k=chance.randint(1, 12)))
                   for _ in range(chance.randint(1, 4)))
        words.append(configure(chance.choice(USERS), *scripts))
    built.same(*words)


def test_configurations_of_two_runtimes_in_turn(built):
    """Each is popped by its own, also the first ones."""
    turns = [configure(USERS[i], script) for _ in range(4)
             for i, script in ((1, "1"), (2, "1"), (1, "3"), (2, "3"))]
    built.same(QUIET_CONTACT, *turns, *(configure(library, "13") for library in USERS))
    built.same(QUIET_CONTACT, configure(USERS[1], "13"), configure(USERS[2], "13"), *turns)


PAIRS = configure("libuse13.so", "13", "23", *["13" * 7, "1233" * 3, "23" * 7] * 5)


def pushes(out):
    """How often the runtime's own function was called before each question."""
    return [int(line.split()[1]) for before, line in zip(out, out[1:])
            if before.startswith("handle runtime_pushes")]


ASK = "handle runtime_pushes call 0"


def test_configurations_do_not_go_to_the_runtime(built):
    """But for the first, and all of other versions, and while the library is off."""
    assert pushes(built.run(QUIET_CONTACT, PAIRS, ASK)) == [1]
    old = PAIRS.replace("13.so", "12.so")
    everything = pushes(built.run(QUIET_CONTACT, PAIRS, ASK, preload=()))
    assert everything[0] > 100
    assert pushes(built.run(QUIET_CONTACT, old, ASK)) == everything
    assert pushes(built.run(QUIET_CONTACT, PAIRS, ASK, env={"AUTOGRAPH_DISABLE": "1"})) == everything
    assert pushes(built.run(PAIRS, ASK)) == everything  # no driver yet


def test_configurations_that_are_popped_past_the_library(built):
    """They stay in the runtime."""
    past = configure("libuse13.so", *["14" * 7] * 9)
    assert pushes(built.run(QUIET_CONTACT, past, ASK)) == pushes(built.same(QUIET_CONTACT, past, ASK)) == [63]


def test_configurations_in_signal_handlers(built):
    done = built.run(QUIET_CONTACT, PAIRS, "handle configure_with_signals call 20000", ASK)
    assert done[-3].startswith("call: 0") and pushes(done)[0] < 100


def test_waits_for_a_stream_are_told_of(built):
    """Once there are streams that end."""
    ask = "handle cuStreamSynchronize call 0x40 events"
    out = built.run(OPEN, ask, "go 1", ask)
    assert [line.strip() for line in out if line.startswith("events")] == \
        ["events:", "events: issued(0x40) waited_for(0x40, 7)"]


# -- The shortcut past the runtime --------------------------------------------------

CONTACT = "open libcuda.so.1 handle cuLaunchKernel"
LAUNCH = "handle launch call 0x20 events"
ASKED = "kernel(2 3 4, 5 6 7, 9, 0x1020, 0xa 0, 0x8, (nil), 0) "


def launches_seen(out):
    """For each launch: times that the runtime has been called, did the driver launch, the events."""
    return [(int(call.split()[1]), len(call.split()) > 2, events[8:])
            for found, call, events in zip(out, out[1:], out[2:])
            if found.startswith("handle launch: ")]


def test_shortcut(built):
    """The engine is asked once for each launch; what it takes goes past the runtime once that is
    known; what it does not take goes the whole way."""
    out = launches_seen(built.run(CONTACT, "open libapp12000.so", "accept 1", LAUNCH, LAUNCH, LAUNCH,
                                  "accept 0", LAUNCH, LAUNCH, "accept 1", LAUNCH))
    assert out == [(1, False, ASKED), (1, False, ASKED), (1, False, ASKED), (2, True, ASKED),
                   (3, True, ASKED), (3, False, ASKED)]


def test_shortcut_is_known_to_all_threads(built):
    """What one has learnt in a context serves the first launch of another; not in another context."""
    apart = LAUNCH.replace("call", "apart")
    out = launches_seen(built.run(CONTACT, "open libapp12000.so", "accept 1", apart, apart, LAUNCH,
                                  "handle move_functions call 0x2000", OPEN, "context 2",
                                  "open libapp12000.so", apart, apart))
    assert out == [(1, False, ASKED)] * 3 + [(2, False, MOVED)] * 2


def test_shortcut_is_not_for_old_runtimes(built):
    out = launches_seen(built.run(CONTACT, "open libapp11080.so", "accept 1", LAUNCH, LAUNCH, "accept 0",
                                  LAUNCH))
    assert out == [(1, False, ASKED), (2, False, ASKED), (3, True, ASKED)]


def test_shortcut_is_not_for_other_launches(built):
    """The runtime launches this kernel in another way."""
    odd = LAUNCH.replace("0x20", "0x21")
    out = launches_seen(built.run(CONTACT, "open libapp12000.so", "accept 1", odd, odd))
    assert [(calls, driver) for calls, driver, _ in out] == [(1, False), (2, False)]
    assert all(events.count("kernel(") == 1 for *_, events in out)


def launches_around(built, *change, launch=LAUNCH):
    """Two launches before a change, from which on the runtime has another function, and two after."""
    return launches_seen(built.run(CONTACT, "open libapp12000.so", "accept 1", launch, launch,
                                   "handle move_functions call 0x2000", OPEN, *change,
                                   "open libapp12000.so", launch, launch))


def seen_around(asked, moved):
    return [(1, False, asked), (1, False, asked), (2, False, moved), (2, False, moved)]


MOVED = ASKED.replace("0x1020", "0x2020")


@pytest.mark.parametrize("name", ["cuModuleUnload", "cuLibraryUnload", "cuCtxDestroy_v2",
                                  "cuDevicePrimaryCtxReset_v2"])
def test_shortcut_is_forgotten(built, name):
    """Functions that have changed: the runtime is asked anew."""
    assert launches_around(built, f"handle {name} call 1 events") == seen_around(ASKED, MOVED)


@pytest.mark.parametrize("name", [UNKNOWN, *(n for n in SLOTS if re.match(
    r"cuCtx(Set|Push|Pop)Current|cu(GL|VDPAU)?CtxCreate", n) and n in EXPORTED)])
def test_shortcut_asks_for_the_context_again(built, name):
    """Each call that may make another context current, known or not: the driver is asked, and the
    runtime for that context's function."""
    assert launches_around(built, f"context 2 handle {name} call 1 events") == seen_around(ASKED, MOVED)


def test_shortcut_remembers_the_context(built):
    """Without such a call nobody is asked; but always where the stream is the context's own."""
    assert launches_around(built, "context 2") == [(1, False, ASKED)] * 4
    asked, moved = (seen.replace("20, 0xa 0", "40, (nil) 0") for seen in (ASKED, MOVED))
    assert launches_around(built, "context 2", launch=LAUNCH.replace("0x20", "0x40")) == \
        seen_around(asked, moved)


def test_runtime_that_fails_on_its_own(built):
    """The engine hears of a launch that it was asked about and that was never made."""
    out = launches_seen(built.run(CONTACT, "open libapp12000.so", "accept 1", LAUNCH, "accept 0",
                                  "handle break_runtime call 1", LAUNCH,
                                  "handle break_runtime call 0", LAUNCH))
    assert out == [(1, False, ASKED), (-2, False, ASKED + "failed "), (3, True, ASKED)]


# -- Other drivers ------------------------------------------------------------------

def test_old_driver(built):
    """What is not there is not found, and the library goes without it."""
    old = [n for n in EXPORTED if not re.search(r"External|ParamInfo|KernelGet|Library|LaunchKernelEx", n)]
    built.driver("old", rows(old))
    out = built.run(OPEN, "handle cuLaunchKernel", "accept 1", CALL, "handle cuLaunchKernelEx",
                    "handle cuFuncGetParamInfo", driver="old")
    assert out[1:] == [f"handle cuLaunchKernel: {DOORS} ?", "call: 0",
                       "handle cuLaunchKernelEx: nothing, error",
                       "handle cuFuncGetParamInfo: nothing, error"]


def test_two_names_of_one_function(built):
    """The stricter class holds whichever name is asked for."""
    pairs = [("cuMemHostGetFlags", "cuMemFreeHost", "all(barrier)"),
             ("cuStreamGetPriority", "cuStreamQuery", "asks_stream(0x77, 0)"),
             ("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", "all(barrier)"),
             ("cuMemcpy2DAsync", "cuMemcpyAtoHAsync_v2", "all(barrier)"),
             ("cuLaunchKernel", "cuLaunchKernel_ptsz", "all(barrier)"),
             ("cuStreamGetFlags", "cuStreamDestroy_v2", "stream_destroy(0x77)"),
             ("cuLaunchHostFunc", "cuStreamDestroy", "stream_destroy(0x77)")]
    twice = [name for pair in pairs for name in pair[:2]]
    functions = rows(n for n in EXPORTED if n not in twice)
    functions += [row for one, two, _ in pairs for row in (f"FUNCTION({one})", f"ALIAS({two}, {one})")]
    built.driver("aliases", functions)
    for one, two, event in pairs:
        out = built.run(OPEN, "hold 1", *(f"handle {name} {CALL} events" for name in (one, two)),
                        driver="aliases")
        assert all(out[at].startswith(f"call: 0 {one} 119 ") for at in (2, 5))
        assert out[3] == out[6] == f"events: {event} "


def test_more_unknown_functions_than_slots(built):
    """Where not every call can be seen, nothing is held."""
    unknown = [f"cuUnknown{i}" for i in range(1100)]
    built.driver("many", [*rows(EXPORTED), *(f"SMALL({name})" for name in unknown)])
    names = ["cuLaunchKernel", "cuUnknown0", "cuUnknown1099"]
    out = built.run(OPEN, *(f"handle {name}" for name in (*names, "cuInit")), driver="many")
    assert out[1:] == [*(f"handle {name}: libcuda.so.1 {name}" for name in names), f"handle cuInit: {DOORS} ?"]
    built.driver("most", [*rows(EXPORTED), *(f"SMALL({name})" for name in unknown[:1024])])
    out = built.run(OPEN, *(f"handle {name}" for name in unknown[:1024]), "events", driver="most")
    assert set(line.split(": ")[1] for line in out[1:-1]) == {f"{DOORS} ?"} and out[-1] == "events: "


# -- The other architecture ---------------------------------------------------------

CROSS = "aarch64-linux-gnu"


@pytest.mark.skipif(not shutil.which(f"{CROSS}-gcc") or not shutil.which("qemu-aarch64"),
                    reason="no cross compiler for aarch64, or no emulator")
def test_aarch64(tmp_path):
    b = Built(tmp_path, "aarch64", [f"{CROSS}-gcc"], ["qemu-aarch64", "-L", f"/usr/{CROSS}"])
    b.doors()
    b.driver("driver", rows([*EXPORTED, UNKNOWN]))
    b.compile("linked", "-DLINKED", PROGRAMS / "door_lookup.c", b.directory / "driver/libcuda.so.1",
              "-ldl")
    b.compile("libuser.so", "-shared", PROGRAMS / "door_third.c", "-ldl")
    b.compile("hooked", f"-I{helpers.SOURCE}/tests/sim", PROGRAMS / "hooked.c",
              b.directory / "driver/libcuda.so.1", "-ldl")
    out = b.run("open libuser.so", "thirdnext malloc", OPEN, "hold 1",
                *(f"{how} {name} call 0x77 events" for how in ("handle", "linked") for name in
                  ("cuMemcpyBatchAsync", "cuEventQuery", "cuDeviceGet")), "accept 1",
                "linked cuLaunchKernel call 0x77 events", "hold 0",
                "linked cuMemcpyBatchAsync call 0x77 events", program="linked")
    assert out[1] == "thirdnext malloc: libc.so.6 malloc"
    arguments = f"119 {PASSED} 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5"
    events = {"cuMemcpyBatchAsync": "stream(0x9, 0, stream_barrier) ",
              "cuEventQuery": "asks_event(0x77) ", "cuDeviceGet": ""}
    for i, (name, event) in enumerate([*events.items()] * 2):
        found, called, said = out[3 + 3 * i:6 + 3 * i]
        if i < 3:
            assert found.split()[2:] == (["libcuda.so.1", name] if not event else [DOORS, "?"])
        else:
            assert found.split(": ")[1] == (f"libcuda.so.1 {name}" if not event else f"{DOORS} ?")
        assert called == f"call: 0 {name} {arguments}" and said == f"events: {event}"
    assert out[-5] == "call: 0" and out[-4].startswith("events: kernel(2 3 4, 5 6 7, 8, 0x77, 0x9 0,")
    assert out[-2:] == [f"call: 0 cuMemcpyBatchAsync {arguments}", "events: "]
    rules = [line.split() for line in b.run("rules", program="hooked")]
    assert len(rules) == 16 and {rule for _, rule in rules} == {"far"}


# -- Switched off -----------------------------------------------------------------

def test_disabled(built):
    words = (OPEN, "handle cuLaunchKernel", "handle cuMemcpy", "gpa cuLaunchKernel 2",
             "default cuInit", "self cuInit", "next cuInit", f"handle {UNKNOWN}")
    env = {"AUTOGRAPH_DISABLE": "1"}
    assert built.same(*words, env=env)[1] == "handle cuLaunchKernel: libcuda.so.1 cuLaunchKernel"
    assert built.run(*words)[1] == f"handle cuLaunchKernel: {DOORS} ?"
    assert built.run(*words, env={"AUTOGRAPH_DISABLE": "0"})[1] == f"handle cuLaunchKernel: {DOORS} ?"


def test_child_of_a_process_that_uses_cuda(built):
    """It gets the real functions and holds nothing; from before cuInit it is a program of its own."""
    out = built.run(OPEN, "handle cuInit", "call 0", "handle cuLaunchKernel", "hold 1", "fork", CALL,
                    "events", "handle cuLaunchKernel")
    assert out[-3].startswith("call: 0 cuLaunchKernel 119 ")
    assert out[-2:] == ["events: ", "handle cuLaunchKernel: libcuda.so.1 cuLaunchKernel"]
    out = built.run(OPEN, "handle cuLaunchKernel", "fork", "accept 1", CALL)
    assert out[-1] == "call: 0"


def test_threads_that_come_at_the_same_moment(built):
    """One of them holds the loader's lock; all get the same answers, and none waits for ever."""
    for slow in ("50000", "0", "0", "0"):
        assert built.run("libconstructor.so", program="threads", env={"DOOR_SLOW": slow}) == []


# -- The tables -------------------------------------------------------------------

# Of CUDA 13.4, whose parameters are not known.
UNDECLARED = {"cuCheckpointOperationComplete", "cuDeviceGetCliqueCount", "cuDeviceGetCliqueInfo",
              "cuDeviceGetFabricClusterUuid", "cuMemGetLocationInfo"}


@pytest.fixture(scope="session")
def prototypes():
    """The parameters of each function, by cuda.h and by what the tests know of newer ones."""
    newer = helpers.SOURCE / "tests/sim/newer.h"
    text = helpers.tool(*helpers.config()["cc"].split(), "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL",
                        "-isystem", f"{helpers.config()['cuda']}/include", "-x", "c", newer)
    found = {name: [p.strip() for p in parameters.split(",")] for name, parameters in
             re.findall(r"CUresult\s+(cu[A-Z]\w*)\s*\(([^)]*)\)", text)}
    thread = re.findall(r"^CUresult (cu\w+)\([^;]*\); +/\* \d+ ptsz \*/", newer.read_text(), re.M)
    return {**{f"{name}_ptsz": found[name] for name in thread}, **found}


def test_class_table_names_functions(prototypes):
    """No row of the class table is a misspelling."""
    names = re.findall(r"^[A-Z_]+\((cu\w+)", (PRELOAD / "classes.def").read_text(), flags=re.M)
    names = {n for n in names if n in EXPORTED and n not in prototypes}
    assert names - UNDECLARED == set()


def test_newer_functions_have_their_forms(prototypes):
    """For the per-thread default stream, too, where NVIDIA's documentation has one."""
    text = (helpers.SOURCE / "tests/sim/newer.h").read_text()
    newer = dict(re.findall(r"^CUresult (cu\w+)\([^;]*\); +/\* \d+( ptsz)? \*/", text, re.M))
    assert len(newer) == text.count("CUresult cu") and set(newer) <= set(SLOTS)
    assert [n for n in newer if bool(newer[n]) != (f"{n}_ptsz" in SLOTS)] == []
    assert UNDECLARED <= set(SLOTS)


def test_arguments_are_those_of_the_header(prototypes):
    """The place of each argument that names a stream or function."""
    seen = 0
    for name, slot in SLOTS.items():
        handle = {"STREAM": r"CUstream\b", "FUNCTION": r"(CUfunction|CUkernel)\b(?! ?\*)"}
        if slot.kind in handle:
            seen += 1
            named = [i for i, p in enumerate(prototypes[name]) if re.match(handle[slot.kind], p)]
            assert named == [slot.argument], name
            # By value and in integer registers, one for each argument before it.
            wide = [p for p in prototypes[name][:slot.argument + 1]
                    if re.match(r"(const )?(float|double|struct)\b", p)]
            assert wide == [], name
    assert seen > 50


def test_what_submits_or_waits_is_no_query():
    """Nothing with a stream argument is a query, but for questions about streams."""
    for name, slot in SLOTS.items():
        if slot.kind == "QUERY":
            assert not re.search(r"Async|Synchronize|Launch(?!_)|Record(?!Node)|Wait(?!Node)|Free|"
                                 r"Memcpy(?!Node)|Memset(?!Node)|Load(?!ed|ing)", name) \
                or name.startswith(("cuGraphAdd", "cuGraphEvent")), name


# -- The whole library, on the simulated driver --------------------------------------

@pytest.fixture(scope="session")
def lookup(built):
    def run(*words, env=None, **options):
        # The program is not instrumented, but the driver may be.
        runtime = helpers.sanitizer_runtime()
        if runtime and not options.get("preload", True):
            env = {**(env or {}), "LD_PRELOAD": runtime}
        command = [built.directory / "door_lookup", *" ".join(words).split()]
        return helpers.run(command, env=env, **options).stdout.splitlines()
    return run


def driver_exports():
    symbols = helpers.tool("nm", "-D", "--defined-only", helpers.sim_dir() / "libcuda.so.1")
    return [line.split()[-1] for line in symbols.splitlines() if " T cu" in line]


def test_every_function_of_the_driver(lookup):
    """Each is either a query, and then the driver's own, or passes through the library."""
    names = driver_exports()
    assert len(names) > 600
    out = lookup(OPEN, *(f"handle {name}" for name in names))[1:]
    for name, line in zip(names, out):
        query = SLOTS[name].kind == "QUERY" if name in SLOTS else False
        assert line == f"handle {name}: " + (f"libcuda.so.1 {name}" if query else "libautograph.so ?")


@pytest.mark.parametrize("flags", [0, 1, 2])
def test_every_function_by_its_address(lookup, flags):
    """cuGetProcAddress: the driver's own choice of version and stream variant, then our door to it."""
    names = sorted({re.sub(r"(_v\d)?(_ptsz|_ptds)?$", "", name) for name in driver_exports()})
    words = [OPEN, *(f"gpa {name} {flags}" for name in names)]
    without = lookup(*words, preload=False)[1:]
    found = 0
    for before, after in zip(without, lookup(*words)[1:]):
        if before.endswith(": nothing"):
            assert after == before
            continue
        found += 1
        name = before.split()[-1]
        assert before.split()[-2] == "libcuda.so.1" and name in SLOTS
        assert after == (before if SLOTS[name].kind == "QUERY" else
                         before.replace(f"libcuda.so.1 {name}", "libautograph.so ?"))
    assert found > 400


def test_without_the_driver_the_library_is_not_to_be_seen(lookup, tmp_path):
    words = [f"{how} {name}" for how in ("default", "self", "next")
             for name in ("cuInit", "cuLaunchKernel", "cudaLaunchKernel", "__cudaLaunchKernel_ptsz")]
    report = tmp_path / "report"
    out = lookup(*words, sim=False, env={"AUTOGRAPH_REPORT": report})
    assert out == lookup(*words, sim=False, preload=False)
    assert not report.exists(), "a program without CUDA gets no report"


def test_report_of_a_program_that_only_initialises(lookup, tmp_path):
    report = tmp_path / "report"
    lookup(OPEN, "handle cuInit", "call 0", env={"AUTOGRAPH_REPORT": report})
    assert '"replays": 0' in report.read_text()
    report.unlink()
    lookup(OPEN, "handle cuInit", "call 0",
           env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_DISABLE": "1"})
    assert not report.exists(), "a true pass-through leaves nothing"


def test_report_is_the_parents(lookup, tmp_path):
    """A forked child ends without a report of its own over its parent's."""
    lookup(OPEN, "handle cuInit", "call 0", "fork", "handle cuInit",
           env={"AUTOGRAPH_REPORT": tmp_path / "report.%p", **helpers.NO_LEAK_CHECK})
    assert len(list(tmp_path.iterdir())) == 1


HIDES = """
#include <dlfcn.h>
void *dlsym(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!real)
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return real(handle, name);
}
"""

HIDDEN = """
#include <dlfcn.h>
#include "sim_test.h"

int main(void)
{
    CUdeviceptr buffer;
    uint32_t first, now = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*wait)(void) = dlsym(driver, "cuCtxSynchronize");
    CUresult (*copy)(void *, CUdeviceptr, size_t) = dlsym(driver, "cuMemcpyDtoH_v2");
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 100; i++) {
        OK(cuMemsetD8Async(buffer, 0, 4, 0));
        for (int k = 0; k < 5; k++)
            OK(launch_mix(buffer, 1, 7, 0));
        OK(wait());
        OK(copy(i == 0 ? &first : &now, buffer, 4));
        CHECK(i == 0 || now == first);
        for (int k = 0; k < 3; k++)
            OK(launch_mix(buffer, 1, 7, 0));
    }
    return 0;
}
"""


@pytest.mark.skipif(helpers.config()["sanitize"] == "thread",
                    reason="the sanitizer's start calls dlsym(), which is compiled for it")
def test_another_dlsym_in_front(tmp_path):
    """What the program looks up there leads through the library all the same."""
    source = tmp_path / "hides.c"
    source.write_text("#define _GNU_SOURCE\n" + HIDES)
    hides = compiled.compile_to(tmp_path / "hides.so", "-shared", source)
    runtime, doors = helpers.sanitizer_runtime(), helpers.build_dir() / ".libs/libautograph.so"
    for order in (hides, doors), (doors, hides):
        preload = ":".join(str(p) for p in (runtime, *order) if p)
        done = helpers.run_logged(compiled.text(HIDDEN), env={"LD_PRELOAD": preload})
        assert done.report["stopped"] is None and done.report["replays"] > 50


def test_disabled_by_configuration(lookup):
    words = (OPEN, "handle cuLaunchKernel", "gpa cuMemcpy 0")
    assert lookup(*words, env={"AUTOGRAPH_GENERAL_ENABLE": "false"}) == \
        lookup(*words, preload=False) == lookup(*words, env={"AUTOGRAPH_DISABLE": "1"})

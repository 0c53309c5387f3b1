# SPDX-License-Identifier: MIT
"""autograph doctor [program]: will the library work here, and with this program?"""
import ctypes
import glob
import os
import re
import subprocess
import sys

import elf
import launch
import options
import simulated
from common import Failure, Parser, library, plural, printable, wrapped

USABLE, USELESS = 0, 1
FILES = ("report.file", "trace.file")
STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY
MIN_DRIVER = 12040  # the oldest that has all the functions that graphs need

# Libraries that have nothing to do with CUDA.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)|ld-linux.*)\.so")

EPILOG = "Status: 0 usable, 1 of no use here or for this program, 2 the program cannot be looked at."


def say(name, text):
    print("\n".join(wrapped(f"{name + ':':<14} {printable(text)}", " " * 15)))


# -- The machine ------------------------------------------------------------------

def driver_release():
    """The kernel driver's version, such as 580.159.04; None if it is not loaded."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            match = re.search(r"\s(\d+\.\d+(?:\.\d+)*)\s", file.read())
            return match.group(1) if match else "of unknown version"
    except OSError:
        return None


ASK_VERSION = """
import ctypes, sys
sys.exit(ctypes.CDLL(sys.argv[1]).cuDriverGetVersion(ctypes.byref(ctypes.c_int())))
"""


def is_stub(path):
    """Whether that file is the toolkit's stand-in for the driver. Asked in a process of its own, since
    all such files have one name for the linker."""
    try:
        return subprocess.run([sys.executable, "-c", ASK_VERSION, path], timeout=60, check=False,
                              capture_output=True).returncode == STUB_LIBRARY
    except (OSError, subprocess.SubprocessError):
        return False


def other_drivers():
    """Files named libcuda where the dynamic linker looks for them, but for the one that is loaded."""
    found = []
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        found += sorted(glob.glob(os.path.join(glob.escape(directory or "."), "libcuda.so*")))
    try:
        cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, timeout=60,
                               check=False, errors="replace").stdout
        found += re.findall(r"^\s+libcuda\.so\S* .*x86-64.* => (.*)$" if os.uname().machine == "x86_64"
                            else r"^\s+libcuda\.so\S* .* => (.*)$", cache, re.M)
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            known = set(re.findall(r"(/\S.*/libcuda\.so\S*)$", maps.read(), re.M))
    except OSError:  # without /proc it cannot be told which one is loaded
        return []
    return [path for i, path in enumerate(found) if os.path.realpath(path) not in known
            and os.path.realpath(path) not in map(os.path.realpath, found[:i])]


def check_driver():
    """Says what the driver is; None if it is good, else why it is not."""
    release = driver_release()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        say("driver", f"{release} in the kernel, but {e}" if release else f"none: {e}")
        return ("no NVIDIA driver is installed here (in a container: start it with the GPU, for "
                "example docker run --gpus all)")
    version, devices = ctypes.c_int(), ctypes.c_int()
    error = cuda.cuInit(0)
    if error == STUB_LIBRARY:
        say("driver", "libcuda.so.1 is the toolkit's stub")
        return "the toolkit's stubs hide the driver: take them out of LD_LIBRARY_PATH"
    if cuda.cuDriverGetVersion(ctypes.byref(version)) != 0:
        say("driver", "libcuda.so.1 does not tell its version")
        return "the driver does not answer"
    number = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    ours = simulated.is_loaded(os.getpid())
    say("driver", f"{'the simulated one' if ours else release or 'no kernel module'}, {number}")
    if ours:
        say("note", "it runs only programs that have its own kind of kernels, as those in build/tests, and its times mean nothing")
    if error == 0:
        error = cuda.cuDeviceGetCount(ctypes.byref(devices))
    if error != 0 or devices.value == 0:
        name = ctypes.c_char_p()
        known = error != 0 and cuda.cuGetErrorName(error, ctypes.byref(name)) == 0 and name.value
        say("GPU", f"none ({name.value.decode()})" if known else "none")
        return ("the driver finds no GPU: look at nvidia-smi, and at CUDA_VISIBLE_DEVICES"
                + (f" (which is '{os.environ['CUDA_VISIBLE_DEVICES']}')"
                   if "CUDA_VISIBLE_DEVICES" in os.environ else ""))
    for i in range(devices.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        if cuda.cuDeviceGet(ctypes.byref(device), i) == 0 and \
                cuda.cuDeviceGetName(name, len(name), device) == 0:
            say("GPU", f"{i}: {name.value.decode(errors='replace')}")
    for path in other_drivers():
        say("also", f"{path}: " + ("the toolkit's stub, which is left alone" if is_stub(path) else
                                   "nothing is held in a program that uses both"))
    if version.value < MIN_DRIVER:
        return f"the driver is for {number}, and 12.4 (driver 550) is the least: update it"
    return None


# -- The program --------------------------------------------------------------------

def own_runtime(binary):
    """Whether a file has a runtime in it that fetches the driver's functions itself."""
    return binary.contains(b"cuGetProcAddress") and binary.contains(b"libcuda.so")


def ways_to_cuda(binary):
    """(sentences about how the program reaches CUDA, libraries that are missing)."""
    ways = []
    libraries = elf.loaded_libraries(binary)
    if own_runtime(binary):
        ways.append("cudart is in the program (static)")
    for name, path in sorted(libraries.items()):
        if re.match(r"libcudart\.so", name):
            ways.append(f"shared cudart: {path or name}")
        elif re.match(r"libcuda\.so", name):
            ways.append(f"driver API, linked: {path or name}")
        elif path and not SYSTEM.match(name):
            try:
                library = elf.Elf(path)
                if own_runtime(library):
                    ways.append(f"{name} brings a cudart of its own")
                found = [v for v in sorted(library.variables()) if re.match(r"cu[A-Z]", v)]
                if found:
                    ways.append(f"{name} looks the driver's functions up ({found[0]})")
            except Failure:
                pass  # the dynamic linker will say it better
    return ways, sorted(name for name, path in libraries.items() if path is None)


def opens_namespaces(binary):
    """Whether the program, or a library that it is linked to, may call dlmopen()."""
    for name, path in [(None, binary.path), *elf.loaded_libraries(binary).items()]:
        if path and not (name and SYSTEM.match(name)):
            try:
                if elf.Elf(path).mentions("dlmopen"):
                    return True
            except Failure:
                pass  # the dynamic linker will say it better
    return False


def has_its_kernels(binary):
    """Whether the program, or a library that it is linked to, may have kernels for the simulated driver."""
    libraries = [path for name, path in elf.loaded_libraries(binary).items()
                 if path and not SYSTEM.match(name) and not name.startswith("libcuda")]
    return any(map(simulated.has_mark, [binary.path, *libraries]))


def check_program(command, path):
    """Says what the program is; None if the library is of use to it, else why it is not."""
    binary, scripts = elf.program_of(elf.find(command))
    for script in scripts:
        say("script", script)
    say("program", f"{binary.path} ({binary.machine}, {binary.bits} bit"
                   f"{', dynamic' if binary.dynamic else ''})")
    if not binary.is_program:
        raise Failure(f"{binary.path}: {elf.obstacle(binary, path)}")
    reason = elf.obstacle(binary, path)
    if reason:
        return reason
    ways, missing = ways_to_cuda(binary)
    for way in ways:
        say("CUDA", way)
    for name in missing:
        say("missing", f"{name} is not found: the program will not start; see LD_LIBRARY_PATH")
    if missing:
        return f"{missing[0]} is missing"
    for name, path in elf.loaded_libraries(binary).items():
        if re.match(r"libcuda\.so", name) and is_stub(path):
            return (f"the program is linked to the toolkit's stub, {path}: take it out of "
                    "LD_LIBRARY_PATH, or of the program's RUNPATH")
    if opens_namespaces(binary):
        say("note", "it may load objects with dlmopen(): from then on nothing is held")
    if ways and simulated.is_found(os.environ) and not has_its_kernels(binary):
        return ("the driver here is the simulated one, and the program has no kernels for it: run it on a machine "
                "with a GPU, or try the library with build/tests/samples/constant-sim")
    if ways:
        say("seen", "launches, memsets, copies and events of the program and of every library in it")
        say("not seen", "graphs that the program makes itself: they run as they are")
        return None
    loads = binary.mentions("dlopen")
    starts = binary.mentions("execve", "execvp", "execv", "posix_spawn", "posix_spawnp")
    if not loads and not starts:
        return "it neither uses CUDA nor loads or starts anything that could"
    say("CUDA", "none in the program itself; "
        + " and ".join(["what it loads later is seen too"] * loads +
                       ["the programs that it starts get the library as well"] * starts))
    return None


# -- Options --------------------------------------------------------------------------

def check_options(program):
    """Says what is set for the program of that name; None, or why nothing will be done."""
    file, values, complaints = options.effective(os.environ, program)
    say("configuration", os.path.abspath(file) if file else "no file: defaults")
    for name, (value, where) in sorted(values.items()):
        here = f", here {options.expanded(value, os.environ)}" if name in FILES and "%" in value else ""
        say("option", f"{name} = {value}{here}   ({where})")
    for complaint in complaints:
        say("mistake", f"{complaint}; it does not count")
    if os.environ.get("AUTOGRAPH_DISABLE", "0") not in ("", "0"):
        return "AUTOGRAPH_DISABLE is set: unset it"
    if values.get("general.enable"):
        return "general.enable is false: nothing is done"
    if program and options.is_excluded(values, program):
        return f"general.exclude names {program}: nothing is done there"
    forbids = options.forbids(os.environ)
    return forbids and f"{forbids}; unset it, and launches are held again"


def main(arguments):
    parser = Parser("doctor", description="Says whether the library works here and with a program.",
                    epilog=EPILOG)
    parser.add_argument("program", nargs="?", help="a program, or a script")
    launch.add_settings(parser)
    given = parser.parse_args(arguments)
    os.environ.update(launch.settings(given))
    path = library(given.library)
    say("library", path)
    try:
        reasons = [check_options(elf.name_of(elf.find(given.program)) if given.program else None),
                   check_program(given.program, path) if given.program else None,
                   check_driver()]
    except Failure as failure:
        raise Failure(str(failure)) from None  # not the launcher's 126 and 127
    reasons = [r for r in reasons if r]
    print()
    if reasons:
        for reason in reasons:
            first, *others = reason.splitlines()
            print("\n".join([*wrapped(f"Not useful: {printable(first)}.", "  "), *map(printable, others)]))
        return USELESS
    print("Usable." if not given.program else f"Usable: autograph {printable(given.program)}")
    return USABLE

# SPDX-License-Identifier: MIT
"""Compiles test programs for the simulated driver: tests/programs/NAME.c, kept in the build directory
until its source or the driver changes, or a few lines of a test."""
import atexit
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import helpers

PROGRAMS = helpers.SOURCE / "tests/programs"


def compile_to(output, *arguments):
    """`arguments`: sources, and what else the compiler is to get."""
    config = helpers.config()
    sanitize = [f"-fsanitize={config['sanitize']}"] if config["sanitize"] else []
    command = [*config["cc"].split(), "-isystem", f"{config['cuda']}/include",
               f"-I{helpers.SOURCE}/include", f"-I{helpers.SOURCE}/tests/sim", f"-I{PROGRAMS}", "-std=gnu11", "-O1", "-g", "-Wall",
               "-Wextra", "-Werror", "-fPIC", *sanitize, "-o", output, *arguments, "-rdynamic",
               f"-L{helpers.sim_dir()}", "-lcuda", "-pthread", "-ldl"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@functools.lru_cache(maxsize=None)
def program(name, *arguments, source=None):
    """Path of the program; `arguments`: further sources (paths), and what else the compiler is to
    get."""
    output = helpers.build_dir() / "tests/programs" / name
    source = PROGRAMS / f"{source or name}.c"
    sources = [source, *(a for a in arguments if isinstance(a, pathlib.Path))]
    inputs = [*sources, *PROGRAMS.glob("*.h"), helpers.sim_dir() / "libcuda.so.1"]
    if output.exists() and output.stat().st_mtime > max(p.stat().st_mtime for p in inputs):
        return output
    output.parent.mkdir(exist_ok=True)
    compile_to(output.with_name(f"{name}.{os.getpid()}"), source, *arguments).rename(output)
    return output


# For a library to preload. A sanitizer's runtime may call it, so it has no sanitizer. Programs that use no
# driver find none, so it needs none: a compiler asks for the driver unless it is told not to (seen with gcc and
# sanitizers).
PRELOADED = ("-shared", "-fno-sanitize=all", "-Wl,--as-needed")


def clock(name="own_clock"):
    """A library to preload, with a clock that is the program's own."""
    return str(program(f"{name}.so", *PRELOADED, source=f"{name}_preload"))


@functools.lru_cache(maxsize=None)
def text(code, *arguments):
    """Path of the program that `code` is the source of; `arguments`: what else the compiler is to get."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="libautograph-test-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    source = scratch / "program.c"
    source.write_text("#define _GNU_SOURCE\n" + code)
    return compile_to(scratch / "program", source, *arguments)


def same_number():
    """A library to preload, with which each process has one number, as in containers."""
    return str(text("#include <unistd.h>\npid_t getpid(void) { return 7; }\n", *PRELOADED))


def once(factory, name, make):
    """A folder of this name, which make(folder) fills. The processes of one run share it: the first that asks makes
    it, and the others wait. `factory`: pytest's tmp_path_factory."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, done = base / name, base / f"{name}.made"
    with open(base / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder

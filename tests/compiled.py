# SPDX-License-Identifier: MIT
"""Compiles a test program, tests/programs/NAME.c, for the simulated driver. Kept in the build
directory until its source or the driver changes."""
import functools
import os
import subprocess

import helpers

PROGRAMS = helpers.SOURCE / "tests/programs"


@functools.lru_cache(maxsize=None)
def program(name, *flags, source=None):
    """Path of the program; `flags` are further arguments of the compiler."""
    output = helpers.build_dir() / "tests/programs" / name
    source = PROGRAMS / f"{source or name}.c"
    inputs = [source, PROGRAMS / "sim_test.h", helpers.sim_dir() / "libcuda.so.1"]
    if output.exists() and output.stat().st_mtime > max(p.stat().st_mtime for p in inputs):
        return output
    output.parent.mkdir(exist_ok=True)
    new = output.with_name(f"{name}.{os.getpid()}")
    config = helpers.config()
    sanitize = [f"-fsanitize={config['sanitize']}"] if config["sanitize"] else []
    command = [*config["cc"].split(), "-isystem", f"{config['cuda']}/include",
               f"-I{helpers.SOURCE}/tests/sim", f"-I{PROGRAMS}", "-std=gnu11", "-O1", "-g", "-Wall",
               "-Wextra", "-Werror", "-fPIC", *sanitize, "-o", new, source, "-rdynamic", *flags,
               f"-L{helpers.sim_dir()}", "-lcuda", "-pthread", "-ldl"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    new.rename(output)
    return output

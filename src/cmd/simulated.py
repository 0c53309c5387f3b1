# SPDX-License-Identifier: MIT
"""The simulated driver (tests/sim): where it is, and what a user must know of it."""
import os
import re

GPU = "Simulated GPU"
MARK = b"agsim_"  # in the driver, and in programs that have kernels for it
NO_TIMES = "The driver is the simulated one, whose times say nothing about a GPU."
ONLY = "The simulated driver runs only programs that have its own kind of kernels, as those in build/tests."
NOTE = "the simulated driver runs only the programs in build/tests, and its times mean nothing"


def is_one(gpus):
    """Whether these are names of its GPUs."""
    return any(GPU in name for name in gpus or ())


def has_mark(path):
    try:
        with open(path, "rb") as file:
            return MARK in file.read()
    except OSError:
        return False


def is_found(environ):
    """Whether a program would load it: it lies where LD_LIBRARY_PATH leads."""
    for directory in environ.get("LD_LIBRARY_PATH", "").split(":"):
        path = os.path.join(directory or ".", "libcuda.so.1")
        if os.path.exists(path):
            return has_mark(path)
    return False


def is_loaded(pid):
    """Whether a process has loaded it."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return any(map(has_mark, set(re.findall(r"(/\S.*/libcuda\.so\S*)$", maps.read(), re.M))))
    except OSError:
        return False

# SPDX-License-Identifier: MIT
"""Calls of the library that may wait for the program's work: what the simulated driver has seen of them
(tests/sim/strict.c), in all programs that helpers.environment() is for."""
import atexit
import bisect
import functools
import os
import pathlib
import re
import subprocess
import tempfile

# Functions of the library, by where they begin. Behind the last one of a line of frames is the program.
SYMBOL = re.compile(r"^([0-9a-f]+) ([0-9a-f]+) [tT] (\S+)$", re.M)
FOUND = re.compile(r"kind=(\w+) call=(\w+) frames=(\S+) (.*)")

# The program's calls that wait for their stream, event or context by themselves.
WAITS = re.compile(r"cuMemcpy|cuStreamSynchronize|cuEventSynchronize|cuCtxSynchronize")

# Those that put something into a stream, and may wait for room there.
SUBMITS = re.compile(r"cuLaunch|cuMem\w*Async|cuMemset|cuEventRecord|cuStreamWait|cuStreamWrite|cuGraphLaunch")


# Faults that are known and not mended: docs/semantics.md, "Known gaps". Each goes with its gap.
OPEN = {("room", "ag_overdue_look"), ("alone", "ag_overdue_look"),  # the watchdog waits for room in a full stream
        # The driver refuses a branch's stream or a relay a wait for an event, or its record there: the host waits.
        ("wait", "wait_for"), ("wait", "ag_relay_absorb"),
        ("load", "ag_setter_repeats")}  # a setter of a kernel that is not known loads it


def is_excused(kind, path):
    """Whether the program's own call waits for what the library waits for. `path`: functions, the door last."""
    door = re.sub("^(ag_door|ag_memory_op|decide)_", "", path[-1])
    if kind == "wait":
        return WAITS.match(door)
    if kind in ("room", "extra", "alone") and (SUBMITS.match(door) or WAITS.match(door)):
        return True
    if kind == "load":  # the program's call is about to load the kernel, and all that is held has been submitted
        return "ag_barrier_load" in path
    # A thread that leaves the process has asked for it, and waits; nothing is held by others any more.
    return kind == "room" and "ag_overdue_serve" in path


def new_file():
    """A file for AGSIM_STRICT, which goes when this process ends."""
    handle, path = tempfile.mkstemp(prefix="libautograph-strict-")
    os.close(handle)
    os.chmod(path, 0o666)  # a program may run as another user
    atexit.register(pathlib.Path(path).unlink, missing_ok=True)
    return pathlib.Path(path)


@functools.lru_cache(maxsize=None)
def symbols(library):
    out = subprocess.run(["nm", "-S", "--defined-only", str(library)], capture_output=True, text=True,
                         check=True).stdout
    return sorted((int(at, 16), int(at, 16) + int(size, 16), name) for at, size, name in SYMBOL.findall(out))


def name_of(library, frame):
    """The function that a return address lies in."""
    table, at = symbols(library), int(frame, 16) - 1
    begin, end, name = table[max(0, bisect.bisect(table, (at, 1 << 64)) - 1)]
    return name.split(".")[0] if begin <= at < end else frame


def finding(library, line):
    """A line of the file as text; None: the program's own call would wait there, too."""
    kind, call, frames, rest = FOUND.fullmatch(line).groups()
    path = [name_of(library, frame) for frame in frames.split(",")] if frames != "-" else ["the program"]
    if is_excused(kind, path) or any((kind, name) in OPEN for name in path):
        return None
    return f"{kind}: {call} in {' < '.join(path)}, {rest}"


def findings(library, path):
    """What the file says, but for what is the program's own affair; the file is empty then."""
    text = path.read_text() if path.stat().st_size else ""
    if text:
        os.truncate(path, 0)
    return [found for line in text.splitlines() if (found := finding(library, line))]

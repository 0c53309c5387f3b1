# SPDX-License-Identifier: MIT
"""Running the autograph command of the build, and small ELF files to look at."""
import fcntl
import importlib
import os
import re
import struct
import subprocess
import sys
import termios

import helpers

LOOP = [helpers.sample("constant-sim"), "--iterations", "50", "--warmup", "2", "--kernels", "8"]


def on_terminal(*arguments, columns=80, status=0, env=None):
    """Runs the command on a terminal of that width: all that it shows."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime(), "COLUMNS": None,
                                                  **helpers.HELD, **(env or {})})
    with subprocess.Popen([str(a) for a in (helpers.build_dir() / "autograph", *arguments)], stdin=its, stdout=its,
                          stderr=its, env=env) as process:
        os.close(its)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # all others have closed it
            pass
        assert process.wait(helpers.TIMEOUT) == status, shown
    os.close(ours)
    return re.sub(r"\r\x1b\[K[^\r\n]*(?=\r)", "", shown.decode()).replace("\r\x1b[K", "").replace("\r\n", "\n")


# "1 ops"; not "1.1 ops", "1 us" or "1 process".
PLURAL_OF_ONE = re.compile(r"(?<![\d.,])1 (?!us\b|ms\b|is\b|was\b|process\b)\w+s\b")


def autograph(*arguments, status=0, sim=True, env=None, **options):
    """Runs the command; LD_PRELOAD is its affair, but for a sanitizer's runtime. What the library does in
    a program that the command starts does not depend on how busy the machine is."""
    env = {"AGSIM_DELAY_US": "0", "LD_PRELOAD": helpers.sanitizer_runtime(), **helpers.HELD, **(env or {})}
    done = helpers.run([helpers.build_dir() / "autograph", *arguments], preload=False, sim=sim,
                       env=env, status=status, **options)
    says = module("simulated")  # tests/cmd/test_simulated.py looks at what is taken away here
    done.stderr = re.sub(f"^autograph( bench| trace)?: ({says.NOTE}|{says.NO_TIMES})\n", "", done.stderr, count=1, flags=re.M)
    return done


def module(name):
    """A module of the command, to call its functions directly."""
    place = str(helpers.SOURCE / "src/cmd")
    written = sys.dont_write_bytecode
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(place)
        sys.dont_write_bytecode = written


WIDE = {"COLUMNS": "500"}  # so that sentences are lines
MOST_COLUMNS = 100  # of a message, where paths are not longer than this:
PLACE = "/usr/bin/app"


def message(done):
    """What a command says when it cannot work: a line, and perhaps one more with what to do; here as one."""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("autograph") and all(line.startswith("  ") for line in lines[1:]), done.stderr
    assert len(lines) <= 2 and "Traceback" not in done.stderr
    for line in lines:
        assert len(re.sub(r"[^\s'\"=]*/[^\s'\"]*[^\s'\":;]", PLACE, line)) <= MOST_COLUMNS, line
    return "; ".join(line.strip() for line in lines).split(": ", 1)[1]


def script(path, text, interpreter="/bin/sh"):
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return path


def elf(path, bits=64, machine=None, kind=2, interpreter=None, order="<"):
    """A file that looks like a program to who reads its header."""
    machine = machine or {"x86_64": 62, "aarch64": 183}[os.uname().machine]
    ident = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + bytes(9)
    segments = b""
    if interpreter:
        text = interpreter.encode() + b"\0"
        segments = struct.pack(order + "IIQQQQQQ", 3, 4, 120, 0, 0, len(text), len(text), 1) + text
    path.write_bytes(ident + struct.pack(
        order + "HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, 1 if interpreter else 0,
        0, 0, 0) + segments)
    path.chmod(0o755)
    return path

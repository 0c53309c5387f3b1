# SPDX-License-Identifier: MIT
"""What a process without CUDA pays for the library: a shell script starts many."""
import collections
import re
import shutil
import subprocess

import pytest

import helpers

# Calls by which the dynamic linker loads objects.
LOADS = {"openat", "read", "pread64", "newfstatat", "fstat", "mmap", "mprotect", "close", "munmap", "brk", "access"}


def traced(tmp_path, preload, env=None):
    """The lines of strace about /bin/true."""
    log = tmp_path / "log"
    environ = helpers.environment(preload, False, env)
    preloaded = environ.pop("LD_PRELOAD", None)
    command = ["strace", "-o", log, *(["-E", f"LD_PRELOAD={preloaded}"] if preloaded else []), "/bin/true"]
    done = subprocess.run([str(word) for word in command], env=environ, cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"strace does not work here: {done.stderr.strip()}")
    return log.read_text().splitlines()


def names(lines):
    return collections.Counter(match.group(1) for match in map(re.compile(r"(\w+)\(").match, lines) if match)


@helpers.unsanitized
@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")
def test_system_calls_of_a_process_without_cuda(tmp_path):
    """It reads no configuration, and asks for its directory and its standard error."""
    (tmp_path / "autograph.ini").write_text("[general]\nexclude = true\n")
    plain = traced(tmp_path, False)
    lines = traced(tmp_path, True, {"AUTOGRAPH_CONFIG": None, "AUTOGRAPH_VERBOSE": "1"})
    more = names(lines) - names(plain)
    assert {name: count for name, count in more.items() if name not in LOADS} == {"getcwd": 1}
    assert not [line for line in lines if "autograph.ini" in line or "/proc" in line]
    assert len([line for line in lines if re.match(r"(fstat|newfstatat)\(2, ", line)]) == 1
    assert more.total() <= 35, more

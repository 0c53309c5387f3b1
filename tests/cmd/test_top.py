# SPDX-License-Identifier: MIT
"""autograph top: the counters of a running process."""
import glob
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

import commands
import compiled
import helpers
from commands import autograph, message


@pytest.fixture
def live():
    """A process that sleeps, and a function that writes its file of counters."""
    process = subprocess.Popen(["sleep", "1000"])
    path = f"/dev/shm/autograph.{os.getuid()}.{process.pid}"

    def write(version=1, magic=b"AGLIVE\n\0", sequence=2, size=4096, given_up=40, why=(7, 900, 2, 0, 1, 3, 4)):
        counters = [5000, 4000, 100, 7, 1, 3, 2, 0, 4, 0, 0]
        data = struct.pack("<8sIIQQQQ11Q16Q64s256sQ16Q64Q", magic, version, process.pid, sequence, 0, 10**9, 3 * 10**9,
                           *counters, 9, *[0] * 15, b"a region", b"/opt/solver", 0, given_up, *[0] * 15, *why, *[0] * (64 - len(why)))
        with open(path, "wb") as file:
            file.write((data + bytes(4096))[:size])
        return process.pid
    yield write
    process.kill()
    process.wait()
    if os.path.exists(path):
        os.unlink(path)


def test_top(live):
    pid = live()
    lines = autograph("top", "--once", pid, env=commands.WIDE).stdout.splitlines()
    assert lines[0] == f"/opt/solver (process {pid}), 2 s, 4 streams, in a region"
    assert lines[1].split() == ["operations", "5,000", "2,500/s"]
    assert lines[2].split() == ["replayed", "4,000", "2,000/s", "80.0", "%"]
    assert lines[7:10] == ["not replayed, by reason",
                           "           900  not repeated: it came too seldom for a graph, as before and behind a loop",
                           "            40  side exit: the program left the trace"]
    assert [line.split()[0] for line in lines[10:]] == ["4", "3", "2"], "five reasons; what is held is none"


def test_top_without_reasons(live):
    """Nothing was eager, or the library is older."""
    pid = live(given_up=0, why=(7,))
    assert "reason" not in autograph("top", "--once", pid).stdout


def test_top_ends_with_the_process(live):
    pid = live()
    command = [helpers.build_dir() / "autograph", "top", "--interval", "0.1", str(pid)]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          env=helpers.environment(preload=False)) as top:
        assert top.stdout.readline().startswith("/opt/solver")
        for line in iter(top.stdout.readline, "unread"):
            assert line, "the second look tells what came since the first"
            if "80.0 % in all, - now" in line:
                break
        os.unlink(f"/dev/shm/autograph.{os.getuid()}.{pid}")
        assert top.communicate(timeout=helpers.TIMEOUT)[0].endswith("The process has ended.\n")
    assert top.returncode == 0


def test_top_ends_with_a_process_that_is_killed(live):
    """Its file stays."""
    pid = live()
    command = [helpers.build_dir() / "autograph", "top", "--interval", "0.1", str(pid)]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          env=helpers.environment(preload=False)) as top:
        assert top.stdout.readline().startswith("/opt/solver")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        try:
            assert top.communicate(timeout=helpers.TIMEOUT)[0].endswith("The process has ended.\n")
        finally:
            top.kill()
    assert top.returncode == 0


@pytest.mark.parametrize("wrong,words", [
    ({"version": 2}, "has format 2"), ({"magic": b"something"[:8]}, "is not a file of counters"),
    ({"sequence": 3}, "changes all the time"), ({"size": 100}, "is cut off"), ({"size": 0}, "is not a file")])
def test_files_that_are_no_counters(live, wrong, words):
    assert words in message(autograph("top", "--once", live(**wrong), status=2))


def test_counters_that_somebody_else_made(live, tmp_path):
    """Anybody may make links in /dev/shm, also between a look and the next."""
    pid = live()
    path = f"/dev/shm/autograph.{os.getuid()}.{pid}"
    shutil.move(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    assert "symbolic links" in message(autograph("top", "--once", pid, status=2))
    os.unlink(path)
    os.mkfifo(path)
    assert "is not of the process's user" in message(autograph("top", "--once", pid, status=2))


def test_top_without_counters():
    assert "--set report.live=true" in message(autograph("top", os.getpid(), status=2))
    assert "there is no process" in message(autograph("top", 2**22 + 5, status=2))
    assert "'x' is not a number" in message(autograph("top", "x", status=2))
    message(autograph("top", status=2))


def test_top_of_a_program():
    """Whose counters grow while it runs."""
    program = [helpers.build_dir() / "autograph", "--set", "report.live=true",
               helpers.sample("constant-sim"), "--iterations", "100000000"]
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime(),
                                                  "AGSIM_DELAY_US": "0"})
    with subprocess.Popen(list(map(str, program)), env=env, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + helpers.TIMEOUT
            counts = []
            # A stream whose thread waits for the device shows what it had before.
            while len(counts) < 2 or counts[0] == counts[-1]:
                assert time.monotonic() < deadline
                done = autograph("top", "--once", process.pid, status=None, env=commands.WIDE)
                if done.returncode == 0:
                    assert done.stderr == "autograph top: The driver is the simulated one, whose times say nothing about a GPU.\n"
                    lines = done.stdout.splitlines()
                    assert lines[0].startswith(f"{program[3]} (process {process.pid}), ")
                    counts += [int(lines[1].split()[1].replace(",", ""))]
                    if counts == [0]:
                        counts = []
                time.sleep(0.3)
            assert counts == sorted(counts)
        finally:
            process.kill()
    if os.path.exists(f"/dev/shm/autograph.{os.getuid()}.{process.pid}"):
        os.unlink(f"/dev/shm/autograph.{os.getuid()}.{process.pid}")


IN_CONTAINER = ["unshare", "--pid", "--fork"]  # where the program has the number 1


@pytest.mark.skipif(os.getuid() != 0 or subprocess.run([*IN_CONTAINER, "true"], capture_output=True).returncode != 0,
                    reason="needs namespaces of its own")
def test_processes_with_equal_numbers():
    """Containers may share /dev/shm. Each process has a file, removes its own at exit, and is found."""
    def inner(process):
        return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())

    def files():
        return {path for path in glob.glob(f"/dev/shm/autograph.{os.getuid()}.1*")
                if re.search(r"\.1(\.\d+)?$", path)}

    def starts(number):
        process = subprocess.Popen([*IN_CONTAINER, compiled.program("observe_live")], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=helpers.environment(env={"AUTOGRAPH_REPORT_LIVE": "true"}))
        end = time.monotonic() + helpers.TIMEOUT
        while len(files() - before) < number and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        return process

    before = files()
    processes = [starts(1), starts(2)]
    try:
        made = files() - before
        assert len(made) == 2
        for process in processes:
            line = autograph("top", "--once", inner(process)).stdout.splitlines()[0]
            assert line.startswith(f"{compiled.program('observe_live')} (process {inner(process)}), ")
        assert processes[0].communicate("end\n", timeout=helpers.TIMEOUT)[1] == ""
        assert len(files() & made) == 1
        assert autograph("top", "--once", inner(processes[1])).returncode == 0
    finally:
        assert [process.communicate("end\n", timeout=helpers.TIMEOUT)[1] for process in processes[1:]] == [""]
    assert not files() & made

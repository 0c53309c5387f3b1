# SPDX-License-Identifier: MIT
"""Processes that run together: run() starts them all, and ends them all when the time is over or one has failed."""
import contextlib
import os
import signal
import subprocess
import tempfile
import time

HUNG = "hung"
MOMENT = 5  # seconds for a process to say where it is, or to end when another has failed


def end(processes):
    """Ends those that still run: first so that they say where they are."""
    for number, patience in ((signal.SIGABRT, MOMENT), (signal.SIGKILL, None)):
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


def wait_for(processes, timeout):
    """0, the first other status, or HUNG. Where one has failed, the others get a moment and no more."""
    deadline = time.monotonic() + timeout
    failed = 0
    while True:
        states = [process.poll() for process in processes]
        if not failed and any(states):
            failed = next(filter(None, states))
            deadline = min(deadline, time.monotonic() + MOMENT)
        if None not in states:
            return failed
        if time.monotonic() >= deadline:
            end(processes)
            return failed or HUNG
        time.sleep(0.01)


def run(started, folder, timeout):
    """Each of STARTED is a command and its environment. The status of all, what each printed and complained of,
    and seconds."""
    processes, outputs = [], []
    with contextlib.ExitStack() as files:
        start = time.monotonic()
        try:
            for command, environment in started:
                outputs.append([files.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in range(2)])
                processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, cwd=folder,
                                                  stdout=outputs[-1][0], stderr=outputs[-1][1],
                                                  start_new_session=True))
            status = wait_for(processes, timeout)
        finally:
            end(processes)
        seconds = time.monotonic() - start
        for output in outputs:
            for file in output:
                file.seek(0)
        texts, errors = ([output[k].read() for output in outputs] for k in range(2))
    return status, texts, errors, seconds

# SPDX-License-Identifier: MIT
"""Running a program with and without the library, for verify and bench."""
import collections
import glob
import json
import os
import signal
import subprocess
import sys
import time

import launch
from common import Failure, library, number

Run = collections.namedtuple("Run", "status seconds stdout stderr reports traces")
# Traces are for comparing: no graphs, so that every op is the program's own launch; and with graphs.
EAGER = {"AUTOGRAPH_GRAPH_EXECS": "0"}


def add_arguments(parser):
    launch.add_settings(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=number(0.1, float),
                        help="end a run that takes longer, and fail")
    parser.add_argument("--input", metavar="FILE", default=os.devnull,
                        help="standard input of every run; without it, empty")


class Runner:
    """Runs one command; each run's output and reports lie in files of `scratch`."""

    def __init__(self, given, command, scratch):
        if not command:
            raise Failure("which program? write -- and its command at the end")
        self.path = library(given.library)
        try:
            self.command = [launch.program(command[0], self.path), *command[1:]]
        except Failure as failure:
            raise Failure(str(failure)) from None  # not the launcher's 126 and 127
        self.settings = launch.settings(given)
        self.given, self.scratch, self.number = given, scratch, 0
        for end in (signal.SIGTERM, signal.SIGHUP):  # then too the program is ended: see run()
            if signal.getsignal(end) != signal.SIG_IGN:  # as under nohup
                signal.signal(end, lambda number, _: sys.exit(128 + number))

    def environment(self, with_library, reports):
        """Nothing of the library is left in a run without it."""
        environ = {k: v for k, v in launch.environment().items()
                   if k not in ("AUTOGRAPH_DISABLE", "AUTOGRAPH_REPORT", "AUTOGRAPH_REPORT_FILE",
                                "AUTOGRAPH_RUN", "AUTOGRAPH_TRACE_FILE")}
        others = launch.others(self.path, environ)
        environ.pop("LD_PRELOAD", None)
        if others:
            environ["LD_PRELOAD"] = ":".join(others)
        if with_library:
            environ.update(self.settings)
            environ["LD_PRELOAD"] = launch.preloaded(self.path, environ)
            environ["AUTOGRAPH_REPORT"] = reports.replace("%", "%%") + "%p.json"
        else:  # a script may preload it itself, or /etc/ld.so.preload have it
            environ["AUTOGRAPH_DISABLE"] = "1"
        return environ

    def __call__(self, with_library, extra=None):
        """One run. With `extra`, variables to set, a trace file is written."""
        self.number += 1
        prefix = os.path.join(self.scratch, f"run{self.number}-")
        environ = self.environment(with_library, prefix)
        if extra is not None:
            environ.update({"AUTOGRAPH_TRACE_FILE": prefix.replace("%", "%%") + "%p.trace", **extra})
        try:
            with open(self.given.input, "rb") as stdin, open(prefix + "out", "wb") as out, \
                    open(prefix + "err", "wb") as err:
                start = time.monotonic()
                status = run(self.given.timeout, self.command, env=environ, stdin=stdin, stdout=out,
                             stderr=err, start_new_session=True)
                seconds = time.monotonic() - start
        except OSError as e:
            raise Failure(f"{e.filename or self.command[0]}: {e.strerror}") from None
        finally:
            progress("")
        if status is None:
            raise Failure(f"a run {kind(with_library)} was not over after "
                          f"{self.given.timeout:g} s and was ended")
        return Run(status, seconds, prefix + "out", prefix + "err",
                   read_reports(glob.glob(glob.escape(prefix) + "*.json")),
                   sorted(glob.glob(glob.escape(prefix) + "*.trace"), key=os.path.getmtime))


class PutOff:
    """Signals that end this process wait until over() is called."""

    def __init__(self):
        self.came = []
        self.before = {number: signal.signal(number, lambda number, _: self.came.append(number))
                       for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                       if signal.getsignal(number) not in (signal.SIG_IGN, None)}

    def over(self):
        while self.before:
            signal.signal(*self.before.popitem())
        while self.came:
            os.kill(os.getpid(), self.came.pop())


def run(timeout, *command, **options):
    """The program's status, or None when its time is over; nothing of it is left behind then, nor when a
    signal ends this process: until the program is known, signals wait."""
    signals, process = PutOff(), None
    try:
        process = subprocess.Popen(*command, **options)
        signals.over()
        return process.wait(timeout)
    except BaseException as e:
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()
        signals.over()
        if isinstance(e, subprocess.TimeoutExpired):
            return None
        raise


def kind(with_library):
    return "with the library" if with_library else "without the library"


def read_reports(names):
    reports = []
    for name in names:
        with open(name, encoding="utf-8") as file:
            try:
                reports.append(json.load(file))
            except ValueError:
                pass  # of a process that was killed while it wrote
    return reports


def totals(reports):
    """(ops, replayed) of all processes of a run."""
    return (sum(r["ops"]["total"] for r in reports), sum(r["ops"]["replayed"] for r in reports))


def ending(status):
    """A status in words."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def progress(text):
    """One line on a terminal that is written over; nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def last_lines(path, most=5):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in collections.deque(file, most)]

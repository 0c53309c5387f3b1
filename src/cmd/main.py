#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""autograph: picks the command. Run from the sources, it uses the build in $AG_BUILD or ./build."""
import errno
import importlib
import io
import os
import signal
import sys

if __name__ == "__main__":
    sys.dont_write_bytecode = True  # nothing is written into the source tree
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from common import COMMANDS, Failure, Installation, warn


def dispatch(name, arguments):
    try:
        try:
            status = importlib.import_module(COMMANDS.get(name, "launch")).main(arguments)
        except SystemExit as end:  # argparse, after --help
            status = end.code
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise
    except (Failure, OSError, MemoryError) as failure:
        if isinstance(failure, MemoryError):
            failure = Failure("there is not enough memory")
        elif not isinstance(failure, Failure):  # a file that changed meanwhile, a full disk
            failure = Failure(f"{failure.filename or 'output'}: {failure.strerror}")
        try:
            sys.stdout.flush()
        except OSError:
            discard()
        warn(failure, name)
        return failure.status


class Closed(io.TextIOBase):
    """Standard output where it is closed. Who writes to it hears so, as on a full disk."""

    def __init__(self):
        super().__init__()
        self.place = open(os.devnull, "w", encoding="utf-8")  # else the next file gets the number
        self.written = False

    def write(self, text):
        self.written = True
        return len(text)

    def flush(self):
        if not self.closed and self.written:
            self.written = False
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def discard():
    """What stands in the buffer of standard output goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(arguments):
    name = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    sys.stdout = sys.stdout or Closed()
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names of others in a locale that lacks their letters
            stream.reconfigure(errors="replace")
    try:
        return dispatch(name, arguments[1:] if name else arguments)
    except BrokenPipeError:  # autograph report | head
        discard()
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    Installation.library = os.path.join(os.environ.get("AG_BUILD") or os.path.join(root, "build"),
                                        ".libs", "libautograph.so")
    sys.exit(main(sys.argv[1:]))

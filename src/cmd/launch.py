# SPDX-License-Identifier: MIT
"""autograph [options] [--] command args...: starts a program with the library."""
import contextlib
import os
import shlex
import signal
import stat
import sys
import time

import elf
import options
import simulated
from common import COMMANDS, REPORT, UNUSABLE, Failure, Installation, Parser, library, look, nearest, warn

EPILOG = """\
commands of their own (autograph COMMAND --help):
  doctor [PROGRAM]     will it work here, with this program?
  report [FILE]...     what the library did, and what stands in its way
  verify -- COMMAND    is everything the same with the library?
  bench -- COMMAND     how much faster is it?
  trace FILE           a trace file as text, or for Perfetto
  compare A B          did two traces do the same work?
  top PID              what a running process does

A program with the name of a command: autograph -- top.
Status: the program's own; 127 if it is not there, 126 if it cannot be executed, 2 for a mistake in
the options or a program that the library cannot be preloaded into.
"""


def add_settings(parser):
    """The options that say how the library is to work; also of verify and bench."""
    parser.add_argument("--config", metavar="FILE",
                        help="read this configuration file and no other ('none': no file)")
    parser.add_argument("--set", metavar="SECTION.KEY=VALUE", action="append", default=[],
                        help="set an option, see autograph.ini(5); may be repeated")
    parser.add_argument("--library", metavar="FILE", help="the libautograph.so to use")


def settings(given):
    """The environment variables for what add_settings() has parsed."""
    variables = {}
    if given.config is not None:
        if given.config not in ("none", ""):
            if not os.path.isfile(given.config) or not os.access(given.config, os.R_OK):
                raise Failure(f"--config {given.config}: is not a file that can be read")
            variables["AUTOGRAPH_CONFIG"] = os.path.abspath(given.config)
        else:
            variables["AUTOGRAPH_CONFIG"] = ""
    variables.update(options.assignments(given.set))
    for short, name in options.SHORT.items():  # a short name is above the option's
        if options.variable(name) in variables:
            variables[short] = variables[options.variable(name)]
    return variables


STREAMS = {"-": "stdout", "stdout": "stdout", "stderr": "stderr"}


def pattern_path(name):
    """An absolute file name in which only the user's own % are special. Failure for what can be no
    file's: else that would be said when the program ends, and its report be lost."""
    if name in STREAMS:
        return f"/dev/{STREAMS[name]}"
    if os.path.isdir(name):
        raise Failure(f"'{name}' is a directory: name a file")
    return name if os.path.isabs(name) else os.path.join(os.getcwd().replace("%", "%%"), name)


def others(path, environ):
    """What LD_PRELOAD has beside the library, of which this or another copy may be there."""
    return [p for p in environ.get("LD_PRELOAD", "").replace(" ", ":").split(":")
            if p and os.path.realpath(p) != path
            and not os.path.basename(p).startswith("libautograph.so")]


def preloaded(path, environ):
    """LD_PRELOAD with the library behind what is there: a sanitizer's must be first."""
    return ":".join([*others(path, environ), path])


def environment():
    """The environment as it was given: in the C locale Python has put another LC_CTYPE into it."""
    environ = {k: v for k, v in os.environ.items() if k != "LC_CTYPE"}
    try:
        with open("/proc/self/environ", "rb") as file:
            given = dict(v.partition(b"=")[::2] for v in file.read().split(b"\0"))
    except OSError:
        return dict(os.environ)
    if b"LC_CTYPE" in given:
        environ["LC_CTYPE"] = os.fsdecode(given[b"LC_CTYPE"])
    return environ


def split_command(arguments, parser):
    """(options, command): the command begins behind -- or with the first word that is no option."""
    takes_value = {name for action in parser._actions if action.nargs is None
                   for name in action.option_strings}
    i = 0
    while i < len(arguments) and arguments[i].startswith("-") and arguments[i] != "--":
        i += 2 if arguments[i] in takes_value else 1
    rest = arguments[i:]
    return arguments[:i], rest[1:] if rest[:1] == ["--"] else rest


def meant(words, command):
    """What was meant, if the first word of `command` is no program: behind the options in `words`."""
    if words[-1:] in (["--report"], ["--trace"]) and len(command) > 1:
        return f"write {words[-1]}={command[0]}"
    if "/" in command[0]:
        return None
    if os.path.isfile(command[0]) and os.access(command[0], os.X_OK):
        return f"did you mean ./{command[0]}?"
    near = nearest(command[0], COMMANDS, 0.7)
    return near and (f"did you mean autograph {near}?" if near != command[0] or not words else
                     f"the command's name comes first: autograph {near}")


def program(command, path):
    """The file to execute, checked: Failure says why the library would have no effect."""
    file = elf.find(command)
    if not os.access(file, os.R_OK):
        return file  # it may be executed, and not looked at
    binary, _ = elf.program_of(file)
    reason = elf.obstacle(binary, path)
    if reason:
        raise Failure(f"{binary.path}: {reason}")
    return file


def silence(file, environ):
    """Why the library does nothing in a program, or None."""
    if environ.get("AUTOGRAPH_DISABLE", "0") not in ("", "0"):
        return "AUTOGRAPH_DISABLE is set"
    name = elf.name_of(file) if os.access(file, os.R_OK) else ""
    values = options.effective(environ, name)[1]
    if "general.enable" in values:
        return "general.enable is false"
    return f"general.exclude names {name}" if options.is_excluded(values, name) else None


def say_silence(given, file, environ):
    """Warns if a report or a trace is wanted, and the library writes none."""
    wanted = [word for name, word in (("report", "report"), ("trace", "trace"), ("stats", "statistics")) if getattr(given, name) is not None]
    reason = wanted and ("--disable" if given.disable else silence(file, environ))
    if reason:
        warn(f"{reason}: there will be no {' and no '.join(wanted)}")


def begin_run(report, environ):
    """What tells this run's reports from those of others. An older report of that name goes: whoever reads it behind
    a run that wrote none would take it for the run's."""
    if environ.get("AUTOGRAPH_RUN"):
        return environ["AUTOGRAPH_RUN"]  # a part of a run
    name = options.expanded(report, environ, os.getpid())
    with contextlib.suppress(Failure, OSError):  # the library will say so
        if look(name, REPORT) and stat.S_ISREG(os.lstat(name).st_mode):
            os.unlink(name)
    return f"{time.time():.3f}-{os.getpid()}"


def say_set(variables, command, environ):
    """Shows the command as a shell takes it, and the names of the files to be written."""
    shown = [f"{k}={shlex.quote(v)}" for k, v in variables.items()] + [shlex.quote(word) for word in command]
    warn(" ".join(shown))
    for name in ("AUTOGRAPH_REPORT", "AUTOGRAPH_TRACE_FILE"):
        if "%" in variables.get(name, ""):
            warn(f"{name} is {options.expanded(variables[name], environ, os.getpid())}")


def main(arguments):
    parser = Parser("", usage="autograph [option]... [--] command [argument]...",
                    description="Starts a program with libautograph.", epilog=EPILOG)
    add_settings(parser)
    parser.add_argument("--report", metavar="=FILE", nargs="?", const="autograph-report-%r.json",
                        help="write the exit report there, or to stderr; without FILE to "
                             "autograph-report-RANK.json, which autograph report reads")
    parser.add_argument("--trace", metavar="=FILE", nargs="?", const="autograph-%r.trace",
                        help="write a trace file; without FILE autograph-RANK.trace")
    parser.add_argument("--stats", action="store_const", const="1",
                        help="print six lines when the program ends: operations, launches, time saved, "
                             "what stood in the way, memory, report")
    parser.add_argument("--disable", action="store_true",
                        help="load the library, but let it do nothing")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="show what is set, and the library's notes")
    parser.add_argument("--version", action="version", version=f"autograph {Installation.version}")
    # argparse would take the program for the value of an option with an optional one.
    words, command = split_command(arguments, parser)
    given = parser.parse_args(words)
    if not command:
        raise Failure("which program? autograph [option]... [--] command [argument]...")

    path = library(given.library)
    variables = settings(given)
    if given.report is not None:
        variables["AUTOGRAPH_REPORT"] = given.report if given.report == "stderr" \
            else pattern_path(given.report)
    if given.trace is not None:
        variables.update(options.assignments(["trace.file=" + pattern_path(given.trace)]))
    if given.stats:
        variables["AUTOGRAPH_STATS"] = given.stats
    if given.disable:
        variables["AUTOGRAPH_DISABLE"] = "1"
    if given.verbose:
        variables.setdefault("AUTOGRAPH_LOG_LEVEL", "2")
        variables.setdefault("AUTOGRAPH_VERBOSE", "1")
    variables["LD_PRELOAD"] = preloaded(path, os.environ)

    try:
        file = program(command[0], path)
    except Failure as failure:  # of the name, unless -- says that a program is meant
        sure = failure.status == UNUSABLE or arguments[len(words)] == "--"
        hint = None if sure else meant(words, command)
        raise Failure(f"{failure}; {hint}" if hint else str(failure), failure.status) from None
    environ = {**environment(), **variables}
    if given.report is not None and given.report not in STREAMS:
        environ["AUTOGRAPH_RUN"] = begin_run(environ["AUTOGRAPH_REPORT"], environ)
    say_silence(given, file, environ)
    if simulated.is_found(environ):
        warn(simulated.NOTE)
    if given.verbose:
        say_set(variables, command, environ)
    sys.stdout.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and exec keeps it
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execve(file, command, environ)
    except OSError as e:
        raise Failure(f"{command[0]}: {e.strerror}", 126) from None

# SPDX-License-Identifier: MIT
"""What all commands share: how they fail, where the installation is, numbers and tables as text."""
import argparse
import os
import re
import shutil
import subprocess
import sys

OK, DIFFERENT, UNUSABLE = 0, 1, 2  # exit statuses of the commands


class Failure(Exception):
    """Ends a command with one message and a status."""

    def __init__(self, message, status=UNUSABLE):
        super().__init__(message)
        self.status = status


class Installation:
    """Where things are; the entry script fills it in."""
    library = None      # libautograph.so
    sysconfdir = "/usr/local/etc"
    version = "unknown"


def library(named=None):
    """The libautograph.so to preload, by its real path."""
    path = os.path.realpath(named or Installation.library or "libautograph.so")
    if not os.path.isfile(path):
        raise Failure(f"the library is not at {path}: build or install it, or name it with "
                      "--library")
    if re.search(r"[\s:]", path):
        raise Failure(f"{path}: the dynamic linker takes no library whose path has blanks or "
                      "colons; install it elsewhere")
    return path


class Parser(argparse.ArgumentParser):
    """argparse, with messages in one line that say what to do."""

    def __init__(self, name, **options):
        super().__init__(prog=f"autograph {name}".strip(), allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message):
        raise Failure(f"{message}; see {self.prog} --help")


def spare(out, names):
    """Failure if a file that is to be written is one of those that are read."""
    for name in names:
        if os.path.exists(out) and os.path.exists(name) and os.path.samefile(out, name):
            raise Failure(f"{out}: would be written over; name the file to write, then that to read")


def number(least, kind=int):
    """An argparse type: a number that is not below `least`."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least {least}")
        return value
    return parse


def pattern(text):
    """An argparse type: a regular expression."""
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {e}") from None


# -- Text ---------------------------------------------------------------------

def printable(text):
    """What comes from files of others must not reach a terminal as control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def width():
    """Columns that a line of output may take: the terminal's, or 80 where the output is no terminal."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def count(n):
    return f"{n:,}"


def noun(n, word):
    """The word as it stands behind the number n."""
    if n == 1:
        return word
    return word + ("es" if word.endswith(("s", "ch", "sh", "x")) else "s")


def plural(n, word, verbs=None):
    """A number with its noun and, of the verbs for one and for more, that which fits."""
    verb = f" {verbs[n != 1]}" if verbs else ""
    return f"{n:,} {noun(n, word)}{verb}"


def share(part, whole):
    """Percent; 100.0 only if it is all."""
    if not whole:
        return "-"
    percent = f"{100 * part / whole:.1f} %"
    return "99.9 %" if percent == "100.0 %" and part < whole else percent


def duration(us):
    """Microseconds in the unit that reads best."""
    for limit, unit, factor in ((1e3, "us", 1), (1e6, "ms", 1e3)):
        if abs(us) < limit:
            value = us / factor
            return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f} {unit}"
    return f"{us / 1e6:.2f} s"


def table(rows, right=()):
    """Lines with columns: the first row is the header; columns in `right` are set to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.rjust(w) if i in right else cell.ljust(w)
                      for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]


def shortened(text, width):
    return text if len(text) <= width else text[:width - 3] + "..."


def demangle(names):
    """{name: readable name}, by c++filt if it is there; without it names stay as they are."""
    names = sorted(set(names))
    try:
        lines = "\n".join(n.replace("\n", " ") for n in names)
        done = subprocess.run(["c++filt"], input=lines, capture_output=True, text=True, timeout=30,
                              check=True)
        readable = done.stdout.split("\n")
    except (OSError, subprocess.SubprocessError, UnicodeError):
        readable = names
    if len(readable) < len(names):
        readable = names
    return dict(zip(names, readable))


def brief_name(readable):
    """A kernel's name without its parameters and return type."""
    end = readable.rfind(")")
    if end >= 0 and "(" in readable:
        depth = 0
        for i in range(end, -1, -1):
            depth += (readable[i] == ")") - (readable[i] == "(")
            if depth == 0:
                break
        if i > 0:
            readable = readable[:i]
    return re.sub(r"^void ", "", readable)


def warn(message):
    print(f"autograph: {message}", file=sys.stderr)

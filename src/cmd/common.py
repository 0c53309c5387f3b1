# SPDX-License-Identifier: MIT
"""What all commands share: how they fail, where the installation is, numbers and tables as text."""
import argparse
import collections
import contextlib
import difflib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap

OK, DIFFERENT, UNUSABLE = 0, 1, 2  # exit statuses of the commands

# Each command's module; anything else is a program to launch.
COMMANDS = {name: name for name in ("doctor", "report", "verify", "bench", "compare", "top")}
COMMANDS["trace"] = "convert"


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
        raise Failure(f"the library is not at {path}\n  build or install it, or name it with --library")
    with open(path, "rb") as file:
        if b"\0autograph_version\0" not in file.read():
            raise Failure(f"{path}: is not libautograph.so\n  name that with --library")
    if re.search(r"[\s:]", path):
        raise Failure(f"{path}: the dynamic linker takes no path with blanks or colons\n"
                      "  install the library elsewhere")
    return path


class Help(argparse.HelpFormatter):
    """A line of the text that begins with a blank stays a line, and a sentence that begins a line still does."""

    def _fill_text(self, text, width, indent):
        paragraphs = [""]
        for line in text.splitlines():
            if not line:
                paragraphs += ["", ""]
            elif line.startswith(" ") or paragraphs[-1].startswith(" ") or paragraphs[-1].endswith((".", ":", ".)")):
                paragraphs.append(line)
            else:
                paragraphs[-1] = f"{paragraphs[-1]} {line}".strip()
        columns = (re.match(r" .*? {2,}", p) for p in paragraphs)
        return "\n".join(line for p, column in zip(paragraphs, columns)
                         for line in wrapped(p, " " * column.end() if column else "", width))


class Parser(argparse.ArgumentParser):
    """argparse, with short messages that say what to do."""

    def __init__(self, name, **options):
        super().__init__(prog=f"autograph {name}".strip(), allow_abbrev=False, formatter_class=Help, **options)

    def parse_args(self, args=None, namespace=None):
        given, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            near = nearest(word, self._option_string_actions) if word.startswith("-") else None
            self.error(f"there is no option {word}; did you mean {near}?" if near else
                       f"{unknown[0]!r} is one word too many" if not word.startswith("-") else
                       f"there is no option {word}")
        for action in self._actions:
            value = getattr(given, action.dest, None)
            if "" in (value if isinstance(value, list) else [value]) and action.dest != "config":
                self.error(f"{'/'.join(action.option_strings) or action.metavar or action.dest}: the name is empty")
        return given

    def error(self, message):
        message = re.sub("^argument ", "", message)
        raise Failure(message if re.search(r"\?$|\n", message) else f"{message}; see {self.prog} --help")


def nearest(word, known, cutoff=0.6):
    """The one of the known words that was meant, or None."""
    return next(iter(difflib.get_close_matches(word, known, 1, cutoff)), None)


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
        raise argparse.ArgumentTypeError(f"'{shortened(text, 40)}' is no regular expression\n  {e}") from None


# -- Files that are written -----------------------------------------------------------

# What a command writes: words for it, and its first bytes.
Kind = collections.namedtuple("Kind", "name beginning")
PAGE = Kind("page of autograph report", "<!DOCTYPE html><!-- autograph report -->")
CHROME = Kind("file of autograph trace", '{"otherData": {"writer": "autograph trace"}, ')
FIGURES = Kind("file of autograph bench", '{\n "writer": "autograph bench",\n')
REPORT = Kind("report", '{\n  "format": ')


def standard(name):
    """The standard stream that the name means: by -, or /dev/stdout where that is a file, to which others may write."""
    if name == "-":
        return sys.stdout
    found = os.stat(name) if os.path.isfile(name) else None
    return next((stream for number, stream in ((1, sys.stdout), (2, sys.stderr))
                 if found and os.path.samestat(os.fstat(number), found)), None)


def look(name, kind):
    """The status of the file that is to be written, or None: there is none. Failure if the library's rule
    (docs/formats.md) forbids it: another file than an older one of that kind stays as it is."""
    if standard(name) or not os.path.lexists(name):
        return None
    entry, found = os.lstat(name), os.stat(name)
    ours = entry.st_uid == os.geteuid() or (stat.S_ISLNK(entry.st_mode) and entry.st_uid == 0)
    if not ours and os.stat(os.path.dirname(name) or ".").st_mode & stat.S_IWOTH:
        raise Failure(f"{name}: another user has made it, so it stays as it is\n  name another file")
    if stat.S_ISDIR(found.st_mode):
        raise Failure(f"{name}: is a directory\n  name a file")
    if stat.S_ISBLK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size and not begins(name, kind)):
        raise Failure(f"{name}: is no {kind.name}, so it stays as it is\n  name another file")
    return found


def begins(name, kind):
    with open(name, "rb") as file:
        return file.read(len(kind.beginning)) == kind.beginning.encode()


def opened(name, found):
    """(descriptor of the file to write, its name; None: it is the one that was found, which cannot be replaced)."""
    denied = None
    if not found or stat.S_ISREG(found.st_mode):
        try:
            fd, temporary = tempfile.mkstemp(".tmp", os.path.basename(name) + ".", os.path.dirname(name) or ".")
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(fd, 0o666 & ~umask)
            return fd, temporary
        except OSError as e:
            denied = e
    if not found:
        raise denied
    fd = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    if not os.path.samestat(os.fstat(fd), found):
        raise Failure(f"{name}: another file has come in its place\n  name another file")
    if denied:
        os.ftruncate(fd, 0)
    return fd, None


@contextlib.contextmanager
def destination(name, kind):
    """The file of that name to write to, which is there, whole, when nothing fails; - is standard output. Every file
    that a command writes is opened here."""
    found, temporary = look(name, kind), None
    if standard(name):
        yield standard(name)
        return
    try:
        fd, temporary = opened(name, found)
        with open(fd, "w", encoding="utf-8") as file:
            yield file
        if temporary:
            look(name, kind)  # it took a while
            os.replace(temporary, name)
            temporary = None
    except BrokenPipeError:
        raise
    except OSError as e:
        raise Failure(f"{name}: {e.strerror}") from None
    finally:
        if temporary:
            os.unlink(temporary)


# -- Text ---------------------------------------------------------------------

def printable(text):
    """What comes from files of others must not reach a terminal as control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def width():
    """Columns that a line of output may take: the terminal's, or 80 where the output is no terminal."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def wrapped(text, hang="", columns=None):
    """The text in lines that fit the terminal. They are broken at blanks only, so that names and paths stay
    whole; lines behind the first begin with `hang`."""
    return textwrap.wrap(text, columns or width(), subsequent_indent=hang, break_long_words=False,
                         break_on_hyphens=False) or [""]


def fitted(lines):
    """Lines that fit the terminal; what follows of a line stands farther to the right."""
    return [part for line in lines
            for part in wrapped(line, " " * (len(line) - len(line.lstrip()) + 2))]


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


NAME_LEAST = 12  # columns of a name in a table


def table(rows, right=(), spare=(), name=None):
    """Lines with columns: the first row is the header; columns in `right` are set to the right. To fit the terminal,
    indented by two, columns in `spare` are left out, and then that of names is cut."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    shown = list(range(len(widths)))

    def over():
        return sum(widths[i] + 2 for i in shown) - width()
    for i in spare:
        if over() > (max(0, widths[name] - NAME_LEAST) if name is not None else 0):
            shown.remove(i)
    if name is not None and over() > 0:
        widths[name] = max(widths[name] - over(), NAME_LEAST)
    return ["  ".join(row[i].rjust(widths[i]) if i in right else
                      (shortened(row[i], widths[i]) if i == name else row[i]).ljust(widths[i])
                      for i in shown).rstrip() for row in rows]


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


def warn(message, name=""):
    """Prints a message of a command's; where a terminal shows it, in lines that fit."""
    lines = f"autograph{' ' + name if name else ''}: {message}".splitlines()
    if sys.stderr.isatty():
        lines = [part for line in lines for part in wrapped(line, "  ")]
    print("\n".join(lines), file=sys.stderr)

# SPDX-License-Identifier: MIT
"""The library's options: their table, and the values that a program would be given."""
import collections
import ctypes
import os
import re
import stat

from common import Failure, Installation

Option = collections.namedtuple("Option", "kind section key default least most words help")
PATH_MAX = 1024
FILE_MOST, LINE_MOST = 64 * 1024, 199  # bytes that the library reads of a file, and inih of a line
BLANKS = " \t\r\v\f"
PROGRAM = "program:"  # how a section for programs begins
SHORT = {"AUTOGRAPH_REPORT": "report.file", "AUTOGRAPH_VERBOSE": "log.verbose",
         "AUTOGRAPH_STATS": "report.stats"}  # above the long names
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def source(name):
    """The text of a table that the library is built from."""
    here = os.path.dirname(os.path.abspath(__file__))
    for place in (here, os.path.join(here, "..", "config"), os.path.join(here, "..", "observe"),
                  os.path.join(here, "..", "trace")):
        path = os.path.join(place, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise Failure(f"{name} is missing in {here}: install again")


def table():
    """{"section.key": Option}"""
    options, lines = {}, source("options.def")
    for name, value in re.findall(r"^#define (\w+) (\d+)", lines, re.M):
        lines = lines.replace(name, value)
    for kind, section, key, rest, text in re.findall(
            r'^AG_OPT_(\w+)\((\w+), (\w+), (.+), "((?:[^"\\]|\\.)*)"\)$', lines, re.M):
        values = [v.strip().strip('"') for v in rest.split(",")]
        least = most = words = None
        if kind == "INT":
            least, most = int(values[1]), int(values[2])
        elif kind == "CHOICE":
            words = values[0].split("|")
            values = words
        options[f"{section}.{key}"] = Option(kind, section, key, values[0], least, most, words, text)
    return options


def forbids(environ):
    """Why nothing is held: a variable of CUDA's, and what it promises; None: no such one is set."""
    for kind, name, why in re.findall(r'^AG_CUDA_(\w+)\((\w+), "(.*)"\)$', source("cuda.def"), re.M):
        if environ.get(name, "") not in ("", "0" if kind == "SWITCH" else ""):
            return f"{name} is set: {why}"
    return None


def variable(name):
    """The environment variable above the file, e.g. AUTOGRAPH_TRACE_HOT."""
    return "AUTOGRAPH_" + name.upper().replace(".", "_")


def mistake(option, value):
    """What is wrong with a value, or None."""
    if option.kind == "BOOL":
        return None if value.lower() in TRUE + FALSE else "is not true or false"
    if option.kind == "INT":
        fits = re.fullmatch(r"-?[0-9]+", value) and option.least <= int(value) <= option.most
        return None if fits else f"is not a whole number from {option.least} to {option.most}"
    if option.kind == "CHOICE":
        return None if value.lower() in option.words else f"is not one of {', '.join(option.words)}"
    return None if len(os.fsencode(value)) < PATH_MAX else f"is longer than {PATH_MAX - 1} bytes"


def distance(a, b):
    """The number of letters to insert, delete, exchange or swap with the next to make `b` of `a`."""
    top, above, row = [], [], list(range(len(b) + 1))
    for i, x in enumerate(a):
        top, above, row = above, row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(above[j] + (x != y), above[j + 1] + 1, row[j] + 1))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[-1] = min(row[-1], top[j - 1] + 1)
    return row[-1]


def meant(name, key, known):
    """The one of the known {name: key} that may have been meant, or None. src/config/option.c decides alike."""
    best, least = None, 4  # farther than three letters is another word
    for candidate, its_key in known.items():
        far = distance(name, candidate)
        far = 1 if far > 1 and key == its_key else far  # the right key in the wrong section, or in none
        if far < least and 2 * far <= max(len(key), len(its_key)):
            best, least = candidate, far
    return best


def unknown(name, options):
    """A message for a name that is no option."""
    near = meant(name, name.partition(".")[2] or name, {n: o.key for n, o in options.items()})
    hint = f"did you mean {near}?" if near else "autograph.ini(5) lists them"
    return f"there is no option {name}; {hint}"


def assignments(texts):
    """The environment for a list of "section.key=value"."""
    options = table()
    result = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not equals:
            raise Failure(f"--set {text}: write section.key=value")
        if name not in options:
            raise Failure(f"--set {text}: {unknown(name, options)}")
        wrong = mistake(options[name], value)
        if wrong:
            raise Failure(f'--set {name}: "{value}" {wrong}')
        result[variable(name)] = value
    return result


# -- What a program would be given ------------------------------------------------

def config_file(environ):
    """(path or None, complaint or None): the first file of the library's search order that is the
    caller's own or root's."""
    named = environ.get("AUTOGRAPH_CONFIG")
    if named is not None:
        if named in ("", "/dev/null"):
            return None, None
        if not os.path.isfile(named) or not os.access(named, os.R_OK):
            return None, f"AUTOGRAPH_CONFIG={named}: is not a file that can be read"
        return named, None
    places = ["autograph.ini"]
    if environ.get("XDG_CONFIG_HOME", "").startswith("/"):
        places.append(environ["XDG_CONFIG_HOME"] + "/autograph/autograph.ini")
    elif environ.get("HOME"):
        places.append(environ["HOME"] + "/.config/autograph/autograph.ini")
    complaint = None
    for place in places:
        if os.path.isfile(place) and os.access(place, os.R_OK):
            reason = stranger(place)
            if reason is None:
                return place, complaint
            complaint = complaint or f"{place}: passed over, since {reason}"
    place = os.path.join(Installation.sysconfdir, "autograph.ini")
    there = os.path.isfile(place) and os.access(place, os.R_OK)
    return place if there else None, complaint


def stranger(path):
    """Why a file that nobody has named is not obeyed, or None: it names files to write."""
    for found in (os.stat(path), os.lstat(path)):
        if found.st_uid not in (0, os.geteuid()):
            return (f"it belongs to user {found.st_uid}; to have it read, name it in AUTOGRAPH_CONFIG")
    if os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it: chmod go-w"
    return None


def head(line):
    """The section that a line begins, or None. The name of a program's section may have brackets."""
    line = re.sub(r"\s;.*", "", line, flags=re.A)
    if line[:1] != "[" or "]" not in line:
        return None
    special = line.lower().startswith("[" + PROGRAM)
    return line[1:line.rindex("]") if special else line.index("]")]


def is_program(pattern, name):
    """As the library decides whether a pattern stands for the program of that name."""
    return ctypes.CDLL(None).fnmatch(os.fsencode(pattern), os.fsencode(name), 0) == 0


def pattern_mistake(pattern):
    """Why a pattern stands for no program, or None."""
    if not pattern or "/" in pattern:
        return "a name has no slash" if pattern else "there is no name"
    rest = re.sub(r"\\.|\[[!^]?.[^]]*\]", "", pattern, flags=re.S)
    return "a bracket is not closed" if "[" in rest else None


def excluded(values):
    """The patterns of general.exclude; `values` as effective() gives them."""
    return [p for p in re.split("[ \t,]+", values.get("general.exclude", ("",))[0]) if p]


def is_excluded(values, name):
    """Whether general.exclude names the program."""
    return any(is_program(p, name) for p in excluded(values) if pattern_mistake(p) is None)


def lines(path):
    """(line number, section, key, value) of an INI file; where key is None, value is a complaint. What is
    in no section that counts is left out."""
    section, programs = "", set()
    with open(path, "rb") as file:
        data = file.read(FILE_MOST + 1)
    text = data[:FILE_MOST].decode("utf-8-sig", "surrogateescape")
    for at, line in enumerate(text.split("\n"), 1):
        line = line.lstrip(" \t")
        if len(line.encode("utf-8", "surrogateescape")) > LINE_MOST:
            yield at, section, None, f"this line is longer than {LINE_MOST} bytes"
            section = None if line[0] == "[" else section
            continue
        line = line.strip(BLANKS)
        if not line or line[0] in "#;":
            continue
        begins = head(line)
        if begins is not None:
            section = begins
            if section.lower().startswith(PROGRAM):
                pattern = section[len(PROGRAM):]
                wrong = pattern_mistake(pattern)
                wrong = f"stands for no program: {wrong}" if wrong else \
                    "comes a second time" if pattern in programs else None
                programs.add(pattern)
                if wrong:
                    yield at, section, None, f"[{section}] {wrong}"
                    section = None
            continue
        parts = re.match(r"([^=:]*)[=:](.*)", line, re.S)
        if not parts:
            yield at, section, None, 'neither "[section]" nor "key = value"'
            continue
        if section is None:
            continue
        value = re.sub(r"\s;.*", "", parts.group(2), flags=re.A | re.S)
        yield at, section, parts.group(1).strip(BLANKS), value.strip(BLANKS)
    if len(data) > FILE_MOST:
        yield at, section, None, f"the file is longer than {FILE_MOST // 1024} KiB from here on"


def effective(environ, program=None):
    """(file, {name: (value, where)} of what differs from the defaults, complaints), for a program of that
    name."""
    options, values, special, others, complaints = table(), {}, {}, {}, []
    path, complaint = config_file(environ)
    if complaint:
        complaints.append(complaint)

    def take(name, value, where, values=values):
        wrong = mistake(options[name], value)
        if wrong:
            complaints.append(f'{where}: {name} = "{value}" {wrong}')
        else:
            values[name] = (value, where)

    for at, section, key, value in (lines(path) if path else ()):
        is_special = key is not None and section.lower().startswith(PROGRAM)
        name = f"{key}" if is_special else f"{section}.{key}"
        if key is None:
            complaints.append(f"{path}:{at}: {value}")
        elif name.lower() not in options:
            complaints.append(f"{path}:{at}: {unknown(name.lower(), options)}")
        elif is_special:
            applies = program is not None and is_program(section[len(PROGRAM):], program)
            take(name.lower(), value, f"{path}:{at} [{section}]", special if applies else others)
        else:
            take(name.lower(), value, f"{path}:{at}")
    values.update(special)
    for name in options:
        if variable(name) in environ:
            take(name, environ[variable(name)], variable(name))
    for short, name in SHORT.items():
        if short in environ:
            take(name, environ[short], short)
    complaints += unknown_variables(environ, options)
    complaints += [f'general.exclude: "{p}" stands for no program: {pattern_mistake(p)}'
                   for p in excluded(values) if pattern_mistake(p)]
    differ = {n: v for n, v in values.items()
              if normal(options[n], v[0]) != normal(options[n], options[n].default)}
    return path, differ, complaints


OTHERS = ("AUTOGRAPH_RUN", "AUTOGRAPH_VERBOSITY")  # the launcher's, TensorFlow's


def unknown_variables(environ, options):
    """Complaints about variables that are within a known section, or spelt like the library's."""
    known = {variable(name): option.key for name, option in options.items()}
    known.update((name, name.partition("_")[2].lower()) for name in
                 (*SHORT, "AUTOGRAPH_CONFIG", "AUTOGRAPH_DISABLE"))
    sections = {option.section for option in options.values()}
    for name in sorted(environ):
        prefix, _, rest = name.partition("_")
        if prefix != "AUTOGRAPH" or name in known or name in OTHERS:
            continue
        section, inside, key = rest.lower().partition("_")
        inside = inside and section in sections
        near = meant(name, key if inside else rest.lower(), known)
        if near or inside:
            yield f"environment: there is no option {name}" + (f"; did you mean {near}?" if near else "")


# Where launchers of parallel programs tell the rank: initial.h.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")


def expanded(pattern, environ, process="%p"):
    """The name of a file that the library writes, as ag_name_expand() makes it."""
    rank = next((r for r in map(environ.get, RANKS) if r and re.fullmatch("[0-9]+", r)), "0")
    parts = {"%p": str(process), "%h": os.uname().nodename, "%r": rank, "%%": "%"}
    name = re.sub("%[phr%]", lambda found: parts[found.group()], pattern)
    return name if name == "stderr" else os.path.join(os.getcwd(), name)


def normal(option, value):
    """A value in the form in which two that mean the same are equal."""
    if option.kind == "BOOL":
        return value.lower() in TRUE
    if option.kind == "INT":
        return int(value)
    return value.lower() if option.kind == "CHOICE" else value

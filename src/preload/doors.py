#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the doors that are alike as plain C.

usage: doors.py SLOTS TABLE OUTPUT

SLOTS is what slots.py has written. TABLE has shapes, which are C, and rows, which say what has a shape:

    shape before(TELL)              a shape, and words that its rows replace
    AG_DOOR CUresult ag_door_NAME(PARAMETERS)
    {
        if (active("NAME"))
            TELL;
        return AG_REAL(NAME)(ARGUMENTS);
    }
    end

    before ag_engine_stream_destroy(stream)           a row: the words' values, with " | " between them,
        cuStreamDestroy(CUstream stream)              and the functions that get doors of that shape
        cuStreamDestroy_v2(CUstream stream)

Each function gets a door for each of its forms that SLOTS has: name, name_ptsz, name_ptds. A shape can say

    NAME         the form, cuStreamQuery_ptsz
    BASE         the name in the row, cuStreamQuery
    PER_THREAD   true in a form to which stream 0 is the per-thread default stream, else false
    PARAMETERS   what stands between the parentheses of the row; (void) if it is empty
    ARGUMENTS    the parameters' names

Words without parentheses are names alone. Comments outside of shapes stay in TABLE.
"""
import os
import re
import sys
import textwrap

HEAD = "/* Generated from {table} by doors.py: a change here is lost. */\n"


def fail(path, number, what):
    sys.exit(f"{path}:{number}: {what}")


def lines_of(path):
    """Numbers and lines, without comments that have lines of their own; what stands in a shape is left alone."""
    in_comment = in_shape = False
    with open(path, encoding="ascii") as table:
        for number, line in enumerate(table, 1):
            line = line.rstrip("\n")
            in_shape = line != "end" and (in_shape or line.startswith("shape "))
            in_comment = in_comment or (not in_shape and line.startswith("/*"))
            if not in_comment and (in_shape or line.strip()):
                yield number, line
            in_comment = in_comment and not line.endswith("*/")


class Row:
    """What has a shape: the text of the words' values, and functions with their parameters."""

    def __init__(self, number, shape, values):
        self.number, self.shape, self.values, self.functions = number, shape, values, []

    def add(self, line):
        """Adds an indented line, which may go on with what the one before has begun."""
        if self.values.endswith("|"):
            self.values += f" {line}"
        elif self.functions and self.functions[-1].endswith(","):
            self.functions[-1] += f" {line}"
        else:
            self.functions += [line] if "(" in line else line.split()


def read_table(path):
    """Shapes (name to words and lines), and rows."""
    shapes, rows, lines = {}, [], None
    for number, line in lines_of(path):
        if line.startswith("shape "):
            name, *words = re.findall(r"\w+", line[len("shape "):])
            lines = []
            shapes[name] = (words, lines)
        elif line == "end":
            lines = None
        elif lines is not None:
            lines.append(line)
        elif not line.startswith(" "):
            name, _, values = line.partition(" ")
            if name not in shapes:
                fail(path, number, f"no shape is called {name}")
            rows.append(Row(number, name, values))
        elif not rows:
            fail(path, number, "it belongs to no row")
        else:
            rows[-1].add(line.strip())
    return shapes, rows


def arguments(parameters):
    return ", ".join(re.findall(r"\w+(?=,|$)", parameters))


def forms(name, slots):
    """A function's forms that there are, each with whether stream 0 is the thread's own. One of the runtime has one."""
    if not re.match("cu[A-Z]", name):
        return [(name, False)]
    return [(f"{name}{ending}", ending != "") for ending in ("", "_ptsz", "_ptds") if f"{name}{ending}" in slots]


def fill(text, words):
    """The text of a shape with its words replaced; values may have words, too. NAME may end a longer name."""
    for _ in range(2):
        text = re.sub(rf"\b(?:{'|'.join(words)})\b|(?<=_)NAME\b", lambda found: words[found[0]], text)
    return text


def wrapped(line):
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    return textwrap.fill(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def doors(path, slots):
    """The text of each door."""
    shapes, rows = read_table(path)
    for row in rows:
        known, text = shapes[row.shape]
        values = [v for v in row.values.split(" | ") if v]
        if len(values) != len(known) or not row.functions:
            fail(path, row.number, f"{row.shape} wants {' | '.join(known) or 'no values'}, and functions")
        for function in row.functions:
            found = re.fullmatch(r"(\w+)(?:\((.*)\))?", function)
            if not found or not forms(found[1], slots):
                fail(path, row.number, f"the driver has no {function}")
            for form, per_thread in forms(found[1], slots):
                words = dict(zip(known, values), NAME=form, BASE=found[1], PER_THREAD=str(per_thread).lower(),
                             PARAMETERS=found[2] or "void", ARGUMENTS=arguments(found[2] or ""))
                yield "\n".join(wrapped(line) for line in fill("\n".join(text), words).split("\n"))


def main():
    slots, table, output = sys.argv[1:]
    with open(slots, encoding="ascii") as text:
        names = set(re.findall(r"^AG_SLOT\((\w+),", text.read(), flags=re.M))
    made = list(doors(table, names))
    with open(f"{output}.tmp", "w", encoding="ascii") as text:
        text.write(HEAD.format(table=os.path.basename(table)) + "".join(f"\n{door}\n" for door in made))
    os.replace(f"{output}.tmp", output)


main()

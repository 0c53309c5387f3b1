# SPDX-License-Identifier: MIT
"""What the modules of this folder have in common: a complaint has a file, a line, and what to do."""
import collections
import os
import pathlib
import re

import helpers

ROOT = helpers.SOURCE

Complaint = collections.namedtuple("Complaint", "file line text")


def line_of(text, *needles):
    """The line of the first of these that stands in the text, wherever its lines are broken; else 1."""
    for needle in needles:
        words = re.escape(needle).split(r"\ ")
        found = needle and re.search(r"\s+".join(words), text)
        if found:
            return text.count("\n", 0, found.start()) + 1
    return 1


def complain(file, text, *needles):
    """About what stands in a file of the tree; `needles`: where (line_of)."""
    path = ROOT / file
    source = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return Complaint(str(file), line_of(source, *needles), text)


def at_least(number, found, file):
    """One complaint where a check reads less than there was when it was written: then it checks nothing."""
    if len(found) < number:
        yield complain(file, f"only {len(found)} found of {number} at least: the check no longer reads this file")


def build():
    return pathlib.Path(os.environ.get("AG_BUILD") or ROOT / "build").resolve()

# SPDX-License-Identifier: MIT
"""All C and CUDA sources are as clang-format, with the file in the tree, writes them, and headers say what functions
are for."""
import os
import re
import shutil
import subprocess

from complaint import ROOT, Complaint, at_least, complain

VERSION = 14  # others wrap some lines elsewhere


def sources():
    """Not what a build beside the sources has made."""
    found = (path for folder in ("src", "include", "tests") for ending in ("c", "h", "cu")
             for path in (ROOT / folder).rglob(f"*.{ending}"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def usable():
    if not shutil.which("clang-format"):
        return False
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    return f"version {VERSION}." in version


def started(*arguments, **options):
    return subprocess.Popen(["clang-format", "--dry-run", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, **options)


def places(text):
    """File and line of each complaint of clang-format's."""
    return re.findall(r"^(\S+?):(\d+):", text, flags=re.M)


def uncommented(text):
    """Functions of a header without a comment above them, or above the lines that they stand among."""
    bare = True
    for line in text.splitlines():
        found = re.match(r"\w.*?\b(ag_\w+)\(", line)
        if "/*" in line or not line:
            bare = not line
        elif bare and found:
            yield found[1]


def complaints():
    for path in sorted((ROOT / "src").rglob("*.h")):
        for name in uncommented(path.read_text()):
            yield complain(path.relative_to(ROOT), f"{name}() has no comment: say what it does", f"{name}(")
    if not usable():
        return
    names, jobs = sources(), os.cpu_count()
    yield from at_least(200, names, "src")
    for process in [started(*names[first::jobs]) for first in range(jobs)]:
        for file, line in sorted(set(places(process.communicate()[1]))):
            yield Complaint(file, int(line), f"run clang-format -i {file}")

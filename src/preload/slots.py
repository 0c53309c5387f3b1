#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists every function of the CUDA driver API with its class, for C and assembly alike.

usage: slots.py CLASSES OUTPUT COMPILER [FLAG...]

The names come from the CUDA headers: cuda.h and cudaProfiler.h as the compiler sees them with all
versions declared, and the interoperability headers beside them by their text alone, because those
include headers of other systems. The classes come from classes.def; a name that it does not
mention is a barrier. A name that the headers do not mention is there, too: the driver may be newer
than they are. One line for each function:

    AG_SLOT(ELF name, class, index of the stream, event or function argument, per-thread default stream?)
"""
import os
import re
import subprocess
import sys

CLASS_ROW = re.compile(r"^(QUERY|FUNCTION|STREAM|DEFAULT_STREAM|DEVICE_COPY|ALLOCATION|OP|WRAP|BARRIER)"
                       r"\((\w+)(?:, (\d+))?\)$")


def read_classes(path):
    """Class and argument of each name in the class table."""
    classes = {}
    in_comment = False
    with open(path, encoding="ascii") as rows:
        for number, row in enumerate(rows, 1):
            row = row.strip()
            in_comment = in_comment or row.startswith("/*")
            if in_comment:
                in_comment = not row.endswith("*/")
                continue
            if not row:
                continue
            match = CLASS_ROW.match(row)
            if not match or match[2] in classes:
                sys.exit(f"{path}:{number}: not a row of the table, or a second one: {row}")
            if (match[1] in ("STREAM", "FUNCTION")) != (match[3] is not None):
                sys.exit(f"{path}:{number}: {match[1]} and argument do not agree: {row}")
            classes[match[2]] = (match[1], int(match[3] or 0))
    return classes


def declared(compiler):
    """Names of all functions that the headers declare."""
    source = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    result = subprocess.run(
        compiler + ["-E", "-D__CUDA_API_VERSION_INTERNAL", "-x", "c", "-"],
        input=source, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"cannot read cuda.h:\n{result.stderr}")
    prototype = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(")
    names = set(prototype.findall(result.stdout))
    headers = re.search(r'^# \d+ "(.*/)cuda\.h"', result.stdout, re.M)[1]
    for header in ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):
        if os.path.exists(headers + header):
            with open(headers + header, encoding="utf-8") as text:
                text = text.read()
            names.update(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(", text))
            names.update(re.findall(r"#define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", text, re.M))
    return sorted(n for n in names if not n.startswith("cuWGL"))  # another system


# Names of functions that have a form for the per-thread default stream.
PER_THREAD = re.compile(r"cuStream(?!Create|Destroy)|\w+Async|cuLaunchHostFunc")


def newer(classes, names):
    """Names of the class table that the headers lack."""
    for name in set(classes) - set(names):
        yield name
        if PER_THREAD.match(name):
            yield f"{name}_ptsz"


def main():
    classes = read_classes(sys.argv[1])
    names = declared(sys.argv[3:])
    lines = []
    for name in sorted([*names, *newer(classes, names)]):
        per_thread = name.endswith(("_ptsz", "_ptds"))
        kind, argument = classes.get(name[:-5] if per_thread else name, ("BARRIER", 0))
        lines.append(f"AG_SLOT({name}, {kind}, {argument}, {int(per_thread)})\n")
    temporary = sys.argv[2] + ".tmp"
    with open(temporary, "w", encoding="ascii") as output:
        output.writelines(lines)
    os.replace(temporary, sys.argv[2])


main()

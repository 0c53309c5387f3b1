# SPDX-License-Identifier: MIT
"""Makes a manual page of its text. @options@ stands for the options of conf/autograph.ini, which explains all.

usage: man/options.py PAGE.in autograph.ini [NAME=VALUE]... >PAGE
"""
import sys


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def options(lines):
    out, comment = [], []
    for line in lines:
        line = line.strip()
        if line.startswith("["):
            out.append(f".SS {roff(line)}")
            comment = []
        elif line.startswith("#"):
            comment.append(line[1:].strip())
        elif line.startswith(";"):
            key, value = (part.strip() for part in line[1:].split("=", 1))
            out += [".TP", f".BR {roff(key)} \" = {roff(value) or '(empty)'}\"", roff(" ".join(comment))]
            comment = []
        else:
            comment = []
    return "\n".join(out)


def main(template, ini, *values):
    with open(template, encoding="utf-8") as page, open(ini, encoding="utf-8") as table:
        text = page.read().replace("@options@", options(table))
    for name, value in (setting.split("=", 1) for setting in values):
        text = text.replace(f"@{name}@", roff(value) if value.startswith("/") else value)
    print(text, end="")


main(*sys.argv[1:])

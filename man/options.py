# SPDX-License-Identifier: MIT
"""Makes autograph.ini(5) of its text and of conf/autograph.ini, which explains every option.

usage: man/options.py autograph.ini.5.in autograph.ini SYSCONFDIR >autograph.ini.5
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


def main(template, ini, sysconfdir):
    with open(template, encoding="utf-8") as page, open(ini, encoding="utf-8") as table:
        print(page.read().replace("@options@", options(table)).replace("@sysconfdir@", roff(sysconfdir)),
              end="")


main(*sys.argv[1:])

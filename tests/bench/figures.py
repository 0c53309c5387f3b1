#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the figures of docs/figures.tsv into the tables of the pages.

usage: tests/bench/figures.py

A table is filled if the line <!-- figures: TABLE... --> stands above it. The first cell of each row is a name in one of
these tables of docs/figures.tsv. Its other cells are filled where the head of the column is a word that the tables
have in "what"; no figure is "-". The ranges in docs/figures.tsv that are made of other figures are made first.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "docs/figures.tsv"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARK = re.compile(r"(?<=<!-- figures: )([a-z ]+)( -->\n\n)((?:\|.*\n)+)")


def lines(text):
    """The comments, and the rows as dictionaries by the words of the first row."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    head, *rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return comments, [dict(zip(head, row, strict=True)) for row in rows]


def figures(text):
    return lines(text)[1]


# -- Ranges of other figures ---------------------------------------------------------

def numbers(cell):
    return [float(number) for number in re.findall(r"\d+\.?\d*", re.sub(r"\+- \S+|\(.*?\)", "", cell))]


def middle(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def tables(text):
    """Of each table of a page, its rows as dictionaries by the cells of the head."""
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        head, _, *rows = [cells(line) for line in block.splitlines()]
        yield [dict(zip(head, row)) for row in rows]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def measured(results, rows):
    """All speed-ups by what was measured: those of docs/results.md, or newer ones."""
    found, newer = {}, {}
    for row in (row for table in tables(results) for row in table):
        into = []
        for head, cell in row.items():
            if head.startswith("speed-up"):
                into += numbers(cell)
            elif head.startswith(("time / without", "time on / off")) and "speed-up" not in row:
                into += [1 / figure for figure in numbers(cell)]
        if not into and "without" in row and numbers(row["without"]):
            into = [middle(numbers(row["without"])) / middle(numbers(row["with"]))]
        found.setdefault(next(iter(row.values())), []).extend(into)
    for name, listed in re.findall(r"`(\w+)`, [^.]*?: ([\d.x, ]+x)\.", results):
        found.setdefault(name, []).extend(numbers(listed))
    for row in rows:
        if not row["source"].startswith("of: "):
            values = numbers(row["figure"])
            if row["what"] == "time / without":
                newer[row["name"]] = [1 / value for value in values]
            elif row["what"] == "speed-up":
                newer[row["name"]] = values
            newer.setdefault(f"{row['table']} > {row['what']}", []).extend(values)
    return found | newer


def made(text, results):
    """docs/figures.tsv with the ranges that are made of other figures."""
    comments, rows = lines(text)
    known = measured(results, rows)
    for row in rows:
        if row["source"].startswith("of: "):
            values = sorted(value for name in row["source"][4:].split("; ") for value in known[name])
            ends = [f"{values[0]:.1f}x", f"{values[-1]:.1f}x"]
            row["figure"] = " to ".join(dict.fromkeys(ends))
    return "\n".join([*comments, "\t".join(rows[0]), *("\t".join(row.values()) for row in rows), ""])


# -- Pages ------------------------------------------------------------------------

def filled(page, rows):
    """The page with its tables filled; KeyError: the name of a row that has no figure."""
    def fill(match):
        chosen = [row for row in rows if row["table"] in match[1].split()]
        whats = {row["what"] for row in chosen}
        by_name = {(row["name"], row["what"]): row["figure"] for row in chosen}
        head, rule, *rest = match[3].splitlines()
        out = [head, rule]
        for line in rest:
            first, *others = cells(line)
            if first not in {name for name, _ in by_name}:
                raise KeyError(first)
            shown = [by_name.get((first, what), "-") if what in whats else cell
                     for what, cell in zip(cells(head)[1:], others)]
            out.append(f"| {' | '.join([first, *shown])} |".replace("|  |", "| |"))
        return match[1] + match[2] + "\n".join(out) + "\n"
    return MARK.sub(fill, page)


def main():
    text = made(FILE.read_text(), (ROOT / "docs/results.md").read_text())
    pages = {path: filled(path.read_text(), figures(text)) for path in PAGES}
    for path, content in {FILE: text, **pages}.items():
        if path.read_text() != content:
            path.write_text(content)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What the commands print fits the terminal, and their messages are short."""
import ast
import itertools
import re

import pytest

import commands
import helpers
import tracefiles
from commands import LOOP, MOST_COLUMNS, PLACE, autograph, on_terminal

SOURCES = sorted((helpers.SOURCE / "src/cmd").glob("*.py")) + [helpers.SOURCE / "src/cmd/autograph.in"]


def texts(node):
    """What a string in the source may be; what is filled in is as long as a path."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return map("".join, itertools.product(*map(list, map(texts, node.values))))
    if isinstance(node, ast.BinOp):
        return [a + b for a in texts(node.left) for b in texts(node.right)]
    if isinstance(node, ast.IfExp):
        return [*texts(node.body), *texts(node.orelse)]
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.IfExp):
        return texts(node.value)
    return [PLACE]


def messages(path):
    """(line, text) of each message in a source: what ends a command, what warns, what stands in the way."""
    tree = ast.parse(re.sub("@[A-Z]+@", "x", path.read_text()))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
    found = [n.args[0] for n in calls if getattr(n.func, "attr", getattr(n.func, "id", "")) in
             ("Failure", "ArgumentTypeError", "error", "warn")]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and "obstacle" in function.name:
            found += [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
    for node in found:
        for text in texts(node):
            yield node.lineno, text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_messages_are_short(path):
    before = f"autograph: {PLACE}: " if path.name == "elf.py" else "autograph verify: "
    long = [f"{path.name}:{line}: {text}" for line, text in messages(path)
            for number, part in enumerate(text.split("\n"))
            if len(part) + len(before) * (number == 0) > MOST_COLUMNS]
    assert long == []


def test_the_messages_are_found():
    found = [text for path in SOURCES for _, text in messages(path)]
    assert len(found) > 90
    assert any("is for the C library" in text for text in found) and any("no regular" in text for text in found)


def test_messages_of_the_library_are_short():
    """Those that are printed unasked."""
    found = []
    for path in sorted((helpers.SOURCE / "src").rglob("*.c")):
        for call in re.findall(r"ag_log\(\s*AG_LOG_(?:ALWAYS|WARNING),(.*?)\);", path.read_text(), re.S):
            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call))
            found.append("libautograph[12345]: " + re.sub(r"%(\.\d+)?s", PLACE, text).replace("%%", "%"))
    assert len(found) > 15 and [text for text in found if len(text) > MOST_COLUMNS] == []


def fits(shown, columns):
    """Each line is as wide as the terminal at most, but for a word that is too long for that."""
    long = [line for line in shown.splitlines()
            if len(line) > columns and max(map(len, line.split())) < columns - 24]
    assert shown and long == []


KERNEL = "a_kernel_whose_name_is_longer_than_a_line_of_a_terminal_has_room_for"
NAME = f"_Z{len(KERNEL)}{KERNEL}v"


@pytest.fixture(name="traces", scope="module")
def traces_of_long_names(tmp_path_factory):
    place = tmp_path_factory.mktemp("traces")

    def write(name, second):
        w = tracefiles.Writer().function(1, NAME).function(2, NAME.replace("a_kernel", "b_kernel")).stream(1)
        for number in (1, 1, second):
            w.kernel(number)
        return str(w.end().write(place / name))
    return write("a", 1), write("b", 2)


def calls(traces):
    """Every command, and where it goes wrong."""
    sample = str(LOOP[0])
    return [(["--help"], 0), *(([name, "--help"], 0) for name in commands.module("common").COMMANDS),
            (["doctor", sample], 0), (["doctor", "/bin/true"], 1),
            (["verify", "--", *LOOP], 2), (["verify", "--filter", "us.*", "--", *LOOP], 0), (["verify", "--", "true"], 2),
            (["bench", "--runs=1", "--warmup=0", "--", *LOOP], 0),
            (["compare", *traces], 1), (["compare", traces[0], traces[0]], 0)]


@pytest.mark.parametrize("columns", [60, 80])
def test_output_fits(traces, columns, tmp_path):
    """80 columns where nobody knows."""
    env = {"COLUMNS": "60" if columns == 60 else None}
    for arguments, status in calls(traces):
        fits(autograph(*arguments, status=status, env=env).stdout, columns)


def test_a_trace_fits_a_terminal_and_is_whole_elsewhere(traces):
    assert autograph("trace", traces[0]).stdout.count(KERNEL) == 3
    shown = on_terminal("trace", traces[0], columns=70)
    assert KERNEL not in shown and shown.count("...") == 3 and shown.count("[eager]") == 3
    fits(shown, 70)


def test_the_terminals_width_counts(tmp_path):
    wide, narrow = (on_terminal("doctor", LOOP[0], columns=columns) for columns in (400, 60))
    assert len(wide.splitlines()) < len(narrow.splitlines()) and " ".join(wide.split()) == " ".join(narrow.split())
    fits(narrow, 60)


def test_a_message_fits_a_terminal_and_is_a_line_elsewhere():
    message = "autograph: there is no option --some-option-with-a-long-name; see autograph --help\n"
    arguments = ["--some-option-with-a-long-name", "true"]
    assert autograph(*arguments, status=2).stderr == message
    shown = on_terminal(*arguments, columns=60, status=2)
    assert shown.splitlines()[1].startswith("  ") and " ".join(shown.split()) == message.strip()

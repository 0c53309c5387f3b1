# SPDX-License-Identifier: MIT
"""The text of fuzz programs as trees, and making them smaller (see program.h for the text)."""
import re
import time


class Statement:
    """A line of a program; `body` is None, or the list of statements of its block."""

    def __init__(self, name, fields, body=None):
        self.name, self.fields, self.body = name, fields, body

    def copy(self):
        return Statement(self.name, dict(self.fields), copy(self.body))


def copy(body):
    return None if body is None else [s.copy() for s in body]


def parse(text):
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line == "}":
            stack.pop()
            continue
        words = line.split()
        block = words[-1] == "{"
        fields = dict(w.split("=") for w in words[1:] if w != "{")
        statement = Statement(words[0], {k: int(v) for k, v in fields.items()},
                              [] if block else None)
        stack[-1].append(statement)
        if block:
            stack.append(statement.body)
    return stack[0]


def text(body, depth=0):
    lines = []
    for s in body:
        words = [s.name] + [f"{k}={v}" for k, v in s.fields.items() if v]
        lines.append("  " * depth + " ".join(words) + (" {" if s.body is not None else ""))
        if s.body is not None:
            lines += [text(s.body, depth + 1).rstrip("\n")] if s.body else []
            lines.append("  " * depth + "}")
    return "\n".join(lines) + "\n"


def size(body):
    return sum(1 + size(s.body or []) for s in body)


# -- Shrinking ------------------------------------------------------------------

DECLARATIONS = ("program", "context", "lane")


def _blocks(body):
    """Paths to all lists of statements, the outermost first."""
    yield ()
    for i, s in enumerate(body):
        if s.body is not None:
            for path in _blocks(s.body):
                yield (i, *path)


def _at(body, path):
    for i in path:
        body = body[i].body
    return body


def _candidates(body):
    """Programs a step smaller, those that lose most first."""
    for path in list(_blocks(body)):
        block = _at(body, path)
        n = sum(s.name not in DECLARATIONS for s in block)
        step = n
        while step >= 1:
            for start in range(len(block) - n, len(block), step):
                smaller = copy(body)
                del _at(smaller, path)[start:start + step]
                yield smaller
            step //= 2
    for path in list(_blocks(body)):
        for i, s in enumerate(_at(body, path)):
            if s.body is not None and s.name != "par":
                smaller = copy(body)
                _at(smaller, path)[i:i + 1] = copy(s.body)
                yield smaller
    for path in list(_blocks(body)):
        for i, s in enumerate(_at(body, path)):
            for key, value in s.fields.items():
                if not value:
                    continue
                tries = {0} if s.name in DECLARATIONS else {0, 1, value // 2, value - 1}
                for new in sorted(t for t in tries if 0 <= t < value):
                    if s.name == "loop" and key == "n" and new == 0:
                        continue
                    smaller = copy(body)
                    _at(smaller, path)[i].fields[key] = new
                    yield smaller


def shrink(program, fails, seconds):
    """The smallest program found for which fails(text) is still true."""
    body, end = parse(program), time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in _candidates(body):
            if time.monotonic() > end:
                return text(body)
            if fails(text(smaller)):
                body, progress = smaller, True
                break
    return text(body)


# -- Comments -------------------------------------------------------------------

def environment(program):
    """The variables in a program's comments: `# env NAME=VALUE`."""
    return dict(re.findall(r"^# env (\w+)=(\S+)$", program, re.M))

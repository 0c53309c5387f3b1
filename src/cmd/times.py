# SPDX-License-Identifier: MIT
"""Times in a program's output, which differ from one run to the next: regular expressions that leave them out."""
import re

MOST = 4  # expressions: who needs more has an output that is no result

DATE, CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d?:\d\d:\d\d(?:\.\d+)?"
NUMBER = re.compile(rf"({DATE}|{CLOCK}|[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)")
ANY_NUMBER = r"[-+\d][-+.,\de]*"
# Behind a number, its unit: 1.5 ms, 30 it/s.
UNIT = re.compile(r"\s*([mun]?s|secs?|seconds?|mins?|minutes?|[a-z]*/s(ec|econd)?|[kmgt]?flops?|fps)(?![a-z])", re.I)
# Before it, what it is: us_per_iteration, Time (ms):, GB/s =
LABEL = re.compile(r"(?<![a-z])(secs?|seconds?|(run|wall)?times?|timings?|elapsed|duration|latency|[kmgt]?flops?|fps|"
                   r"bandwidth|throughput|\w+(/|_per_)s(ec|econd)?|[mun]?s(/|_per_)\w+)(?![a-z])[^a-z]*$|"
                   r"[(\[]([mun]?s|[a-z]+/s)[)\]]\W*$", re.I)


def is_time(before, number, after):
    """Whether a number is one: by itself, by its unit, or by the words before it."""
    if ":" in number or re.fullmatch(DATE, number) or UNIT.match(after):
        return True
    return bool(LABEL.search(before[-100:])) and not re.match(r"\s*[A-Za-z%]", after)


def literal(text):
    return re.sub(r"(\\?\s)+", r"\\s+", re.escape(text))


def expression(parts, i):
    """One for the number in part i of a line, and for what tells it from others."""
    before, number, after = parts[i - 1:i + 2]
    unit = UNIT.match(after)
    clock = next((c for c in (DATE, CLOCK) if re.fullmatch(c, number)), None)
    if clock or unit and not re.search("[A-Za-z]", before):
        return clock or ANY_NUMBER + literal(unit.group())
    start = "^" if i == 1 else ""
    if i == len(parts) - 2 and not (after[unit.end():] if unit else after).strip():  # nothing follows
        return start + literal(before.rstrip()) + ".*"
    return start + literal(before) + ANY_NUMBER


def expressions(one, other):
    """Expressions for what differs between two lines; None if that is not times alone."""
    a, b = NUMBER.split(one), NUMBER.split(other)
    if [" ".join(text.split()) for text in a[::2]] != [" ".join(text.split()) for text in b[::2]]:
        return None
    differ = [i for i in range(1, len(a), 2) if a[i] != b[i]]
    return [expression(a, i) for i in differ] if all(is_time(*a[i - 1:i + 2]) for i in differ) else None


def filters(pairs):
    """Expressions that leave out all that differs in pairs of texts; None if that is not times alone."""
    found = []
    for a, b in pairs:
        one, other = a.splitlines(), b.splitlines()
        if len(one) != len(other):
            return None
        for x, y in zip(one, other):
            more = expressions(x, y) if x != y else []
            if more is None:
                return None
            found += [e for e in more if e not in found]
            if len(found) > MOST:
                return None
    for a, b in pairs:
        for expression in found:
            a, b = (re.sub(expression, "", text, flags=re.M) for text in (a, b))
        if a != b:
            return None
    return found

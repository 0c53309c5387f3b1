# SPDX-License-Identifier: MIT
"""docs/measurements.md, docs/design.md and docs/tour.md against the code: numbers of the policy, kinds of op, files,
functions, options."""
import re

from complaint import ROOT, at_least, complain

SOURCES = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".c", ".h", ".def")]
POLICY, LIMITS = ((ROOT / f"src/{name}").read_text() for name in ("policy/policy.def", "driver/limits.def"))
ONE, BACKOFF = r"AG_POLICY\((AG_\w+), (.+?)", r"AG_BACKOFF\((AG_\w+), (\S+), \d+, [\d <]+"  # a back-off's first
LIMIT = r"AG_LIMIT\((AG_\w+), (.+?)"
MOST_CHOICES = 40


def rows(text, *heads):
    return [found for head in heads for found in re.findall(rf'^{head}, (\w+), "([^"]+)"\)$', text, flags=re.M)]


CHOICES, FACTS = rows(POLICY, ONE, BACKOFF), rows(LIMITS, LIMIT)
NUMBERS = CHOICES + FACTS
BOUNDS = [found for name in ("observe/patience.h", "engine/base/watchdog.h")
          for found in re.findall(r"\b(AG_\w+) = (\d+)\b", (ROOT / "src" / name).read_text())]
UNITS = set("""ops replays holds copies pairs points times states
    streams parts factor percent ns KiB""".split())
OPTIONS = (ROOT / "src/config/options.def").read_text()
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("design.md", "measurements.md")}
ROW = r"^\| `([\w.]+)` \| (\d+) \| .+ \|$"
ROWS = re.findall(ROW, PAGES["measurements.md"], flags=re.M)


def option(name):
    """The default of an option that is a number."""
    section, key = name.split(".")
    found = re.search(rf"^AG_OPT_INT\({section}, {key}, (\d+),", OPTIONS, flags=re.M)
    return int(found[1])


def number(name):
    """The value of a number of the policy, of a limit or of a bound."""
    values = {n: value for n, value, *_ in NUMBERS + BOUNDS}
    text = values[name]
    while re.search(r"[A-Z]", text):
        text = re.sub(r"\b[A-Z]\w*", lambda m: f"({values[m[0]]})", text)
    assert re.fullmatch(r"[\d\s()<*/+-]+", text), text
    return eval(text.replace("/", "//"))  # digits and operators only


POLICY_FILE, LIMITS_FILE, TABLE = "src/policy/policy.def", "src/driver/limits.def", "docs/measurements.md"


def of_the_table():
    rows = re.findall(r"^\|", PAGES["measurements.md"].partition("\n| number | value |")[2], flags=re.M)
    if len(ROWS) != len(rows) - 1:  # below the line of dashes
        yield complain(TABLE, "a row of the table of numbers is none: write `NAME` | digits | reason",
                       "| number | value |")
    yield from at_least(8, ROWS, TABLE)
    for name, value in ROWS:
        if name in {n for n, *_ in NUMBERS}:
            yield complain(TABLE, f"{name} has a line with its reason: name the measurement there", f"`{name}`")
        known = option(name) if "." in name else number(name)
        if known != int(value):
            yield complain(TABLE, f"{name} is {known} in the code, and not {value}", f"`{name}`")


def of_the_policy():
    yield from at_least(30, CHOICES, POLICY_FILE)
    yield from at_least(10, FACTS, LIMITS_FILE)
    if len(CHOICES) > MOST_CHOICES:
        yield complain(POLICY_FILE, f"{len(CHOICES)} numbers are chosen, and {MOST_CHOICES} are the most: derive one",
                       CHOICES[-1][0])
    for file, text, numbers in (POLICY_FILE, POLICY, CHOICES), (LIMITS_FILE, LIMITS, FACTS):
        for line in re.findall(r"^AG_(?:POLICY|BACKOFF|LIMIT)\(.*", text, flags=re.M):
            if not any(f"({name}," in line for name, *_ in numbers):
                yield complain(file, "a number needs a name, a value, a unit and a reason", line)
        for name, _, unit, _ in numbers:
            if unit not in UNITS:
                yield complain(file, f"{unit} is no unit: take one of tests/lint/design.py", name)
            elif number(name) is None or [n for n, *_ in NUMBERS].count(name) > 1:
                yield complain(file, f"{name} is there twice, or has no value", name)
    for unit in UNITS - {unit for _, _, unit, _ in NUMBERS}:
        yield complain("tests/lint/design.py", f"no number has the unit {unit}: take it out", unit)
    code = "\n".join(p.read_text() for p in SOURCES if p.suffix != ".def")
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    used = set(re.findall(r"\bAG_\w+", code + " ".join(value for _, value, _, _ in NUMBERS)))
    for name in sorted({name for name, *_ in NUMBERS} - used):
        yield complain(POLICY_FILE if name in {n for n, *_ in CHOICES} else LIMITS_FILE,
                       f"nothing uses {name}: take it out", name)


# Files whose times say how a mechanism is built, and are no choice that programs differ in.
BUILT = {f"src/engine/{name}" for name in ("base/lock.h", "base/watchdog.c", "base/watchdog.h", "calls/life.c",
                                           "calls/watch.c")}


def of_numbers_elsewhere():
    """Times, and what grows: other constants of these folders are sizes and bits, or derived from a number."""
    for path in (p for p in SOURCES if str(p.relative_to(ROOT)) not in BUILT):
        if path.relative_to(ROOT / "src").parts[0] in ("engine", "graph", "policy", "trace"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            for body in re.findall(r"\benum\b[^{;]*{([^}]*)}", text):
                for name, value in re.findall(r"\b([A-Z]\w+)\s*=([^,]*)", body):
                    if "AG_" not in value and re.search(r"_(NS|US|MS|OPS|FIRST|GROWS|LOOKS|TIMES|PAIRS)$", name):
                        yield complain(path.relative_to(ROOT), f"{name} is of the policy: move it to {POLICY_FILE}",
                                       name)


def of_names(page):
    """Sources, options and tests that a page names are there."""
    text, file = PAGES[page], f"docs/{page}"
    sources = {p.name for p in SOURCES} | {p.name for p in (ROOT / "src/preload").glob("*")}
    for name in re.findall(r"`([\w/]+\.(?:c|h|def))`", text):
        if name.split("/")[-1] not in sources:
            yield complain(file, f"there is no {name}", name)
    named = re.findall(r"`((?:general|trace|update|hold|graph|report|log)\.\w+)(?: = [\w.]+)?`", text)
    yield from at_least(3, named, file)
    known = {f"{s}.{k}" for s, k in re.findall(r"^AG_OPT_\w+\((\w+), (\w+),", OPTIONS, flags=re.M)}
    files = {f"{p.parent.name}.{p.suffix[1:]}" for p in SOURCES}
    for name in named:
        if name not in known | files and name.rsplit(".")[-1] not in ("c", "h"):
            yield complain(file, f"there is no option {name}", name)
    tests = {p.name: p.read_text() for p in (ROOT / "tests").rglob("test_*.py")}
    for name in re.findall(r"\b(test_\w+\.py)\b", text):
        if name not in tests:
            yield complain(file, f"there is no {name}", name)
    for name in re.findall(r"\b(test_\w+)\b(?!\.py)", text):
        if f"def {name}(" not in "".join(tests.values()):
            yield complain(file, f"there is no test {name}", name)


TOUR = "docs/tour.md"


def lost_stops(text):
    """Functions that are not defined in the file beside them, in a row of a table or a sentence: (file, function)."""
    named = re.findall(r"^\|[^|]*\| `([\w/.]+)` \| `(\w+)` \|", text, flags=re.M)
    named += [(file, name) for name, file in re.findall(r"`(ag_\w+)` in\s`([\w/.]+)`", text)]
    for file, name in named:
        path = ROOT / "src" / file
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) if path.is_file() else ""
        begins = rf"\b{name}\(" if file.endswith(".doors") else rf"^(?!\s)[^;=]*\b{name}\([^;]*?\)\s*\{{"
        if not re.search(begins, code, flags=re.M):
            yield file, name


def of_the_tour():
    text = (ROOT / TOUR).read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    yield from at_least(30, rows, TOUR)
    for line in rows:
        if not re.match(r"\| \d+ \| `[\w/.]+` \| `\w+` \| [^|]+ \|$", line):
            yield complain(TOUR, "a stop has a number, a file of src/, a function, and what happens", line)
    for file, name in lost_stops(text):
        yield complain(TOUR, f"src/{file} has no function {name}", f"`{file}` | `{name}`", name)


KINDS = re.findall(r'^AG_KIND\(\w+, "(\w+)"', (ROOT / "src/trace/kinds.def").read_text(), flags=re.M)


def lost_kinds(kinds, formats, words):
    """Kinds of op without a number or a row in docs/formats.md, or without a row in src/graph/words.h."""
    numbers = re.findall(r"\b(\d+) (\w+)", formats.partition("\nKinds: ")[2].partition(". ")[0])
    rows = [name for row in re.findall(r"^\| ([\w, ]+) \|", formats, flags=re.M) for name in row.split(", ")]
    for number, kind in enumerate(kinds):
        if (str(number), kind) not in numbers or (kind not in rows and kind != "kernel"):
            yield "docs/formats.md", kind
        if not re.search(rf"^ \*   {kind} ", words, flags=re.M):
            yield "src/graph/words.h", kind


def of_kinds():
    yield from at_least(6, KINDS, "src/trace/kinds.def")
    texts = [(ROOT / name).read_text() for name in ("docs/formats.md", "src/graph/words.h")]
    for file, kind in lost_kinds(KINDS, *texts):
        yield complain(file, f"say what the words of a {kind} are, a kind of src/trace/kinds.def", "Kinds: ", "kind  ")


# -- Where the code decides -------------------------------------------------------

ENGINE = {str(p.relative_to(ROOT / "src/engine")): re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S)
          for p in SOURCES if p.is_relative_to(ROOT / "src/engine")}
REASONS = set(re.findall(r"^AG_WHY\((\w+),", (ROOT / "src/observe/reasons.def").read_text(), flags=re.M)) - {"HELD"}
CALLS = {"when": "ag_stream_submit", "where": "ag_stream_end"}  # by the last head of the table


def table_of(head, text):
    """(file, functions, last cell) of each row."""
    rows = re.findall(r"^\| `([\w/.]+)` \| (.+?) \| (.+?) \|$",
                      text.partition(f"\n| file | functions | {head} |\n")[2].partition("\n\n")[0], flags=re.M)
    return [(file, set(re.findall(r"`(\w+)`", functions)), last) for file, functions, last in rows]


def functions_of(code):
    """{name: body}"""
    code = re.sub(r"__attribute__\(\(.*?\)\)", "", code)
    return dict(re.findall(r"^(?!\s)[^;=#]*?\b(\w+)\([^;{]*?\)\s*\{\n(.*?)^\}", code, flags=re.M | re.S))


def wrong_places(text):
    """(file, name): functions that decide and are in no row, or the other way round; so with reasons."""
    for head, call in CALLS.items():
        calls = {(file, name) for file, code in ENGINE.items() for name, body in functions_of(code).items()
                 if re.search(rf"\b{call}\(", body)}
        yield from calls ^ {(file, name) for file, names, _ in table_of(head, text) for name in names}
    told = [(file, reason) for file, _, last in table_of("`AG_WHY_`", text) for reason in last.split()]
    given = {(file, reason) for file, code in ENGINE.items()
             for reason in re.findall(r"\bAG_WHY_(\w+)", code) if reason in REASONS}
    counted = {place for place in given if place[0].startswith("tell/")}  # not decided there
    yield from (given ^ set(told)) - (counted - set(told))
    for file, names, _ in table_of("`AG_WHY_`", text):
        yield from ((file, name) for name in names - set(functions_of(ENGINE.get(file, ""))))
    yield from (("observe/reasons.def", reason) for reason in REASONS - {reason for _, reason in told})


def of_places():
    text = PAGES["design.md"]
    for head in ("`AG_WHY_`", *CALLS):
        yield from at_least(5, table_of(head, text), "docs/design.md")
    for file, name in sorted(wrong_places(text)):
        yield complain("docs/design.md", f"{file} and the tables of \"Where the code decides\" differ: {name}",
                       f"`{file}`", "## Where the code decides")


def complaints():
    for part in (of_the_table, of_the_policy, of_numbers_elsewhere, of_the_tour, of_kinds, of_places):
        yield from part()
    for page in PAGES:
        yield from of_names(page)

# SPDX-License-Identifier: MIT
"""The documents: their length, their links, and whether what they name is there.

A check is a function that takes the name and the text of a page and returns what is wrong, so that one test can
show each check a page that is wrong (test_lint.py).
"""
import fnmatch
import functools
import re
import sys

from complaint import ROOT, at_least, complain
from commands import autograph

sys.path.append(str(ROOT / "tests/bench"))
import figures  # noqa: E402  (needs the path above)

FIGURES = "docs/figures.tsv"
OURS = ("LICENSES", "completions", "conf", "docs", "include", "man", "packaging", "scripts", "src", "tests", ".ci")


@functools.cache
def tree():
    """The files of the tree, by their path in it."""
    files = {}
    for top in ROOT.iterdir():
        if top.is_file():
            files[top.name] = top
        elif top.name in OURS:
            files |= {str(path.relative_to(ROOT)): path for path in top.rglob("*")
                      if path.is_file() and "__pycache__" not in path.parts}
    return files


@functools.cache
def read(path):
    return tree()[path].read_text(encoding="utf-8", errors="replace")


PAGES = sorted(name for name in tree() if name.endswith(".md"))
FOR_CONTRIBUTORS = ["docs/design.md", "docs/measurements.md", "docs/reports.md", "docs/semantics.md",
                    "docs/tour.md"]
READ_BY_USERS = [name for name in PAGES if name in ("README.md", "SECURITY.md")
                 or re.fullmatch(r"docs/[\w-]+\.md", name) and name not in FOR_CONTRIBUTORS]
INDEXES = ["README.md", "docs/README.md"]
CODE = [name for name in tree()
        if name.startswith(("src/", "include/", "tests/", "scripts/", "conf/", "man/", ".ci/"))
        and name != "tests/lint/test_lint.py" and not name.startswith("tests/fuzz/regressions")]


# -- What a page is made of ---------------------------------------------------------

def without_comments(text):
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


def words(text):
    """As a reader counts them: cells of tables and code, too; neither marks nor addresses of links."""
    text = re.sub(r"\]\([^)]*\)", "]", without_comments(text))
    return [word for word in text.split() if re.search(r"\w", word)]


def anchors(text):
    """Of the headings, as GitHub makes them."""
    result = []
    for heading in re.findall(r"^#+ (.*)", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading).lower()).replace(" ", "-")
        result.append(f"{name}-{result.count(name)}" if name in result else name)
    return result


def headings(text):
    """Without their numbers."""
    return re.findall(r"^#+ (?:\d+\. )?(.*)", text, flags=re.M)


def code(text):
    """The code of a page: spans, and lines of blocks without their prompt and comment."""
    blocks = re.findall(r"^(?:    |\t)(?! )(.*)", text, flags=re.M)
    for block in re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S):
        blocks += block.splitlines()
    text = re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.M | re.S)
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", text)
    return [re.sub(r"\s+# .*", "", re.sub(r"^\$ ", "", line)) for line in blocks] + \
        [re.sub(r"\s+", " ", span) for span in spans]


def sentences(text):
    """Of the prose: no headings, tables, code blocks; items of lists end sentences."""
    text = re.sub(r"^```.*?^```|^    .*?$|^[#|!].*?$", "", without_comments(text), flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", text))
    return [" ".join(part.split()) for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)
            for part in re.split(r"(?<=[.?!:;])\**\s+", block) if part.strip()]


# -- Length ---------------------------------------------------------------------

SHORT = ["clusters", "comparison", "frameworks", "install", "security", "tested", "troubleshooting", "works-with"]
LIMITS = {  # page: lines, words at most
    "README.md": (135, None), "docs/performance.md": (120, None), "docs/programs.md": (115, None),
    "docs/results.md": (None, 3000), "docs/design.md": (None, 4400), "docs/semantics.md": (None, 9000), "docs/tour.md": (None, 600)
} | {f"docs/{name}.md": (100, None) for name in SHORT}


def too_long(name, text):
    lines, most = LIMITS.get(name, (None, None))
    return [f"{have} {what} instead of {limit} at most"
            for have, what, limit in ((text.count("\n"), "lines", lines), (len(words(text)), "words", most))
            if limit and have > limit]


# -- Links ----------------------------------------------------------------------

def dead_links(name, text):
    """Links within the tree, and their anchors."""
    wrong = []
    here = ROOT / name
    for target, section in re.findall(r"\]\(([^)\s]+)\)(?:,\s+\"([^\"]+)\")?", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve() if path else here
        if not there.exists():
            wrong.append(f"no {path} ({target})")
            continue
        page = text if there == here else there.read_text(encoding="utf-8", errors="replace")
        if anchor and anchor not in anchors(page):
            wrong.append(f"no section #{anchor} in {path or name}")
        if section and re.sub(r"\s+", " ", section) not in headings(page):
            wrong.append(f'no section "{section}" in {path or name}')
    return wrong


def dead_references(_, text):
    """Pages that a text names without a link, and the section that is quoted behind."""
    wrong = []
    text = re.sub(r"\n[ \t]*(?:\*|#|//|\.)?[ \t]*", " ", text)
    page = r"\b(docs/[\w-]+\.md|README\.md|[A-Z]{4,}\.md)"
    for path, section in re.findall(page + r"(?:\)?, \"([^\"]+)\")?", text):
        if path not in tree():
            wrong.append(f"no {path}")
        elif section and section not in headings(read(path)):
            wrong.append(f"no section \"{section}\" in {path}")
    return wrong


def left_out(name, text):
    """Pages of docs/ that an index has no link to."""
    if name not in INDEXES:
        return []
    linked = {str(((ROOT / name).parent / target.partition("#")[0]).resolve().relative_to(ROOT.resolve()))
              for target in re.findall(r"\]\(([^):\s]+)\)", text)}
    return [f"no link to {page}" for page in PAGES
            if page != name and re.fullmatch(r"docs/[\w-]+\.md|SECURITY\.md", page) and page not in linked]


# -- What a page names ------------------------------------------------------------

SECTIONS = ("general", "trace", "update", "hold", "graph", "report", "log")
SUFFIXES = ("c", "h", "py", "json", "html", "cu", "def", "trace", "data", "md", "sh")


@functools.cache
def options():
    return {f"{section}.{key}" for section, key in
            re.findall(r"^AG_OPT_\w+\((\w+), (\w+),", read("src/config/options.def"), flags=re.M)}


def unknown_options(_, text):
    """SECTION.KEY and AUTOGRAPH_SECTION_KEY in code."""
    wrong = []
    for part in code(text):
        for option in re.findall(rf"(?<![\w./-])((?:{'|'.join(SECTIONS)})\.\w+)\b(?!\()", part):
            if option not in options() and option.split(".")[1] not in SUFFIXES:
                wrong.append(f"no option {option}")
        for section, key in re.findall(r"\bAUTOGRAPH_([A-Z]+)_([A-Z_]+)\b", part):
            if section.lower() in SECTIONS and f"{section}.{key}".lower() not in options():
                wrong.append(f"no option AUTOGRAPH_{section}_{key}")
    return wrong


@functools.cache
def variables():
    """The environment variables that the library or its commands read, and those of the options."""
    code = [name for name in tree() if name.startswith("src/")]
    return {f"AUTOGRAPH_{option.replace('.', '_').upper()}" for option in options()}.union(
        *(re.findall(r"AUTOGRAPH_[A-Z_]+", read(name)) for name in code))


def unknown_variables(_, text):
    """AUTOGRAPH_NAME in code; AUTOGRAPH_SECTION_KEY stands for any option."""
    return [f"nothing reads {name}" for part in code(text) for name in re.findall(r"\bAUTOGRAPH_[A-Z_]+\b", part)
            if name not in variables() | {"AUTOGRAPH_SECTION_KEY"}]


LAUNCHERS = "srun|mpirun|torchrun|docker|apptainer"  # their options are their own
COMMANDS = ["doctor", "report", "verify", "bench", "trace", "compare", "top"]


@functools.cache
def flags_of(command):
    """Of a command of autograph, or of itself ("")."""
    shown = autograph(*[command][:bool(command)], "--help").stdout
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown))


def unknown_commands(_, text):
    """Commands of autograph, and their options; what follows -- is a program's own."""
    wrong = []
    for part in code(text):
        for line in re.findall(rf"(?:^|[&;|] *|\b[A-Z_]+=\S* |^(?:{LAUNCHERS}) .* )(?:[./\w]*/)?autograph (.*)", part):
            own = re.split(r" -- |(?<!\S)\./\w|(?<!\S)(?:build|tests)/", line)[0].split()
            command = own[0] if own and re.fullmatch(r"[a-z]+", own[0]) else ""
            if command and command not in COMMANDS:
                wrong.append(f"no command autograph {command}")
                continue
            wrong += [f"autograph {command} has no option {word}" for word in own
                      if word.startswith("--") and word != "--"
                      and re.split("[=[]", word)[0] not in flags_of(command)]
    return wrong


def named_files(part):
    """The scripts of the tree that a command names, by their whole path or their name alone."""
    for word in part.split():
        word = word.removeprefix("./")
        if word in tree():
            yield word
        elif re.fullmatch(r"\w+\.py", word):
            yield from (name for name in tree() if name.endswith("/" + word))


@functools.cache
def every_flag():
    known = set().union(*map(flags_of, ["", *COMMANDS]))
    scripts = [name for name in tree() if name.startswith(("tests/", "scripts/", "packaging/", ".ci/"))
               and name != "tests/lint/test_lint.py"]
    configure = read("configure.ac")
    return known.union(*(re.findall(r"--[a-z][a-z-]*", read(name)) for name in [*scripts, "configure.ac"]),
                       (f"--with-{name}" for name in re.findall(r"AC_ARG_WITH\(\[([\w-]+)", configure)),
                       (f"--enable-{name}" for name in re.findall(r"AC_ARG_ENABLE\(\[([\w-]+)", configure)))


FOREIGN = ("git ", "nvcc", "ncu", "nsys", "docker ", "torchrun ", "valgrind ", "apt", "clang", "gcc", "perf ",
           "srun ", "mpirun ", "apptainer ", "XLA_FLAGS=", "#SBATCH ")
FOREIGN_FLAGS = {"--export", "--cleanenv", "--nv", "--env"}  # of launchers, where a page names one alone


def unknown_flags(_, text):
    """Options of the tree's scripts; of one alone, that some script has it."""
    wrong = []
    for part in code(text):
        if part.startswith(FOREIGN) or re.search(r"(?:^|[ /])autograph ", part):
            continue
        files = list(named_files(part))
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", part):
            if files:
                beside = {other for file in files for other in tree()
                          if other.rsplit("/", 1)[0] == file.rsplit("/", 1)[0] and "test_" not in other}
                if not any(flag in read(other) for other in beside):
                    wrong.append(f"{files[0]} has no option {flag}")
            elif flag not in every_flag() | FOREIGN_FLAGS:
                wrong.append(f"nothing has an option {flag}")
    return wrong


def makefiles():
    return [name for name in tree() if name == "Makefile.am" or name.endswith("local.mk")]


@functools.cache
def targets():
    automake = {"all", "check", "clean", "dist", "distcheck", "distclean", "install", "installcheck", "uninstall"}
    return automake.union(*(re.findall(r"^([a-z][\w-]*):", read(name), flags=re.M) for name in makefiles()))


def unknown_targets(_, text):
    """Of make."""
    wrong = []
    for part in code(text):
        for line in re.findall(r"(?:^|[&;] *)(?:sudo )?make\b([^&;|]*)", part):
            line = re.sub(r" -[A-Za-z](?: \S+)?| '[^']*'|\w+='[^']*'", " ", re.sub(r" -j\S*", " ", line))
            wrong += [f"make has no target {word}" for word in line.split()
                      if re.fullmatch(r"[a-z][\w-]*", word) and word not in targets()]
    return wrong


@functools.cache
def base_names():
    return {name.rsplit("/", 1)[-1] for name in tree()}


@functools.cache
def made_by_make():
    return "\n".join(map(read, makefiles()))


def is_there(path):
    """A file, a folder, a pattern of names (NAME stands for any), or what make builds."""
    path = path.rstrip("/.").removeprefix("./").removeprefix("build/")
    pattern = re.sub(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z]|\.md)", "*", path)
    source = re.sub(r"-(?:sim|static|shared)$", "", pattern)
    return (ROOT / path).exists() or path in made_by_make() or any(
        fnmatch.fnmatchcase(name, form) for form in (pattern, f"{source}.cu", f"{source}.c", f"{source}.py",
                                                    f"{pattern}.in")
        for name in tree())


PLACES = r"(?:completions|packaging|scripts|tests|docs|src|conf|include|man|LICENSES|\.ci)"
FILE = rf"(?<![\w/.$<{{-])((?:\./)?(?:build/)?{PLACES}/[\w./*-]+)"
BARE = r"(?<![\w/.*~-])([\w-]+\.(?:c|h|py|cu|cc|def|mk|ac|am))(?![\w(*])"
ELSEWHERE = {"cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "ini.h", "uthash.h",
             "train.py", "step.py"}  # a user's own


def unknown_files(_, text):
    """Paths in the tree, and names of sources in code."""
    wrong = [f"no {path}" for path in re.findall(FILE, re.sub(r"\w+://\S+", "", text)) if not is_there(path)]
    for part in code(text):
        wrong += [f"no {name}" for name in re.findall(BARE, part)
                  if name not in base_names() | ELSEWHERE and name not in made_by_make()]
    return wrong


@functools.cache
def messages():
    """The text of library, commands and configure, where strings go on over lines, in small letters."""
    source = "\n".join(read(name) for name in tree() if name.startswith("src/") or name == "configure.ac")
    return re.sub(r"\s+", " ", re.sub(r"[\"']\s*\n\s*f?[\"']", "", source)).lower()


OTHERS_SAY = "from LD_PRELOAD cannot be preloaded"  # the dynamic linker


def unknown_messages(name, text):
    """Quotes in the first cells of tables of the page by symptom; ... stands for anything."""
    if name != "docs/troubleshooting.md":
        return []
    cells = re.findall(r"^\| ([^|]*) \|", text, flags=re.M)
    quotes = [quote for cell in cells for quote in re.findall('"([^"]+)"', cell)]
    return [f"nothing says: {quote}" for quote in quotes if OTHERS_SAY not in quote
            and not re.search(".*".join(map(re.escape, quote.lower().split(" ... "))), messages())]


# -- Sentences ------------------------------------------------------------------

MOST_WORDS = 25
NOUN = r"\W*(?:What|Who|Whose|Whatever|Whoever)\b(?!.*\?\W*$)"  # "What is held is ..."
STIFF = r"\b(?:of|by|from|for) which\b|\bthat one\b|\bof these\b|\bor such\b|\bas well as\b|\blikewise\b"


def long_or_nouns(name, text):
    """Sentences that are too long, and those that begin with "what" as a noun."""
    said = sentences(text) if name != "CHANGELOG.md" else []
    return [f"{len(words(each))} words: {each}" for each in said if len(words(each)) > MOST_WORDS] + \
        [f"'What' is no noun: {each}" for each in said if re.match(NOUN, each)]


def stiff(name, text):
    """What one would not say to a colleague, on the pages that users read."""
    said = sentences(text) if name in READ_BY_USERS else []
    return [f"'{found[0]}': {each}" for each in said if (found := re.search(STIFF, each, flags=re.I))]


# -- Figures --------------------------------------------------------------------

PAGES_OF_FIGURES = ["README.md", "docs/comparison.md", "docs/performance.md", "docs/programs.md", "docs/frameworks.md",
                    "docs/clusters.md"]
FIGURE = r"(?<![\w.])(?:\d[\d.]*x? to )?\d[\d.]*(?:x\b| %)"
NO_SPEED = {  # what such a figure stands for that is no claim about speed
    ("docs/programs.md", "16 to 38 %"): "the part of a step's time that CUDA's calls take",
}


def known_figures():
    return figures.figures(read(FIGURES))


def common(words):
    """The longer words in small letters, without the ends of plurals and verbs."""
    return {word[:5] for word in re.findall(r"[a-z]{4,}|\d{4,}", words.lower())}


def unknown_figures(name, text):
    """A speed-up or percentage that docs/figures.tsv does not have for what the paragraph is about."""
    if name not in PAGES_OF_FIGURES:
        return []
    text = figures.MARK.sub("", re.sub(r"<!-- bench: .*?<!-- end -->", "", text, flags=re.S))
    text = re.sub(r"^    .*$|`[^`]*`", "", without_comments(text), flags=re.M)
    return [f"{FIGURES} has no {figure} for this: {' '.join(part.split())[:60]}"
            for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) ?)", text) for figure in re.findall(FIGURE, " ".join(part.split()))
            if (name, figure) not in NO_SPEED
            and not any(row["figure"] == figure and common(row["name"]) & common(part) for row in known_figures())]


def of_figures():
    """Tables have the figures of docs/figures.tsv; targets are rounded."""
    made = figures.made(read(FIGURES), read("docs/results.md"))
    if made != read(FIGURES):
        yield complain(FIGURES, "a range differs from what it is made of: run tests/bench/figures.py")
    marked = 0
    for name in PAGES:
        marked += len(figures.MARK.findall(read(name)))
        try:
            if figures.filled(read(name), figures.figures(made)) != read(name):
                yield complain(name, f"a table differs from {FIGURES}: run tests/bench/figures.py", "<!-- figures")
        except KeyError as row:
            yield complain(name, f"{FIGURES} has no row for {row}", row.args[0])
    yield from at_least(7, range(marked), FIGURES)
    worst = {row["target"].removesuffix(": time / by hand"): figures.numbers(row["worst"])[0]
             for rows in figures.tables(read("docs/results.md")) for row in rows
             if row.get("target", "").endswith(": time / by hand")}
    by_hand = {row["loop of N kernels"]: row["time / by hand, worst"]
               for rows in figures.tables(read("docs/comparison.md")) for row in rows if "loop of N kernels" in row}
    yield from at_least(5, by_hand, "docs/comparison.md")
    for name, cell in by_hand.items():
        if f"{worst[name]:.2f}" != cell:
            yield complain("docs/comparison.md", f"{name}: docs/results.md has {worst[name]:.2f}, and not {cell}", cell)


# -- All pages ------------------------------------------------------------------

CHECKS = [too_long, dead_links, dead_references, left_out, unknown_options, unknown_variables, unknown_commands,
          unknown_flags, unknown_targets, unknown_files, unknown_messages, unknown_figures, long_or_nouns,
          stiff]


def places(wrong):
    """Where to look in a page for what is wrong: the end of the message, or a word of it."""
    said = wrong.partition(": ")[2]
    return [said, " ".join(said.split()[:3]), *sorted(re.findall(r"[^\s\"'()]+", wrong), key=len, reverse=True)[:2]]


def of_pages():
    for name in PAGES:
        for check in CHECKS:
            if name != "CHANGELOG.md" or not check.__name__.startswith("unknown"):  # it tells of what is no more
                for wrong in check(name, read(name)):
                    yield complain(name, wrong, *([] if check is too_long else places(wrong)))
    for name in sorted({*LIMITS, *FOR_CONTRIBUTORS, *INDEXES} - set(PAGES)):
        yield complain(name, "the page is gone: take its name out of tests/lint/documents.py")


def of_references_in_code():
    """Comments, scripts, manual pages and the configuration name pages and their sections."""
    yield from at_least(200, CODE, "tests/lint/documents.py")
    for name in CODE:
        for wrong in dead_references(name, read(name)):
            yield complain(name, wrong, *places(wrong))


def of_installation():
    """The packages are those that setup installs, and all options of configure are there."""
    page = "docs/install.md"
    named = {word for row in next(rows for rows in figures.tables(read(page)) if "packages" in rows[0])
             for word in row["packages"].strip("`").split()}
    yield from at_least(12, named, page)
    for word in sorted(named):
        if not re.search(rf"(?<!-){word}\b", read("scripts/setup")):
            yield complain(page, f"scripts/setup does not install {word}: name it there or leave it out", word)
    given = {f"{kind.lower()}-{name}" for kind, name in
             re.findall(r"AC_ARG_(ENABLE|WITH)\(\[([\w-]+)\]", read("configure.ac"))}
    yield from at_least(5, given, "configure.ac")
    for option in sorted(given):
        if f"`--{option}" not in read(page).replace("--disable-", "--enable-"):
            yield complain(page, f"configure has --{option}: name it")


def complaints():
    for part in (of_pages, of_references_in_code, of_figures, of_installation):
        yield from part()

# SPDX-License-Identifier: MIT
"""The manual pages and the completions of the shells: every option is in them, and nothing else."""
import re
import shutil
import subprocess

import helpers
from commands import autograph, module
from complaint import ROOT, Complaint, at_least, build, complain

COMMANDS = ["", *module("main").COMMANDS]
PAGES = {name: build() / "man" / name for name in ("autograph.1", "autograph.ini.5")}
SOURCES = {"autograph.1": "man/autograph.1.in", "autograph.ini.5": "conf/autograph.ini"}
SHELLS = {"bash": "autograph", "zsh": "_autograph", "fish": "autograph.fish"}  # in completions/
OF_TORCHRUN = {"--nproc-per-node", "--no-python"}  # in an example


def text(name):
    """A page without its mark-up."""
    page = PAGES[name].read_text()
    page = re.sub(r'^\.\\".*\n', "", page, flags=re.M)
    page = re.sub(r"\\f.|\\&|\"", "", page.replace("\\-", "-").replace("\\e", "\\"))
    return re.sub(r"^\.\w+ ?", "", page, flags=re.M)


def options_of(command):
    out = autograph(*[command][:bool(command)], "--help").stdout
    return set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", out, flags=re.M))


OPTIONS = {}  # of each command


def of_the_table():
    """Each option is in autograph.ini(5) with its default, its bounds and its help text, under its section."""
    rows = helpers.run([build() / "tests/unit/probe", "defaults"], preload=False, sim=False).stdout.splitlines()[1:]
    file = SOURCES["autograph.ini.5"]
    yield from at_least(11, rows, file)
    sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[\w+\]\n|^WHEN TO)", text("autograph.ini.5"), flags=re.M | re.S))
    seen = []
    for row in rows:
        name, default, least, most, help_text = row.split("|", 4)
        section, key = name.split(".")
        seen.append(name)
        entry = re.search(rf"^{key} +=(.*)\n(.*)$", sections.get(section, ""), flags=re.M)
        if not entry:
            yield complain(file, f"{name} is not there: add it, and make the manual page", f"[{section}]")
            continue
        words = re.sub(r"\W+", " ", entry.group(2)).lower()
        if entry.group(1).strip() != (default or "(empty)"):
            yield complain(file, f"the default of {name} is {default or '(empty)'}", f";{key} =")
        if re.sub(r"\W+", " ", help_text).lower().strip() not in words:
            yield complain(file, f"{name} is not described in the words of src/config/options.def: {help_text}", f";{key} =")
        if least and f"From {least} to {most}." not in entry.group(2):
            yield complain(file, f"{name} goes from {least} to {most}: say so", f";{key} =")
    listed = [f"{section}.{key}" for section, body in sections.items()
              for key in re.findall(r"^(\w+) +=", body, flags=re.M)]
    if sorted(listed) == sorted(seen) and listed != seen:
        yield complain(file, "options are not in the order of src/config/options.def")
    for name in sorted(set(listed) - set(seen)):
        yield complain(file, f"there is no option {name}", f";{name.split('.')[1]} =")


def of_commands():
    """Every option of a command is in its section of autograph(1), and no other option is in the page."""
    page = text("autograph.1")
    sections = dict(re.findall(r"^([A-Z][A-Z ]+)\n(.*?)(?=^[A-Z][A-Z ]+\n|\Z)", page, flags=re.M | re.S))
    for command, options in OPTIONS.items():
        title = command.upper() or "STARTING A PROGRAM"
        for option in sorted(options - {"--help"}):
            if option not in sections.get(title, ""):
                yield complain(SOURCES["autograph.1"], f"{title} says nothing of {option}", f".SH {title}")
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page))
    for option in sorted(written - set().union(*OPTIONS.values()) - OF_TORCHRUN):
        yield complain(SOURCES["autograph.1"], f"there is no option {option}", option.replace("-", "\\-"), option)


def of_form(name):
    """groff and mandoc find nothing, and a page has a date, a version and all sections."""
    for tool, *arguments in (("groff", "-ww", "-man", "-Tutf8"), ("mandoc", "-Tlint", "-Wwarning")):
        if shutil.which(tool):
            done = subprocess.run([tool, *arguments, PAGES[name]], capture_output=True, text=True, check=False)
            for line in (done.stderr + (done.stdout if tool == "mandoc" else "")).splitlines():
                yield complain(SOURCES[name], f"{tool}: {line}")
    page = PAGES[name].read_text()
    version = helpers.config()["version"]
    if not re.search(rf'^\.TH AUTOGRAPH\S* \d "\d{{4}}-\d\d-\d\d" "libautograph {version}" ', page, re.M):
        yield complain(SOURCES[name], f"the page needs .TH with a date and libautograph {version}", ".TH")
    for left in re.findall("@[a-zA-Z]+@", page):
        yield complain(SOURCES[name], f"make has put nothing in the place of {left}", left)
    for title in {"NAME", "DESCRIPTION", "FILES", "BUGS", "SEE ALSO"} - set(re.findall(r"^\.SH (.*)", page, re.M)):
        yield complain(SOURCES[name], f"there is no section {title}")


def of_advice():
    """What the report advises to set can be set."""
    options = module("options").table()
    for name in ("advice.py", "verdict.py"):
        source = (ROOT / "src/cmd" / name).read_text()
        for option in re.findall(r"--set ([\w.]+)=\w+", source):
            if option not in options:
                yield complain(f"src/cmd/{name}", f"there is no option {option}", f"--set {option}")


def of_completions(shell, page):
    """Every option of the table and of each command is there; and no other."""
    file, options = f"completions/{SHELLS[shell]}", set(module("options").table())
    have = set(re.findall(r"(?<![\w.])(?:%s)\.\w+" % "|".join({o.split(".")[0] for o in options}), page))
    form = r"^complete.* -l ([a-z-]+)" if shell == "fish" else r"(?<![\w-])--([a-z][a-z-]*)"
    flags = {command: {option[2:] for option in known} for command, known in OPTIONS.items()}
    have, want = have | set(re.findall(form, page, re.M)), options | set().union(*flags.values())
    for name in sorted(want - have):
        yield complain(file, f"{name} is missing: add it")
    for name in sorted(have - want):
        yield complain(file, f"there is no {name}: take it out", name)
    form = {"bash": r"^    %s\) operand=.*$", "zsh": r"^        %s\) shift.*$", "fish": r"^.*__autograph_command %s'.*$"}
    for command in COMMANDS[1:]:
        lines = "\n".join(re.findall(form[shell] % command, page, re.M))
        for flag in sorted(flags[command]):
            if not re.search(rf"(?:--|-l ){flag}\b", lines):
                yield complain(file, f"autograph {command} has --{flag}: add it there", command)


def of_shells(shell):
    """The shell can read its file, and shellcheck finds nothing."""
    path = build() / "completions" / SHELLS[shell]
    commands = [[shell, "-n", path], *([["shellcheck", "-f", "gcc", "-s", "bash", path]] if shell == "bash" else [])]
    for command in (command for command in commands if shutil.which(command[0])):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in (done.stdout + done.stderr).splitlines() if done.returncode else ():
            found = re.fullmatch(r".*?:(?:line )?(\d+):(?:\d+:)? (.*)", line)
            yield Complaint(f"completions/{SHELLS[shell]}", int(found[1]) if found else 1,
                            f"{command[0]}: {found[2] if found else line}")


def complaints():
    OPTIONS.update({command: options_of(command) for command in COMMANDS})
    for part in (of_the_table, of_commands, of_advice):
        yield from part()
    for name in PAGES:
        yield from of_form(name)
    for shell in SHELLS:
        yield from of_completions(shell, (build() / "completions" / SHELLS[shell]).read_text())
        yield from of_shells(shell)

# SPDX-License-Identifier: MIT
"""The manual pages: every option is in them, and nothing else."""
import re
import shutil
import subprocess

import pytest

import helpers
from commands import autograph

COMMANDS = ["", "doctor", "report", "verify", "bench", "trace", "compare", "top"]
PAGES = {name: helpers.build_dir() / "man" / name for name in ("autograph.1", "autograph.ini.5")}


def text(name):
    """A page without its mark-up."""
    page = PAGES[name].read_text()
    page = re.sub(r'^\.\\".*\n', "", page, flags=re.M)
    page = re.sub(r"\\f.|\\&|\"", "", page.replace("\\-", "-").replace("\\e", "\\"))
    return re.sub(r"^\.\w+ ?", "", page, flags=re.M)


def test_every_option_of_the_table_is_in_the_page():
    """With its default, its bounds and its help text, under its section."""
    rows = helpers.run([helpers.build_dir() / "tests/unit/probe", "defaults"], preload=False,
                       sim=False).stdout.splitlines()[1:]
    assert len(rows) > 10
    sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[\w+\]\n|^WHEN TO)", text("autograph.ini.5"),
                               flags=re.M | re.S))
    seen = []
    for row in rows:
        name, default, least, most, help_text = row.split("|", 4)
        section, key = name.split(".")
        entry = re.search(rf"^{key} +=(.*)\n(.*)$", sections[section], flags=re.M)
        assert entry, f"{name} is not in autograph.ini(5)"
        assert entry.group(1).strip() == (default or "(empty)"), name
        words = re.sub(r"\W+", " ", entry.group(2)).lower()
        assert re.sub(r"\W+", " ", help_text).lower().strip() in words, name
        assert not least or f"From {least} to {most}." in entry.group(2), name
        seen.append(name)
    listed = [f"{section}.{key}" for section, body in sections.items()
              for key in re.findall(r"^(\w+) +=", body, flags=re.M)]
    assert listed == seen, "and no other option"


def options_of(command):
    words = [command] if command else []
    out = autograph(*words, "--help").stdout
    return set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", out, flags=re.M))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_in_the_page(command):
    page = text("autograph.1")
    sections = dict(re.findall(r"^([A-Z][A-Z ]+)\n(.*?)(?=^[A-Z][A-Z ]+\n|\Z)", page, flags=re.M | re.S))
    section = sections[command.upper() or "STARTING A PROGRAM"]
    missing = {o for o in options_of(command) - {"--help"} if o not in section}
    assert missing == set()


def test_the_page_has_no_option_that_is_not_there():
    known = set().union(*map(options_of, COMMANDS))
    others = {"--nproc-per-node", "--no-python"}  # of torchrun, in an example
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text("autograph.1")))
    assert written - known == others


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_well_formed(name):
    if not shutil.which("groff"):
        pytest.skip("there is no groff")
    done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", PAGES[name]], capture_output=True,
                          text=True, check=True)
    assert done.stderr == "" and len(done.stdout) > 1000


@pytest.mark.parametrize("name", PAGES)
def test_pages_follow_the_rules_of_mandoc(name):
    if not shutil.which("mandoc"):
        pytest.skip("there is no mandoc")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGES[name]], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_a_date_and_a_version_and_all_sections(name):
    page = PAGES[name].read_text()
    assert re.search(rf'^\.TH AUTOGRAPH\S* \d "\d{{4}}-\d\d-\d\d" "libautograph {helpers.config()["version"]}" ',
                     page, re.M)
    assert re.findall("@[a-zA-Z]+@", page) == []
    assert {"NAME", "DESCRIPTION", "FILES", "BUGS", "SEE ALSO"} <= set(re.findall(r"^\.SH (.*)", page, re.M))


def test_advice_of_the_report_names_real_options():
    """What the report advises to set can be set."""
    source = "".join((helpers.SOURCE / "src/cmd" / name).read_text() for name in ("advice.py", "verdict.py"))
    settings = re.findall(r"--set ([\w.]+=\w+)", source)
    assert len(settings) >= 2
    for setting in settings:
        autograph("--set", setting, "true")

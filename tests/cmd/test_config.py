# SPDX-License-Identifier: MIT
"""The configuration: table, INI file, environment, and what mistakes are answered with."""
import configparser
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

import pytest

import helpers


def probe(what="options", env=None, cwd=None):
    """The probe's lines after its first, and the complaints on stderr without their prefix."""
    done = helpers.run([helpers.build_dir() / "tests/unit/probe", what], preload=False, sim=False,
                       env=env, cwd=cwd)
    first, *lines = done.stdout.splitlines()
    assert first == "[host text]"
    complaints = done.stderr.splitlines()
    for line in complaints:
        assert re.match(r"libautograph\[\d+\]: ", line), line
    return lines, [c.split(": ", 1)[1] for c in complaints]


def options(env=None, cwd=None):
    lines, complaints = probe("options", env, cwd)
    return dict(line.split("=", 1) for line in lines), complaints


def table():
    lines, complaints = probe("defaults")
    assert complaints == []
    rows = [line.split("|", 4) for line in lines]
    assert len(rows) > 5
    return {name: (default, least, most, text) for name, default, least, most, text in rows}


@pytest.fixture
def ini(tmp_path):
    """Writes an INI file and returns the environment that names it."""
    def write(text):
        path = tmp_path / "test.ini"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return {"AUTOGRAPH_CONFIG": path}
    return write


DEFAULTS = {name: row[0] for name, row in table().items()} if helpers.missing_from_build() is None \
    else {}


# -- The table ------------------------------------------------------------------

def test_defaults_without_any_file():
    assert options() == (DEFAULTS, [])


def test_defaults_are_within_their_bounds():
    for name, (default, least, most, text) in table().items():
        assert text, f"{name} has no help text"
        if least:
            assert int(least) <= int(default) <= int(most), name


def test_the_installed_file_lists_every_option_with_its_default(ini):
    """Sections, order, values, bounds and help texts of conf/autograph.ini are the table's."""
    text = (helpers.SOURCE / "conf/autograph.ini").read_text()
    assert options(ini(text)) == (DEFAULTS, []), "as it is, every line is a comment"

    section, comment, found = None, "", []
    for line in text.splitlines():
        if line.startswith("["):
            section, comment = line.strip("[]"), ""
        elif line.startswith("#"):
            comment += " " + line[1:].strip()
        elif line.startswith(";"):
            key, value = (part.strip() for part in line[1:].split("=", 1))
            found.append((f"{section}.{key}", value, comment.strip().lower()))
            comment = ""
    rows = table()
    assert [(name, value) for name, value, _ in found] == [(n, r[0]) for n, r in rows.items()]
    for name, _, comment in found:
        default, least, most, help_text = rows[name]
        words = re.sub(r"\W+", " ", comment)
        assert re.sub(r"\W+", " ", help_text.lower()) in words, name
        if least:
            assert f"from {least} to {most}." in comment, name

    # Without their semicolons the lines are valid, and still the defaults.
    active = re.sub(r"^;", "", text, flags=re.M)
    assert options(ini(active)) == (DEFAULTS, [])
    assert configparser.ConfigParser(interpolation=None).read_string(active) is None


# -- Files ------------------------------------------------------------------------

def test_a_file_sets_options_of_every_type(ini):
    values, complaints = options(ini(
        "[general]\nenable = no\n[trace]\nhot=7\n\n[report]\nfile = /tmp/a b%p.json\n"))
    assert complaints == []
    assert values == {**DEFAULTS, "general.enable": "false", "trace.hot": "7",
                      "report.file": "/tmp/a b%p.json"}


def test_forms_that_are_accepted(ini):
    values, complaints = options(ini(
        b"\xef\xbb\xbf[trace]\r\n  # comment\r\n   hot = 7 ; why\r\n\tMIN_LENGTH : 4\r\n"
        b"[LOG]\r\nlevel=1"))
    assert complaints == []
    assert values == {**DEFAULTS, "trace.hot": "7", "trace.min_length": "4", "log.level": "1"}


@pytest.mark.parametrize("word,value", [
    ("true", "true"), ("Yes", "true"), ("ON", "true"), ("1", "true"),
    ("false", "false"), ("no", "false"), ("Off", "false"), ("0", "false")])
def test_booleans(word, value):
    assert options({"AUTOGRAPH_GENERAL_ENABLE": word}) == ({**DEFAULTS, "general.enable": value}, [])


def test_search_order(tmp_path):
    """Each place is used when those before it have no file; the first file found is the only one."""
    here, xdg, home = tmp_path / "here", tmp_path / "xdg", tmp_path / "home"
    named = tmp_path / "named.ini"
    places = [home / ".config/autograph/autograph.ini", xdg / "autograph/autograph.ini",
              here / "autograph.ini", named]
    here.mkdir()
    env = {"AUTOGRAPH_CONFIG": None, "XDG_CONFIG_HOME": None, "HOME": home}

    for number, place in enumerate(places, 11):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"[trace]\nhot = {number}\n")
        if place.is_relative_to(xdg):
            env["XDG_CONFIG_HOME"] = xdg
        if place is named:
            env["AUTOGRAPH_CONFIG"] = named
        values, complaints = options(env, cwd=here)
        assert (values["trace.hot"], complaints) == (str(number), [])

    for nothing in ("", "/dev/null"):
        env["AUTOGRAPH_CONFIG"] = nothing
        assert options(env, cwd=here) == (DEFAULTS, []), "asks for no file"


def test_with_the_rights_of_another_user(tmp_path):
    """Who runs a setuid program may not tell it where to write."""
    own = os.stat(shutil.copy(helpers.build_dir() / "tests/unit/probe", tmp_path / "probe"))
    others = [g for g in os.getgroups() if g != own.st_gid]
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID or (os.getuid() != 0 and not others):
        pytest.skip("needs a file system with setuid, and root or a second group")
    if os.getuid() == 0:
        os.chown(tmp_path / "probe", 65534, -1)
    else:
        os.chown(tmp_path / "probe", -1, others[0])
    (tmp_path / "autograph.ini").write_text("[trace]\nfile = there\n")
    env = {"AUTOGRAPH_CONFIG": None, "AUTOGRAPH_REPORT": tmp_path / "report"}
    for mode, file, report in ((0o755, "there", str(tmp_path / "report")), (0o6755, "", "")):
        os.chmod(tmp_path / "probe", mode)
        done = helpers.run([tmp_path / "probe", "options"], preload=False, sim=False, env=env, cwd=tmp_path)
        values = dict(line.split("=", 1) for line in done.stdout.splitlines()[1:])
        assert (values["trace.file"], values["report.file"], done.stderr) == (file, report, "")


def stranger(path, kind):
    """Makes the file one that somebody else may have written; skips if that takes root."""
    if kind in ("group", "others"):
        path.chmod(0o664 if kind == "group" else 0o646)
        return
    if os.getuid() != 0:
        pytest.skip("needs files of another user")
    if kind == "link":
        path.rename(path.with_name("own.ini"))
        path.symlink_to("own.ini")
    os.chown(path, 65534, -1, follow_symlinks=False)


@pytest.mark.parametrize("kind", ["owner", "link", "group", "others"])
@pytest.mark.parametrize("where", ["here", "xdg", "home"])
def test_a_file_that_somebody_else_may_have_written(tmp_path, where, kind):
    """It names files to write. One line says that it was passed over, and the next place counts."""
    here = tmp_path / "here"
    here.mkdir()
    place = {"here": here / "autograph.ini", "xdg": tmp_path / "autograph/autograph.ini",
             "home": tmp_path / ".config/autograph/autograph.ini"}[where]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("[trace]\nhot = 9\n")
    env = {"AUTOGRAPH_CONFIG": None, "HOME": tmp_path,
           "XDG_CONFIG_HOME": tmp_path if where == "xdg" else None}
    assert options(env, cwd=here)[0]["trace.hot"] == "9"
    stranger(place, kind)
    values, complaints = options(env, cwd=here)
    name = "autograph.ini" if where == "here" else str(place)
    why = "others may write it" if kind in ("group", "others") else "it belongs to user 65534"
    assert values == DEFAULTS and len(complaints) == 1
    assert complaints[0].startswith(f"{name}: passed over, since {why}")
    if where == "here":  # the next place is looked at
        home = tmp_path / ".config/autograph/autograph.ini"
        home.parent.mkdir(parents=True)
        home.write_text("[trace]\nhot = 8\n")
        values, again = options(env, cwd=here)
        assert values["trace.hot"] == "8" and again == complaints
    values, complaints = options({**env, "AUTOGRAPH_CONFIG": place}, cwd=here)
    assert (values["trace.hot"], complaints) == ("9", []), "who names it means it"


def test_the_file_s_stranger_writes_nothing(tmp_path):
    """The whole way: in a folder of somebody else's, a run writes over no file that is named there."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "autograph.ini").write_text(f"[report]\nfile = {victim}\n")
    stranger(tmp_path / "autograph.ini", "others")
    env = {"AUTOGRAPH_CONFIG": None, "XDG_CONFIG_HOME": None, "HOME": None}
    done = helpers.run(LOOP, env=env, cwd=tmp_path)
    assert "passed over" in done.stderr and len(done.stderr.splitlines()) == 1
    (tmp_path / "autograph.ini").chmod(0o644)
    done = helpers.run(LOOP, env=env, cwd=tmp_path)
    assert "no report of yours" in done.stderr and len(done.stderr.splitlines()) == 1
    assert victim.read_text() == "mine"


def test_a_relative_xdg_directory_is_ignored(tmp_path):
    (tmp_path / "rel/autograph").mkdir(parents=True)
    (tmp_path / "rel/autograph/autograph.ini").write_text("[trace]\nhot = 9\n")
    env = {"AUTOGRAPH_CONFIG": None, "XDG_CONFIG_HOME": "rel", "HOME": tmp_path}
    assert options(env, cwd=tmp_path) == (DEFAULTS, [])


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "secret", "device"])
def test_a_named_file_that_cannot_be_read(tmp_path, kind):
    path = tmp_path / "x.ini"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = "/dev/zero"
    elif kind == "secret":
        path.write_text("[trace]\nhot = 5\n")
        path.chmod(0)
        if os.access(path, os.R_OK):  # root reads everything; a path through a file, nobody does
            path = path / "x.ini"
    values, complaints = options({"AUTOGRAPH_CONFIG": path})
    assert values == DEFAULTS
    assert len(complaints) == 1 and f"AUTOGRAPH_CONFIG={path}" in complaints[0]


def test_an_unusable_file_in_the_search_order_is_passed_over(tmp_path):
    """Nobody named it, so it is no mistake of the configuration."""
    here, home = tmp_path / "here", tmp_path / "home"
    os.makedirs(here / "autograph.ini")
    os.makedirs(home / ".config/autograph")
    (home / ".config/autograph/autograph.ini").write_text("[trace]\nhot = 9\n")
    env = {"AUTOGRAPH_CONFIG": None, "XDG_CONFIG_HOME": None, "HOME": home}
    values, complaints = options(env, cwd=here)
    assert (values["trace.hot"], complaints) == ("9", [])


def test_a_huge_file_is_read_to_a_bound(ini):
    env = ini("[trace]\nhot = 9\n" + "# filler\n" * 20000 + "hot = 10\n")
    values, complaints = options(env)
    assert values["trace.hot"] == "9"
    assert len(complaints) == 1 and "64 KiB" in complaints[0]


# -- Environment --------------------------------------------------------------------

def test_the_environment_is_above_the_file(ini):
    env = {**ini("[trace]\nhot = 7\nunroll = 32\n"), "AUTOGRAPH_TRACE_HOT": "9"}
    values, complaints = options(env)
    assert (values["trace.hot"], values["trace.unroll"], complaints) == ("9", "32", [])


def test_every_option_has_its_variable():
    for name, (default, least, _, _) in table().items():
        value = least or {"trace.length": "fixed", "update.strategy": "set_params"}.get(
            name, {"true": "false", "false": "true"}.get(default, "some text"))
        variable = "AUTOGRAPH_" + name.upper().replace(".", "_")
        assert options({variable: value}) == ({**DEFAULTS, name: value}, [])


def test_the_short_name_of_the_report():
    values, complaints = options({"AUTOGRAPH_REPORT_FILE": "long", "AUTOGRAPH_REPORT": "short"})
    assert (values["report.file"], complaints) == ("short", [])


def test_variables_of_other_software_are_left_alone():
    assert options({"AUTOGRAPH_VERBOSITY": "3", "AUTOGRAPH_STRICT_CONVERSION": "1",
                    "AUTOGRAPH_DISABLE": "0"}) == (DEFAULTS, [])


def test_an_unknown_variable_of_a_known_section():
    values, complaints = options({"AUTOGRAPH_TRACE_HOTT": "5"})
    assert values == DEFAULTS
    assert complaints == ["environment: there is no option AUTOGRAPH_TRACE_HOTT, "
                          "did you mean AUTOGRAPH_TRACE_HOT?"]


# -- Mistakes ----------------------------------------------------------------------

@pytest.mark.parametrize("value", ["", "many", "1", "1001", "99999999999999999999", "3.5", "+3",
                                   "0x10", "3 4", "-3"])
def test_a_bad_number_keeps_the_default(ini, value):
    env = ini(f"# first\n[trace]\nhot = {value}\n")
    values, complaints = options(env)
    assert values == DEFAULTS
    assert complaints == [f"{env['AUTOGRAPH_CONFIG']}:3: trace.hot = \"{value}\" is not a whole "
                          "number from 2 to 1000; it stays 3"]


def test_a_bad_boolean_keeps_the_default(ini):
    env = ini("[general]\nenable = maybe\n")
    values, complaints = options(env)
    assert values == DEFAULTS
    assert complaints == [f"{env['AUTOGRAPH_CONFIG']}:2: general.enable = \"maybe\" is not true or "
                          "false; it stays true"]


def test_a_bad_variable_keeps_what_the_file_said(ini):
    values, complaints = options({**ini("[trace]\nhot = 7\n"), "AUTOGRAPH_TRACE_HOT": "x"})
    assert values["trace.hot"] == "7"
    assert complaints == ['AUTOGRAPH_TRACE_HOT: trace.hot = "x" is not a whole number from 2 to '
                          "1000; it stays 7"]


@pytest.mark.parametrize("line,meant", [
    ("[trace]\nhott = 5", "trace.hot"),
    ("[trace]\nmin-length = 5", "trace.min_length"),
    ("[trce]\nhot = 5", "trace.hot"),
    ("[graph]\nhot = 5", "trace.hot"),
    ("[hold]\nbound = 5", "hold.bound_us"),
    ("\nhot = 5", "trace.hot"),
    ("[trace]\nfoo = 5", None), ("[trace]\nhto = 5", "trace.hot"),
    ("[trace]\nwholly_different = 5", None)])
def test_an_unknown_key_and_what_was_meant(ini, line, meant):
    env = ini(line)
    values, complaints = options(env)
    assert values == DEFAULTS
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{env['AUTOGRAPH_CONFIG']}:2: there is no option ")
    assert complaints[0].endswith(f", did you mean {meant}?") == (meant is not None)


def test_an_unknown_section_is_one_mistake(ini):
    _, complaints = options(ini("[nonsense]\na = 1\nb = 2\n[trace]\nhot = x\n"))
    assert len(complaints) == 2


def test_a_line_that_is_neither(ini):
    env = ini("[trace]\nhot = 7\nthis is no setting\nunroll = 32\n")
    values, complaints = options(env)
    assert (values["trace.hot"], values["trace.unroll"]) == ("7", "32"), "the rest counts"
    assert complaints == [f"{env['AUTOGRAPH_CONFIG']}:3: neither \"[section]\" nor \"key = value\""]


def test_a_line_that_is_too_long(ini):
    """inih would read it as two, and its tail as another key."""
    env = ini("[report]\nfile = " + "x" * 300 + "\n" + "y" * 192 + " hot = 2\n[trace]\nhot = 5\n")
    values, complaints = options(env)
    assert values == {**DEFAULTS, "trace.hot": "5"}
    path = env["AUTOGRAPH_CONFIG"]
    assert [c.split(" ")[0] for c in complaints] == [f"{path}:2:", f"{path}:3:"]


def test_a_string_that_is_too_long():
    values, complaints = options({"AUTOGRAPH_REPORT": "x" * 5000})
    assert values == DEFAULTS
    assert len(complaints) == 1 and "longer than 1023 bytes" in complaints[0]


def test_complaints_are_bounded(ini):
    _, complaints = options(ini("[trace]\n" + "hot = x\n" * 100))
    assert len(complaints) == 17
    assert complaints[-1] == "further messages are left out"


def test_rubbish_is_survived(ini):
    rubbish = bytes(range(256)) * 40
    values, complaints = options(ini(rubbish + b"\n[trace]\nhot = 5\n"))
    assert values["trace.hot"] == "5"
    assert len(complaints) <= 17


def test_no_control_characters_are_printed(ini):
    done = helpers.run([helpers.build_dir() / "tests/unit/probe", "options"], preload=False,
                       sim=False, env=ini("[trace]\nhot = \x1b[31mred\x07\n"))
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
    assert '"?[31mred?"' in done.stderr


# -- Log -------------------------------------------------------------------------

@pytest.mark.parametrize("level,expected", [
    (0, ["always"]),
    (1, ["always", "warning"]),
    (2, ["always", "warning", "note on?two lines"])])
def test_the_log_prints_what_its_level_allows(level, expected):
    _, lines = probe("log", {"AUTOGRAPH_LOG_LEVEL": level})
    assert lines[:len(expected)] == expected
    if level == 0:
        assert len(lines) == 1
    else:
        warnings = [line for line in lines if line.startswith("warning")]
        assert len(warnings) == 16, "a bounded number"
        assert lines[-1] == "further messages are left out"


def test_a_long_message_is_cut():
    _, lines = probe("log", {"AUTOGRAPH_LOG_LEVEL": 3})
    assert [line for line in lines if line.startswith("0000")][0].strip("0") == ""


# -- With the library ---------------------------------------------------------------

LOOP = [helpers.sample("constant-sim"), "--iterations", "50", "--warmup", "2", "--kernels", "8"]


@pytest.mark.parametrize("lost", ["reader", "room"])
def test_a_message_that_nobody_gets_ends_nothing(tmp_path, lost):
    """It would by SIGPIPE, or SIGXFSZ."""
    if lost == "reader":
        reader, stderr = os.pipe()
        os.close(reader)
    else:
        stderr = os.open(tmp_path / "stderr", os.O_WRONLY | os.O_CREAT)
    with open(stderr, "wb") as stderr:
        done = subprocess.run(
            [helpers.build_dir() / "tests/unit/probe", "options"], stdout=subprocess.PIPE, stderr=stderr,
            env=helpers.environment(False, False, {"AUTOGRAPH_TRACE_HOT": "bad"}), check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 0 and b"trace.hot=3" in done.stdout


def test_a_program_runs_in_spite_of_mistakes(ini):
    plain = helpers.run(LOOP, preload=False).stdout.splitlines()[0]
    done = helpers.run(LOOP, env=ini("[trace]\nhot = many\n[nonsense]\nx = 1\n"))
    assert done.stdout.splitlines()[0] == plain
    assert len(done.stderr.splitlines()) == 2
    assert helpers.run(LOOP, env=ini("[trace]\nhot = 5\n")).stderr == "", "nothing else is printed"


@pytest.mark.parametrize("off", [{"AUTOGRAPH_DISABLE": "1"}, {"AUTOGRAPH_GENERAL_ENABLE": "false"}])
def test_disabled_means_untouched(off):
    """The driver sees the very same calls."""
    def calls(preload):
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch, "calls")
            helpers.run(LOOP, preload=preload, env={"AGSIM_CALLS": file, **off})
            return file.read_text()
    assert calls(preload=True) == calls(preload=False) != ""

# SPDX-License-Identifier: MIT
"""Files that commands write: the library's rule for its own files holds for them (docs/formats.md)."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

import helpers
import test_report_command
from commands import autograph, message
from tracefiles import example

FOREIGN = "int main(void) { return 0; }\n"


@pytest.fixture
def command(tmp_path):
    """{option: a function that has the command write to a place}; bench is for refusals, which come before its runs."""
    (tmp_path / "in.json").write_text(json.dumps(test_report_command.third_format()))
    example().write(tmp_path / "in.trace")

    def begin(option):
        words = {"--html": ["report", "in.json"], "--chrome": ["trace", "in.trace"], "--json": ["bench"]}[option]
        return lambda place, status=0, **how: autograph(
            *words, option, place, *(["--", "/no/such"] if option == "--json" else []), status=status,
            **{"cwd": tmp_path, **how})
    return begin


ALL = pytest.mark.parametrize("option", ["--html", "--chrome", "--json"])
WRITING = pytest.mark.parametrize("option", ["--html", "--chrome"])


def refused(command, place, words):
    before = (place.lstat().st_ino, place.read_bytes())
    assert words in message(command(place, status=2))
    assert before == (place.lstat().st_ino, place.read_bytes())


@ALL
def test_another_file_stays_as_it_is(command, tmp_path, option):
    for name, text in ("heat.cu", FOREIGN), ("other.json", "{}\n"), ("other.html", "<!DOCTYPE html><html>"):
        (tmp_path / name).write_text(text)
        refused(command(option), tmp_path / name, "so it stays as it is; name another file")
    for name in "in.json", "in.trace":
        refused(command(option), tmp_path / name, "so it stays as it is; name another file")


@ALL
def test_a_directory_is_no_file(command, tmp_path, option):
    assert "is a directory" in message(command(option)(tmp_path, status=2))


@WRITING
def test_an_older_and_an_empty_one_are_written_over(command, tmp_path, option):
    place = tmp_path / "out"
    place.touch()
    place.chmod(0o600)
    for _ in range(2):
        command(option)(place)
        text = place.read_text()
        assert len(text) > 1000
        place.write_text(text[:len(text) // 2])
    assert sorted(os.listdir(tmp_path)) == ["in.json", "in.trace", "out"], "no temporary file is left"


@WRITING
def test_its_rights_are_those_of_the_umask(command, tmp_path, option):
    command(option)(tmp_path / "out", preexec_fn=lambda: os.umask(0o027))
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of another user")
@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("public", [True, False])
@WRITING
def test_what_another_user_has_made_in_a_public_directory(command, tmp_path, option, kind, public):
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o1777 if public else 0o755)
    command(option)(tmp_path / "target")
    (tmp_path / "target").rename(place / "out" if kind == "file" else tmp_path / "older")
    if kind == "link":
        (place / "out").symlink_to(tmp_path / "older")
    os.chown(place / "out", 65534, 65534, follow_symlinks=False)
    if public:
        refused(command(option), place / "out", "another user has made it, so it stays as it is")
    else:
        command(option)(place / "out")
        assert not (place / "out").is_symlink() and (place / "out").stat().st_uid == 0


@ALL
def test_a_link_that_leads_nowhere(command, tmp_path, option):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    assert "No such file" in message(command(option)(tmp_path / "out", status=2))
    assert not (tmp_path / "nowhere").exists()


@WRITING
def test_standard_output(command, tmp_path, option):
    """By its name, by /dev/stdout that is a pipe, and by /dev/stdout that is a file with something in it."""
    command(option)(tmp_path / "out")
    wanted = (tmp_path / "out").read_text()
    assert command(option)("-").stdout == wanted
    assert not pathlib.Path(tmp_path, "-").exists()
    assert command(option)("/dev/stdout").stdout.startswith(wanted)
    with open(tmp_path / "all", "w", encoding="utf-8") as file:
        file.write("before\n")
        file.flush()
        words = {"--html": "report", "--chrome": "trace"}[option], f"in.{'json' if option == '--html' else 'trace'}"
        subprocess.run([helpers.build_dir() / "autograph", *words, option, "/dev/stdout"], stdout=file, check=True,
                       cwd=tmp_path, env=helpers.environment(preload=False, env={
                           "LD_PRELOAD": helpers.sanitizer_runtime()}), timeout=helpers.TIMEOUT)
    assert (tmp_path / "all").read_text() == "before\n" + wanted


@WRITING
def test_a_device_and_a_full_one(command, option):
    assert command(option)("/dev/null").stderr == ""
    assert "No space left" in message(command(option)("/dev/full", status=2))
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(os.getuid() != 0, reason="needs a user for whom rights count")
@WRITING
def test_a_file_that_can_be_written_and_not_replaced(command, tmp_path, option):
    """Its directory belongs to somebody else."""
    drop = {"preexec_fn": lambda: os.setuid(65534)}
    for needed in (helpers.build_dir() / "autograph", helpers.SOURCE / "src/cmd/main.py"):
        if subprocess.run(["test", "-r", needed], check=False, **drop).returncode != 0:
            pytest.skip("the build or the sources are not for others to see")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        for name in "in.json", "in.trace":
            shutil.copy(tmp_path / name, place)
        out = pathlib.Path(place, "out")
        out.touch()
        os.chown(out, 65534, -1)
        command(option)(out, cwd=place, **drop)
        text = out.read_text()
        out.write_text(text + "x" * 100)
        command(option)(out, cwd=place, **drop)
        assert out.read_text() == text and len(text) > 1000

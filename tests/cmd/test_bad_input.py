# SPDX-License-Identifier: MIT
"""Whatever a file holds, a command ends with a message: files with random mistakes."""
import io
import json
import random
import subprocess

import pytest

import commands
import helpers
import test_report_command
import tracefiles

Failure = commands.module("common").Failure
ROUNDS = 400


def damaged(data, seed):
    """The bytes with a few of them changed, cut out, doubled, or cut off."""
    rng = random.Random(seed)
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at + 4] = rng.choice([b"\xff\xff\xff\xff", bytes(4), b"\1\0\0\0"])
        elif kind == 2:
            del data[at:at + rng.randint(1, 64)]
        elif kind == 3:
            data[at:at] = data[at:at + rng.randint(1, 64)]
        else:
            del data[max(1, at):]
        if not data:
            data = bytearray(b"x")
    return bytes(data)


def test_traces(tmp_path):
    """They are read, or refused; what was read can be shown and compared."""
    tracefile, convert, compare, timeline = map(commands.module,
                                                ("tracefile", "convert", "compare", "timeline"))
    good, path = tracefiles.example().data(), tmp_path / "t"
    refused = 0
    for seed in range(ROUNDS):
        path.write_bytes(damaged(good, seed))
        try:
            trace = tracefile.Trace(str(path))
        except Failure:
            refused += 1
            continue
        convert.write_text(trace, None, io.StringIO())
        out = io.StringIO()
        convert.write_chrome(trace, out)
        json.loads(out.getvalue())
        timeline.show(trace)
        try:
            compare.judge(trace, trace)
        except Failure:
            pass
    assert 0 < refused < ROUNDS


def test_reports(tmp_path):
    report, page = map(commands.module, ("report", "page"))
    good, path = json.dumps(test_report_command.third_format()).encode(), tmp_path / "r"
    refused = 0
    for seed in range(ROUNDS):
        path.write_bytes(damaged(good, seed))
        try:
            data = report.load(str(path))
            report.shown(path, lambda: report.text(data))
            report.shown(path, lambda: page.body(data, None))
        except Failure:
            refused += 1
    assert 0 < refused < ROUNDS


@pytest.mark.parametrize("value", [None, 0, -1, "x", [], {}, [[]], 1e999, True])
def test_reports_with_other_types(tmp_path, value):
    """Each field of a report in turn, also those inside."""
    report, page = map(commands.module, ("report", "page"))

    def places(data):
        for key in list(data if isinstance(data, dict) else range(len(data))):
            yield data, key
            if isinstance(data[key], (dict, list)):
                yield from places(data[key])

    number = len(list(places(test_report_command.third_format())))
    for i in range(number):
        data = test_report_command.third_format()
        inner, key = list(places(data))[i]
        inner[key] = value
        (tmp_path / "r").write_text(json.dumps(data))
        try:
            data = report.load(str(tmp_path / "r"))
            report.shown("r", lambda: report.text(data))
            report.shown("r", lambda: page.body(data, None))
        except Failure:
            pass


def test_programs(tmp_path):
    elf = commands.module("elf")
    source = tmp_path / "p.c"
    source.write_text("int main(void) { return 0; }")
    subprocess.run([*helpers.config()["cc"].split(), source, "-o", tmp_path / "good"], check=True)
    good, path = (tmp_path / "good").read_bytes(), tmp_path / "p"
    for seed in range(ROUNDS):
        data = damaged(good[:0x1000], seed) + good[0x1000:]
        path.write_bytes(data)
        path.chmod(0o755)
        try:
            binary, _ = elf.program_of(str(path))
            elf.obstacle(binary, str(helpers.library()))
        except Failure:
            pass


def test_configurations(tmp_path):
    options = commands.module("options")
    good = (helpers.SOURCE / "conf/autograph.ini").read_bytes().replace(b"\n;", b"\n")
    path = tmp_path / "i"
    for seed in range(100):
        path.write_bytes(damaged(good, seed))
        options.effective({"AUTOGRAPH_CONFIG": str(path)})

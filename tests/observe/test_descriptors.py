# SPDX-License-Identifier: MIT
"""A program may close any descriptor: the library's files are none of those, and no file of the program
ever holds what the library writes."""
import json

import pytest

import compiled
import helpers
import trace_records as tracefile
from trace_records import Trace

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer has descriptors of its own")
FORBIDDEN = ["-", "close_range"]  # the ways to a table of descriptors of its own


def run(tmp_path, scenario, forbidden):
    """What it has said, and the trace."""
    done = helpers.run([compiled.program("observe_closes"), scenario, forbidden],
                       env={"AUTOGRAPH_TRACE_FILE": tmp_path / "trace"})
    return done.stderr.splitlines(), Trace(tmp_path / "trace")


@pytest.mark.parametrize("forbidden", FORBIDDEN)
@pytest.mark.parametrize("scenario", ["writes", "rounds"])
def test_a_program_that_closes_all_descriptors(tmp_path, scenario, forbidden):
    """Also between the library's call of write() and the kernel's."""
    lines, trace = run(tmp_path, scenario, forbidden)
    assert lines == [] and trace.complete
    (ops,) = trace.ops.values()
    assert [op.sequence for op in ops] == list(range(1, len(ops) + 1)) and len(ops) > 2400


@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_a_pipe_that_the_program_closes_has_an_end(tmp_path, forbidden):
    lines, trace = run(tmp_path, "pipes", forbidden)
    assert lines == [] and trace.complete and trace.of(tracefile.OP)


def test_without_descriptors_of_its_own_there_is_no_trace(tmp_path):
    done = helpers.run([compiled.program("observe_closes"), "rounds", "both"],
                       env={"AUTOGRAPH_TRACE_FILE": tmp_path / "trace",
                            "AUTOGRAPH_REPORT": tmp_path / "report"})
    (line,) = done.stderr.splitlines()
    assert "is not written: close_range and unshare are refused here" in line
    assert not (tmp_path / "trace").exists()
    assert json.loads((tmp_path / "report").read_text())["trace_file"]["error"]

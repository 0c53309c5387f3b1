# SPDX-License-Identifier: MIT
"""Finds the build that is tested: $AG_BUILD, or ./build beside the sources. Chooses the tests of the scale
in force. Says at once what fails, and in the end what was slow."""
import collections
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import helpers  # noqa: E402  (needs the path above)
import scales  # noqa: E402

SLOWEST = 10  # tests to name in the end


os.umask(0o022)  # a configuration that others may write is not obeyed


def pytest_configure(config):
    if helpers.SCALE not in helpers.SCALES:
        raise pytest.UsageError(f"AG_SCALE={helpers.SCALE}: give {', '.join(helpers.SCALES)}")
    missing = helpers.missing_from_build()
    if missing:
        raise pytest.UsageError(
            f"{missing} is not there: configure and build first, and name the build directory in "
            "AG_BUILD (./scripts/check does it all)")
    if not hasattr(config, "workerinput"):  # of several processes, the one that hears of all tests
        config.pluginmanager.register(Results(config))


def pytest_collection_modifyitems(config, items):
    if not os.environ.get("AG_SCALE"):
        return
    left_out = scales.left_out(helpers.SCALE)
    deselected = [item for item in items if left_out & {item.path.name, f"{item.path.name}::{item.originalname}"}]
    if deselected:
        items[:] = [item for item in items if item not in set(deselected)]
        config.hook.pytest_deselected(items=deselected)


@pytest.fixture(autouse=True)
def strictness():
    """Of programs that helpers.run() has not run."""
    yield
    helpers.check_strict()


class Results:
    """Names a test as soon as it fails, and counts the results of other builds with these.

    $AG_RESULTS: the results of all builds, lines of fields with tabs between them:
        failed  BUILD: TEST
        slow    SECONDS  BUILD: TEST
        passed  BUILD: how many
        skipped BUILD: how many
    """

    def __init__(self, config):
        self.config = config
        found = helpers.config()
        self.build = found["sanitize"] or ("clang" if "clang" in found["cc"] else "plain")
        self.file = pathlib.Path(os.environ.get("AG_RESULTS") or os.devnull)
        self.others = [line.split("\t") for line in self.file.read_text(encoding="utf-8").splitlines()]
        self.seconds = collections.Counter()

    def add(self, *fields):
        with self.file.open("a", encoding="utf-8") as file:
            print(*fields, sep="\t", file=file)

    def note(self, report):
        self.seconds[report.nodeid] += getattr(report, "duration", 0)
        if report.failed:
            self.config.get_terminal_writer().line(f"\nfailed: {report.nodeid}")
            self.add("failed", f"{self.build}: {report.nodeid}")

    pytest_runtest_logreport = pytest_collectreport = note

    def pytest_terminal_summary(self, terminalreporter):
        slow = [("slow", f"{seconds:.2f}", f"{self.build}: {test}")
                for test, seconds in self.seconds.most_common(SLOWEST) if seconds >= 0.01]
        counts = [(kind, f"{self.build}: {len(terminalreporter.stats.get(kind, ()))}") for kind in ("passed", "skipped")]
        for fields in (*slow, *counts):
            self.add(*fields)
        terminalreporter.section(f"slowest {SLOWEST} tests")
        slow += [fields for fields in self.others if fields[0] == "slow"]
        for _, seconds, test in sorted(slow, key=lambda fields: -float(fields[1]))[:SLOWEST]:
            terminalreporter.line(f"{seconds:>7} s  {test}")
        for kind, text in (fields for fields in self.others if fields[0] != "slow"):
            count = 1 if kind == "failed" else int(text.split()[-1])
            terminalreporter.stats.setdefault(kind, []).extend(count * [pytest.TestReport(
                text, ("", None, ""), {}, kind, None, "call")])


@pytest.fixture(scope="session")
def library():
    """The built libautograph.so."""
    return helpers.library()


@pytest.fixture(scope="session")
def build():
    return helpers.build_dir()

# SPDX-License-Identifier: MIT
"""Finds the build that is tested: $AG_BUILD, or ./build beside the sources. Says what fails."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import helpers  # noqa: E402  (needs the path above)


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
        config.pluginmanager.register(Failures(config))


class Failures:
    """Names a test as soon as it fails. $AG_FAILURES: the list of failures of all builds, a line each."""

    def __init__(self, config):
        self.config = config
        self.build = helpers.config()["sanitize"] or "plain"
        self.file = pathlib.Path(os.environ.get("AG_FAILURES") or os.devnull)
        self.others = self.file.read_text(encoding="utf-8").splitlines()

    def note(self, report):
        if report.failed:
            self.config.get_terminal_writer().line(f"\nfailed: {report.nodeid}")
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"{self.build}: {report.nodeid}\n")

    pytest_runtest_logreport = pytest_collectreport = note

    def pytest_terminal_summary(self, terminalreporter):
        """The other builds' failures are in the summary and in its last line."""
        for line in self.others:
            terminalreporter.stats.setdefault("failed", []).append(pytest.TestReport(
                line, ("", None, ""), {}, "failed", None, "call"))


@pytest.fixture(scope="session")
def library():
    """The built libautograph.so."""
    return helpers.library()


@pytest.fixture(scope="session")
def build():
    return helpers.build_dir()

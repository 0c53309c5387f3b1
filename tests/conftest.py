# SPDX-License-Identifier: MIT
"""Finds the build that is tested: $AG_BUILD, or ./build beside the sources. Chooses the tests of the scale
in force. Says at once what fails, and in the end what was slow, and what each file cost."""
import collections
import os
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).parent
sys.path[:0] = [str(TESTS), *(str(folder) for folder in sorted({path.parent for path in TESTS.glob("*/test_*.py")}))]

import budget  # noqa: E402  (needs the path above)
import draw  # noqa: E402
import helpers  # noqa: E402
import scales  # noqa: E402

SLOWEST = 10  # tests to name in the end


os.umask(0o022)  # a configuration that others may write is not obeyed


def pytest_configure(config):
    if helpers.SCALE not in helpers.SCALES:
        raise pytest.UsageError(f"AG_SCALE={helpers.SCALE}: give {', '.join(helpers.SCALES)}")
    if not draw.SEED.isdigit():
        raise pytest.UsageError(f"AG_SEED={draw.SEED}: give a number")
    missing = helpers.missing_from_build()
    if missing:
        raise pytest.UsageError(
            f"{missing} is not there: configure and build first, and name the build directory in "
            "AG_BUILD (./scripts/check does it all)")
    if not hasattr(config, "workerinput"):  # of several processes, the one that hears of all tests
        config.pluginmanager.register(Results(config))
        if os.environ.get("AG_SCALE"):  # the others are to know the same
            files = scales.changed()
            os.environ["AG_CHANGED"] = "?" if files is None else "\n".join(files)


def entries(item):
    """What lists of tests call a test: its file, and itself with all of its cases."""
    return item.path.name, f"{item.path.name}::{item.originalname}"


def pytest_ignore_collect(collection_path):
    """Files that do not run are not read either: that is half of the time for it, in each process."""
    if os.environ.get("AG_SCALE") and collection_path.name in scales.left_out(helpers.SCALE, scales.changed()):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    if not os.environ.get("AG_SCALE"):
        return
    left_out = scales.left_out(helpers.SCALE, scales.changed())
    tests = collections.defaultdict(list)
    for item in items:
        if not left_out & set(entries(item)):
            tests[entries(item)].append(item)
    kept = {item for names, cases in tests.items() for item in draw.part(
        scales.share(names, helpers.SCALE, helpers.config()["sanitize"]), cases, lambda item: item.nodeid)}
    deselected = [item for item in items if item not in kept]
    if deselected:
        items[:] = [item for item in items if item in kept]
        config.hook.pytest_deselected(items=deselected)
    items[:] = slow_ones_spread(items)


def slow_ones_spread(items):
    """In the first half, evenly: several processes take rows of tests, and none is to be left with many slow ones in
    the end. Slow is what may cost half a second, by the budget of its file."""
    budgets = {**budget.read().get("normal", {}), **budget.read().get("full", {})}
    cases = collections.Counter(item.path.name for item in items)
    slow = [item for item in items if budgets.get(item.path.name, 0) >= 0.5 * cases[item.path.name]]
    others = [item for item in items if item not in set(slow)]
    each = max(1, len(others) // 2 // max(1, len(slow)))
    rows = [slow[i:i + 1] + others[i * each:(i + 1) * each] for i in range(len(slow))]
    return [item for row in rows for item in row] + others[len(slow) * each:]


@pytest.fixture(autouse=True)
def strictness():
    """Of programs that helpers.run() has not run."""
    yield
    helpers.check_strict()


def pytest_collection_finish(session):
    session.cpu = budget.used()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Gives the report the CPU seconds since the one before it in this process."""
    outcome = yield
    before, item.session.cpu = item.session.cpu, budget.used()
    outcome.get_result().cpu = item.session.cpu - before


class Results:
    """Names a test as soon as it fails, and counts the results of other builds with these.

    $AG_RESULTS: the results of all builds, lines of fields with tabs between them:
        failed  BUILD: TEST
        slow    SECONDS  BUILD: TEST
        passed  BUILD: how many
        skipped BUILD: how many
        cost    BUILD: CPU seconds and cases
    """

    def __init__(self, config):
        self.config = config
        found = helpers.config()
        self.build = found["sanitize"] or ("clang" if "clang" in found["cc"] else "plain")
        self.file = pathlib.Path(os.environ.get("AG_RESULTS") or os.devnull)
        self.others = [line.split("\t") for line in self.file.read_text(encoding="utf-8").splitlines()]
        self.seconds = collections.Counter()
        self.cpu, self.cases = collections.Counter(), collections.Counter()  # of each file

    def add(self, *fields):
        with self.file.open("a", encoding="utf-8") as file:
            print(*fields, sep="\t", file=file)

    def note(self, report):
        self.seconds[report.nodeid] += getattr(report, "duration", 0)
        file = pathlib.Path(report.nodeid.split("::")[0]).name
        self.cpu[file] += getattr(report, "cpu", 0)
        self.cases[file] += getattr(report, "when", "") == "call"
        if report.failed:
            self.config.get_terminal_writer().line(f"\nfailed: {report.nodeid}")
            self.add("failed", f"{self.build}: {report.nodeid}")

    pytest_runtest_logreport = pytest_collectreport = note

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        """A file over its budget is a failure of the whole run."""
        self.budgets = budget.of(self.build, os.environ.get("AG_SCALE"))
        self.over = budget.over(self.cpu, self.budgets, budget.slowness())
        if self.over and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        for line in self.over:
            self.add("failed", f"{self.build}: {line}")

    def pytest_terminal_summary(self, terminalreporter):
        slow = [("slow", f"{seconds:.2f}", f"{self.build}: {test}")
                for test, seconds in self.seconds.most_common(SLOWEST) if seconds >= 0.01]
        counts = [(kind, f"{self.build}: {len(terminalreporter.stats.get(kind, ()))}")
                  for kind in ("passed", "skipped")]
        cost = ("cost", f"{self.build}: {sum(self.cpu.values()):.0f} CPU seconds, {sum(self.cases.values())} cases")
        for fields in (*slow, *counts, cost):
            self.add(*fields)
        terminalreporter.section(f"slowest {SLOWEST} tests")
        slow += [fields for fields in self.others if fields[0] == "slow"]
        for _, seconds, test in sorted(slow, key=lambda fields: -float(fields[1]))[:SLOWEST]:
            terminalreporter.line(f"{seconds:>7} s  {test}")
        if os.environ.get("AG_SCALE"):
            self.costs(terminalreporter, cost)
        stats = [fields for fields in self.others if fields[0] in ("failed", "passed", "skipped")]
        for kind, text in [*stats, *(("failed", line) for line in self.over)]:
            count = 1 if kind == "failed" else int(text.split()[-1])
            terminalreporter.stats.setdefault(kind, []).extend(count * [pytest.TestReport(
                text, ("", None, ""), {}, kind, None, "call")])

    def costs(self, terminalreporter, own):
        terminalreporter.section("CPU seconds, the budget, and cases of each file")
        for line in budget.table(self.cpu, self.cases, self.budgets):
            terminalreporter.line(line)
        for _, text in [*(fields for fields in self.others if fields[0] == "cost"), own]:
            terminalreporter.line(text)
        terminalreporter.line(f"drawn with AG_SEED={draw.SEED}; ./scripts/check --seed N draws other cases")


@pytest.fixture(scope="session")
def library():
    """The built libautograph.so."""
    return helpers.library()


@pytest.fixture(scope="session")
def build():
    return helpers.build_dir()

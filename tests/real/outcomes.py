# SPDX-License-Identifier: MIT
"""A plugin of pytest, loaded by tests/real/suites: writes each test's outcome at once, so that those of a
process that dies are known, too.

OUTCOMES_FILE: a line of JSON for each test that begins, and another one when it has ended. Tests that are
in the file already are left out. OUTCOMES_ONLY: the only test to run.
"""
import json
import os

FILE = os.environ["OUTCOMES_FILE"]
ONLY = os.environ.get("OUTCOMES_ONLY")
parts = {}  # of the tests under way: what setup, call and teardown said


def say(test, **more):
    with open(FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, **more}) + "\n")


def why(report):
    lines = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr or "").strip().splitlines()
    return lines[-1][:300] if lines else ""


def pytest_collection_modifyitems(config, items):
    known = set()
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            known = {json.loads(line)["test"] for line in file}
    keep = [item for item in items if (item.nodeid == ONLY if ONLY else item.nodeid not in known)]
    left = [item for item in items if item not in keep]
    items[:] = keep
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_collectreport(report):
    if report.failed:
        say(f"{report.nodeid} (collection)", outcome="error", why=why(report))


def pytest_runtest_logstart(nodeid):
    say(nodeid)


def outcome(report):
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return "error" if report.failed and report.when != "call" else report.outcome


def pytest_runtest_logreport(report):
    said = parts.setdefault(report.nodeid, ["passed", ""])
    if outcome(report) != "passed" and said[0] in ("passed", "xpassed"):
        said[:] = [outcome(report), why(report)]
    if report.when == "teardown":
        word, reason = parts.pop(report.nodeid)
        say(report.nodeid, outcome=word, why=reason)

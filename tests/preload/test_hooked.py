# SPDX-License-Identifier: MIT
"""Tools that patch what dlsym() gives them (tests/programs/hooked.c): each function for memory that they
hook begins with instructions which they know, and calls pass through the patch to the driver."""
import pytest

import compiled
import helpers

WAYS = [{}, {"AUTOGRAPH_TRACE_FILE": "{}/a.trace"}, {"AUTOGRAPH_DISABLE": "1"}]


@pytest.fixture(scope="module", name="hooked")
def fixture_hooked():
    return compiled.program("hooked")


def environment(way, tmp_path):
    return {name: value.format(tmp_path) for name, value in way.items()}


def words(text):
    return dict(line.split() for line in text.splitlines())


@pytest.mark.parametrize("way", WAYS[:2], ids=["plain", "trace"])
def test_they_know_how_each_function_begins(hooked, tmp_path, way):
    rules = words(helpers.run([hooked, "rules"], env=environment(way, tmp_path)).stdout)
    assert len(rules) == 16
    assert {name: rule for name, rule in rules.items() if rule != "far"} == {}


@pytest.mark.parametrize("way", WAYS, ids=["plain", "trace", "disabled"])
@pytest.mark.parametrize("jump", ["near", "far"])
def test_calls_pass_through_the_patch(hooked, tmp_path, jump, way):
    plain = helpers.run([hooked, jump], preload=False)
    ours = helpers.run([hooked, jump], env=environment(way, tmp_path))
    assert ours.stdout == plain.stdout == helpers.run([hooked, "none"], preload=False).stdout
    counts = words(ours.stderr)
    if "AUTOGRAPH_DISABLE" in way:  # the driver's own functions, which begin as they like
        assert counts == words(plain.stderr)
    else:
        once = {name: "20" for name in counts}
        assert counts == {**once, "cuMemFree_v2": "60", "cuMemFreeAsync": "40"}

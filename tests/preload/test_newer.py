# SPDX-License-Identifier: MIT
"""Functions and launch attributes that are newer than the CUDA headers of the build may be."""
import pytest

import compiled
import helpers

ATTRIBUTES = {"preferred": 11, "nvlink": 16, "cluster": 17, "shared": 18}


def both(scenario, env=None):
    """The runs with and without the library, which must be equal."""
    program = compiled.program("newer")
    with_it = helpers.run_logged([program, scenario], env=env)
    without = helpers.run_logged([program, scenario], env=env, preload=False)
    assert (with_it.stdout, with_it.log) == (without.stdout, without.log)
    return with_it


def share(ran):
    return ran.report["ops"]["replayed"] / ran.report["ops"]["total"]


@pytest.mark.parametrize("scenario", [*ATTRIBUTES, "modes"])
def test_attributes_are_those_of_the_node(scenario):
    ran = both(scenario)
    assert ran.stdout.startswith("refused 0\n") and share(ran) > 0.8 and ran.report["errors"] == 0
    assert any("modes=" in op for ops in ran.log.values() for op in ops)


def test_a_mode_that_leaves_it_to_the_function():
    """Its limit counts then, and is compared at each launch."""
    ran = both("limit")
    assert ran.stdout.startswith("refused 40\n") and share(ran) > 0.6


@pytest.mark.parametrize("scenario", [*ATTRIBUTES.items(), *(("modes", n) for n in ATTRIBUTES.values())])
def test_attributes_that_a_node_does_not_take(scenario):
    """Their launches are eager from the first refusal on, and the others are replayed."""
    ran = both(scenario[0], env={"AGSIM_LAUNCH_ONLY": scenario[1]})
    assert ran.stdout.startswith("refused 0\n")
    assert 0.4 < share(ran) < 0.9 and ran.report["errors"] == 1


@pytest.mark.parametrize("scenario, refused", zip(ATTRIBUTES, [0, 0, 80, 80]))
def test_attributes_that_the_driver_does_not_know(scenario, refused):
    """It says so at each launch."""
    ran = both(scenario, env={"AGSIM_DRIVER_VERSION": 13000})
    assert ran.stdout.startswith(f"refused {refused}\n") and share(ran) > 0.5


def test_captures_for_a_graphics_interface():
    """What is captured is not held, and never runs here."""
    ran = both("graphics")
    assert ran.report["flushes"]["capture"] == 7 and share(ran) > 0.7


def test_functions():
    assert both("functions").report["ops"]["replayed"] > 200

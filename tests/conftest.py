# SPDX-License-Identifier: MIT
"""Finds the build that is tested: $AG_BUILD, or ./build beside the sources."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import helpers  # noqa: E402  (needs the path above)


os.umask(0o022)  # a configuration that others may write is not obeyed


def pytest_configure(config):
    missing = helpers.missing_from_build()
    if missing:
        raise pytest.UsageError(
            f"{missing} is not there: configure and build first, and name the build directory in "
            "AG_BUILD (./scripts/check does it all)")


@pytest.fixture(scope="session")
def library():
    """The built libautograph.so."""
    return helpers.library()


@pytest.fixture(scope="session")
def build():
    return helpers.build_dir()

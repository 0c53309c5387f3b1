# SPDX-License-Identifier: MIT
"""All C and CUDA sources are as clang-format, with the file in the tree, writes them."""
import itertools
import re
import shutil
import subprocess

import pytest

import helpers

CLANG_FORMAT = shutil.which("clang-format")
VERSION = 14  # others wrap some lines elsewhere


def sources():
    """Not what a build beside the sources has made."""
    folders = ("src", "include", "tests")
    found = (path for folder in folders for ending in ("c", "h", "cu")
             for path in (helpers.SOURCE / folder).rglob(f"*.{ending}"))
    return sorted(str(path.relative_to(helpers.SOURCE)) for path in found)


def complaints(*arguments, **options):
    done = subprocess.run([CLANG_FORMAT, "--dry-run", *arguments], cwd=helpers.SOURCE, capture_output=True,
                          text=True, **options)
    return re.findall(r"^(\S+?):(\d+):", done.stderr, flags=re.M)


@pytest.fixture(scope="module", autouse=True)
def formatter():
    if CLANG_FORMAT is None:
        pytest.skip("there is no clang-format")
    version = subprocess.run([CLANG_FORMAT, "--version"], capture_output=True, text=True, check=True).stdout
    if f"version {VERSION}." not in version:
        pytest.skip(f"this is not clang-format {VERSION}: {version}")


def test_sources_are_formatted():
    names = sources()
    assert len(names) > 200
    batches = itertools.zip_longest(*[iter(names)] * 50)
    wrong = [place for batch in batches for place in complaints(*filter(None, batch))]
    assert not wrong, "run clang-format -i on these files"


def test_a_line_that_is_too_long_is_found():
    assert complaints("--assume-filename=src/x.c", input=f"int a; /* {'word ' * 30}*/\n")

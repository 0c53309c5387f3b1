# SPDX-License-Identifier: MIT
# Sourced by demo, check and sanitize: goes to the top of the tree; what more than one of them does.
# AG_CONFIGURE in the environment: more arguments for configure.
# shellcheck shell=sh
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)

# step NAME WHAT COMMAND...: says what is done; its output goes to build/NAME.log, shown if it fails.
step() {
    name=$1
    printf '==> %s\n' "$2"
    shift 2
    mkdir -p build
    if ! "$@" >"build/$name.log" 2>&1 </dev/null; then
        printf 'failed: %s\nThe end of build/%s.log:\n' "$*" "$name" >&2
        tail -n 40 "build/$name.log" >&2
        exit 1
    fi
}

# The list of what failed begins anew, unless the calling script has begun it. A line each: PART: TEST.
begin_failures() {
    [ -z "${AG_FAILURES:-}" ] || return 0
    AG_FAILURES=$PWD/build/failures
    export AG_FAILURES
    mkdir -p build
    : >"$AG_FAILURES"
}

python_of() { sed -n 's/^PYTHON = //p' "$1/Makefile"; }

# Pytest's arguments that have BUILD's tests run on all processors, where its xdist is there.
on_all_processors() { ! "$(python_of "$1")" -c 'import xdist' 2>/dev/null || echo "-n $jobs"; }

# run_tests BUILD ARGUMENT...: runs the tests of BUILD; the arguments go to pytest. Its summary names and
# counts what the list of failures has from other builds, too (tests/conftest.py).
run_tests() {
    build=$1
    shift
    AG_BUILD=$PWD/$build PYTHONDONTWRITEBYTECODE=1 "$(python_of "$build")" -m pytest -q --durations=10 "$@"
}

configured_with() { [ -x build/config.status ] && build/config.status --config | grep -qF -e "$1"; }

# prepare PURPOSE [FLAG...]: what PURPOSE needs is installed (see setup), and build/Makefile is there,
# configured with these flags.
prepare() {
    ./scripts/setup "$1"
    shift
    if [ ! -x configure ] || [ configure -ot configure.ac ]; then
        step autoreconf 'generating configure (autoreconf -fi)' autoreconf -fi
    fi
    fresh=yes
    for flag in '' "$@" ${AG_CONFIGURE:-}; do
        configured_with "$flag" || fresh=no
    done
    if [ $fresh = no ]; then
        # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; words are wanted
        step configure "configuring in build/ (${*:-default options})" sh -c \
            'cd build && { [ ! -f Makefile ] || make -s distclean; }; ../configure "$@"' sh "$@" \
            ${AG_CONFIGURE:-}
    fi
}

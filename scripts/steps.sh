# SPDX-License-Identifier: MIT
# Sourced by demo, check and sanitize: goes to the top of the tree; what more than one of them does.
# AG_CONFIGURE in the environment: more arguments for configure.
# shellcheck shell=sh
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)
: "${AG_BEGAN:=$(date +%s)}" # when the first of these scripts began
export AG_BEGAN

# say WHAT: prints what is done now, and the minutes and seconds since the beginning.
say() {
    seconds=$(($(date +%s) - AG_BEGAN))
    printf '==> [%d:%02d] %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
}

# step NAME WHAT COMMAND...: says what is done; its output goes to build/NAME.log, shown if it fails.
step() {
    name=$1
    say "$2"
    shift 2
    mkdir -p build
    if ! "$@" >"build/$name.log" 2>&1 </dev/null; then
        printf 'failed: %s\nThe end of build/%s.log:\n' "$*" "$name" >&2
        tail -n 40 "build/$name.log" >&2
        exit 1
    fi
}

# -- Results of all parts -----------------------------------------------------

# The results begin anew, unless the calling script has begun them. tests/conftest.py says what a line is.
begin_results() {
    [ -z "${AG_RESULTS:-}" ] || return 0
    AG_RESULTS=$PWD/build/results
    export AG_RESULTS
    mkdir -p build
    : >"$AG_RESULTS"
}

# failed WHAT: names and notes a failure that is none of a test.
failed() {
    printf 'failed: %s\n' "$1" >&2
    printf 'failed\t%s\n' "$1" >>"$AG_RESULTS"
}

# Names all failures so far, where no summary of pytest's follows.
name_failures() { sed -n 's/^failed	/failed: /p' "$AG_RESULTS" >&2; }

# run_tests BUILD ARGUMENT...: runs the tests of BUILD; the arguments are those of run-tests.
run_tests() {
    ./scripts/run-tests "$@" && return
    result=$?
    if [ $result -ne 1 ]; then # not that tests failed: pytest could not go on
        failed "$1: pytest ended with status $result"
        name_failures
    fi
    return 1
}

# -- Builds -------------------------------------------------------------------

# set_up ARGUMENT...: what the first build needs is installed (the arguments are setup's), and configure is there.
set_up() {
    ./scripts/setup "$@"
    if [ ! -x configure ] || [ configure -ot configure.ac ]; then
        step autoreconf 'generating configure (autoreconf -fi)' autoreconf -fi
    fi
}

configured_with() { [ -x "$1/config.status" ] && "$1/config.status" --config | grep -qF -e "$2"; }

# A log's name for what is done in build directory $2: make, or make-thread for build/thread.
log_of() { echo "$1$(echo "${2#build}" | tr / -)"; }

# configure_in BUILD [FLAG...]: BUILD/Makefile is there, configured with these flags.
configure_in() {
    build=$1
    shift
    fresh=yes
    for flag in '' "$@" ${AG_CONFIGURE:-}; do
        configured_with "$build" "$flag" || fresh=no
    done
    [ $fresh = no ] || return 0
    mkdir -p "$build"
    # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; words are wanted
    step "$(log_of configure "$build")" "configuring in $build/ (${*:-default options})" sh -c \
        'top=$PWD && cd "$0" && { [ ! -f Makefile ] || make -s distclean; } && "$top/configure" "$@"' \
        "$build" "$@" ${AG_CONFIGURE:-}
}

# build_in BUILD WHAT TARGETS [FLAG...]: configures and makes; exits if that fails.
build_in() {
    build=$1 what=$2 targets=$3
    shift 3
    configure_in "$build" "$@"
    # shellcheck disable=SC2086 # words are wanted
    step "$(log_of make "$build")" "building $what" make -C "$build" -j"$jobs" $targets
}

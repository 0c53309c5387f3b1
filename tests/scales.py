# SPDX-License-Identifier: MIT
"""Which tests a check runs (AG_SCALE: quick, normal, full or night).

An entry is a test file, or FILE::TEST with all of the test's cases. What is in no list here runs in each check. Where
AG_SCALE is not set, all chosen tests run.
"""
import functools
import os
import subprocess

import helpers

# Not in a quick check: what takes many seconds, and has less to say of a change that is half done.
FROM_NORMAL = {
    "test_trials.py", "test_bench.py", "test_budget.py", "test_bypass.py", "test_cost.py", "test_cut.py",
    "test_descriptors.py", "test_doctor.py", "test_drivers.py", "test_faults.py",
    "test_inherit.py",
    "test_launch.py", "test_memory.py", "test_newer.py", "test_on_gpu.py", "test_launch_model.py", "test_packaging.py",
    "test_patterns.py", "test_peers.py", "test_queues.py", "test_real.py", "test_refused.py",
    "test_bad_input.py", "test_report_command.py", "test_reports.py", "test_sandbox.py", "test_scripts.py", "test_settings.py", "test_terminal.py",
    "test_trace_tools.py", "test_traces.py",
    "test_trial.py", "test_variables.py", "test_variants.py", "test_verify.py", "test_untracked.py",
    "test_branches.py::test_a_branch_comes_behind_an_op_that_found_no_room",
    "test_build.py::test_a_release_is_complete",
    "test_build.py::test_an_edited_configuration_file_is_kept",
    "test_build.py::test_configure_says_what_to_do_without_cuda",
    "test_build.py::test_configure_says_what_to_do_without_inih",
    "test_build.py::test_a_program_finds_the_header_by_pkg_config",
    "test_build.py::test_configure_takes_the_fortification_that_one_gives",
    "test_build.py::test_configure_leaves_out_what_one_does_not_want",
    "test_build.py::test_install",
    "test_build.py::test_pages_that_the_readme_links_are_installed",
    "test_build.py::test_two_tarballs_are_equal",
    "test_build.py::test_what_is_installed_is_tried",
    "test_build.py::test_the_linker_s_cache_is_written_where_it_helps",
    "test_doors.py::test_missing_names_are_missing",
    "test_doors.py::test_more_unknown_functions_than_slots",
    "test_doors.py::test_static_route",
    "test_fuzz.py::test_finds_a_swap_and_shrinks_it",
    "test_fuzz.py::test_programs_do_not_depend_on_chance",
    "test_fuzz.py::test_programs_that_are_known",
    "test_fuzz.py::test_regression",
    "test_live.py::test_a_wait_for_a_word_comes_behind_its_write",
    "test_live.py::test_captures",
    "test_live.py::test_hold_that_gets_longer_is_left_alone",
    "test_live.py::test_life",
    "test_live.py::test_memory_stays_flat",
    "test_live.py::test_threads_in_step",
    "test_live.py::test_what_another_thread_waits_for_is_replayed",
    "test_live.py::test_where_it_waits_anywhere_sequences_end_nowhere_else",
}

# Not in a normal check either: what finds little for its time.
FROM_FULL = {"test_build.py::test_two_tarballs_are_equal", "test_packaging.py"}

# At night alone: what measures how programs share a device, and what builds the library once more.
FROM_NIGHT = {
    "test_build.py::test_two_builds_are_equal",
    "test_packaging.py::test_deb", "test_packaging.py::test_rpm", "test_packaging.py::test_tarball_for_aarch64",
    "test_bench.py::test_calls_beside_a_launch_that_waits_for_room",
    "test_bench.py::test_whole_benchmark",
}

# Shares of the cases in a normal and in a full check, drawn by a seed (draw.py); a quick check has half of the first, and
# at night all run. These are products: each case has something in common with others.
DRAWN = {
    "test_branches.py::test_nothing_changes": (0.4, 1),
    "test_forks.py": (0.5, 1),
    "test_irregular.py::test_what_differs_costs_no_result_and_no_share": (0.3, 1),
    "test_patterns.py::test_library_changes_nothing": (0.5, 1),
    "test_queues.py": (0.5, 1),
    "test_reasons.py": (0.5, 1),
    "test_settings.py::test_nothing_changes": (0.4, 1),
    "test_traces.py::test_without_graphs_the_work_is_the_same": (0.15, 0.25),
}

# Tests of the tests' own tools: at night, and where one of these files or the file of tests itself has changed.
TOOLS = {
    **dict.fromkeys(("test_fuzz.py::test_finds_a_swap_and_shrinks_it", "test_fuzz.py::test_finds_a_forgotten_wait",
                     "test_fuzz.py::test_finds_a_copy_that_is_late", "test_fuzz.py::test_forks_are_replayed",
                     "test_fuzz.py::test_programs_do_not_depend_on_chance", "test_fuzz.py::test_text_says_everything",
                     "test_fuzz.py::test_half_of_the_steps_fork", "test_fuzz.py::test_notices_a_hang_and_a_crash",
                     "test_fuzz.py::test_half_of_the_ops_change_their_shapes",
                     "test_fuzz.py::test_programs_watch_and_wait_for_the_host"),
                    ("tests/fuzz/", "tests/sim/")),
    "test_applications.py": ("tests/real/",),
    "test_bench.py": ("tests/bench/",),
    "test_cudart.py": ("tests/sim/",),
    "test_frameworks.py": ("tests/frameworks/",),
    "test_lint.py": ("tests/lint/", "tests/budget.py", "tests/budget.toml", "tests/scales.py"),
    "test_on_gpu.py": ("tests/programs/", "tests/samples/"),
    "test_real.py": ("tests/real/",),
    "test_scripts.py": ("scripts/", "tests/conftest.py", "tests/draw.py", "tests/helpers.py", "tests/scales.py"),
    "test_sim.py": ("tests/sim/",),
    "test_sim_branches.py": ("tests/sim/",),
    "test_strict.py": ("tests/strict.py", "tests/sim/"),
    "test_suites.py": ("tests/real/",),
}


def git(*words):
    done = subprocess.run(["git", "-C", helpers.SOURCE, *words], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


@functools.lru_cache(maxsize=None)
def changed():
    """The files that differ from origin/main, or from the commit before the last one where there is no such branch or
    nothing differs; None if git cannot say. $AG_CHANGED: what another process has found out."""
    if "AG_CHANGED" in os.environ:
        return os.environ["AG_CHANGED"].split("\n") if os.environ["AG_CHANGED"] != "?" else None
    for base in (git("merge-base", "HEAD", "origin/main"), ["HEAD~1"]):
        differ = base and git("diff", "--name-only", base[0])
        if differ:
            return differ + (git("ls-files", "--others", "--exclude-standard") or [])
    return None


def tools_that_stay(files):
    """The tests of tools that are left out where these files have changed."""
    return {test for test, tools in TOOLS.items() if files is not None
            and not any(file.startswith(("tests/" + test.partition("::")[0], *tools)) for file in files)}


def left_out(scale, files=None):
    """The entries that do not run at this scale; `files`: those that have changed, None for all."""
    lists = {"quick": (FROM_NORMAL, FROM_FULL, FROM_NIGHT), "normal": (FROM_FULL, FROM_NIGHT), "full": (FROM_NIGHT,),
             "night": ()}[scale]
    return set().union(*lists, tools_that_stay(files) if scale != "night" else ())


def share(entries, scale, sanitized):
    """How much runs of a test with these entries, its file's and its own: a share of its cases. With a sanitizer a full
    check has what a normal one has."""
    found = [DRAWN[entry] for entry in entries if entry in DRAWN]
    if not found or scale == "night":
        return 1
    normal, full = found[-1]
    return normal / 2 if scale == "quick" else normal if scale == "normal" or sanitized else full

# SPDX-License-Identifier: MIT
"""Which tests a check runs (AG_SCALE: quick, normal or full): all that are not in a list here.

An entry is a test file, or FILE::TEST with all of the test's cases. Where AG_SCALE is not set, all chosen tests run.
"""

# Not in a quick check: what takes many seconds, and has less to say of a change that is half done.
FROM_NORMAL = {
    "test_turns.py", "test_bench.py", "test_budget.py", "test_bypass.py", "test_cost.py", "test_cut.py",
    "test_descriptors.py", "test_doctor.py", "test_drivers.py", "test_faults.py", "test_format.py",
    "test_inherit.py",
    "test_launch.py", "test_memory.py", "test_newer.py", "test_on_gpu.py", "test_pace.py", "test_packaging.py",
    "test_patterns.py", "test_peers.py", "test_queues.py", "test_real.py", "test_refused.py",
    "test_reports.py", "test_sandbox.py", "test_scripts.py", "test_settings.py", "test_terminal.py",
    "test_trace_tools.py", "test_traces.py",
    "test_duel.py", "test_variables.py", "test_variants.py", "test_verify.py", "test_young.py",
    "test_bad_input.py::test_traces",
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

# In a full check alone: what measures how programs share a device, and what builds the library once more.
FROM_FULL = {
    "test_build.py::test_two_builds_are_equal",
    "test_packaging.py::test_deb", "test_packaging.py::test_rpm", "test_packaging.py::test_tarball_for_aarch64",
    "test_bench.py::test_calls_beside_a_launch_that_waits_for_room",
    "test_bench.py::test_whole_benchmark",
}


def left_out(scale):
    """The entries that do not run at this scale."""
    return {"quick": FROM_NORMAL | FROM_FULL, "normal": FROM_FULL, "full": set()}[scale]

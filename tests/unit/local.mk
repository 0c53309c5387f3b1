# Unit tests: parts of the library without CUDA, each in a program of its own (tests/unit/test_*.c,
# found and run by tests/engine/test_unit.py). Flags of their own keep their objects apart from the library's.

UNIT_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests

check_PROGRAMS += tests/unit/probe tests/unit/test_helper tests/unit/test_trial tests/unit/test_fork tests/unit/test_function tests/unit/test_branches tests/unit/test_issuer tests/unit/test_known tests/unit/test_orphans tests/unit/test_lock tests/unit/test_lock_membarrier tests/unit/test_log \
	tests/unit/test_launch_model tests/unit/test_recorder tests/unit/test_shape tests/unit/test_trace tests/unit/test_trials \
	tests/unit/test_untracked tests/unit/test_variant

tests_unit_probe_SOURCES = tests/unit/probe.c $(config_sources) $(observe_sources)
tests_unit_probe_CPPFLAGS = $(UNIT_CPPFLAGS) $(AG_CONFIG_CPPFLAGS) $(INIH_CPPFLAGS)
tests_unit_probe_LDADD = $(INIH_LIBS)

tests_unit_test_helper_SOURCES = tests/unit/test_helper.c tests/unit/test.h src/engine/stream/helper.c src/engine/hot.c \
	src/observe/thread.c
tests_unit_test_helper_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_trial_SOURCES = tests/unit/test_trial.c tests/unit/test.h src/policy/trial.c
tests_unit_test_trial_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_fork_SOURCES = tests/unit/test_fork.c tests/unit/test.h src/graph/fork.c
tests_unit_test_fork_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_function_SOURCES = tests/unit/test_function.c tests/unit/test.h src/graph/function.c src/trace/op.c src/graph/setting.c src/graph/shape.c \
	src/observe/patience.c
tests_unit_test_function_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_branches_SOURCES = tests/unit/test_branches.c tests/unit/test.h src/engine/stream/branches.c src/engine/hot.c \
	src/engine/base/lock.c src/observe/patience.c
tests_unit_test_branches_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_issuer_SOURCES = tests/unit/test_issuer.c tests/unit/test.h src/engine/stream/issuer.c src/engine/hot.c
tests_unit_test_issuer_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_orphans_SOURCES = tests/unit/test_orphans.c tests/unit/test.h src/engine/context/orphans.c src/engine/hot.c \
	src/engine/base/thread.c
tests_unit_test_orphans_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_lock_SOURCES = tests/unit/test_lock.c tests/unit/test.h src/engine/base/lock.c src/observe/patience.c
tests_unit_test_lock_CPPFLAGS = $(UNIT_CPPFLAGS)

# As on other architectures.
tests_unit_test_lock_membarrier_SOURCES = tests/unit/test_lock_membarrier.c tests/unit/test.h src/engine/base/lock.c \
	src/observe/patience.c
tests_unit_test_lock_membarrier_CPPFLAGS = $(UNIT_CPPFLAGS) -DAG_LOCK_BY_TIME=0

tests_unit_test_log_SOURCES = tests/unit/test_log.c tests/unit/test.h src/observe/log.c \
	src/observe/name.c src/config/initial.c
tests_unit_test_log_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_launch_model_SOURCES = tests/unit/test_launch_model.c tests/unit/test.h src/engine/base/clock.c src/engine/decide/launch_model.c
tests_unit_test_launch_model_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_known_SOURCES = tests/unit/test_known.c tests/unit/test.h \
	src/trace/known.c src/trace/op.c src/trace/recorder.c src/trace/repeat.c src/trace/rest.c \
	src/trace/tree.c
tests_unit_test_known_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_recorder_SOURCES = tests/unit/test_recorder.c tests/unit/test.h \
	src/trace/known.c src/trace/op.c src/trace/recorder.c src/trace/repeat.c src/trace/rest.c \
	src/trace/tree.c
tests_unit_test_recorder_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_shape_SOURCES = tests/unit/test_shape.c tests/unit/test.h src/graph/shape.c
tests_unit_test_shape_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_trace_SOURCES = tests/unit/test_trace.c tests/unit/test.h \
	src/trace/known.c src/trace/op.c src/trace/recorder.c src/trace/repeat.c src/trace/rest.c \
	src/trace/tree.c
tests_unit_test_trace_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_trials_SOURCES = tests/unit/test_trials.c tests/unit/test.h src/engine/base/clock.c src/engine/hot.c \
	src/engine/decide/trials.c
tests_unit_test_trials_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_untracked_SOURCES = tests/unit/test_untracked.c tests/unit/test.h src/engine/stream/untracked.c src/engine/hot.c
tests_unit_test_untracked_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_variant_SOURCES = tests/unit/test_variant.c tests/unit/test.h src/graph/variant.c src/trace/op.c
tests_unit_test_variant_CPPFLAGS = $(UNIT_CPPFLAGS)

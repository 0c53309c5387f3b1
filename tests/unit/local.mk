# Unit tests: parts of the library without CUDA, each in a program of its own (tests/unit/test_*.c,
# found and run by tests/engine/test_unit.py). Flags of their own keep their objects apart from the library's.

UNIT_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests

check_PROGRAMS += tests/unit/probe tests/unit/test_aside tests/unit/test_duel tests/unit/test_fork tests/unit/test_function tests/unit/test_guests tests/unit/test_known tests/unit/test_left tests/unit/test_lock tests/unit/test_lock_membarrier tests/unit/test_log \
	tests/unit/test_pace tests/unit/test_recorder tests/unit/test_shape tests/unit/test_trace tests/unit/test_turns

tests_unit_probe_SOURCES = tests/unit/probe.c $(config_sources) $(observe_sources)
tests_unit_probe_CPPFLAGS = $(UNIT_CPPFLAGS) $(AG_CONFIG_CPPFLAGS) $(INIH_CPPFLAGS)
tests_unit_probe_LDADD = $(INIH_LIBS)

tests_unit_test_aside_SOURCES = tests/unit/test_aside.c tests/unit/test.h src/engine/stream/aside.c src/engine/hot.c \
	src/observe/thread.c
tests_unit_test_aside_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_duel_SOURCES = tests/unit/test_duel.c tests/unit/test.h src/policy/duel.c
tests_unit_test_duel_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_fork_SOURCES = tests/unit/test_fork.c tests/unit/test.h src/graph/fork.c
tests_unit_test_fork_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_function_SOURCES = tests/unit/test_function.c tests/unit/test.h src/graph/function.c src/trace/op.c src/graph/setting.c src/graph/shape.c \
	src/observe/patience.c
tests_unit_test_function_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_guests_SOURCES = tests/unit/test_guests.c tests/unit/test.h src/engine/stream/guests.c src/engine/hot.c \
	src/engine/base/lock.c src/observe/patience.c
tests_unit_test_guests_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_left_SOURCES = tests/unit/test_left.c tests/unit/test.h src/engine/context/left.c src/engine/hot.c \
	src/engine/base/thread.c
tests_unit_test_left_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_lock_SOURCES = tests/unit/test_lock.c tests/unit/test.h src/engine/base/lock.c src/observe/patience.c
tests_unit_test_lock_CPPFLAGS = $(UNIT_CPPFLAGS)

# As on other architectures.
tests_unit_test_lock_membarrier_SOURCES = tests/unit/test_lock_membarrier.c tests/unit/test.h src/engine/base/lock.c \
	src/observe/patience.c
tests_unit_test_lock_membarrier_CPPFLAGS = $(UNIT_CPPFLAGS) -DAG_LOCK_BY_TIME=0

tests_unit_test_log_SOURCES = tests/unit/test_log.c tests/unit/test.h src/observe/log.c \
	src/observe/name.c src/config/initial.c
tests_unit_test_log_CPPFLAGS = $(UNIT_CPPFLAGS)

tests_unit_test_pace_SOURCES = tests/unit/test_pace.c tests/unit/test.h src/engine/base/clock.c src/engine/decide/pace.c
tests_unit_test_pace_CPPFLAGS = $(UNIT_CPPFLAGS)

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

tests_unit_test_turns_SOURCES = tests/unit/test_turns.c tests/unit/test.h src/engine/base/clock.c src/engine/hot.c \
	src/engine/decide/turns.c
tests_unit_test_turns_CPPFLAGS = $(UNIT_CPPFLAGS)

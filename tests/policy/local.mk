# SPDX-License-Identifier: MIT
# The player of recorded programs: the library's own objects but for its doors, in virtual time, with a driver that
# only costs time.

POLICY_C_FILES = tests/policy/ask.c tests/policy/doors.c tests/policy/driver.c tests/policy/eager.c \
	tests/policy/gpu.c tests/policy/graphs.c tests/policy/noise.c tests/policy/order.c \
	tests/policy/plan.c tests/policy/play.c tests/policy/program.c tests/policy/threads.c tests/policy/work.c
POLICY_H_FILES = tests/policy/costs.def tests/policy/costs.h tests/policy/doors.h tests/policy/driver.h \
	tests/policy/gpu.h tests/policy/noise.h tests/policy/plan.h tests/policy/program.h \
	tests/policy/threads.h
POLICY_OBJECTS = $(POLICY_C_FILES:.c=.o)
POLICY_COMPILE = $(CC) $(AM_CPPFLAGS) -I$(top_srcdir)/tests -std=gnu11 -pthread $(AG_CFLAGS) $(CPPFLAGS) $(CFLAGS)

# Without the doors, and what has another form here: threads, and the kernel for read-backs.
POLICY_NOT = src/preload/% src/observe/libautograph_la-thread.lo src/engine/context/libautograph_la-fetch_image.lo \
	src/libautograph_la-glibc.lo
POLICY_LIBRARY = $(filter-out $(POLICY_NOT),$(libautograph_la_OBJECTS))

# Calls that read a clock, or wait, are in virtual time.
POLICY_WRAPPED = clock_gettime syscall sched_getaffinity pthread_mutex_lock pthread_cond_wait \
	pthread_cond_signal pthread_cond_broadcast

EXTRA_DIST += $(POLICY_C_FILES) $(POLICY_H_FILES) tests/policy/README.md tests/policy/scenarios.py tests/policy/table \
	tests/policy/durations.c tests/policy/programs.toml tests/policy/record tests/policy/record.c \
	tests/policy/reduce.py tests/policy/steps.c

$(POLICY_OBJECTS): tests/policy/%.o: tests/policy/%.c $(POLICY_H_FILES) src/engine/context/fetch.fatbin $(POLICY_LIBRARY)
	@$(MKDIR_P) tests/policy
	$(AM_V_GEN)$(POLICY_COMPILE) -c -o $@ $<

tests/policy/play: $(POLICY_OBJECTS) $(POLICY_LIBRARY)
	$(AM_V_GEN)$(LIBTOOL) $(AM_LIBTOOLFLAGS) --tag=CC --mode=link $(CC) $(SANITIZE:%=-fsanitize=%) $(LDFLAGS) \
	    $(POLICY_WRAPPED:%=-Wl,--wrap=%) -o $@ $(POLICY_OBJECTS) $(POLICY_LIBRARY) $(INIH_LIBS) -pthread -ldl -lm

check_DATA += tests/policy/play
CLEANFILES += tests/policy/play $(POLICY_OBJECTS)

# -- What records, on a machine with a GPU: make recorder ---------------------------------------------------------------

# The doors, with an engine that writes down what they ask.
POLICY_DOORS = $(filter src/preload/% src/driver/% src/config/libautograph_la-cuda.lo src/config/libautograph_la-initial.lo \
	src/engine/libautograph_la-hot.lo src/observe/libautograph_la-object.lo,$(libautograph_la_OBJECTS))

tests/policy/recorder.so: tests/policy/record.c $(POLICY_DOORS)
	@$(MKDIR_P) tests/policy
	$(AM_V_GEN)$(POLICY_COMPILE) -D_GNU_SOURCE -fPIC -fvisibility=hidden -shared -Wl,-z,defs -o $@ $< \
	    $(foreach o,$(POLICY_DOORS),$(dir $(o)).libs/$(notdir $(o:.lo=.o))) -ldl

tests/policy/durations.so: tests/policy/durations.c
	@$(MKDIR_P) tests/policy
	$(AM_V_GEN)$(POLICY_COMPILE) -D_GNU_SOURCE -fPIC -shared -o $@ $< -L$(CUDA_DIR)/lib64 -lcupti \
	    -Wl,-rpath,$(CUDA_DIR)/lib64

tests/policy/steps: tests/policy/steps.c tests/sim/libcuda.so.1
	@$(MKDIR_P) tests/policy
	$(AM_V_GEN)$(POLICY_COMPILE) -I$(top_srcdir)/tests/sim -I$(top_srcdir)/tests/programs -rdynamic -o $@ $< -Ltests/sim -lcuda -pthread

recorder: tests/policy/recorder.so tests/policy/durations.so tests/policy/steps samples
.PHONY: recorder
CLEANFILES += tests/policy/recorder.so tests/policy/durations.so tests/policy/steps

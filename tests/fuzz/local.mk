# SPDX-License-Identifier: MIT
# The fuzzer, linked with the simulated driver's name only: the same program runs on a real one.

FUZZ_C_FILES = tests/fuzz/access.c tests/fuzz/api.c tests/fuzz/fork.c tests/fuzz/forks.c tests/fuzz/generate.c \
	tests/fuzz/graph.c tests/fuzz/kernels.c \
	tests/fuzz/main.c tests/fuzz/ops.c tests/fuzz/order.c tests/fuzz/run.c \
	tests/fuzz/shape.c tests/fuzz/text.c tests/fuzz/threads.c tests/fuzz/times.c tests/fuzz/turns.c tests/fuzz/watch.c tests/fuzz/world.c
FUZZ_H_FILES = tests/fuzz/api.h tests/fuzz/generate.h tests/fuzz/kernels.h tests/fuzz/program.h tests/fuzz/world.h
FUZZ_OBJECTS = $(FUZZ_C_FILES:.c=.o)
FUZZ_COMPILE = $(CC) -I$(top_srcdir)/tests $(CUDA_CPPFLAGS) -std=gnu11 -Wall -Wextra -fPIE \
	-pthread $(SANITIZE:%=-fsanitize=%) $(filter -Werror,$(AG_CFLAGS)) $(CPPFLAGS) $(CFLAGS)

EXTRA_DIST += $(FUZZ_C_FILES) $(FUZZ_H_FILES) tests/fuzz/swap.c

$(FUZZ_OBJECTS): tests/fuzz/%.o: tests/fuzz/%.c $(FUZZ_H_FILES)
	@$(MKDIR_P) tests/fuzz
	$(AM_V_GEN)$(FUZZ_COMPILE) -c -o $@ $<

# The kernels' bodies are exported for the simulated driver.
tests/fuzz/fuzz: $(FUZZ_OBJECTS) tests/sim/libcuda.so.1
	$(AM_V_GEN)$(CC) -pie -rdynamic $(SANITIZE:%=-fsanitize=%) $(LDFLAGS) -o $@ $(FUZZ_OBJECTS) \
	    -pthread tests/sim/libcuda.so.1

# A library that breaks the order of launches: what the fuzzer must find.
tests/fuzz/libswap.so: tests/fuzz/swap.c
	@$(MKDIR_P) tests/fuzz
	$(AM_V_GEN)$(FUZZ_COMPILE) -fPIC -shared -o $@ $<

check_DATA += tests/fuzz/fuzz tests/fuzz/libswap.so
CLEANFILES += tests/fuzz/fuzz tests/fuzz/libswap.so $(FUZZ_OBJECTS)

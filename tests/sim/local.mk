# SPDX-License-Identifier: MIT
# The simulated driver, libcuda.so.1. Its doors and its table for
# cuGetProcAddress are made from the CUDA headers of the build.

SIM_C_FILES = tests/sim/branches.c tests/sim/capture.c tests/sim/context.c tests/sim/copy.c tests/sim/device.c \
	tests/sim/event.c tests/sim/exec.c tests/sim/function.c tests/sim/graph.c tests/sim/ipc.c \
	tests/sim/kernels.c tests/sim/launch.c tests/sim/limit.c tests/sim/log.c tests/sim/memory.c \
	tests/sim/module.c tests/sim/node.c tests/sim/object.c tests/sim/params.c \
	tests/sim/plan.c tests/sim/pool.c tests/sim/proc.c tests/sim/ptx.c tests/sim/queue.c \
	tests/sim/stack.c tests/sim/stream.c tests/sim/strict.c tests/sim/virtual.c tests/sim/work.c
SIM_H_FILES = tests/sim/sim.h tests/sim/agsim.h tests/sim/graph.h tests/sim/launch.h tests/sim/newer.h
SIM_OBJECTS = $(SIM_C_FILES:.c=.o) tests/sim/api.o
SIM_COMPILE = $(CC) -I$(top_builddir)/tests/sim -I$(top_srcdir)/tests/sim -I$(top_srcdir)/src \
	$(CUDA_CPPFLAGS) \
	-std=c11 -Wall -Wextra -fPIC -fvisibility=hidden -pthread $(SANITIZE:%=-fsanitize=%) \
	$(filter -Werror,$(AG_CFLAGS)) $(CPPFLAGS) $(CFLAGS) -c
SIM_LIBS = tests/sim/libcuda.so.1 tests/sim/libcuda.so

EXTRA_DIST += $(SIM_C_FILES) $(SIM_H_FILES) tests/sim/kernels.h tests/sim/gen_api.py

tests/sim/api.c: tests/sim/gen_api.py tests/sim/newer.h $(CUDA_DIR)/include/cuda.h
	@$(MKDIR_P) tests/sim
	$(AM_V_GEN)$(PYTHON) $(top_srcdir)/tests/sim/gen_api.py $(CUDA_DIR)/include tests/sim $(CC)

tests/sim/impl.h: tests/sim/api.c

# Its 9,000 lines are of one pattern: optimized more they only take longer to compile.
tests/sim/api.o: tests/sim/api.c $(SIM_H_FILES) tests/sim/impl.h
	$(AM_V_GEN)$(SIM_COMPILE) -O1 -o $@ $<

$(SIM_C_FILES:.c=.o): tests/sim/%.o: tests/sim/%.c $(SIM_H_FILES) tests/sim/impl.h
	@$(MKDIR_P) tests/sim
	$(AM_V_GEN)$(SIM_COMPILE) -o $@ $<

tests/sim/libcuda.so.1: $(SIM_OBJECTS)
	$(AM_V_GEN)$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic $(SANITIZE:%=-fsanitize=%) $(LDFLAGS) \
	    -o $@ $(SIM_OBJECTS) -pthread -ldl -lm

tests/sim/libcuda.so: tests/sim/libcuda.so.1
	$(AM_V_GEN)ln -sf libcuda.so.1 $@

sim: $(SIM_LIBS)
.PHONY: sim

check_DATA += $(SIM_LIBS)
CLEANFILES += $(SIM_LIBS) $(SIM_OBJECTS) tests/sim/api.c tests/sim/impl.h

include tests/sim/cudart.mk

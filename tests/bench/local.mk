# SPDX-License-Identifier: MIT
# The benchmark, and what counts the instructions of single calls. Built like the samples.

BENCHES = tests/bench/paths tests/bench/passing tests/bench/room tests/bench/worker
BENCH_SIM = $(BENCHES:%=%-sim)
BENCH_GPU = $(BENCHES:%=%-static) $(BENCHES:%=%-shared)
BENCH_OBJECTS = $(BENCHES:%=%.gpu.o)

BENCH_FILES = tests/bench/benchmark.py tests/bench/extras.py tests/bench/instructions.py tests/bench/processes.py \
	tests/bench/plot.py tests/bench/publish.py tests/bench/shapes.py

EXTRA_DIST += $(BENCHES:%=%.cu) tests/bench/driver_function.h tests/bench/loops.h \
	$(BENCH_FILES)

$(BENCH_SIM): %-sim: %.cu tests/bench/driver_function.h tests/bench/loops.h tests/samples/harness.o $(SAMPLE_INCLUDES) tests/samples/host_kernel.h \
		tests/sim/agsim.h tests/sim/libcudart.so.13
	@$(MKDIR_P) tests/bench
	$(AM_V_GEN)$(CXX) $(SAMPLE_CXXFLAGS) $(CUDA_CPPFLAGS) -rdynamic -pthread \
	    -o $@ -x c++ $< -x none tests/samples/harness.o tests/sim/libcudart.so.13 \
	    '-Wl,-rpath,$$ORIGIN/../sim' -ldl

check_DATA += $(BENCH_SIM) tests/build.json

$(BENCH_OBJECTS): %.gpu.o: %.cu tests/bench/driver_function.h tests/bench/loops.h $(SAMPLE_INCLUDES)
	@$(MKDIR_P) tests/bench
	$(AM_V_GEN)$(NVCC) $(SAMPLE_CPPFLAGS) $(NVCCFLAGS) -c -o $@ $<

$(BENCHES:%=%-static): %-static: %.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart static -o $@ $^ $(NVCC_LINK) -ldl

$(BENCHES:%=%-shared): %-shared: %.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart shared -o $@ $^ $(NVCC_LINK) -ldl

.SECONDARY: $(BENCH_OBJECTS)

if HAVE_NVCC
samples: $(BENCH_GPU)
endif

# Needs a GPU; some minutes. make bench BENCH_ARGS='--shapes sync --quick' measures some of it.
BENCH_ARGS =
bench: all $(BENCH_GPU)
	$(PYTHON) '$(top_srcdir)/tests/bench/benchmark.py' --build . --out bench $(BENCH_ARGS)
.PHONY: bench
CLEANFILES += $(BENCH_SIM) $(BENCH_GPU) $(BENCH_OBJECTS)

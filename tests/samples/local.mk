# The samples, and runtime (no sample: a test): one source each, built for the simulated driver (NAME-sim, by
# `make check`) and for GPUs (NAME-static and NAME-shared, by `make samples`).

SAMPLES = constant scalars pingpong sync memset events perthread jacobi runtime
GPU_SAMPLES = $(SAMPLES) cublas

SAMPLE_INCLUDES = tests/samples/sample.h tests/samples/harness.h
SAMPLE_CPPFLAGS = -I$(top_srcdir)/tests/samples -I$(top_srcdir)
SAMPLE_CXXFLAGS = $(SAMPLE_CPPFLAGS) -std=c++17 -Wall -Wextra $(SANITIZE:%=-fsanitize=%) \
	$(filter -Werror,$(AG_CFLAGS)) $(CXXFLAGS)
# With optimization, the samples for the simulated driver take three times as long to compile, and with
# sanitizers seven times; their run time is not measured.
SAMPLE_SIM_CXXFLAGS = $(SAMPLE_CXXFLAGS) -U_FORTIFY_SOURCE -O0
SIM_SAMPLES = $(SAMPLES:%=tests/samples/%-sim)
SAMPLE_BINARIES = $(GPU_SAMPLES:%=tests/samples/%-static) $(GPU_SAMPLES:%=tests/samples/%-shared)

EXTRA_DIST += $(SAMPLE_INCLUDES) tests/samples/host_kernel.h tests/samples/harness.cc \
	$(GPU_SAMPLES:%=tests/samples/%.cu)

tests/samples/harness.o: tests/samples/harness.cc tests/samples/harness.h
	@$(MKDIR_P) tests/samples
	$(AM_V_GEN)$(CXX) $(SAMPLE_CXXFLAGS) -c -o $@ $<

# Half of the samples launch as the code of nvcc before 13 does: by cudaLaunchKernel.
LEGACY_LAUNCH_SAMPLES = scalars pingpong memset jacobi

# -- Simulated driver: the same source by the host compiler, exporting its kernels' bodies
$(LEGACY_LAUNCH_SAMPLES:%=tests/samples/%-sim): SAMPLE_MODE = -D__NV_LEGACY_LAUNCH
tests/samples/perthread-sim: SAMPLE_MODE = -DCUDA_API_PER_THREAD_DEFAULT_STREAM

$(SIM_SAMPLES): tests/samples/%-sim: tests/samples/%.cu tests/samples/harness.o $(SAMPLE_INCLUDES) \
		tests/samples/host_kernel.h tests/sim/agsim.h tests/sim/libcudart.so.13
	$(AM_V_GEN)$(CXX) $(SAMPLE_SIM_CXXFLAGS) $(CUDA_CPPFLAGS) $(SAMPLE_MODE) -rdynamic -pthread \
	    -o $@ -x c++ $< -x none tests/samples/harness.o tests/sim/libcudart.so.13 \
	    '-Wl,-rpath,$$ORIGIN/../sim'

check_DATA += $(SIM_SAMPLES)

# -- GPU: one object each, linked twice; the shared one finds libcudart by LD_LIBRARY_PATH
NVCCFLAGS = -O2 -std=c++17 -Xcompiler -Wall,-Wextra \
	-gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90
# What the host's linker needs; nvcc takes a comma for the end of an option.
comma = ,
NVCC_LINK = -Xcompiler -pthread $(foreach s,$(subst $(comma), ,$(SANITIZE)),-Xcompiler -fsanitize=$(s))
GPU_OBJECTS = $(GPU_SAMPLES:%=tests/samples/%.gpu.o)

$(LEGACY_LAUNCH_SAMPLES:%=tests/samples/%.gpu.o): SAMPLE_MODE = -Xcompiler -D__NV_LEGACY_LAUNCH
tests/samples/perthread.gpu.o: SAMPLE_MODE = --default-stream per-thread
tests/samples/cublas-static tests/samples/cublas-shared: SAMPLE_LIBS = -lcublas

$(GPU_OBJECTS): tests/samples/%.gpu.o: tests/samples/%.cu $(SAMPLE_INCLUDES)
	@$(MKDIR_P) tests/samples
	$(AM_V_GEN)$(NVCC) $(SAMPLE_CPPFLAGS) $(NVCCFLAGS) $(SAMPLE_MODE) -c -o $@ $<

tests/samples/%-static: tests/samples/%.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart static -o $@ $^ $(NVCC_LINK) $(SAMPLE_LIBS)

tests/samples/%-shared: tests/samples/%.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart shared -o $@ $^ $(NVCC_LINK) $(SAMPLE_LIBS)

# Objects are kept for the second link.
.SECONDARY: $(GPU_OBJECTS)

if HAVE_NVCC
samples: $(SAMPLE_BINARIES)
else
samples:
	@echo 'make samples: no nvcc was found by configure' >&2; exit 1
endif
.PHONY: samples

CLEANFILES += $(SIM_SAMPLES) $(SAMPLE_BINARIES) $(GPU_OBJECTS) tests/samples/harness.o

include tests/samples/patterns/local.mk
include tests/samples/reports/local.mk

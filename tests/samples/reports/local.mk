# What public reports say of the runtime (docs/reports.md), built as the samples are.

REPORTS = last_error loader callbacks
GPU_REPORTS = $(REPORTS) constants printed dependent asserts grid processes checkpoint
REPORT_DIR = tests/samples/reports
REPORT_INCLUDES = $(SAMPLE_INCLUDES) tests/samples/patterns/pattern.h
SIM_REPORTS = $(REPORTS:%=$(REPORT_DIR)/%-sim)
REPORT_BINARIES = $(GPU_REPORTS:%=$(REPORT_DIR)/%-static) $(GPU_REPORTS:%=$(REPORT_DIR)/%-shared)
REPORT_OBJECTS = $(GPU_REPORTS:%=$(REPORT_DIR)/%.gpu.o)

EXTRA_DIST += $(GPU_REPORTS:%=$(REPORT_DIR)/%.cu)

# -- Simulated driver
$(SIM_REPORTS): $(REPORT_DIR)/%-sim: $(REPORT_DIR)/%.cu tests/samples/harness.o \
		$(REPORT_INCLUDES) tests/samples/host_kernel.h tests/sim/agsim.h \
		tests/sim/libcudart.so.13
	@$(MKDIR_P) $(REPORT_DIR)
	$(AM_V_GEN)$(CXX) $(SAMPLE_SIM_CXXFLAGS) $(CUDA_CPPFLAGS) -rdynamic -pthread \
	    -o $@ -x c++ $< -x none tests/samples/harness.o tests/sim/libcudart.so.13 -ldl \
	    '-Wl,-rpath,$$ORIGIN/../../sim'

check_DATA += $(SIM_REPORTS)

# -- GPU: clusters and programmatic launches need sm_90; the plugin's function is the program's
$(REPORT_OBJECTS): $(REPORT_DIR)/%.gpu.o: $(REPORT_DIR)/%.cu $(REPORT_INCLUDES)
	@$(MKDIR_P) $(REPORT_DIR)
	$(AM_V_GEN)$(NVCC) $(SAMPLE_CPPFLAGS) $(CUDA_CPPFLAGS) -O2 -std=c++17 -Xcompiler -Wall,-Wextra \
	    -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90 -c -o $@ $<

REPORT_LINK = $(NVCC_LINK) -Xcompiler -rdynamic -ldl
$(REPORT_DIR)/%-static: $(REPORT_DIR)/%.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart static -o $@ $^ $(REPORT_LINK)

$(REPORT_DIR)/%-shared: $(REPORT_DIR)/%.gpu.o tests/samples/harness.o
	$(AM_V_GEN)$(NVCC) -cudart shared -o $@ $^ $(REPORT_LINK) \
	    -Xlinker -rpath -Xlinker '$(CUDA_DIR)/lib64'

.SECONDARY: $(REPORT_OBJECTS)

if HAVE_NVCC
samples: $(REPORT_BINARIES)
endif

CLEANFILES += $(SIM_REPORTS) $(REPORT_BINARIES) $(REPORT_OBJECTS)

# Patterns that people write by hand, built as the samples are.

PATTERNS = construct modes refused decode node_params scan staged other_stream allocator pipeline \
	settings shapes contexts steps no_stream
PATTERN_DIR = tests/samples/patterns
PATTERN_INCLUDES = $(SAMPLE_INCLUDES) $(PATTERN_DIR)/pattern.h tests/bench/driver_function.h
SIM_PATTERNS = $(PATTERNS:%=$(PATTERN_DIR)/%-sim)
PATTERN_BINARIES = $(PATTERNS:%=$(PATTERN_DIR)/%-static) $(PATTERNS:%=$(PATTERN_DIR)/%-shared)
PATTERN_OBJECTS = $(PATTERNS:%=$(PATTERN_DIR)/%.gpu.o)

EXTRA_DIST += $(PATTERN_DIR)/pattern.h $(PATTERN_DIR)/run-gpu $(PATTERNS:%=$(PATTERN_DIR)/%.cu)

# -- Simulated driver
$(SIM_PATTERNS): $(PATTERN_DIR)/%-sim: $(PATTERN_DIR)/%.cu tests/samples/harness.o \
		$(PATTERN_INCLUDES) tests/samples/host_kernel.h tests/sim/agsim.h \
		tests/sim/libcudart.so.13
	@$(MKDIR_P) $(PATTERN_DIR)
	$(AM_V_GEN)$(CXX) $(SAMPLE_SIM_CXXFLAGS) $(CUDA_CPPFLAGS) -rdynamic -pthread \
	    -o $@ -x c++ $< -x none tests/samples/harness.o tests/sim/libcudart.so.13 \
	    '-Wl,-rpath,$$ORIGIN/../../sim'

check_DATA += $(SIM_PATTERNS)

# -- GPU: the rules that link are those of the samples
$(PATTERN_OBJECTS): $(PATTERN_DIR)/%.gpu.o: $(PATTERN_DIR)/%.cu $(PATTERN_INCLUDES)
	@$(MKDIR_P) $(PATTERN_DIR)
	$(AM_V_GEN)$(NVCC) $(SAMPLE_CPPFLAGS) $(NVCCFLAGS) -c -o $@ $<

.SECONDARY: $(PATTERN_OBJECTS)

if HAVE_NVCC
samples: $(PATTERN_BINARIES)
endif

CLEANFILES += $(SIM_PATTERNS) $(PATTERN_BINARIES) $(PATTERN_OBJECTS)

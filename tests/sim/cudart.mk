# The simulated runtime, libcudart.so.13, over the simulated driver. cudart_stream.c is compiled a
# second time for the per-thread default stream.

CUDART_C_FILES = tests/sim/cudart_driver.c tests/sim/cudart_kernel.c tests/sim/cudart_memory.c \
	tests/sim/cudart_stream.c tests/sim/cudart_graph.c
CUDART_OBJECTS = $(CUDART_C_FILES:.c=.o) tests/sim/cudart_stream_ptsz.o
CUDART_COMPILE = $(CC) $(CUDA_CPPFLAGS) -std=gnu11 -Wall -Wextra -fPIC -pthread \
	$(SANITIZE:%=-fsanitize=%) $(filter -Werror,$(AG_CFLAGS)) $(CPPFLAGS) $(CFLAGS) -c

EXTRA_DIST += $(CUDART_C_FILES) tests/sim/cudart.h tests/sim/cudart.map

$(CUDART_C_FILES:.c=.o): tests/sim/%.o: tests/sim/%.c tests/sim/cudart.h
	@$(MKDIR_P) tests/sim
	$(AM_V_GEN)$(CUDART_COMPILE) -o $@ $<

tests/sim/cudart_stream_ptsz.o: tests/sim/cudart_stream.c tests/sim/cudart.h
	@$(MKDIR_P) tests/sim
	$(AM_V_GEN)$(CUDART_COMPILE) -DRT_PER_THREAD_STREAM -o $@ $<

tests/sim/libcudart.so.13: $(CUDART_OBJECTS) tests/sim/cudart.map
	$(AM_V_GEN)$(CC) -shared -Wl,-soname,libcudart.so.13 \
	    -Wl,--version-script,$(top_srcdir)/tests/sim/cudart.map $(SANITIZE:%=-fsanitize=%) \
	    $(LDFLAGS) -o $@ $(CUDART_OBJECTS) -pthread -ldl

check_DATA += tests/sim/libcudart.so.13
CLEANFILES += tests/sim/libcudart.so.13 $(CUDART_OBJECTS)

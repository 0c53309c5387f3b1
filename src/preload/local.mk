# The doors, and the table of real driver functions.

driver_sources = src/driver/driver.c src/driver/driver.h

preload_sources = \
	src/preload/arch.h \
	src/preload/bind.c \
	src/preload/bypass.c \
	src/preload/capture.c \
	src/preload/configuration.c \
	src/preload/configuration.h \
	src/preload/dladdr.c \
	src/preload/dlsym.c \
	src/preload/door.h \
	src/preload/doors.S \
	src/preload/launch.c \
	src/preload/launch.h \
	src/preload/libcuda.c \
	src/preload/libcuda.h \
	src/preload/life.c \
	src/preload/memory.c \
	src/preload/musl.c \
	src/preload/objects.c \
	src/preload/objects.h \
	src/preload/ops.c \
	src/preload/preload.h \
	src/preload/route.c \
	src/preload/runtime.c \
	src/preload/runtime.h \
	src/preload/shortcut.c \
	src/preload/slots.c \
	src/preload/start.c \
	src/preload/symbols.c
if ARCH_X86_64
preload_sources += src/preload/arch/x86_64/dlmopen.S src/preload/arch/x86_64/dlsym.S src/preload/arch/x86_64/thunks.S
endif
if ARCH_AARCH64
preload_sources += src/preload/arch/aarch64/dlmopen.S src/preload/arch/aarch64/dlsym.S src/preload/arch/aarch64/thunks.S
endif

# Every driver function of this toolkit with its class, for C and assembly; doors that are alike, in plain C.
preload_tables = src/preload/capture.doors src/preload/launch.doors src/preload/life.doors \
	src/preload/memory.doors src/preload/ops.doors src/preload/route.doors
preload_doors = $(preload_tables:.doors=_doors.inc)
$(libautograph_la_OBJECTS): src/preload/slots.inc $(preload_doors)
CLEANFILES += src/preload/slots.inc $(preload_doors)
EXTRA_DIST += src/preload/slots.py src/preload/classes.def src/preload/doors.py $(preload_tables)

src/preload/slots.inc: $(top_srcdir)/src/preload/slots.py $(top_srcdir)/src/preload/classes.def
	$(AM_V_GEN)$(MKDIR_P) src/preload && \
	$(PYTHON) '$(top_srcdir)/src/preload/slots.py' '$(top_srcdir)/src/preload/classes.def' $@ \
	    $(CC) $(CUDA_CPPFLAGS)

$(preload_doors): src/preload/%_doors.inc: $(top_srcdir)/src/preload/%.doors $(top_srcdir)/src/preload/doors.py \
    src/preload/slots.inc
	$(AM_V_GEN)$(PYTHON) '$(top_srcdir)/src/preload/doors.py' src/preload/slots.inc \
	    '$(top_srcdir)/src/preload/$*.doors' $@

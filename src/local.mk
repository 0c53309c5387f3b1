# The library. Every part lists its sources in a variable of its own.

config_sources = src/config/config.c src/config/config.h src/config/option.c src/config/option.h src/config/cuda.c src/config/cuda.def \
	src/config/cuda.h src/config/initial.c src/config/initial.h src/config/options.def \
	src/config/program.c src/config/program.h src/config/fnv.h \
	src/config/trust.c src/config/trust.h
observe_sources = \
	src/observe/account.h src/observe/callsite.c src/observe/callsite.h \
	src/observe/counters.c src/observe/counters.h src/observe/reasons.def src/observe/futex.h \
	src/observe/definitions.c src/observe/definitions.h \
	src/observe/live.c src/observe/live.h \
	src/observe/log.c src/observe/log.h \
	src/observe/name.c src/observe/name.h \
	src/observe/object.c src/observe/object.h \
	src/observe/target.c src/observe/target.h \
	src/observe/observer.c src/observe/observer.h src/observe/patience.c src/observe/patience.h src/observe/thread.c src/observe/thread.h \
	src/observe/profile.c src/observe/profile.h \
	src/observe/range.c src/observe/range.h src/observe/record.h \
	src/observe/region.c src/observe/region.h \
	src/observe/report.c src/observe/report.h src/observe/reportfile.c src/observe/reportfile.h \
	src/observe/saving.c src/observe/saving.h \
	src/observe/signal.c src/observe/signal.h \
	src/observe/strings.c src/observe/strings.h \
	src/observe/tracefile.c src/observe/tracefile.h \
	src/observe/verbose.c src/observe/verbose.h

# With "exec" in the name it is installed like a library.
autographexecdir = $(libdir)/autograph
autographexec_LTLIBRARIES = libautograph.la
libautograph_la_SOURCES = src/glibc.c src/glibc.h src/mutant.h src/sanitize.h \
	$(preload_sources) $(driver_sources) $(engine_sources) $(config_sources) $(observe_sources)

AG_CONFIG_CPPFLAGS = -DAG_SYSCONFDIR='"$(sysconfdir)"'
libautograph_la_CPPFLAGS = -include $(top_srcdir)/src/glibc.h \
	$(AM_CPPFLAGS) $(AG_CONFIG_CPPFLAGS) $(INIH_CPPFLAGS)
libautograph_la_CFLAGS = $(AM_CFLAGS) $(AG_STRICT_CFLAGS) $(AG_PREFIX_MAP) $(AG_HARDENING) $(AG_PROTECTOR)
libautograph_la_CCASFLAGS = $(AM_CCASFLAGS) $(AG_PREFIX_MAP)

# Text of others is handled here, and nothing is hot.
src/config/%.lo src/observe/%.lo: AG_PROTECTOR = $(AG_PROTECTOR_TEXT)

libautograph_la_LIBADD = $(INIH_LIBS) $(GLIBC_LIBS)
libautograph_la_DEPENDENCIES = src/libautograph.map

# now: the dynamic linker's lazy resolver must not run inside a dlsym or a launch.
# nodelete: the program keeps pointers to our doors, so a dlclose must not unmap them.
# defs: what is missing shows here and not in somebody's program. A sanitizer's runtime library is
# only in the program.
libautograph_la_LDFLAGS = -module -avoid-version -shared \
	-Wl,--version-script=$(top_srcdir)/src/libautograph.map \
	-Wl,-z,text -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete $(AG_HARDENING_LDFLAGS)
if !SANITIZED
libautograph_la_LDFLAGS += -Wl,-z,defs
endif

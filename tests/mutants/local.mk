# A library that leaves out a rule of docs/semantics.md: make tests/mutants/libautograph.la. Its name is that of the
# real one, by which the simulated driver knows whose calls it gets. Nothing else is built of it.

EXTRA_LTLIBRARIES = tests/mutants/libautograph.la
tests_mutants_libautograph_la_SOURCES = $(libautograph_la_SOURCES) tests/mutants/mutant.c \
	tests/mutants/mutants.def tests/mutants/mutants.h
tests_mutants_libautograph_la_CPPFLAGS = $(libautograph_la_CPPFLAGS) -DAG_MUTANTS -I$(top_srcdir)/tests/mutants
tests_mutants_libautograph_la_CFLAGS = $(libautograph_la_CFLAGS)
tests_mutants_libautograph_la_CCASFLAGS = $(libautograph_la_CCASFLAGS)
tests_mutants_libautograph_la_LIBADD = $(libautograph_la_LIBADD)
tests_mutants_libautograph_la_LDFLAGS = $(libautograph_la_LDFLAGS) -rpath /nonexistent
$(tests_mutants_libautograph_la_OBJECTS): src/engine/context/fetch.fatbin src/preload/slots.inc $(preload_doors)

EXTRA_DIST += tests/mutants/found.py tests/mutants/run

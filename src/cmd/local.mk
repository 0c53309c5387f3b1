# The command: modules in share/autograph, and an entry script that knows where they are; one for the
# installation, and one at the top of the build tree.

cmddir = $(datadir)/autograph
dist_cmd_DATA = src/config/options.def src/config/cuda.def src/observe/reasons.def src/trace/kinds.def \
	src/cmd/advice.py src/cmd/bench.py src/cmd/common.py src/cmd/compare.py src/cmd/convert.py src/cmd/doctor.py \
	src/cmd/elf.py src/cmd/launch.py src/cmd/main.py src/cmd/options.py src/cmd/page.py \
	src/cmd/reasons.py src/cmd/report.py src/cmd/runs.py src/cmd/simulated.py src/cmd/timeline.py src/cmd/times.py src/cmd/top.py \
	src/cmd/tracefile.py src/cmd/verdict.py src/cmd/verify.py

bin_SCRIPTS = src/cmd/autograph
noinst_SCRIPTS = autograph
CLEANFILES += src/cmd/autograph autograph
EXTRA_DIST += src/cmd/autograph.in

ag_entry = $(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's|@PYTHON[@]|$(PYTHON)|' -e 's|@VERSION[@]|$(VERSION)|' \
	    -e 's|@sysconfdir[@]|$(sysconfdir)|'

src/cmd/autograph: src/cmd/autograph.in Makefile
	$(ag_entry) -e 's|@bindir[@]|$(bindir)|' -e 's|@library[@]|$(autographexecdir)/libautograph.so|' \
	    -e 's|@cmddir[@]|$(cmddir)|' $(srcdir)/src/cmd/autograph.in >$@.tmp
	$(AM_V_at)chmod +x $@.tmp && mv $@.tmp $@

autograph: src/cmd/autograph.in Makefile
	$(ag_entry) -e 's|@bindir[@]|$(abs_top_builddir)|' \
	    -e 's|@library[@]|$(abs_top_builddir)/.libs/libautograph.so|' \
	    -e 's|@cmddir[@]|$(abs_top_srcdir)/src/cmd|' $(srcdir)/src/cmd/autograph.in >$@.tmp
	$(AM_V_at)chmod +x $@.tmp && mv $@.tmp $@

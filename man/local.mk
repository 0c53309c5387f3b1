# Manual pages. That of the configuration file takes the options from conf/autograph.ini.

nodist_man_MANS = man/autograph.1 man/autograph.ini.5
EXTRA_DIST += man/autograph.1.in man/autograph.ini.5.in man/options.py
CLEANFILES += man/autograph.1 man/autograph.ini.5

man/autograph.1 man/autograph.ini.5: man/%: man/%.in man/options.py conf/autograph.ini Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(PYTHON) $(srcdir)/man/options.py $(srcdir)/man/$*.in \
	    $(srcdir)/conf/autograph.ini 'VERSION=$(VERSION)' 'RELEASE_DATE=$(RELEASE_DATE)' \
	    'sysconfdir=$(sysconfdir)' 'docdir=$(docdir)' 'library=$(autographexecdir)/libautograph.so' >$@.tmp
	$(AM_V_at)mv $@.tmp $@

# Manual pages. That of the configuration file takes the options from conf/autograph.ini.

dist_man_MANS = man/autograph.1
nodist_man_MANS = man/autograph.ini.5
EXTRA_DIST += man/autograph.ini.5.in man/options.py
CLEANFILES += man/autograph.ini.5

man/autograph.ini.5: man/autograph.ini.5.in man/options.py conf/autograph.ini Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(PYTHON) $(srcdir)/man/options.py \
	    $(srcdir)/man/autograph.ini.5.in $(srcdir)/conf/autograph.ini '$(sysconfdir)' >$@.tmp
	$(AM_V_at)mv $@.tmp $@

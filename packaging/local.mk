# A module file for Environment Modules and Lmod: module use PREFIX/share/modulefiles.

modulefilesdir = $(datadir)/modulefiles/autograph
nodist_modulefiles_DATA = packaging/module/@PACKAGE_VERSION@
CLEANFILES += $(nodist_modulefiles_DATA)
EXTRA_DIST += packaging/modulefile.in

packaging/module/@PACKAGE_VERSION@: packaging/modulefile.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && from() { realpath -ms --relative-to='$(modulefilesdir)' "$$1"; } && \
	$(SED) -e 's|@VERSION[@]|$(VERSION)|' -e "s|@bindir[@]|`from '$(bindir)'`|" \
	    -e "s|@libdir[@]|`from '$(libdir)'`|" -e "s|@includedir[@]|`from '$(includedir)'`|" \
	    '$(srcdir)/packaging/modulefile.in' >$@.tmp
	$(AM_V_at)mv $@.tmp $@

# The configuration file. What was installed last is kept beside the command's modules: a file that differs
# from it has been edited, and is neither written over nor removed.

EXTRA_DIST += conf/autograph.ini

ini = $(DESTDIR)$(sysconfdir)/autograph.ini
ini_installed = $(DESTDIR)$(cmddir)/autograph.ini
ini_new = $(srcdir)/conf/autograph.ini

install-data-local:
	@$(MKDIR_P) '$(DESTDIR)$(sysconfdir)' '$(DESTDIR)$(cmddir)'
	@if test ! -e '$(ini)' || cmp -s '$(ini)' '$(ini_installed)' || cmp -s '$(ini)' '$(ini_new)'; then \
	    echo " $(INSTALL_DATA) $(ini_new) '$(ini)'"; \
	    $(INSTALL_DATA) '$(ini_new)' '$(ini)'; \
	else \
	    echo '$(ini) has been edited and stays as it is; the new one is $(ini_installed)'; \
	fi
	$(INSTALL_DATA) '$(ini_new)' '$(ini_installed)'

uninstall-local:
	@if test ! -e '$(ini)' || cmp -s '$(ini)' '$(ini_installed)'; then \
	    echo " rm -f '$(ini)'"; \
	    rm -f '$(ini)'; \
	else \
	    echo '$(ini) has been edited and stays'; \
	fi
	rm -f '$(ini_installed)'

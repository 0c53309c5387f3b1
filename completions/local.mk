# Completions of the command line, made of the commands' own tables of options.

bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_bashcompletion_DATA = completions/autograph
nodist_zshcompletion_DATA = completions/_autograph
nodist_fishcompletion_DATA = completions/autograph.fish
ag_completions = completions/autograph completions/_autograph completions/autograph.fish

EXTRA_DIST += completions/generate.py
CLEANFILES += $(ag_completions)

ag_complete = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(PYTHON) '$(srcdir)/completions/generate.py'

completions/autograph: completions/generate.py $(dist_cmd_DATA)
	$(ag_complete) bash >$@.tmp && mv $@.tmp $@
completions/_autograph: completions/generate.py $(dist_cmd_DATA)
	$(ag_complete) zsh >$@.tmp && mv $@.tmp $@
completions/autograph.fish: completions/generate.py $(dist_cmd_DATA)
	$(ag_complete) fish >$@.tmp && mv $@.tmp $@

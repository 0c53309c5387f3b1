# The engine, and what it stands on: the tree of traces and the graphs made of them.
engine_sources = \
	src/engine/account.c src/engine/account.h src/engine/api.c src/engine/aside.c src/engine/aside.h \
	src/engine/barrier.c src/engine/barrier.h src/engine/branch.h src/engine/calls.c src/engine/call.h \
	src/engine/clock.c src/engine/clock.h src/engine/context.c src/engine/context.h src/engine/copies.c \
	src/engine/copies.h src/engine/credit.c src/engine/credit.h src/engine/describe.c src/engine/describe.h \
	src/engine/eager.h src/engine/engine.h src/engine/enter.c src/engine/enter.h src/engine/event.c src/engine/event.h \
	src/engine/execs.c src/engine/execs.h src/engine/facts.c src/engine/facts.h src/engine/failure.c src/engine/failure.h src/engine/fetch.c src/engine/fetch.h src/engine/fetch_image.S src/engine/find.c src/engine/find.h \
	src/engine/fork.c src/engine/fork.h src/engine/grow.c src/engine/guests.c src/engine/guests.h src/engine/handle.c src/engine/handle.h src/engine/hold.c src/engine/hold.h src/engine/hot.c \
	src/engine/hot.h src/engine/issuer.c src/engine/issuer.h src/engine/kernel.c src/engine/late.c src/engine/late.h src/engine/learnt.c src/engine/learnt.h src/engine/left.c src/engine/left.h src/engine/limbo.c src/engine/limbo.h \
	src/engine/life.c src/engine/lock.c src/engine/lock.h src/engine/make.c src/engine/make.h src/engine/memory.c \
	src/engine/memory.h src/engine/observe.c src/engine/observe.h src/engine/op.c src/engine/op.h src/engine/pace.c \
	src/engine/pace.h src/engine/outstanding.c src/engine/outstanding.h src/engine/passing.c src/engine/paths.c src/engine/paths.h src/engine/poll.c src/engine/pool.c src/engine/query.c src/engine/query.h src/engine/pinned.c src/engine/pinned.h src/engine/read.c src/engine/registry.c \
	src/engine/registry.h src/engine/relay.c src/engine/relay.h src/engine/sequence.c src/engine/sequence.h \
	src/engine/settle.c src/engine/settle.h src/engine/staging.c src/engine/staging.h src/engine/stream.c \
	src/engine/stream.h src/engine/submit.c src/engine/submit.h src/engine/thread.c src/engine/thread.h src/engine/turns.c src/engine/turns.h src/engine/watch.c \
	src/engine/watch.h src/engine/watchdog.c src/engine/watchdog.h src/engine/young.c src/engine/young.h \
	src/graph/attribute.c src/graph/attribute.h src/graph/fork.c src/graph/fork.h src/graph/function.c src/graph/function.h src/graph/keep.c src/graph/keep.h src/graph/node.c src/graph/node.h src/graph/setting.c src/graph/setting.h src/graph/shape.c src/graph/shape.h src/graph/step.h src/graph/trace.c src/graph/trace.h \
	src/graph/variant.c src/graph/variant.h src/graph/words.h \
	src/policy/backoff.h src/policy/duel.c src/policy/duel.h src/policy/policy.def src/policy/policy.h \
	src/trace/known.c src/trace/known.h src/trace/op.c src/trace/op.h src/trace/recorder.c src/trace/recorder.h \
	src/trace/tree.c src/trace/tree.h

# The kernel for read-backs, for each kind of device that the compiler knows. Without a compiler read-backs stay calls.
$(libautograph_la_OBJECTS): src/engine/fetch.fatbin
CLEANFILES += src/engine/fetch.fatbin
EXTRA_DIST += src/engine/fetch.ptx

src/engine/fetch.fatbin: $(top_srcdir)/src/engine/fetch.ptx
if HAVE_NVCC
	$(AM_V_GEN)$(MKDIR_P) src/engine && $(NVCC) -fatbin -arch=all-major -o $@ '$(top_srcdir)/src/engine/fetch.ptx'
else
	$(AM_V_GEN)$(MKDIR_P) src/engine && printf '\0\0\0\0' > $@
endif

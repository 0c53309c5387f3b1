# The engine, and what it stands on: the tree of traces and the graphs made of them.
engine_sources = \
	src/engine/call.h src/engine/engine.h src/engine/hot.c src/engine/hot.h \
	src/engine/calls/api.c src/engine/calls/calls.c src/engine/calls/doorstep.c src/engine/calls/grow.c \
	src/engine/calls/kernel.c src/engine/calls/life.c src/engine/calls/passing.c src/engine/calls/poll.c \
	src/engine/calls/pool.c src/engine/calls/process.c src/engine/calls/read.c src/engine/calls/wait.c \
	src/engine/calls/watch.c src/engine/calls/watch.h \
	src/engine/order/barrier.c src/engine/order/barrier.h src/engine/order/enter.c src/engine/order/enter.h \
	src/engine/order/find.c src/engine/order/find.h src/engine/order/fork.c src/engine/order/fork.h \
	src/engine/order/overdue.c src/engine/order/overdue.h src/engine/order/event_flush.c src/engine/order/event_flush.h \
	src/engine/replay/execs.c src/engine/replay/execs.h src/engine/replay/hold.c src/engine/replay/hold.h \
	src/engine/replay/limbo.c src/engine/replay/limbo.h src/engine/replay/make.c src/engine/replay/make.h \
	src/engine/replay/op.c src/engine/replay/op.h src/engine/replay/registry.c src/engine/replay/registry.h \
	src/engine/replay/relay.c src/engine/replay/relay.h src/engine/replay/staging.c src/engine/replay/staging.h \
	src/engine/replay/submit.c src/engine/replay/submit.h \
	src/engine/decide/budget.c src/engine/decide/budget.h src/engine/decide/launch_model.c src/engine/decide/launch_model.h \
	src/engine/decide/trials.c src/engine/decide/trials.h \
	src/engine/tell/account.c src/engine/tell/account.h src/engine/tell/learnt.c src/engine/tell/learnt.h \
	src/engine/tell/observe.c src/engine/tell/observe.h \
	src/engine/stream/helper.c src/engine/stream/helper.h src/engine/stream/copies.c src/engine/stream/copies.h \
	src/engine/stream/describe.c src/engine/stream/describe.h src/engine/stream/eager.h src/engine/stream/event.c \
	src/engine/stream/event.h src/engine/stream/failure.c src/engine/stream/failure.h src/engine/stream/branches.c \
	src/engine/stream/branches.h src/engine/stream/issuer.c src/engine/stream/issuer.h \
	src/engine/stream/outstanding.c src/engine/stream/outstanding.h src/engine/stream/paths.c \
	src/engine/stream/paths.h src/engine/stream/pinned.c src/engine/stream/pinned.h src/engine/stream/sequence.c \
	src/engine/stream/sequence.h src/engine/stream/stream.c src/engine/stream/stream.h src/engine/stream/untracked.c \
	src/engine/stream/untracked.h \
	src/engine/context/context.c src/engine/context/context.h src/engine/context/fetch.c \
	src/engine/context/fetch.h src/engine/context/fetch_image.S src/engine/context/orphans.c \
	src/engine/context/orphans.h src/engine/context/memory.c src/engine/context/memory.h src/engine/context/query.c \
	src/engine/context/query.h \
	src/engine/base/branch.h src/engine/base/clock.c src/engine/base/clock.h src/engine/base/facts.c \
	src/engine/base/facts.h src/engine/base/handle.c src/engine/base/handle.h src/engine/base/lock.c \
	src/engine/base/lock.h src/engine/base/thread.c src/engine/base/thread.h src/engine/base/watchdog.c \
	src/engine/base/watchdog.h \
	src/graph/attribute.c src/graph/attribute.h src/graph/fork.c src/graph/fork.h src/graph/function.c \
	src/graph/function.h src/graph/node.c src/graph/node.h src/graph/setting.c \
	src/graph/setting.h src/graph/shape.c src/graph/shape.h src/graph/step.h src/graph/trace.c src/graph/trace.h \
	src/graph/variant.c src/graph/variant.h src/graph/words.h \
	src/driver/limits.def src/driver/limits.h \
	src/policy/backoff.h src/policy/trial.c src/policy/trial.h src/policy/policy.def src/policy/policy.h \
	src/trace/kinds.def src/trace/known.c src/trace/known.h src/trace/op.c src/trace/op.h src/trace/recorder.c src/trace/recorder.h \
	src/trace/recording.h src/trace/repeat.c src/trace/repeat.h src/trace/rest.c src/trace/rest.h \
	src/trace/tree.c src/trace/tree.h

# The kernel for read-backs, for each kind of device that the compiler knows. Without a compiler read-backs stay calls.
$(libautograph_la_OBJECTS): src/engine/context/fetch.fatbin
CLEANFILES += src/engine/context/fetch.fatbin
EXTRA_DIST += src/engine/context/fetch.ptx

src/engine/context/fetch.fatbin: $(top_srcdir)/src/engine/context/fetch.ptx
if HAVE_NVCC
	$(AM_V_GEN)$(MKDIR_P) src/engine/context && $(NVCC) -fatbin -arch=all-major -o $@ '$(top_srcdir)/src/engine/context/fetch.ptx'
else
	$(AM_V_GEN)$(MKDIR_P) src/engine/context && printf '\0\0\0\0' > $@
endif

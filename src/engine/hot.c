/* SPDX-License-Identifier: MIT */
/* Nothing but definitions: who raises and lowers each word says the header. */
#include "engine/hot.h"

_Atomic bool ag_engine_on;
_Thread_local unsigned ag_depth __attribute__((tls_model("initial-exec")));

_Atomic unsigned ag_subscribers;
_Atomic unsigned ag_file_listens;
_Atomic unsigned ag_next_subscribers;
_Atomic unsigned ag_event_streams;
_Atomic bool ag_graphs_wait;
_Atomic bool ag_graphs_free;

_Atomic unsigned ag_refused;
_Atomic unsigned ag_wanted_traces;
_Atomic unsigned ag_any_orphans;
_Atomic bool ag_streams_go;

_Atomic uint64_t ag_memory_state = 2; /* no answer's yet */
_Thread_local struct ag_current ag_current __attribute__((tls_model("initial-exec")));
_Atomic unsigned ag_changes = 1;
_Thread_local const char *ag_cause __attribute__((tls_model("initial-exec")));
const char ag_cause_kernel[] = "cuLaunchKernel";
_Thread_local struct ag_done ag_done __attribute__((tls_model("initial-exec")));
_Thread_local struct ag_passing ag_passing __attribute__((tls_model("initial-exec")));

_Atomic int ag_hold_bans;
_Atomic int ag_pauses;
_Atomic unsigned ag_capture_breakers;
_Atomic unsigned ag_captures_beginning;

_Atomic uint64_t ag_stateless_ops;
_Atomic bool ag_stateless_kernels;

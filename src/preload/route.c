/* SPDX-License-Identifier: MIT */
/*
 * From a real driver function to what the program gets in its place.
 *
 * cuGetProcAddress() always returns the address of an exported function of libcuda, so a table of
 * their addresses, made when the file was loaded, resolves name, version and flags exactly as the
 * driver did.
 */
#include "preload/preload.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "driver/driver.h"
#include "engine/engine.h"
#include "preload/libcuda.h"

static const char too_many[] = "the driver has more unknown functions than there is room for";

/* -- The doors that each driver has of its own --------------------------------- */

/*
 * The functions that lead to all others. A program may get them from a libcuda whose other
 * functions it never uses: from a shim in front of the driver, or from a driver that does not work.
 * So each libcuda has its own doors to them.
 */
struct entries {
    CUresult (*init)(unsigned flags);
    CUresult (*get)(const char *symbol, void **found, int version, cuuint64_t flags);
    CUresult (*get_v2)(const char *symbol, void **found, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status);
};

/* A real function of a file, by the file's number. */
#define ENTRY(number, field, name)                                                                 \
    ((__typeof__(((struct entries *)NULL)->field))ag_libcudas[number].slots[AG_SLOT_##name].real)

static void suppose(struct ag_libcuda *libcuda);

/* The file that is initialised is the one to ask about devices, until another one is chosen. */
static CUresult initialise(unsigned number, unsigned flags)
{
    ag_driver_reads_variables(false);
    CUresult result = ENTRY(number, init, cuInit)(flags);
    if (result == CUDA_SUCCESS)
        suppose(&ag_libcudas[number]);
    ag_driver_initialised(result == CUDA_SUCCESS);
    return result;
}

static unsigned add_function(struct ag_libcuda *libcuda, void *function);

/* What the program gets in place of an address that a driver gave as one of its functions, wherever
   it lies. */
static void *route_given(void *found)
{
    found = ag_libcuda_behind(found); /* it was looked up by a jump to dlsym() */
    struct ag_libcuda *libcuda = ag_bind_found(found, true);
    if (!libcuda)
        return found;
    unsigned slot = ag_libcuda_slot(libcuda, found);
    if (slot == AG_SLOTS)
        slot = add_function(libcuda, found);
    if (slot == AG_SLOTS) /* a call that passes no barrier would be unsound */
        ag_give_up(too_many);
    return slot == AG_SLOTS ? found : ag_route(libcuda, slot);
}

static CUresult routed(CUresult result, void **found)
{
    if (result == CUDA_SUCCESS && found && *found)
        *found = route_given(*found);
    return result;
}

#include "preload/route_doors.inc"

#define ENTRIES(number)                                                                            \
    {                                                                                              \
        (void *)init_##number, (void *)get_##number, (void *)get_v2_##number                       \
    }
static void *const entry_doors[AG_LIBCUDAS][AG_ENTRIES] = {
    ENTRIES(0), ENTRIES(1), ENTRIES(2), ENTRIES(3), ENTRIES(4), ENTRIES(5), ENTRIES(6), ENTRIES(7),
};

/* Each file has its own: these stand in the table of doors only. */
AG_DOOR CUresult ag_door_cuInit(unsigned flags)
{
    return initialise(0, flags);
}

AG_DOOR CUresult ag_door_cuGetProcAddress(const char *symbol, void **found, int version,
                                          cuuint64_t flags)
{
    return get_0(symbol, found, version, flags);
}

AG_DOOR CUresult ag_door_cuGetProcAddress_v2(const char *symbol, void **found, int version,
                                             cuuint64_t flags,
                                             CUdriverProcAddressQueryResult *status)
{
    return get_v2_0(symbol, found, version, flags, status);
}

/* -- The driver that the program uses ---------------------------------------- */

/* The toolkit's stub, and what else does not even tell its version, is left alone. */
enum works { NOT_ASKED, WORKS, IS_STUB };

/* Asks nothing that needs cuInit(). Under no lock: a shim may look for the driver now. */
static bool works(struct ag_libcuda *libcuda)
{
    if (libcuda->works == NOT_ASKED) {
        int version;
        CUresult (*ask)(int *) =
            (CUresult(*)(int *))libcuda->slots[AG_SLOT_cuDriverGetVersion].real;
        libcuda->works = ask && ask(&version) == CUDA_SUCCESS ? WORKS : IS_STUB;
    }
    return libcuda->works == WORKS;
}

/*
 * The file whose functions are given out: ag_slots and ag_real are of that one. It may become
 * another one until the program has got a door of it, which is more than a query.
 */
static struct ag_libcuda *_Atomic chosen;
static _Atomic bool committed;

/* One that is not exported, or that nobody has heard of. */
static unsigned add_function(struct ag_libcuda *libcuda, void *function)
{
    ag_doors_lock();
    unsigned slot = ag_libcuda_add_function(libcuda, function);
    if (slot != AG_SLOTS && chosen == libcuda)
        ag_slots[slot] = libcuda->slots[slot];
    ag_doors_unlock();
    return slot;
}

/* False: it is another one for good. */
static bool choose(struct ag_libcuda *libcuda)
{
    ag_doors_lock();
    if (!committed && chosen != libcuda) {
        memcpy(ag_slots, libcuda->slots, sizeof ag_slots);
        ag_driver_resolve(&ag_real, libcuda, ag_libcuda_function);
        chosen = libcuda;
    }
    bool is_chosen = chosen == libcuda;
    ag_doors_unlock();
    if (is_chosen && libcuda->full)
        ag_give_up(too_many);
    return is_chosen;
}

static void suppose(struct ag_libcuda *libcuda)
{
    if (chosen == NULL)
        (void)choose(libcuda);
}

/* Before the first door is given out; false: another file has been chosen meanwhile. */
static bool commit(struct ag_libcuda *libcuda)
{
    if (committed)
        return chosen == libcuda;
    ag_doors_lock();
    bool is_chosen = chosen == libcuda;
    if (is_chosen && !committed) {
        ag_start();
        committed = true;
    }
    ag_doors_unlock();
    return is_chosen;
}

/* The program has doors of one driver, and gets functions of another. The two may be one behind the
   other, and what is done through the one would change what is held through the other. */
static enum ag_shown other(const struct ag_libcuda *libcuda, unsigned slot)
{
    if (libcuda->slots[slot].class == AG_CLASS_QUERY)
        return libcuda->shown;
    ag_give_up("the program uses two drivers: %s and %s",
               ((struct ag_libcuda *)chosen)->object.path, libcuda->object.path);
    return AG_SHOWS_REAL;
}

/* What the symbols of the file shall lead to, now that the program gets or calls that function. */
static enum ag_shown decide(struct ag_libcuda *libcuda, unsigned slot)
{
    if (!ag_enabled() || !works(libcuda))
        return AG_LEFT_ALONE;
    if (ag_gave_up())
        return AG_SHOWS_REAL;
    if (ag_slot_is_entry(slot))
        return libcuda->shown;
    if (chosen != libcuda && (committed || !choose(libcuda)))
        return other(libcuda, slot);
    if (libcuda->slots[slot].class == AG_CLASS_QUERY)
        return libcuda->shown;
    if (!commit(libcuda))
        return other(libcuda, slot);
    return ag_gave_up() ? AG_SHOWS_REAL : AG_SHOWS_DOORS;
}

/* This thread decides: the driver that is asked may call what is not decided yet. */
static _Thread_local bool deciding __attribute__((tls_model("initial-exec")));

void *ag_route(struct ag_libcuda *libcuda, unsigned slot)
{
    if (deciding)
        return libcuda->slots[slot].real;
    deciding = true;
    libcuda->entries = entry_doors[ag_libcuda_number(libcuda)];
    enum ag_shown shown = decide(libcuda, slot);
    if (shown != libcuda->settled) /* or another thread is about it */
        ag_bind_show(libcuda, shown);
    deciding = false;
    return ag_libcuda_shows(libcuda, slot);
}

/* Called by a gate whose word does not lead further yet. Returns what the call is for. */
__attribute__((used, visibility("hidden"))) void *ag_gate_decide(const _Atomic(void *) *word)
{
    int saved = errno;
    unsigned slot;
    struct ag_libcuda *libcuda = ag_gate_of(word, &slot);
    void *to = libcuda->slots[slot].real;
    if (!deciding) {
        (void)ag_route(libcuda, slot);
        to = ag_libcuda_behind_gate(libcuda, slot);
    }
    errno = saved;
    return to;
}

/* -- Barriers ------------------------------------------------------------- */

/*
 * Called by a thunk while anything is held, or known of memory. Always by that of a function which
 * puts work into a stream, or is not known: that may make another context current, or a node.
 * `registers` and `stack` are the integer arguments as the calling convention passes them; no
 * function with such an argument takes another kind.
 */
__attribute__((used, visibility("hidden"))) void
ag_thunk_barrier(const struct ag_slot *slot, const uintptr_t *registers, const uintptr_t *stack)
{
    if (slot >= &ag_slots[AG_SLOTS_KNOWN]) {
        ag_engine_forget_current();
        atomic_store(&ag_graphs_wait, true); /* it may make a node of any type */
        atomic_store(&ag_graphs_free, true);
    }
    if (ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return;
    if (slot->class == AG_CLASS_BARRIER || slot->class == AG_CLASS_ALLOCATION)
        ag_memory_changed();
    AG_NOTE(ag_note_barrier(ag_slot_name((unsigned)(slot - ag_slots)), 0));
    unsigned n = slot->argument;
    uintptr_t argument =
        n < AG_REGISTER_ARGUMENTS ? registers[n] : stack[n - AG_REGISTER_ARGUMENTS];
    if (slot->class == AG_CLASS_STREAM)
        ag_engine_stream_works((CUstream)argument, slot->ptsz);
    if (!ag_anything_held() && atomic_load(&ag_next_subscribers) == 0)
        return;
    ag_cause = ag_slot_name((unsigned)(slot - ag_slots));
    switch (slot->class) {
    case AG_CLASS_FUNCTION:
        ag_engine_barrier_load((CUfunction)argument);
        break;
    case AG_CLASS_STREAM:
        ag_engine_barrier_stream((CUstream)argument, slot->ptsz, AG_REASON_STREAM_BARRIER);
        break;
    case AG_CLASS_DEFAULT_STREAM:
        ag_done.waits++;
        ag_engine_barrier_wait(NULL, slot->ptsz, AG_REASON_HOST_WAIT);
        break;
    case AG_CLASS_DEVICE_COPY:
        ag_engine_barrier_copy(slot->ptsz, AG_REASON_HOST_WAIT);
        break;
    case AG_CLASS_ALLOCATION:
        ag_engine_barrier_most(AG_REASON_BARRIER);
        break;
    default:
        ag_engine_barrier_all(AG_REASON_BARRIER);
        break;
    }
}

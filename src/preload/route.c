/* SPDX-License-Identifier: MIT */
/*
 * From the address of a real driver function to what the program gets in its place.
 *
 * cuGetProcAddress() always returns the address of an exported function of libcuda, so a table of
 * their addresses, made once, resolves name, version and flags exactly as the driver did.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/engine.h"

/* As each slot is before a driver has been chosen. */
static const struct ag_slot slots[AG_SLOTS_KNOWN] = {
#define AG_SLOT(name, class, argument, ptsz) {NULL, AG_CLASS_##class, argument, ptsz},
#include "preload/slots.inc"
#undef AG_SLOT
};

static const char *const names[AG_SLOTS_KNOWN] = {
#define AG_SLOT(name, class, argument, ptsz) #name,
#include "preload/slots.inc"
#undef AG_SLOT
};

/* doors.S, arch/.../thunks.S */
extern void *const ag_doors[AG_SLOTS_KNOWN];
extern const char ag_thunks[AG_SLOTS][AG_THUNK_SIZE];

/* Guards what is added to the tables below; readers take no lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* -- Files of a driver ------------------------------------------------------ */

enum { DRIVERS = 8 };

static struct driver {
    uintptr_t start, end;
    void *handle; /* keeps it loaded: addresses that were given out must stay valid */
    char path[4096];
    _Atomic unsigned char works; /* enum works */
} drivers[DRIVERS];
static _Atomic unsigned driver_count;

/* The toolkit's stub, and what else does not even tell its version, is left alone. */
enum works { NOT_ASKED, WORKS, IS_STUB };

/*
 * The functions that lead to all others. A program may get them from a libcuda whose other
 * functions it never uses: from a shim in front of the driver, or from a driver that does not work.
 * So each libcuda has its own doors to them.
 */
static struct entries {
    CUresult (*init)(unsigned flags);
    CUresult (*get)(const char *symbol, void **found, int version, cuuint64_t flags);
    CUresult (*get_v2)(const char *symbol, void **found, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status);
} entries[DRIVERS];

struct search {
    uintptr_t address, start, end;
    const ElfW(Dyn) * dynamic;
    char path[4096];
};

static int find_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct search *search = context;
    uintptr_t start, end;
    ag_object_range(info, &start, &end);
    if (search->address < start || search->address >= end)
        return 0;
    search->start = start;
    search->end = end;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            search->dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (strlen(info->dlpi_name) < sizeof search->path)
        strcpy(search->path, info->dlpi_name);
    return 1;
}

static struct driver *find_driver(uintptr_t address)
{
    unsigned count = atomic_load_explicit(&driver_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (address >= drivers[i].start && address < drivers[i].end)
            return &drivers[i];
    return NULL;
}

bool ag_is_libcuda(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "libcuda.so", strlen("libcuda.so")) == 0;
}

/* Keeps the object, and its functions that lead to all others. NULL: it cannot be kept. */
static struct driver *remember(const struct search *search)
{
    void *handle = dlopen(search->path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    struct entries found = {
        .init = (__typeof__(found.init))ag_dlsym(handle, "cuInit"),
        .get = (__typeof__(found.get))ag_dlsym(handle, "cuGetProcAddress"),
        .get_v2 = (__typeof__(found.get_v2))ag_dlsym(handle, "cuGetProcAddress_v2"),
    };
    pthread_mutex_lock(&lock);
    unsigned count = atomic_load_explicit(&driver_count, memory_order_relaxed);
    struct driver *driver = find_driver(search->address);
    if (!driver && count < DRIVERS) {
        driver = &drivers[count];
        driver->start = search->start;
        driver->end = search->end;
        driver->handle = handle;
        strcpy(driver->path, search->path);
        entries[count] = found;
        atomic_store_explicit(&driver_count, count + 1, memory_order_release);
        handle = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (handle)
        dlclose(handle);
    if (!driver) /* its calls would pass the doors by */
        ag_give_up("there are more drivers than there is room for");
    return driver;
}

/* The driver around the address. `certain`: whatever its file is called. */
static struct driver *driver_of(const void *address, bool certain)
{
    struct driver *driver = find_driver((uintptr_t)address);
    struct search search = {.address = (uintptr_t)address};
    if (driver || !dl_iterate_phdr(find_object, &search))
        return driver;
    const char *soname = ag_dynamic_string(search.dynamic, DT_SONAME);
    if (!certain && !ag_is_libcuda(search.path) && !(soname && ag_is_libcuda(soname)))
        return NULL;
    return remember(&search);
}

bool ag_in_libcuda(const void *address)
{
    return driver_of(address, false) != NULL;
}

/* Asks nothing that needs cuInit(). Under no lock: a shim may look for the driver now. */
static bool works(struct driver *driver)
{
    if (driver->works == NOT_ASKED) {
        int version;
        CUresult (*ask)(int *) = (CUresult(*)(int *))ag_dlsym(driver->handle, "cuDriverGetVersion");
        driver->works = ask && ask(&version) == CUDA_SUCCESS ? WORKS : IS_STUB;
    }
    return driver->works == WORKS;
}

/* -- The doors that each driver has of its own --------------------------------- */

static CUresult initialise(unsigned driver, unsigned flags)
{
    ag_driver_reads_variables(false);
    CUresult result = entries[driver].init(flags);
    ag_driver_initialised(result == CUDA_SUCCESS);
    return result;
}

/* What the program gets in place of an address that a driver gave as one of its functions, wherever
   it lies. */
static void *route_driver(void *found);

static CUresult routed(CUresult result, void **found)
{
    if (result == CUDA_SUCCESS && found && *found)
        *found = route_driver(*found);
    return result;
}

#include "preload/route_doors.inc"

static const struct entries entry_doors[DRIVERS] = {
    {init_0, get_0, get_v2_0}, {init_1, get_1, get_v2_1}, {init_2, get_2, get_v2_2},
    {init_3, get_3, get_v2_3}, {init_4, get_4, get_v2_4}, {init_5, get_5, get_v2_5},
    {init_6, get_6, get_v2_6}, {init_7, get_7, get_v2_7},
};

static void *entry_door(unsigned driver, const void *function)
{
    const struct entries *real = &entries[driver], *door = &entry_doors[driver];
    return function == (void *)real->init     ? (void *)door->init
           : function == (void *)real->get    ? (void *)door->get
           : function == (void *)real->get_v2 ? (void *)door->get_v2
                                              : NULL;
}

/* Each driver has its own: these stand in the table of doors only. */
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

/* -- From address to slot ------------------------------------------------- */

/* Open addressing; an entry is never changed once it is set. */
#define TABLE 4096
_Static_assert(TABLE > (int)AG_SLOTS, "the table never fills");

static struct {
    _Atomic uintptr_t address;
    unsigned slot; /* valid once the address is set */
} table[TABLE];
static unsigned slots_used = AG_SLOTS_KNOWN;

static unsigned find_entry(uintptr_t address)
{
    unsigned i = (address >> 4) * 0x9e3779b1u % TABLE;
    for (;; i = (i + 1) % TABLE) {
        uintptr_t there = atomic_load_explicit(&table[i].address, memory_order_acquire);
        if (there == address || !there)
            return i;
    }
}

/* Under the lock. */
static void add_entry(uintptr_t address, unsigned slot)
{
    unsigned i = find_entry(address);
    table[i].slot = slot;
    ag_slots[slot].real = (void *)address;
    atomic_store_explicit(&table[i].address, address, memory_order_release);
}

/*
 * Two names of one function: what it is called by cannot be told, so the stricter class holds. A
 * life-cycle call stays one, since the engine must hear of it.
 */
static void merge(struct ag_slot *slot, unsigned index, struct ag_slot *other)
{
    bool same = slot->class == other->class && slot->argument == other->argument &&
                slot->ptsz == other->ptsz;
    if (slot->class == AG_CLASS_WRAP || (same && slot->class != AG_CLASS_OP))
        return;
    if (other->class == AG_CLASS_WRAP || slot->class == AG_CLASS_QUERY) {
        other->real = slot->real;
        table[find_entry((uintptr_t)slot->real)].slot = index;
    } else if (other->class != AG_CLASS_QUERY) {
        slot->class = AG_CLASS_BARRIER;
    }
}

static void look_up(const struct driver *driver, void *addresses[AG_SLOTS_KNOWN])
{
    for (unsigned i = 0; i < AG_SLOTS_KNOWN; i++) {
        void *found = ag_dlsym(driver->handle, names[i]);
        addresses[i] = find_driver((uintptr_t)found) == driver ? found : NULL;
    }
}

/* Under the lock, as long as no door has been given out. */
static void fill(void *const addresses[AG_SLOTS_KNOWN])
{
    memset(table, 0, sizeof table);
    slots_used = AG_SLOTS_KNOWN;
    memcpy(ag_slots, slots, sizeof slots);
    for (unsigned i = 0; i < AG_SLOTS_KNOWN; i++) {
        uintptr_t address = (uintptr_t)addresses[i];
        if (!address)
            continue;
        unsigned entry = find_entry(address);
        if (atomic_load_explicit(&table[entry].address, memory_order_relaxed))
            merge(&ag_slots[table[entry].slot], i, &ag_slots[i]);
        else
            add_entry(address, i);
    }
    for (unsigned i = AG_SLOTS_KNOWN; i < AG_SLOTS; i++)
        ag_slots[i].class = AG_CLASS_BARRIER;
}

/* -- The driver that the program uses ---------------------------------------- */

/*
 * The driver whose functions are given out: the slots and the table are of that one. It may become
 * another one until the program has got a door of it, which is more than a query.
 */
static struct driver *_Atomic chosen;
static _Atomic bool committed;

/* False: it is another one for good. */
static bool choose(struct driver *driver)
{
    /* The loader's lock is taken by each look-up, and may be held by who comes here (a constructor
       in dlopen()). So look-ups are made before our own lock is taken. */
    struct ag_driver functions;
    void *addresses[AG_SLOTS_KNOWN];
    ag_driver_resolve(&functions, driver->handle, ag_dlsym);
    look_up(driver, addresses);
    bool asked = ag_dlsym_is_asked(driver->handle);
    pthread_mutex_lock(&lock);
    if (!committed && chosen != driver) {
        fill(addresses);
        ag_real = functions;
        chosen = driver;
    }
    bool is_chosen = chosen == driver;
    pthread_mutex_unlock(&lock);
    if (!asked) /* some calls of the driver would pass what is held by others */
        ag_give_up("another library's dlsym() hides the driver's functions: it has to be preloaded "
                   "behind this one");
    return is_chosen;
}

/* Before the first door is given out; false: another driver has been chosen meanwhile. */
static bool commit(struct driver *driver)
{
    if (committed)
        return chosen == driver;
    pthread_mutex_lock(&lock);
    bool is_chosen = chosen == driver;
    if (is_chosen && !committed) {
        ag_start();
        committed = true;
    }
    pthread_mutex_unlock(&lock);
    return is_chosen;
}

/* Whether the function, of whatever driver, only asks. */
static bool is_query(const void *function)
{
    Dl_info info;
    if (!dladdr(function, &info) || info.dli_saddr != function)
        return false;
    for (unsigned i = 0; i < AG_SLOTS_KNOWN; i++)
        if (strcmp(names[i], info.dli_sname) == 0)
            return slots[i].class == AG_CLASS_QUERY;
    return false;
}

/* The program has doors of one driver, and gets functions of another. The two may be one behind the
   other, and what is done through the one would change what is held through the other. */
static void *route_other(struct driver *driver, void *found)
{
    if (!is_query(found))
        ag_give_up("the program uses two drivers: %s and %s", ((struct driver *)chosen)->path,
                   driver->path);
    return found;
}

/* A function of libcuda that this build never heard of: the number of its slot, or none. */
static unsigned add_unknown(uintptr_t address)
{
    pthread_mutex_lock(&lock);
    unsigned entry = find_entry(address);
    bool known = atomic_load_explicit(&table[entry].address, memory_order_relaxed) != 0;
    if (!known && slots_used < AG_SLOTS) {
        add_entry(address, slots_used++);
        known = true;
    }
    unsigned slot = known ? table[entry].slot : AG_SLOTS;
    pthread_mutex_unlock(&lock);
    if (!known) /* a call that passes no barrier would be unsound as long as anything is held */
        ag_give_up("the driver has more unknown functions than there is room for");
    return slot;
}

/* What the program gets for a function that is no query. */
static void *door_of(unsigned slot)
{
    if (ag_slots[slot].class == AG_CLASS_OP || ag_slots[slot].class == AG_CLASS_WRAP)
        return ag_doors[slot];
    void *door = *ag_opt.trace_file ? ag_memory_door(slot) : NULL;
    return door ? door : (void *)ag_thunks[slot];
}

static void *route(struct driver *driver, void *found)
{
    void *door = entry_door((unsigned)(driver - drivers), found);
    if (door || ag_gave_up())
        return door ? door : found;
    if (chosen != driver && (committed || !choose(driver)))
        return route_other(driver, found);
    unsigned entry = find_entry((uintptr_t)found);
    bool known = atomic_load_explicit(&table[entry].address, memory_order_acquire) != 0;
    if (known && ag_slots[table[entry].slot].class == AG_CLASS_QUERY)
        return found;
    if (!commit(driver))
        return route_other(driver, found);
    if (ag_gave_up())
        return found;
    unsigned slot = known ? table[entry].slot : add_unknown((uintptr_t)found);
    return slot == AG_SLOTS ? found : door_of(slot);
}

void *ag_route(void *found)
{
    struct driver *driver = driver_of(found, false);
    return driver && ag_enabled() && works(driver) ? route(driver, found) : found;
}

static void *route_driver(void *found)
{
    if (ag_is_ours(found)) /* a driver that looks it up by a jump to dlsym() gets a door */
        return found;
    struct driver *driver = driver_of(found, true);
    if (driver)
        return ag_enabled() && works(driver) ? route(driver, found) : found;
    ag_give_up("a function of the driver lies where none can be looked up");
    return found;
}

/* -- Programs that link libcuda ------------------------------------------- */

/* What each exported driver function jumps to, once it has been bound. */
__attribute__((visibility("hidden"))) _Atomic(void *) ag_exports[AG_SLOTS_KNOWN];

/* CUDA_ERROR_STUB_LIBRARY: what the toolkit's own stand-in for libcuda returns. */
static CUresult no_driver(void)
{
    return CUDA_ERROR_STUB_LIBRARY;
}

/* As the dynamic linker would have; NULL if there is no such function. */
static void *bound_to(unsigned index, const void *caller)
{
    void *found = ag_behind_us(names[index], caller);
    if (!found) {
        /* The caller was bound to something, perhaps in the scope of what loaded it. */
        void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (handle) {
            found = ag_dlsym(handle, names[index]);
            dlclose(handle);
        }
    }
    return found;
}

static void *export_as(unsigned index, void *found)
{
    void *given = ag_route(found);
    atomic_store_explicit(&ag_exports[index], given, memory_order_release);
    return given;
}

/*
 * A look-up takes the loader's lock, which the dynamic linker does not need to bind a call. Whoever
 * opens a library has that lock, and the library's constructor may wait for a thread that launches.
 * So the first use of one function binds all that every caller would find.
 */
static void bind_others(void)
{
    for (unsigned i = 0; i < AG_SLOTS_KNOWN; i++) {
        if (atomic_load_explicit(&ag_exports[i], memory_order_relaxed))
            continue;
        void *found = ag_dlsym(RTLD_NEXT, names[i]);
        if (found)
            (void)export_as(i, found);
    }
    dlerror(); /* forget what an older driver has not */
}

/* Called by the first use of an exported function. */
__attribute__((used, visibility("hidden"))) void *ag_export_bind(unsigned index, const void *caller)
{
    static atomic_flag others_are_bound = ATOMIC_FLAG_INIT;
    void *found = bound_to(index, caller);
    if (!found)
        return (void *)no_driver;
    found = export_as(index, found);
    if (!atomic_flag_test_and_set(&others_are_bound))
        bind_others();
    return found;
}

static const char *name_of(const struct ag_slot *slot)
{
    size_t index = (size_t)(slot - ag_slots);
    return index < AG_SLOTS_KNOWN ? names[index] : "a driver function that is not known";
}

/* -- Barriers ------------------------------------------------------------- */

/*
 * Called by a thunk while anything is held, or known of memory, and always by that of a function
 * which is not known: it may make another context current. `registers` and `stack` are the
 * integer arguments as the calling convention passes them; no function with such an argument takes
 * another kind.
 */
__attribute__((used, visibility("hidden"))) void
ag_thunk_barrier(const struct ag_slot *slot, const uintptr_t *registers, const uintptr_t *stack)
{
    if (slot >= &ag_slots[AG_SLOTS_KNOWN])
        ag_engine_forget_current();
    if (ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return;
    if (slot->class == AG_CLASS_BARRIER || slot->class == AG_CLASS_ALLOCATION)
        ag_memory_changed();
    AG_NOTE(ag_note_barrier(name_of(slot), 0));
    if (!ag_anything_held() && atomic_load(&ag_curious_streams) == 0)
        return;
    ag_cause = name_of(slot);
    unsigned n = slot->argument;
    uintptr_t argument =
        n < AG_REGISTER_ARGUMENTS ? registers[n] : stack[n - AG_REGISTER_ARGUMENTS];
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

/* SPDX-License-Identifier: MIT */
/* Settings of functions: their numbers, setters, and moments with other ones. */
#include "graph/setting.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "graph/words.h"
#include "mutant.h"
#include "observe/futex.h"
#include "observe/patience.h"

static const CUfunction_attribute attributes[AG_SETTING_ATTRIBUTES] = {
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    [AG_SETTING_LIMIT] = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
};

struct ag_settings {
    _Atomic uint32_t now; /* the number of those that the function has, from 1; 0: too many */
    uint32_t count;
    struct ag_setting known[AG_MOST_SETTINGS]; /* below `count` constant */
};

struct ag_same {
    int cache;
    bool some, all; /* functions that are known have it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of settings, and of what follows; taken
                                                            before the table's, after a stream's */
static const struct ag_moment *opened;                   /* the moment that is open, or NULL */
static _Atomic uint32_t moments; /* goes up when one opens, and when it closes; a futex */

/* -- Values --------------------------------------------------------------- */

static bool get(CUfunction func, CUfunction_attribute attribute, int *value)
{
    return ag_real.cuFuncGetAttribute(value, attribute, func) == CUDA_SUCCESS;
}

static int cache_of(const struct ag_function *function)
{
    return function->cache != CU_FUNC_CACHE_PREFER_NONE ? function->cache : function->context_cache;
}

/* What an older driver does not know is 0 at all times. */
static struct ag_setting setting_of(const struct ag_function *function)
{
    struct ag_setting setting = {.cache = cache_of(function)};
    for (unsigned i = 0; i < AG_SETTING_LIMIT; i++)
        if (!get(function->func, attributes[i], &setting.attribute[i]))
            setting.attribute[i] = 0;
    return setting;
}

/* The function may have other settings now. */
static void renumber(const struct ag_function *function)
{
    struct ag_settings *settings = function->settings;
    struct ag_setting now = setting_of(function);
    uint32_t number = 0;
    while (number < settings->count && memcmp(&settings->known[number], &now, sizeof now) != 0)
        number++;
    if (number == AG_MOST_SETTINGS) {
        atomic_store(&settings->now, 0);
        return;
    }
    settings->known[number] = now;
    settings->count += number == settings->count;
    atomic_store(&settings->now, number + 1);
}

static bool begin_settings(struct ag_function *function)
{
    function->settings = calloc(1, sizeof *function->settings);
    if (function->settings != NULL)
        renumber(function);
    return function->settings != NULL;
}

static inline bool number_of(const struct ag_function *function, uint32_t shared, uint32_t *number)
{
    const struct ag_settings *settings = function->settings;
    *number = settings != NULL ? atomic_load_explicit(&settings->now, memory_order_relaxed) : 0;
    uint32_t limit = atomic_load(&function->limits.shared);
    return (shared <= limit || AG_MUTANT(limit_unchecked)) && (settings == NULL || *number != 0);
}

/* The op has more shared memory than any before. This is said before the settings are read: a
   setter looks at it behind its change. */
static __attribute__((noinline)) bool grow(const struct ag_function *function, uint32_t shared,
                                           uint32_t compared, uint32_t *number)
{
    ag_limits_grow(&function->limits, shared);
    return number_of(function, compared, number);
}

bool ag_setting_number(const struct ag_function *function, uint32_t shared, bool limited,
                       uint32_t *number)
{
    uint32_t compared = limited ? shared : 0;
    return ag_limits_know(&function->limits, shared) ? number_of(function, compared, number)
                                                     : grow(function, shared, compared, number);
}

/* -- Moments that are open ------------------------------------------------ */

_Atomic unsigned ag_setting_errors;

static void check(CUresult result)
{
    if (result != CUDA_SUCCESS)
        atomic_fetch_add(&ag_setting_errors, 1);
}

/* A kernel's function follows the kernel until something is set for the function itself, and never
   again from then on (H200, driver 580). So the kernel is set where it is known, and the function
   only where it does not follow any more. */
static CUresult set(const struct ag_moment *moment, unsigned i, int kernel_value, int value)
{
    const struct ag_function *function = moment->function;
    int now;
    if (function->kernel != NULL) {
        check(ag_real.cuKernelSetAttribute(attributes[i], kernel_value, function->kernel,
                                           moment->device));
        if (get(function->func, attributes[i], &now) && now == value)
            return CUDA_SUCCESS;
    }
    return ag_real.cuFuncSetAttribute(function->func, attributes[i], value);
}

static CUresult set_cache(const struct ag_moment *moment, int cache)
{
    const struct ag_function *function = moment->function;
    return function->kernel != NULL
               ? ag_real.cuKernelSetCacheConfig(function->kernel, (CUfunc_cache)cache,
                                                moment->device)
               : ag_real.cuFuncSetCacheConfig(function->func, (CUfunc_cache)cache);
}

/* What the driver took before it takes again: a second try for one that failed for want of memory.
 */
static void restore(const struct ag_moment *moment, unsigned i)
{
    for (int tries = 0; tries < 2; tries++) {
        CUresult result = set(moment, i, moment->kernel_was[i], moment->was[i]);
        check(result);
        if (result == CUDA_SUCCESS)
            return;
    }
}

/* The moment's settings go. The lock is held. */
static void end(const struct ag_moment *moment)
{
    for (unsigned i = 0; i < AG_SETTING_ATTRIBUTES; i++)
        if (moment->changed & 1u << i)
            restore(moment, i);
    if (moment->cache)
        check(set_cache(moment, moment->function->cache));
    opened = NULL;
    atomic_fetch_add(&moments, 1);
    ag_futex(&moments, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

/* Another thread's moment ends, in its context. */
static void end_early(void)
{
    CUcontext popped, current = NULL;
    check(ag_real.cuCtxGetCurrent(&current));
    bool pushes = current != opened->ctx, pushed = false;
    if (pushes)
        pushed = ag_real.cuCtxPushCurrent_v2(opened->ctx) == CUDA_SUCCESS;
    end(opened);
    if (pushed)
        check(ag_real.cuCtxPopCurrent_v2(&popped));
}

/*
 * Takes the lock once no moment is open. A moment that lasts is ended: its thread waits in the
 * driver until a stream takes more, which may need what the caller does next. A launch has taken
 * its settings before it waits.
 */
static void begin_alone(void)
{
    uint64_t slept = 0;
    uint32_t before = 0, number;
    pthread_mutex_lock(&lock);
    while (opened != NULL) {
        number = atomic_load(&moments);
        slept = number == before ? slept : 0;
        before = number;
        pthread_mutex_unlock(&lock);
        bool lasts = ag_patience_awaits(&slept, AG_PATIENCE_NS, &moments, number);
        pthread_mutex_lock(&lock);
        if (!lasts && opened != NULL && atomic_load(&moments) == number)
            end_early();
    }
}

/* -- Setters -------------------------------------------------------------- */

/* The driver does not tell which cache configuration a function has. */
static void compare_cache(struct ag_function *function, void *data)
{
    struct ag_same *same = data;
    same->some = true;
    same->all &= function->settings == NULL && function->cache == same->cache;
}

static bool repeats_cache(const struct ag_setter *setter)
{
    struct ag_same same = {.cache = setter->value, .all = true};
    CUfunc_cache cache;
    if (setter->handle == NULL)
        return ag_real.cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS && (int)cache == setter->value;
    ag_functions_visit(&setter->reach, compare_cache, &same);
    return same.some && same.all;
}

/* Which functions the call is for. */
static void find_reach(struct ag_setter *setter, CUcontext current)
{
    struct ag_reach *reach = &setter->reach;
    *reach =
        (struct ag_reach){.handle = setter->handle, .current = current, .kernel = setter->kernel};
    if (!setter->kernel || current == NULL)
        return;
    reach->func = ag_function_of_handle(setter->handle, current);
    if (reach->func == NULL &&
        ag_real.cuKernelGetFunction(&reach->func, (CUkernel)setter->handle) != CUDA_SUCCESS)
        reach->func = NULL;
}

/* Whether the driver says that the attribute has the value. */
static bool repeats_attribute(const struct ag_setter *setter)
{
    int value;
    CUfunction_attribute attribute = (CUfunction_attribute)setter->attribute;
    bool told = setter->kernel
                    ? ag_real.cuKernelGetAttribute(&value, attribute, (CUkernel)setter->handle,
                                                   setter->device) == CUDA_SUCCESS
                    : get(setter->handle, attribute, &value);
    return told && value == setter->value;
}

bool ag_setter_repeats(struct ag_setter *setter, CUcontext current)
{
    bool cache = setter->attribute == AG_SETTING_CACHE;
    uint32_t number = atomic_load(&moments); /* odd: what the driver says may be the moment's */
    if (!cache && repeats_attribute(setter) && number % 2 == 0 && atomic_load(&moments) == number)
        return true;
    find_reach(setter, current);
    return cache && repeats_cache(setter);
}

/* Whether launches of a function that has no settings of its own would take others behind the call
   than before. A limit matters where it is less than what an op has had. */
static bool changes(const struct ag_function *function, const void *data)
{
    const struct ag_setter *setter = data;
    if (setter->attribute == AG_SETTING_CACHE)
        return setter->handle != NULL ? function->cache != setter->value
                                      : function->cache == CU_FUNC_CACHE_PREFER_NONE;
    return setter->attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
           setter->value + 1 < (int)atomic_load(&function->limits.wanted);
}

uint32_t ag_setter_prepare(struct ag_setter *setter)
{
    return ag_functions_renew(&setter->reach, changes, begin_settings, setter);
}

void ag_setter_begin(void)
{
    begin_alone();
}

/* The call has succeeded. */
static void has_changed(struct ag_function *function, void *data)
{
    struct ag_setter *setter = data;
    (void)ag_limits_ask_shared(&function->limits, function->func); /* see ag_limits_grow() */
    setter->late |= function->settings == NULL && ag_limits_wanted(&function->limits) &&
                    changes(function, setter);
    if (setter->kernel && function->func == setter->reach.func)
        function->kernel = (CUkernel)setter->handle;
    if (setter->attribute == AG_SETTING_CACHE && setter->handle != NULL)
        function->cache = setter->value;
    else if (setter->attribute == AG_SETTING_CACHE)
        function->context_cache = setter->value;
    if (setter->attribute >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
        setter->attribute <= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
        ag_limits_ask_cluster(&function->limits, function->func);
    if (function->settings != NULL &&
        setter->attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        renumber(function);
}

static bool any(const struct ag_function *function, const void *data)
{
    (void)function, (void)data;
    return true;
}

uint32_t ag_setter_end(struct ag_setter *setter, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        ag_functions_visit(&setter->reach, has_changed, setter);
        ag_functions_doubt();
    }
    pthread_mutex_unlock(&lock);
    return setter->late ? ag_functions_renew(&setter->reach, any, begin_settings, NULL) : 0;
}

/* -- Moments -------------------------------------------------------------- */

/* Sets one attribute, if it has another value, and keeps what it was. */
static void change(struct ag_moment *moment, unsigned i, int value)
{
    const struct ag_function *function = moment->function;
    if (!get(function->func, attributes[i], &moment->was[i]) || moment->was[i] == value)
        return;
    if (function->kernel != NULL &&
        ag_real.cuKernelGetAttribute(&moment->kernel_was[i], attributes[i], function->kernel,
                                     moment->device) != CUDA_SUCCESS)
        moment->kernel_was[i] = moment->was[i];
    CUresult result = set(moment, i, value, value);
    moment->changed |= (uint32_t)(result == CUDA_SUCCESS) << i;
    check(result);
}

/* The driver does not tell which cache configuration a function has, which may be something from
   before it was known here: that stays. */
static void change_all(struct ag_moment *moment, const struct ag_setting *to)
{
    for (unsigned i = 0; i < AG_SETTING_LIMIT; i++)
        change(moment, i, to->attribute[i]);
    moment->cache = to->cache != cache_of(moment->function);
    if (moment->cache)
        check(set_cache(moment, to->cache));
}

/* Of an op whose function has settings of its own. */
static bool differs(const struct ag_op *op)
{
    const struct ag_function *function = ag_function_of(op->layout);
    return atomic_load(&function->settings->now) != ag_kernel_setting(op) ||
           op->shape[AG_KERNEL_SHARED] > atomic_load(&function->limits.shared);
}

bool ag_moment_is_needed(const struct ag_op *op)
{
    return op->kind == AG_OP_KERNEL && ag_kernel_setting(op) != 0 && differs(op);
}

void ag_moment_open(struct ag_moment *moment, const struct ag_op *op, bool sure)
{
    const struct ag_function *function = ag_function_of(op->layout);
    const struct ag_settings *settings = function->settings;
    uint32_t number = ag_kernel_setting(op);
    uint32_t shared = op->shape[AG_KERNEL_SHARED];
    *moment = (struct ag_moment){.function = NULL};
    if (!sure && !differs(op))
        return;
    begin_alone();
    moment->function = function;
    check(ag_real.cuCtxGetCurrent(&moment->ctx));
    check(ag_real.cuCtxGetDevice(&moment->device));
    if (shared > atomic_load(&function->limits.shared))
        change(moment, AG_SETTING_LIMIT, (int)shared);
    if (atomic_load(&settings->now) != number)
        change_all(moment, &settings->known[number - 1]);
    opened = moment;
    atomic_fetch_add(&moments, 1);
    pthread_mutex_unlock(&lock);
}

bool ag_moment_close(const struct ag_moment *moment)
{
    if (moment->function == NULL)
        return true;
    pthread_mutex_lock(&lock);
    bool whole = opened == moment;
    if (whole)
        end(moment);
    pthread_mutex_unlock(&lock);
    return whole;
}

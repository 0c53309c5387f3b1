# SPDX-License-Identifier: MIT
"""To what an object is bound is the dynamic linker's decision: libraries that have functions of CUDA's names
themselves, several runtimes, libraries that come and go, and whatever a compiler makes of a call."""
import itertools

import pytest

import compiled
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="libraries that are no part of the build have no sanitizer")

# `use` calls a function of CUDA by a jump, where the compiler optimises; `count` calls one by a call.
PLUGIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
struct dim3 { unsigned x, y, z; };
typedef int launch(const void *, struct dim3, struct dim3, void **, unsigned long, void *);
launch cudaLaunchKernel;
int cuInit(unsigned), cuDeviceGetCount(int *);
#ifdef DEFINES
static int calls;
int cuInit(unsigned flags) { return 1000 * DEFINES + ++calls + (int)flags; }
int cuDeviceGetCount(int *n) { *n = 1; return 10 * DEFINES; }
int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **params, unsigned long shared,
                     void *stream)
{
    return 100 * DEFINES + (kernel == params) + (int)(shared + grid.x + block.x) + !stream;
}
int cudaRuntimeGetVersion(int *version) { *version = 1000 * DEFINES; return 0; }
#endif
#ifdef USES_DRIVER
int use(void) { return cuInit(0); }
int count(void) { int n = -1, error = cuDeviceGetCount(&n); return error * 10 + n; }
#ifndef LAZY
int equal(void) { return dlsym(dlopen(NAME, RTLD_LAZY | RTLD_NOLOAD), "cuInit") == (void *)cuInit; }
#endif
#endif
#ifdef USES_RUNTIME
int use_with(const void *kernel, struct dim3 grid, struct dim3 block, void **params, unsigned long shared,
             void *stream)
{
    return cudaLaunchKernel(kernel, grid, block, params, shared, stream);
}
int use(void) { return use_with((void *)use, (struct dim3){1, 1, 1}, (struct dim3){2, 2, 2}, NULL, 3, NULL) + 0; }
int count(void) { struct dim3 one = {1, 1, 1}; return cudaLaunchKernel((void *)count, one, one, NULL, 0, NULL) + 1; }
int equal(void)
{
    return dlsym(dlopen(NAME, RTLD_LAZY | RTLD_NOLOAD), "cudaLaunchKernel") == (void *)cudaLaunchKernel;
}
#endif
#ifdef WAITS
extern volatile int asked, done;
__attribute__((constructor)) static void begins(void)
{
    asked = 1;
    for (int i = 0; i < 10000 && !done; i++)
        usleep(1000);
    printf("while it begins: %s\\n", done ? "done" : "not done");
}
#endif
char room[SIZE];
__attribute__((destructor)) static void ends(void) { printf("%s ends\\n", NAME); }
"""

# Each word is a library to open, after - for lazily and * for everybody; or what to do with the last one.
MAIN = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *open_libraries[16];
volatile int asked, done;
static int result;
static pthread_t thread;

static void *use_when_asked(void *use)
{
    while (!asked)
        usleep(100);
    result = ((int (*)(void))use)();
    done = 1;
    return NULL;
}

static int call(int i, const char *name)
{
    int (*f)(void) = open_libraries[i] ? (int (*)(void))dlsym(open_libraries[i], name) : NULL;
    return f ? f() : -1;
}

int main(int argc, char **argv)
{
    setbuf(stdout, NULL);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int k = word[0] - '0', lazy = word[1] == '-', global = word[1 + lazy] == '*';
        if (strcmp(word + 1, "use") == 0 || strcmp(word + 1, "count") == 0 || strcmp(word + 1, "equal") == 0) {
            printf("%s: %d\\n", word, call(k, word + 1));
        } else if (strcmp(word + 1, "thread") == 0) {
            pthread_create(&thread, NULL, use_when_asked, dlsym(open_libraries[k], "use"));
        } else if (strcmp(word + 1, "close") == 0) {
            printf("%s: %d\\n", word, open_libraries[k] ? dlclose(open_libraries[k]) : -1);
            open_libraries[k] = NULL;
        } else {
            open_libraries[k] = dlopen(word + 1 + lazy + global,
                                       (lazy ? RTLD_LAZY : RTLD_NOW) | (global ? RTLD_GLOBAL : RTLD_LOCAL));
            printf("%s: %s\\n", word, open_libraries[k] ? "open" : dlerror());
        }
    }
    if (asked && pthread_join(thread, NULL) == 0)
        printf("used: %d\\n", result);
    return 0;
}
"""

WEAK = """
#include <stdio.h>
extern int cuInit(unsigned) __attribute__((weak)), cuMemAlloc_v2(void) __attribute__((weak));
extern int cudaLaunchKernel(void) __attribute__((weak));
int main(void)
{
    printf("%d %d %d\\n", cuInit ? cuInit(0) : -1, cuMemAlloc_v2 != NULL, cudaLaunchKernel != NULL);
    return 0;
}
"""

# Looks functions up in a thread, and forks meanwhile; the child uses the driver.
FORKS = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int begun;

static int use(void *driver)
{
    static const char *const names[] = {"cuDriverGetVersion", "cuLaunchKernel", "cuMemAlloc_v2", "cuInit"};
    int (*init)(unsigned) = NULL;
    for (int i = 0; i < 4; i++)
        init = (int (*)(unsigned))dlsym(driver, names[i]);
    return init ? init(0) : -1;
}

static void *look(void *driver)
{
    begun = 1;
    dlsym(driver, "cuLaunchKernel");
    return NULL;
}

int main(int argc, char **argv)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    struct timespec from, now;
    pthread_t thread;
    long wait = argc > 1 ? atol(argv[1]) : 0;
    pthread_create(&thread, NULL, look, driver);
    while (!begun)
        ;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < wait);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(use(driver));
    }
    int status = 0;
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    return status != 0;
}
"""


# Threads that open, call and close the same libraries; the program's own word says how often.
CHURNS = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static char **names;
static int wanted[16], times;
static _Atomic int wrong;

static int count(const char *name)
{
    void *library = dlopen(name, RTLD_LAZY);
    int (*f)(void) = library ? (int (*)(void))dlsym(library, "count") : NULL;
    int found = f ? f() : -1;
    if (library)
        dlclose(library);
    return found;
}

static void *churn(void *first)
{
    for (int i = (int)(long)first; i < times; i++) {
        int k = 0;
        while (names[k])
            k++;
        k = (i * 7 + (int)(long)first) % k;
        if (count(names[k]) != wanted[k])
            wrong++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    times = atoi(argv[1]);
    names = argv + 2;
    freopen("/dev/null", "w", stdout);
    for (int k = 0; k < argc - 2; k++)
        wanted[k] = count(names[k]);
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "%d wrong", wrong);
    for (int k = 0; k < argc - 2; k++)
        fprintf(stderr, ", %d", wanted[k]);
    return 0;
}
"""


def compile_library(place, name, *arguments, level="-O2"):
    source = place / "plugin.c"
    source.write_text(PLUGIN)
    helpers.tool(*helpers.config()["cc"].split(), level, "-w", "-shared", "-fPIC", f'-DNAME="{name}"', "-o",
                 place / name, f"-Wl,-soname,{name}", source, *arguments, "-Wl,-rpath,$ORIGIN", f"-Wl,-rpath,{helpers.sim_dir()}")


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory):
    return compiled.once(tmp_path_factory, "binding", make_all)


def make_all(place):
    for number in 12, 13:
        (place / "map").write_text(f"libcudart.so.{number} {{ *; }};\n")
        compile_library(place, f"libcudart.so.{number}", f"-DDEFINES={number}", "-DSIZE=1",
                        f"-Wl,--version-script={place}/map")
        for level in "-O0", "-O2":
            compile_library(place, f"run{number}{level[1:]}", "-DUSES_RUNTIME", "-DSIZE=1",
                            place / f"libcudart.so.{number}", level=level)
    for number in 1, 2, 3:  # of several sizes: what comes after one has its functions elsewhere
        compile_library(place, f"own{number}", f"-DDEFINES={number}", "-DUSES_DRIVER", f"-DSIZE={number << 16}")
        compile_library(place, f"launch{number}", f"-DDEFINES={number}", "-DUSES_RUNTIME", f"-DSIZE={number << 16}")
    driver = helpers.sim_dir() / "libcuda.so.1"
    compile_library(place, "links", "-DUSES_DRIVER", "-DSIZE=1", driver)
    compile_library(place, "bare", "-DUSES_DRIVER", "-DSIZE=1", "-nostartfiles", driver)
    compile_library(place, "undefined", "-DUSES_DRIVER", "-DSIZE=1", "-DLAZY", "-Wl,-z,lazy")
    compile_library(place, "waits", "-DWAITS", "-DSIZE=1")
    for name, source, options in (("main", MAIN, ["-rdynamic", "-pthread"]), ("weak", WEAK, []), ("churns", CHURNS, ["-pthread"]),
                                  ("forks", FORKS, ["-O1", "-pthread"])):
        (place / f"{name}.c").write_text(source)
        helpers.tool(*helpers.config()["cc"].split(), place / f"{name}.c", "-o", place / name, *options, "-ldl")


def same(place, *words, program="main", **options):
    """What a program prints does not depend on the library. Libraries lie at the same places each time."""
    command = ["setarch", "-R", place / program, *words]
    plain = helpers.run(command, preload=False, cwd=place, **options)
    assert helpers.run(command, cwd=place, **options).stdout == plain.stdout
    return plain.stdout.splitlines()


def turns(*names):
    """Words that open each library, use them in turn, close the first and use the others."""
    opens = [f"{i}./{name}" for i, name in enumerate(names)]
    uses = [f"{i}{what}" for what in ("use", "count") for i in range(len(names))]
    return [*opens, *uses, *reversed(uses), "0close", *uses, opens[0], *uses]


def following(*names):
    """Words that open each library where the one before it was."""
    return [word for name in names for word in (f"0./{name}", "0use", "0count", "0close")]


OWN = list(itertools.permutations(["own1", "own2", "links"]))
RUN = [("run12O2", "run13O2"), ("run13O2", "run12O2"), ("run12O0", "run13O2", "launch1"),
       ("launch1", "run13O0", "launch2"), ("run13O2", "run13O0")]


@pytest.mark.parametrize("names", OWN + RUN, ids=" ".join)
def test_each_library_calls_what_it_is_bound_to(place, names):
    out = same(place, *turns(*names))
    assert [line for line in out if line.endswith(": -1")] == ["0use: -1", "0count: -1"], "while the first is closed"


@pytest.mark.parametrize("names", [*OWN, *RUN, ("own1",) * 3, ("launch1", "launch1", "launch2", "launch1"),
                                   ("run12O0", "run13O0") * 3], ids=" ".join)
def test_what_follows_in_the_place_of_another(place, names):
    """Libraries and their runtimes leave when they are closed."""
    out = same(place, *following(*names))
    assert sum(line.endswith("ends") for line in out) >= len(names)


def test_a_lazy_library_gets_a_driver_that_comes_later(place):
    """It is bound at its first call, past nothing."""
    words = ["0-./undefined", f"1-*{helpers.sim_dir()}/libcuda.so.1", "0count", "0use", "0count"]
    assert same(place, *words)[2:5] == ["0count: 29", "0use: 0", "0count: 1"]


def test_what_is_undefined_is_not_loaded(place):
    out = same(place, "0./undefined", "1./own1", "1use")
    assert "undefined symbol" in out[0] and out[-1] == "own1 ends"


def test_a_library_without_start_files(place):
    assert same(place, "0./bare", "0count", "0use", "0count")[1:] == ["0count: 29", "0use: 0", "0count: 1", "bare ends"]


@pytest.mark.parametrize("name", ["links", "own1", "run12O2", "run13O0", "launch1"])
def test_a_function_has_one_address(place, name):
    assert same(place, f"0./{name}", "0equal", "0use", "0equal")[1:4:2] == ["0equal: 1"] * 2


@pytest.mark.parametrize("before", [[], ["0count"]], ids=["first", "later"])
@pytest.mark.parametrize("scope", ["", "*"], ids=["local", "global"])
@pytest.mark.parametrize("name", ["links", "own1", "run12O2", "run12O0", "launch1"])
def test_a_thread_does_not_wait_for_a_library_that_begins(place, name, scope, before):
    """Its constructor waits for the thread, which calls a function from a new place. Whoever looks for waits in the
    simulated driver takes the loader's lock."""
    out = same(place, f"0{scope}./{name}", *before, "0thread", "1./waits", env={"AGSIM_STRICT": None})
    assert "while it begins: done" in out


def test_threads_open_and_close_libraries(place):
    words = [place / "churns", helpers.by_scale(100, 300, 1000), *(f"./{name}" for name in (
        "own1", "run12O2", "launch2", "run13O0", "own3", "launch1"))]
    plain = helpers.run(words, preload=False, cwd=place)
    done = helpers.run(words, cwd=place)
    assert done.stderr == plain.stderr and done.stderr.startswith("0 wrong, ")


def test_weak_references_without_a_driver(place):
    assert same(place, program="weak", sim=False) == ["-1 0 0"]


def test_weak_references_with_a_driver(place):
    """It is preloaded, too."""
    driver = helpers.sim_dir() / "libcuda.so.1"
    plain = helpers.run([place / "weak"], preload=False, env={"LD_PRELOAD": driver})
    done = helpers.run([place / "weak"], env={"LD_PRELOAD": f"{helpers.library()}:{driver}"})
    assert done.stdout == plain.stdout == "0 1 0\n"


def test_forks_while_a_thread_looks_functions_up(place):
    """No child waits for a lock that a thread of its parent had."""
    for delay in range(0, 400_000, helpers.by_scale(8_000, 4_000, 1_000)):
        helpers.run([place / "forks", delay])


GPROF = """
#include <dlfcn.h>
#include <stdio.h>
void __gmon_start__(void);
void __gmon_start__(void) { }
int main(int argc, char **argv)
{
    (void)argc;
    int n = 0;
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
    printf("%d", init(0));
    printf(" %d", count(&n));
    printf(" %d\\n", n);
    return 0;
}
"""


def test_a_program_for_gprof(place, tmp_path):
    """Its own function is called when objects begin: what it loads is not seen, and nothing is held."""
    (tmp_path / "gprof.c").write_text(GPROF)
    program = tmp_path / "gprof"
    helpers.tool(*helpers.config()["cc"].split(), "-rdynamic", tmp_path / "gprof.c", "-o", program, "-ldl")
    driver = helpers.sim_dir() / "libcuda.so.1"
    plain = helpers.run([program, driver], preload=False)
    done = helpers.run([program, driver], env={"AUTOGRAPH_LOG_LEVEL": "1"})
    assert done.stdout == plain.stdout == "0 0 1\n" and "was loaded unseen" in done.stderr

/* SPDX-License-Identifier: MIT */
/*
 * fork_random.c FIRST COUNT [calls]: steps of random ops over a few streams, with random events
 * between them. Each step of a seed is repeated, so that it becomes a graph, and now and then one
 * is different; mostly, with "calls", by a call that gives a stream work which takes its time and
 * is never held. A checksum for each seed, which is the same with the library as without it.
 *
 * A stream works on a buffer of its own. It gives a copy of it away in a place that is written once
 * until the host waits for all, and records an event. Another one waits for the event, and takes
 * the copy. So every order that the program asks for shows in the memory, and there is no race.
 */
#include "live.h"

enum { STREAMS = 4, EVENTS = 6, MOST = 24, REPEATS = 36, BLOCK = 6, PLACES = BLOCK * MOST };

enum kind { KERNEL, FILL, GIVE, TAKE, LOOK, WAIT, KINDS };

static struct op {
    enum kind kind;
    unsigned stream, event, from; /* `from`: the GIVE whose copy a TAKE takes */
    uint32_t word;
} step[MOST];
static unsigned length;

static CUstream s[STREAMS], made_first; /* s[0] when it is not the legacy stream */
static CUevent event[EVENTS];           /* NULL: it has been destroyed */

/* How long an event of a step lives: on, until the next one in its place is made, until nobody in
   the step waits for it any more. */
static enum { ON, NEXT, BRIEF } life;
static CUdeviceptr places;
static uint64_t state;

static unsigned below(unsigned most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % most;
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

static void add(enum kind kind, unsigned stream, unsigned event_number, unsigned from)
{
    if (length < MOST)
        step[length++] = (struct op){kind, stream, event_number, from, below(1000)};
}

/* The last op of the step that records the event; MOST: none does. */
static unsigned giver(unsigned number)
{
    unsigned i = length;
    while (i > 0 && !(step[i - 1].kind == GIVE && step[i - 1].event == number))
        i--;
    return i > 0 ? i - 1 : MOST;
}

static void edge(unsigned from, unsigned to, unsigned event_number)
{
    add(GIVE, from, event_number, 0);
    add(TAKE, to, event_number, giver(event_number));
}

/* Each stream but the first forks off that one; or off any before it, which it may join. */
static unsigned parent[STREAMS];

static void fork_off(unsigned streams, bool nested)
{
    if (!nested)
        add(GIVE, 0, 0, 0);
    for (unsigned i = 1; i < streams; i++) {
        parent[i] = nested ? below(i) : 0;
        if (nested)
            edge(parent[i], i, i);
        else
            add(TAKE, i, 0, giver(0));
    }
}

/* One may be left out. Those that came last join first, or the other way round. */
static void join(unsigned streams, bool one_event)
{
    bool backwards = chance(75);
    for (unsigned k = 1; k < streams; k++) {
        unsigned i = backwards ? streams - k : k;
        if (chance(92))
            edge(i, chance(60) ? parent[i] : 0, one_event ? 0 : i);
    }
}

/* Mostly a fork and a join; or anything. */
static void make_step(void)
{
    unsigned streams = 2 + below(STREAMS - 1);
    bool regular = chance(75), one_event = chance(10);
    length = 0;
    if (chance(40))
        add(KERNEL, 0, 0, 0);
    if (regular)
        fork_off(streams, chance(40));
    for (unsigned i = 1 + below(10); i > 0; i--) {
        unsigned stream = below(streams), number = below(EVENTS), from = giver(number);
        if (chance(15))
            add(GIVE, stream, one_event ? 0 : number, 0);
        else if (chance(20) && from != MOST)
            add(TAKE, stream, number, from);
        else
            add(chance(80) ? KERNEL : FILL, stream, 0, 0);
    }
    if (regular)
        join(streams, one_event);
    if (chance(30))
        add(chance(50) ? LOOK : WAIT, below(streams), below(EVENTS), 0);
}

static CUdeviceptr place(unsigned round, unsigned op)
{
    return places + 4 * N * (round % BLOCK * MOST + op);
}

static void destroy(CUevent *one)
{
    if (*one)
        OK(cuEventDestroy(*one));
    *one = NULL;
}

/* The event of a record that comes now. */
static CUevent to_record(CUevent *one)
{
    CUevent before = *one;
    if (life != ON || !before)
        OK(cuEventCreate(one, CU_EVENT_DISABLE_TIMING));
    if (life != ON && before) /* its handle is not that of the new one */
        OK(cuEventDestroy(before));
    return *one;
}

/* Whether an op behind that one uses the event before it is recorded again. */
static bool is_used_behind(unsigned number)
{
    unsigned i = number + 1;
    while (i < length && !(step[i].kind >= GIVE && step[i].event == step[number].event))
        i++;
    return i < length && step[i].kind != GIVE;
}

static void run_op(const struct op *op, unsigned round, unsigned number, uint32_t word)
{
    CUstream stream = s[op->stream];
    CUdeviceptr own = buffer[op->stream];
    CUevent looked = event[op->event];
    switch (op->kind) {
    case KERNEL:
        OK(launch_mix(own, N, word, stream));
        break;
    case FILL:
        OK(cuMemsetD32Async(own + 4 * (word % 16), word, 4, stream));
        break;
    case GIVE:
        OK(cuMemcpyDtoDAsync(place(round, number), own, 4 * N, stream));
        OK(cuEventRecord(to_record(&event[op->event]), stream));
        break;
    case TAKE:
        OK(cuStreamWaitEvent(stream, event[op->event], 0));
        OK(cuMemcpyDtoDAsync(own + 64, place(round, op->from) + 64, 32, stream));
        break;
    case LOOK:
        for (unsigned i = word % 8 < 4 ? 1 : 5; i > 0; i--) /* five are a barrier */
            (void)(word % 2 || !looked ? cuStreamQuery(stream) : cuEventQuery(looked));
        break;
    default:
        OK(word % 2 || !looked ? cuStreamSynchronize(stream) : cuEventSynchronize(looked));
    }
    if (life == BRIEF && op->kind >= GIVE && !is_used_behind(number))
        destroy(&event[op->event]);
}

static bool calls;

/* Copies to the host, which come behind a pause of the stream. */
enum { COPIES = 64 };
static uint32_t *copies;
static unsigned copied;

static void doze(void *us)
{
    usleep((unsigned)(uintptr_t)us);
}

static void pause_and_copy(CUstream *stream)
{
    uint32_t *to = copies + (size_t)N * (copied++ % COPIES);
    OK(cuLaunchHostFunc(*stream, doze, (void *)(uintptr_t)(200 + below(600))));
    OK(cuMemcpyDtoHAsync(to, buffer[stream - s], 4 * N, *stream));
}

static void show_copies(void)
{
    uint32_t hash = 0;
    for (unsigned i = 0; i < N * COPIES; i++)
        hash = hash * 31 + copies[i];
    printf("copies %08x\n", hash);
}

/* Something that the other rounds do not have. In the middle of a step no event is another one. */
static void odd(unsigned round, bool middle)
{
    CUstream *stream = &s[below(STREAMS)];
    if (calls && chance(60)) {
        pause_and_copy(stream);
        return;
    }
    switch (below(middle ? 4 : 5)) {
    case 0:
        OK(launch_mix(buffer[stream - s], N, round, *stream));
        break;
    case 1:
        OK(cuStreamSynchronize(*stream));
        break;
    case 2:
        OK(cuCtxSynchronize());
        break;
    case 4: {
        unsigned number = below(EVENTS);
        destroy(&event[number]);
        OK(cuEventCreate(&event[number], CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(event[number], *stream));
        break;
    }
    default: {
        uint32_t word;
        OK(cuMemcpyDtoHAsync(&word, buffer[stream - s], 4, *stream));
    }
    }
}

static void run_seed(unsigned seed)
{
    char name[16];
    state = seed * 0x9e3779b97f4a7c15u + 1;
    make_step();
    unsigned oddly = chance(calls ? 20 : 50) ? 0 : 8, change = chance(50) ? 1 + below(8) : REPEATS;
    bool waits = chance(30);
    s[0] = seed % 4 == 3 ? NULL : made_first; /* the legacy stream */
    life = chance(40) ? ON : chance(40) ? NEXT : BRIEF;
    for (unsigned round = 0; round < REPEATS; round++) {
        if (round % BLOCK == 0) /* the places are used again */
            OK(cuCtxSynchronize());
        unsigned at = chance(oddly) ? below(length) : MOST;
        for (unsigned i = 0; i < length; i++) {
            if (i == at)
                odd(round, i != 0);
            run_op(&step[i], round, i, step[i].word + round / change);
        }
        if (waits)
            OK(cuStreamSynchronize(s[0]));
    }
    snprintf(name, sizeof name, "%u", seed);
    show_all(name);
    if (calls)
        show_copies();
}

static unsigned first, count;

static void all(void)
{
    alarm(500);
    copies = (uint32_t *)(uintptr_t)host_words(N * COPIES);
    OK(cuMemAlloc(&places, 4 * N * PLACES));
    OK(cuMemsetD32(places, 3, N * PLACES));
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < STREAMS; i++)
        s[i] = made(CU_STREAM_NON_BLOCKING);
    made_first = s[0];
    for (unsigned i = 0; i < EVENTS; i++) {
        OK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(event[i], s[0]));
    }
    for (unsigned seed = first; seed < first + count; seed++)
        run_seed(seed);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4);
    calls = argc == 4;
    first = (unsigned)atoi(argv[1]);
    count = (unsigned)atoi(argv[2]);
    char *name[] = {argv[0], "all"};
    run((const struct scenario[]){{"all", all}, {NULL, NULL}}, 2, name);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Reading a recorded program. */
#include "policy/program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Letters: d a number, x an address, v values, s a name, o a number that may be missing. */
static const struct {
    const char *name, *words;
} verbs[PLAY_VERBS] = {
    [PLAY_KERNEL] = {"k", "ddddddddddv"},
    [PLAY_MEMSET] = {"m", "dxdddddd"},
    [PLAY_COPY] = {"c", "ddxdxdddddd"},
    [PLAY_READ] = {"r", "dxxdd"},
    [PLAY_RECORD] = {"e", "dd"},
    [PLAY_WAIT] = {"w", "dd"},
    [PLAY_VALUE] = {"v", "ddxdd"},
    [PLAY_FREE] = {"f", "dx"},
    [PLAY_ALLOCATE] = {"a", "d"},
    [PLAY_GRAPH] = {"g", "dd"},
    [PLAY_SYNC_STREAM] = {"s", "d"},
    [PLAY_SYNC_CONTEXT] = {"x", ""},
    [PLAY_SYNC_EVENT] = {"y", "d"},
    [PLAY_ASK_STREAM] = {"q", "do"},
    [PLAY_ASK_EVENT] = {"Q", "do"},
    [PLAY_HOST] = {"h", "d"},
    [PLAY_BARRIER] = {"b", "ssso"},
    [PLAY_CREATED] = {"created", "d"},
    [PLAY_DESTROYED] = {"destroyed", "d"},
    [PLAY_GONE] = {"gone", "d"},
    [PLAY_CURRENT] = {"current", "d"},
    [PLAY_CAPTURE] = {"capture", "do"},
    [PLAY_END] = {"end", ""},
    [PLAY_MEMORY] = {"memory", "xdxdd"},
};

/* -- Host memory ------------------------------------------------------------ */

enum {
    PAGE_BITS = 16,
    SLOT_BITS = 12,
    SLOT = 3 << (PAGE_BITS - 1), /* a page, and half of one behind it */
};

static unsigned char *arena;

void *play_host(uint64_t address)
{
    uint64_t slot = (address >> PAGE_BITS) * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS);
    if (address == 0)
        return NULL;
    return arena + slot * SLOT + (address & ((1 << PAGE_BITS) - 1));
}

bool play_is_host(uint64_t pointer)
{
    return pointer - (uintptr_t)arena < (uint64_t)SLOT << SLOT_BITS;
}

/* What is decided may depend on addresses, by way of hashes: they are the same in each process. */
static void *map_at(uintptr_t address, size_t size)
{
    void *at = mmap((void *)address, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

void *play_place(size_t bytes)
{
    enum { LINE = 64 };
    static unsigned char *at, *end;
    const uintptr_t first = 0x100000000000;
    const size_t piece = 1 << 28;
    bytes = (bytes + LINE) / LINE * LINE;
    if (bytes > piece)
        abort();
    if (at == NULL || (size_t)(end - at) < bytes) {
        at = map_at(at == NULL ? first : (uintptr_t)end, piece);
        end = at + piece;
    }
    at += bytes;
    return at - bytes;
}

static void make_arena(void)
{
    arena = map_at(0x180000000000, (size_t)SLOT << SLOT_BITS);
}

/* -- Reading ---------------------------------------------------------------- */

struct reader {
    struct play_program *program;
    char *at; /* in the text line */
    size_t line_room, values, value_room, sizes, size_room, names, name_room;
    uint64_t *hosts;   /* addresses of the host, a hash table */
    size_t host_count; /* in the table of HOSTS places */
    uint32_t last;     /* thread of the last call */
    const char *wrong;
};

enum { HOSTS_BITS = 20, HOSTS = 1 << HOSTS_BITS };

/* An array that has room for `count` more. Without memory the process ends. */
static void *grown(void *array, size_t used, size_t count, size_t *room, size_t size)
{
    if (used + count <= *room)
        return array;
    *room = 2 * (used + count);
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    return array;
}

/* The next word, or NULL. */
static char *word(struct reader *r)
{
    char *begin = r->at;
    while (*begin == ' ')
        begin++;
    if (*begin == '\0')
        return NULL;
    char *end = begin;
    while (*end != ' ' && *end != '\0')
        end++;
    r->at = end + (*end != '\0');
    *end = '\0';
    return begin;
}

static uint64_t number(struct reader *r, int base)
{
    char *text = word(r), *end;
    if (text == NULL) {
        r->wrong = "a word is missing";
        return 0;
    }
    uint64_t value = strtoull(text, &end, base);
    if (*end != '\0')
        r->wrong = "this is no number";
    return value;
}

static uint32_t small(struct reader *r)
{
    uint64_t value = number(r, 10);
    if (value > 1u << 24)
        r->wrong = "the number is too large";
    return (uint32_t)value;
}

/* A list of numbers, with commas. Returns how many. */
static uint32_t list(char *text, uint32_t **to, size_t *used, size_t *room)
{
    uint32_t count = 0;
    while (*text != '-' && *text != '\0') {
        *to = grown(*to, *used, 1, room, sizeof **to);
        (*to)[(*used)++] = (uint32_t)strtoul(text, &text, 10);
        count++;
        text += *text == ',';
    }
    return count;
}

static uint64_t name(struct reader *r)
{
    struct play_program *p = r->program;
    const char *text = word(r);
    if (text == NULL) {
        r->wrong = "a name is missing";
        return 0;
    }
    for (size_t i = 0; i < r->names; i++)
        if (strcmp(p->names[i], text) == 0)
            return i;
    p->names = grown(p->names, r->names, 1, &r->name_room, sizeof *p->names);
    p->names[r->names] = strdup(text);
    return r->names++;
}

/* -- Which addresses are the host's ------------------------------------------- */

static uint64_t *host_place(struct reader *r, uint64_t address)
{
    uint64_t at = address * 0x9e3779b97f4a7c15u >> (64 - HOSTS_BITS);
    while (r->hosts[at] != 0 && r->hosts[at] != address)
        at = (at + 1) % HOSTS;
    return &r->hosts[at];
}

static void is_host(struct reader *r, uint64_t address)
{
    uint64_t *place = host_place(r, address);
    if (*place == 0 && ++r->host_count > HOSTS / 2)
        r->wrong = "there are too many addresses";
    *place = address;
}

static uint64_t pointer(struct reader *r, uint64_t address, bool host)
{
    host |= address != 0 && *host_place(r, address) == address;
    return host ? (uint64_t)play_host(address) : address;
}

/* Pointers to host memory take the place of such addresses. */
static void translate(struct reader *r, struct play_line *line)
{
    enum { HOST = 1, DEVICE = 2 };
    uint64_t *w = line->word;
    switch (line->verb) {
    case PLAY_MEMORY:
        if (w[1] < DEVICE) {
            is_host(r, w[0]);
            uint64_t before = w[0] - w[2];
            w[0] = (uint64_t)play_host(w[0]);
            w[2] = w[0] - before;
        }
        break;
    case PLAY_COPY:
        w[2] = pointer(r, w[2], w[1] == HOST);
        w[4] = pointer(r, w[4], w[3] == HOST);
        break;
    case PLAY_READ:
        w[1] = (uint64_t)play_host(w[1]);
        break;
    default:
        break;
    }
}

/* -- Lines -------------------------------------------------------------------- */

static struct play_line *new_line(struct reader *r)
{
    struct play_program *p = r->program;
    p->line = grown(p->line, p->lines, 1, &r->line_room, sizeof *p->line);
    p->line[p->lines] = (struct play_line){.thread = 0};
    return &p->line[p->lines++];
}

static void read_words(struct reader *r, struct play_line *line)
{
    struct play_program *p = r->program;
    for (const char *form = verbs[line->verb].words; *form != '\0' && !r->wrong; form++) {
        uint64_t *to = &line->word[line->words];
        if (*form == 'o' && (*r->at == '\0' || *r->at == '=' || *r->at == '@'))
            break;
        line->words++;
        if (*form == 'x')
            *to = number(r, 16);
        else if (*form == 's')
            *to = name(r);
        else if (*form != 'v')
            *to = number(r, 10);
        else {
            char *text = word(r);
            *to = r->values;
            line->words = (uint8_t)(line->words - 1 + (text != NULL));
            if (text != NULL)
                (void)list(text, &p->values, &r->values, &r->value_room);
        }
    }
    translate(r, line);
}

/* A launch without values has a zero for each parameter. */
static void complete(struct reader *r, struct play_line *line)
{
    struct play_program *p = r->program;
    if (line->word[0] > p->functions || line->word[0] == 0) {
        r->wrong = "there is no such function";
        return;
    }
    uint32_t params = p->function[line->word[0]].params;
    line->word[10] = line->words > 10 ? line->word[10] : r->values;
    while (r->values - line->word[10] < params) {
        p->values = grown(p->values, r->values, 1, &r->value_room, sizeof *p->values);
        p->values[r->values++] = 0;
    }
}

static void read_call(struct reader *r, uint64_t gap)
{
    uint32_t thread = small(r);
    const char *verb = word(r);
    struct play_line *line = new_line(r);
    line->gap = gap;
    line->thread = thread;
    while (verb != NULL && line->verb < PLAY_VERBS && strcmp(verbs[line->verb].name, verb) != 0)
        line->verb++;
    if (verb == NULL || line->verb >= PLAY_MEMORY || thread == 0 || thread > r->program->threads) {
        r->wrong = "there is no such call, or thread";
        return;
    }
    read_words(r, line);
    if (line->verb == PLAY_KERNEL)
        complete(r, line);
    for (char *more; (more = word(r)) != NULL;)
        if (*more == '@' || *more == '=')
            *(*more == '@' ? &line->gpu : &line->own) = strtoull(more + 1, NULL, 10);
}

/* Makes `count` the highest number of something that has an array of its own (NULL: it has none).
 */
static void *number_up(void *array, uint32_t *highest, uint32_t count, size_t size)
{
    if (count > *highest) {
        array = realloc(array, (count + 1) * size);
        if (array == NULL)
            abort();
        memset((char *)array + (*highest + 1) * size, 0, (count - *highest) * size);
        *highest = count;
    }
    return array;
}

static void read_function(struct reader *r)
{
    struct play_program *p = r->program;
    uint32_t f = small(r);
    (void)number(r, 10); /* ways */
    (void)word(r);       /* its kind */
    char *sizes = word(r), *text = word(r);
    if (r->wrong || sizes == NULL)
        return;
    p->function = number_up(p->function, &p->functions, f, sizeof *p->function);
    struct play_function *function = &p->function[f];
    function->known = *sizes != '?';
    function->first = (uint32_t)r->sizes;
    function->params = function->known ? list(sizes, &p->sizes, &r->sizes, &r->size_room) : 0;
    (void)snprintf(function->name, sizeof function->name, "%s", text != NULL ? text : "?");
}

static void read_stream(struct reader *r)
{
    struct play_program *p = r->program;
    uint32_t s = small(r);
    struct play_stream stream = {.context = small(r)};
    stream.kind = small(r);
    stream.flags = small(r);
    stream.thread = *r->at != '\0' ? small(r) : 0;
    p->stream = number_up(p->stream, &p->streams, s, sizeof *p->stream);
    p->stream[s] = stream;
}

/* A thread appears, in a context: as a call of its own that takes no time. */
static void read_thread(struct reader *r)
{
    uint32_t thread = small(r), context = small(r);
    r->program->threads = thread > r->program->threads ? thread : r->program->threads;
    struct play_line *line = new_line(r);
    line->thread = thread;
    line->verb = PLAY_CURRENT;
    line->words = 1;
    line->word[0] = context;
}

static void read_line(struct reader *r)
{
    struct play_program *p = r->program;
    const char *first = word(r);
    if (first == NULL || *first == '#')
        return;
    if (*first >= '0' && *first <= '9') {
        read_call(r, strtoull(first, NULL, 10));
    } else if (strcmp(first, "memory") == 0) {
        struct play_line *line = new_line(r);
        line->verb = PLAY_MEMORY;
        read_words(r, line);
    } else if (strcmp(first, "function") == 0) {
        read_function(r);
    } else if (strcmp(first, "stream") == 0) {
        read_stream(r);
    } else if (strcmp(first, "event") == 0) {
        uint32_t event = small(r);
        p->timed = number_up(p->timed, &p->events, event, sizeof *p->timed);
        const char *timed = word(r);
        p->timed[event] = timed == NULL || *timed != '0'; /* or it is not known */
    } else if (strcmp(first, "context") == 0) {
        uint32_t context = small(r);
        p->contexts = context > p->contexts ? context : p->contexts;
    } else if (strcmp(first, "thread") == 0) {
        read_thread(r);
    } else if (strcmp(first, "program") == 0) {
        const char *text = word(r);
        (void)snprintf(p->name, sizeof p->name, "%s", text != NULL ? text : "?");
    } else if (strcmp(first, "gpu") != 0) {
        r->wrong = "this line is not known";
    }
}

/* Where a call names a stream or an event: one more than the place, 0: nowhere. */
static const struct {
    uint8_t stream, event;
} named[PLAY_VERBS] = {
    [PLAY_KERNEL] = {2, 0},     [PLAY_MEMSET] = {1, 0},      [PLAY_COPY] = {1, 0},
    [PLAY_READ] = {1, 0},       [PLAY_RECORD] = {1, 2},      [PLAY_WAIT] = {1, 2},
    [PLAY_VALUE] = {1, 0},      [PLAY_FREE] = {1, 0},        [PLAY_ALLOCATE] = {1, 0},
    [PLAY_GRAPH] = {1, 0},      [PLAY_SYNC_STREAM] = {1, 0}, [PLAY_SYNC_EVENT] = {0, 1},
    [PLAY_ASK_STREAM] = {1, 0}, [PLAY_ASK_EVENT] = {0, 1},   [PLAY_HOST] = {1, 0},
    [PLAY_CREATED] = {1, 0},    [PLAY_DESTROYED] = {1, 0},   [PLAY_GONE] = {0, 1},
    [PLAY_CAPTURE] = {1, 0},
};

uint32_t play_stream_of(const struct play_line *line)
{
    unsigned place = named[line->verb].stream;
    return place != 0 ? (uint32_t)line->word[place - 1] : 0;
}

/* What calls name must be there. */
static bool names_known(const struct play_program *p, const struct play_line *line)
{
    unsigned stream = named[line->verb].stream, event = named[line->verb].event;
    const uint64_t *w = line->word;
    return (stream == 0 || (w[stream - 1] != 0 && w[stream - 1] <= p->streams)) &&
           (event == 0 || (w[event - 1] != 0 && w[event - 1] <= p->events)) &&
           (line->verb != PLAY_CURRENT || w[0] <= p->contexts);
}

bool play_read(struct play_program *program, FILE *file, char error[256])
{
    *program = (struct play_program){.lines = 0};
    struct reader r = {.program = program, .hosts = calloc(HOSTS, sizeof *r.hosts)};
    char *text = NULL;
    size_t size = 0, count = 0, length;
    if (r.hosts == NULL)
        abort();
    make_arena();
    while (!r.wrong && getline(&text, &size, file) > 0) {
        count++;
        length = strcspn(text, "\n");
        text[length] = '\0';
        r.at = text;
        read_line(&r);
    }
    for (size_t i = 0; i < program->lines && !r.wrong; i++)
        if (!names_known(program, &program->line[i]))
            r.wrong = "a call names what there is not";
    if (!r.wrong)
        play_order(program);
    if (r.wrong)
        (void)snprintf(error, 256, "line %zu: %s", count, r.wrong);
    free(text);
    free(r.hosts);
    return r.wrong == NULL;
}

/* SPDX-License-Identifier: MIT */
/* The best plan that knows the future. */
#include "policy/plan.h"

#include <stdlib.h>
#include <string.h>

#include "driver/limits.h"
#include "engine/context/fetch.h"
#include "policy/costs.h"
#include "policy/doors.h"
#include "policy/driver.h"
#include "policy/threads.h"

enum { BLOCKING, NON_BLOCKING, LEGACY, PER_THREAD }; /* kinds of streams */
enum { PAGEABLE, HOST };                             /* types of memory */

/* All pieces with the same tokens, or with the same arguments besides. */
struct shape {
    uint64_t key;                /* 0: none */
    uint64_t uses, saves, makes; /* ns of CPU time; `saves`: each time */
    uint32_t length, variants;   /* `variants`: with other arguments */
    bool left_out;
    bool seen, made;             /* while it is played */
    uint64_t *arguments, *words; /* of the graph: a hash for each op, of all and of the shape */
};

struct piece {
    uint64_t key, exact;         /* hashes of its tokens, and of its arguments, too */
    uint64_t saves, first, last; /* numbers of its calls */
    bool held;                   /* while it is played */
    uint32_t length;
    struct shape *shape;
};

static struct piece *pieces; /* 0: none */
static size_t piece_count, piece_room;
static uint32_t *piece_of; /* each call */
static struct shape *shapes;
static size_t shape_room;
static struct shape *last_out; /* that was left out last */
static uint64_t out_below;     /* ops of the next one at most */

/* -- Which op ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t token(const struct play_line *line)
{
    const uint64_t *w = line->word;
    uint64_t hash = mix(1, line->verb);
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
        return mix(mix(hash, w[0]), w[9]);
    case PLAY_MEMSET:
        return mix(mix(hash, w[6]), w[3] > 1 ? mix(w[3], w[4]) : 0);
    case PLAY_COPY:
        return mix(mix(hash, play_memory_type(w[2]) * 8 + play_memory_type(w[4])),
                   w[6] * w[7] > 1 ? mix(mix(w[5], w[6]), w[7]) : 0);
    case PLAY_VALUE:
        return mix(mix(hash, w[1]), w[2]);
    default:
        return hash;
    }
}

static uint64_t arguments_of(const struct play_program *p, const struct play_line *line)
{
    bool is_kernel = line->verb == PLAY_KERNEL;
    uint64_t hash = 1;
    for (unsigned i = 0; i < PLAY_WORDS && i < line->words; i++)
        if (i != (is_kernel ? 10 : PLAY_WORDS) && i != is_kernel) /* values, stream */
            hash = mix(hash, line->word[i]);
    for (uint32_t i = 0; line->verb == PLAY_KERNEL && i < p->function[line->word[0]].params; i++)
        hash = mix(hash, p->values[line->word[10] + i]);
    return hash;
}

static uint64_t shape_of(const struct play_line *line)
{
    uint64_t hash = 1;
    for (unsigned i = 2; line->verb == PLAY_KERNEL && i <= 8; i++)
        hash = mix(hash, line->word[i]);
    return hash;
}

/* CPU time of the op's own call; the rest of what a copy to the host takes counts, too. */
static uint64_t eager_ns(const struct play_line *line)
{
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
        return NS_LAUNCH;
    case PLAY_MEMSET:
        return NS_MEMSET;
    case PLAY_COPY:
        return play_memory_type(line->word[4]) <= HOST ? NS_UPLOAD : NS_COPY;
    case PLAY_READ:
        return NS_READ + NS_GPU_SWITCH + NS_GPU_DOWNLOAD;
    case PLAY_RECORD:
        return NS_RECORD;
    case PLAY_WAIT:
        return NS_STREAM_WAIT;
    default:
        return NS_VALUE;
    }
}

/* Whether the thread's next call waits for the stream of this one. */
static bool is_awaited(const struct play_program *p, const struct play_line *line)
{
    const struct play_line *next = line + 1;
    while (next < p->line + p->lines && next->thread != line->thread)
        next++;
    return next < p->line + p->lines && next->verb == PLAY_SYNC_STREAM &&
           next->word[0] == line->word[0];
}

static bool can_be_held(const struct play_program *p, const struct play_line *line)
{
    enum { UPLOAD = AG_UPLOAD_KB << 10 };
    const uint64_t *w = line->word;
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
        return p->function[w[0]].known;
    case PLAY_MEMSET:
        return w[7] == 0 || play_memory_type(w[1]) > HOST;
    case PLAY_COPY: {
        unsigned to = play_memory_type(w[2]), from = play_memory_type(w[4]);
        return to > HOST && (from != PAGEABLE || (w[10] == 0 && w[5] * w[6] * w[7] <= UPLOAD));
    }
    case PLAY_READ:
        return w[3] != 0 && w[3] <= AG_FETCH_BYTES &&
               (w[4] != 0 || play_memory_type(w[1]) == PAGEABLE || is_awaited(p, line));
    case PLAY_RECORD:
    case PLAY_WAIT:
    case PLAY_VALUE:
        return true;
    default:
        return false;
    }
}

/* -- Cutting ------------------------------------------------------------------------------- */

static struct open {
    uint32_t piece;        /* 0: none */
    uint32_t thread;       /* that has issued its last op */
} * opened;                /* by stream */
static uint32_t *recorded; /* by event: the piece that has its last record; 0: none */

static void *zeros(size_t count, size_t size)
{
    void *made = calloc(count + 1, size);
    if (made == NULL)
        abort();
    return made;
}

static void close_piece(uint32_t stream)
{
    opened[stream].piece = 0;
}

static void close_where(const struct play_program *p, bool (*closes)(uint32_t, uint64_t),
                        uint64_t which)
{
    for (uint32_t s = 1; s <= p->streams; s++)
        if (opened[s].piece != 0 && (closes == NULL || closes(s, which)))
            close_piece(s);
}

static bool is_threads(uint32_t stream, uint64_t thread)
{
    return opened[stream].thread == thread;
}

static bool is_piece(uint32_t stream, uint64_t piece)
{
    return opened[stream].piece == piece;
}

/* A blocking stream of the context. */
static bool is_blocking_of(uint32_t stream, uint64_t context)
{
    const struct play_gpu *gpu = play_stream(stream);
    return (uint64_t)gpu->context == context && (gpu->kind == BLOCKING || gpu->kind == PER_THREAD);
}

static bool is_legacy_of(uint32_t stream, uint64_t context)
{
    const struct play_gpu *gpu = play_stream(stream);
    return (uint64_t)gpu->context == context && gpu->kind == LEGACY;
}

/* What CUDA orders before an op of the stream. */
static void implicit(const struct play_program *p, uint32_t stream)
{
    const struct play_gpu *gpu = play_stream(stream);
    if (gpu->kind == LEGACY)
        close_where(p, is_blocking_of, (uint64_t)gpu->context);
    else if (gpu->kind != NON_BLOCKING)
        close_where(p, is_legacy_of, (uint64_t)gpu->context);
}

static uint32_t new_piece(void)
{
    if (piece_count + 1 >= piece_room) {
        piece_room = 2 * piece_room + 1024;
        pieces = realloc(pieces, piece_room * sizeof *pieces);
        if (pieces == NULL)
            abort();
    }
    pieces[piece_count] = (struct piece){.key = 1, .exact = 1};
    return (uint32_t)piece_count++;
}

static void hold(const struct play_program *p, uint64_t number, uint32_t stream, uint32_t most)
{
    const struct play_line *line = &p->line[number];
    struct open *open = &opened[stream];
    if (line->verb == PLAY_WAIT && recorded[line->word[1]] != 0 &&
        recorded[line->word[1]] != open->piece)
        close_where(p, is_piece, recorded[line->word[1]]);
    if (open->piece == 0) {
        open->piece = new_piece();
        pieces[open->piece].first = number;
    }
    open->thread = line->thread;
    struct piece *piece = &pieces[open->piece];
    piece->key = mix(piece->key, token(line));
    piece->exact = mix(mix(piece->exact, token(line)), arguments_of(p, line));
    piece->saves += eager_ns(line);
    piece->last = number;
    piece->length++;
    piece_of[number] = open->piece;
    if (line->verb == PLAY_RECORD)
        recorded[line->word[1]] = open->piece;
    if (piece->length == most || line->verb == PLAY_READ)
        close_piece(stream);
}

/* A call that is not held. */
static void cut(const struct play_program *p, const struct play_line *line)
{
    const uint64_t *w = line->word;
    const char *who = line->verb == PLAY_BARRIER ? p->names[w[0]] : "";
    bool asks = line->verb == PLAY_ASK_STREAM || line->verb == PLAY_ASK_EVENT;
    if (asks && w[1] != CUDA_SUCCESS) /* "not ready" is true of what is held */
        return;
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
        close_piece((uint32_t)w[1]);
        break;
    case PLAY_MEMSET:
    case PLAY_COPY:
    case PLAY_READ:
    case PLAY_GRAPH:
    case PLAY_HOST:
    case PLAY_ASK_STREAM:
    case PLAY_DESTROYED:
        close_piece((uint32_t)w[0]);
        break;
    case PLAY_SYNC_STREAM:
        close_piece((uint32_t)w[0]);
        close_where(p, is_threads, line->thread);
        break;
    case PLAY_BARRIER:
        if (strcmp(who, "stream") == 0 && line->words > 3 && w[3] <= p->streams)
            close_piece((uint32_t)w[3]);
        else if (strcmp(who, "wait") == 0)
            close_where(p, is_threads, line->thread);
        else if (strcmp(who, "load") != 0 && strcmp(who, "setter") != 0)
            close_where(p, NULL, 0);
        break;
    case PLAY_FREE:
    case PLAY_ALLOCATE:
    case PLAY_CURRENT:
    case PLAY_MEMORY:
        break;
    default:
        close_where(p, NULL, 0);
        break;
    }
}

static uint32_t stream_of(const struct play_line *line)
{
    return (uint32_t)line->word[line->verb == PLAY_KERNEL];
}

/* -- Graphs that pay ------------------------------------------------------------------------ */

static struct shape *find_shape(uint64_t key)
{
    key += key == 0 ? 2 : 0;
    size_t at = key & (shape_room - 1);
    while (shapes[at].key != 0 && shapes[at].key != key)
        at = (at + 1) & (shape_room - 1);
    shapes[at].key = key;
    return &shapes[at];
}

static void use(struct shape *shape, struct piece *piece)
{
    uint64_t held = NS_GRAPH + piece->length * (uint64_t)(NS_GRAPH_OP + NS_HELD);
    shape->uses++;
    shape->length = piece->length;
    shape->saves = piece->saves > held ? piece->saves - held : 0;
    shape->makes = NS_MAKE + piece->length * (uint64_t)NS_MAKE_OP;
    piece->shape = shape;
}

/* Arguments that come back have graphs of their own. */
static void count_shapes(void)
{
    enum { VARIANTS = 8 };
    shape_room = 16;
    while (shape_room < 4 * piece_count)
        shape_room *= 2;
    shapes = zeros(shape_room, sizeof *shapes);
    for (size_t i = 1; i < piece_count; i++) {
        struct shape *exact = find_shape(pieces[i].exact | 1);
        struct shape *shape = find_shape(pieces[i].key & ~(uint64_t)1);
        shape->variants += exact->uses++ == 0;
    }
    for (size_t i = 0; i < shape_room; i++)
        shapes[i].uses = 0;
    for (size_t i = 1; i < piece_count; i++) {
        struct shape *shape = find_shape(pieces[i].key & ~(uint64_t)1);
        use(shape->variants <= VARIANTS ? find_shape(pieces[i].exact | 1) : shape, &pieces[i]);
    }
}

/* The least distance at which most ops of the busiest stream come again; 0: there is none. */
static uint32_t period(const struct play_program *program)
{
    enum { OF = 10, MOST = 8 };
    uint64_t *count = zeros(program->streams, sizeof *count);
    uint64_t *tokens = zeros(program->lines, sizeof *tokens), length = 0;
    uint32_t busiest = 1, found = 0;
    for (uint64_t i = 0; i < program->lines; i++)
        if (can_be_held(program, &program->line[i]))
            count[stream_of(&program->line[i])]++;
    for (uint32_t s = 1; s <= program->streams; s++)
        busiest = count[s] > count[busiest] ? s : busiest;
    for (uint64_t i = 0; i < program->lines; i++)
        if (can_be_held(program, &program->line[i]) && stream_of(&program->line[i]) == busiest)
            tokens[length++] = token(&program->line[i]);
    for (uint32_t d = 1; d <= PLAY_PLAN_MOST && d < length && found == 0; d++) {
        uint64_t alike = 0;
        for (uint64_t i = d; i < length; i++)
            alike += tokens[i] == tokens[i - d];
        if (alike * OF >= (length - d) * MOST)
            found = d;
    }
    free(tokens);
    free(count);
    return found;
}

unsigned play_plan_lengths(const struct play_program *program, uint32_t lengths[PLAY_PLAN_LENGTHS])
{
    unsigned count = 0;
    play_driver_make(program);
    for (uint64_t i = 0; i < program->lines; i++)
        if (program->line[i].verb == PLAY_MEMORY)
            play_define(program, &program->line[i]);
    for (uint32_t length = 2; length <= PLAY_PLAN_MOST; length *= 2)
        lengths[count++] = length;
    uint32_t round = period(program);
    for (uint32_t length = round; length != 0 && length <= PLAY_PLAN_MOST; length *= 2)
        if ((length & (length - 1)) != 0)
            lengths[count++] = length;
    return count;
}

void play_plan_make(const struct play_program *program, uint32_t most)
{
    play_driver_make(program);
    free(piece_of);
    free(shapes);
    free(opened);
    free(recorded);
    piece_of = zeros(program->lines, sizeof *piece_of);
    opened = zeros(program->streams, sizeof *opened);
    recorded = zeros(program->events, sizeof *recorded);
    piece_count = 0;
    (void)new_piece();
    for (uint64_t i = 0; i < program->lines; i++) {
        const struct play_line *line = &program->line[i];
        if (line->verb == PLAY_MEMORY) {
            play_define(program, line);
        } else if (can_be_held(program, line)) {
            implicit(program, stream_of(line));
            hold(program, i, stream_of(line), most);
        } else {
            cut(program, line);
        }
    }
    count_shapes();
    out_below = UINT64_MAX;
}

static bool pays(const struct shape *shape)
{
    return !shape->left_out && shape->uses > 1 && (shape->uses - 1) * shape->saves > shape->makes;
}

/* The shape of most ops, of those that pay and have fewer than `below`; NULL: there is none. */
static struct shape *next_shape(uint64_t below)
{
    struct shape *most = NULL;
    for (size_t i = 0; i < shape_room; i++) {
        struct shape *shape = &shapes[i];
        uint64_t ops = shape->uses * shape->length;
        if (pays(shape) && ops < below && (most == NULL || ops > most->uses * most->length))
            most = shape;
    }
    return most;
}

bool play_plan_leave_out(void)
{
    last_out = next_shape(out_below);
    if (last_out == NULL)
        return false;
    out_below = last_out->uses * last_out->length;
    last_out->left_out = true;
    return true;
}

void play_plan_take_back(void)
{
    last_out->left_out = false;
}

/* -- While it is played ----------------------------------------------------------------------- */

static struct held {
    struct play_op op[PLAY_PLAN_MOST];
    uint32_t count, changed, reshaped;
} * helds; /* by stream */
static struct {
    uint64_t replayed, replays, patches, graphs;
} counts;

void play_plan_begins(const struct play_program *program)
{
    helds = zeros(program->streams, sizeof *helds);
}

void play_plan_counts(uint64_t *replayed, uint64_t *replays, uint64_t *patches, uint64_t *graphs)
{
    *replayed = counts.replayed;
    *replays = counts.replays;
    *patches = counts.patches;
    *graphs = counts.graphs;
}

static void patch(struct shape *shape, const struct held *held)
{
    uint64_t one_by_one = (held->changed - held->reshaped) * (uint64_t)NS_SET +
                          held->reshaped * (uint64_t)NS_SET_SHAPE;
    uint64_t as_a_whole =
        held->changed * (uint64_t)NS_SET_SOURCE + shape->length * (uint64_t)NS_UPDATE_NODE;
    play_spend(one_by_one < as_a_whole ? one_by_one : as_a_whole);
    counts.patches += held->changed;
}

static void make(struct shape *shape)
{
    shape->made = true;
    play_call(shape->makes, shape->makes);
    counts.graphs++;
}

/* Other threads may go on in the stream before the launch is over. */
static void launch(struct play_gpu *stream, struct shape *shape, struct held *open)
{
    struct held all = *open, *held = &all;
    bool made = shape->made;
    open->count = open->changed = open->reshaped = 0;
    if (!made)
        make(shape);
    else
        patch(shape, held);
    play_gpu_room(stream);
    play_call(NS_GRAPH + held->count * (uint64_t)NS_GRAPH_OP +
                  (made ? held->reshaped * (uint64_t)NS_RESHAPED : 0),
              NS_GRAPH_LOCKED);
    play_gpu_launch(stream, held->op, held->count);
    counts.replays++;
    counts.replayed += held->count;
}

void play_plan_door(const struct play_program *program, uint64_t number)
{
    const struct play_line *line = &program->line[number];
    struct piece *piece = &pieces[piece_of[number]];
    struct shape *shape = piece->shape;
    bool last = piece->last == number;
    if (piece_of[number] != 0 && piece->first == number)
        piece->held = pays(shape) && shape->seen;
    if (piece_of[number] == 0 || !piece->held) {
        play_door(program, line);
        if (piece_of[number] != 0 && last)
            shape->seen = true;
        return;
    }
    struct play_gpu *stream = play_stream(stream_of(line));
    struct held *held = &helds[stream_of(line)];
    uint64_t now = arguments_of(program, line), words = shape_of(line);
    uint32_t at = held->count++;
    if (shape->arguments == NULL) {
        shape->arguments = zeros(shape->length, sizeof *shape->arguments);
        shape->words = zeros(shape->length, sizeof *shape->words);
    }
    play_spend(NS_HELD);
    held->op[at] = play_op_of(program, line);
    if (line->verb == PLAY_READ) {
        held->op[at].kind = PLAY_OP_FETCH;
        held->op[at].ns = play_gpu_ns(PLAY_OP_FETCH, line->word[3]);
    }
    if (shape->made) {
        held->changed += shape->arguments[at] != now;
        held->reshaped += shape->words[at] != words;
    }
    shape->arguments[at] = now;
    shape->words[at] = words;
    if (last)
        launch(stream, shape, held);
    if (line->verb == PLAY_READ &&
        (line->word[4] != 0 || play_memory_type(line->word[1]) == PAGEABLE))
        play_gpu_wait(play_gpu_end(stream));
}

/* Read the trace events of a pickle straight into columns, without a Python object for each.
 *
 * It runs the few opcodes of a snapshot (read/unpickle.py has the list). Events become rows of
 * columns, and equal call stacks are found by their frames. All else in the file is kept and
 * written out at the end as a small pickle, which Python loads like any other.
 *
 * At the first thing that differs from what PyTorch writes (an event that is used twice, a list
 * that changes after it was used, a key that is not text, an integer beyond 64 bits, text that is
 * not UTF-8, a cut-off file) it gives up without a message: Python's own unpickler then reads the
 * whole file and has all the messages.
 *
 * It reads a stranger's bytes: data[i] is read only after comparing i with the length, every index
 * is compared with the length of its array, and no value is an address. The file may be mapped and
 * change meanwhile, so a byte that decides how many others are read is read once.
 */

#include "native.h"

#define TRY(what) do { if (!(what)) return 0; } while (0) /* 0 means "give up", everywhere */

/* What is done for each field of an event. */
#define INLINE static inline __attribute__((always_inline))

/* A value is 4 bits of kind and 60 bits of content. */
typedef uint64_t value;
enum {
    NONE, YES, NO,
    INT,   /* the number itself, of 60 bits and a sign */
    FLOAT, /* this and the next two: where their bytes begin in the data */
    LONG8, /* an integer of 8 bytes */
    LONG9, /* of 9 bytes */
    TEXT,  /* a row of texts */
    PAIR,  /* a row of pairs: a tuple of two integers */
    NODE,  /* a row of nodes */
    STACK, /* a row of stacks: a list of frames that were all met before */
    EVENT, /* a row of the columns */
    UNSET, /* a memo place that holds nothing */
};

static value make(unsigned kind, uint64_t content) { return content << 4 | kind; }
static unsigned kind_of(value v) { return (unsigned)(v & 15); }
static size_t row_of(value v) { return (size_t)(v >> 4); }
static int64_t int_of(value v)
{
    const uint64_t high = v >> 63 ? UINT64_C(0xF) << 60 : 0;
    const uint64_t bits = v >> 4 | high;
    int64_t number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The role of a list or dict: all but PLAIN hold events, and may be used in one way only. */
enum { PLAIN, TOP, TRACES, TRACE };
enum { LIST, DICT, TUPLE };

typedef struct {
    uint64_t first, last; /* its chunks in items, 0 for none: length, next chunk, values */
    uint32_t written;     /* its memo index + 1 in the output */
    int32_t number;       /* of a list: its stack; of a dict: its frame; -1 for none yet */
    uint8_t kind, role, open;
} node;

typedef struct {
    size_t start; uint32_t length, written;
    int32_t key, number; /* in KEY_NAMES; as a frame, -1 for none yet */
    uint64_t hash;
} text;
typedef struct { int64_t one, other; } pair;
typedef struct {
    uint64_t start, hash;
    uint64_t text;            /* in stack_text: how the list of its frames is written */
    uint32_t length, n_text;  /* frames, bytes */
    uint32_t written;
    int32_t next;             /* the stack that followed it; any other if none did yet */
} stack;
typedef struct { int64_t begin, end, first_keys; } trace;
typedef struct { int64_t trace, text, count, last; } unknown; /* a key that we do not know */
/* A field of events: the bytes of its key in a word, which of them count and how many they are; the
 * key's row of texts, and which it is, EVENT_KEYS for an unknown one; its column, those of ids after
 * those of integers, and the kind of its values. */
typedef struct { uint64_t word, mask; size_t text; uint8_t length, which, column, kind; } field;
static const field NO_FIELD = {.word = 1}; /* which is no key's, as no bytes count */

/* Keys of events, in the order of EVENT_KEYS, and one of the snapshot. */
enum { ACTION, ADDR, DEVICE_FREE, SIZE, STREAM, TIME, FRAMES, CONTEXT, METADATA, POOL, CATEGORY,
       FORWARD, INTERNAL, EVENT_KEYS, DEVICE_TRACES = EVENT_KEYS, KEYS };
static const char *const KEY_NAMES[KEYS] = {
    "action", "addr", "device_free", "size", "stream", "time_us", "frames", "compile_context",
    "user_metadata", "pool_id", "category", "forward_frames", "internal_metadata",
    "device_traces"};

enum { INTEGERS = 4, IDS = 8 }; /* columns: addr size stream time; action frames ... internal */
enum { MOST_UNKNOWN = 64, MOST_PAIRS = 256, MOST_PROBES = 512, DEEPEST = 64 };
/* As in opcodes.c. */
enum { MOST_INTEGER = 9, MOST_TEXT = 1 << 18, MOST_KEPT = 3 };
enum { GUESSES = 1 << 12, GUESSED_BY = 64 }; /* by the newest stack and so many bytes */
enum { BATCH = 1000 }; /* picklers write a longer list in parts */
#define MEMO_LIMIT ((size_t)1 << 26) /* as in read/unpickle.py */
#define ROW_LIMIT ((size_t)INT32_MAX)

typedef struct {
    const unsigned char *data;
    size_t length;
    value *values; size_t n_values, room_values;
    size_t *marks; size_t n_marks, room_marks;
    uint32_t *memo; size_t n_memo, room_memo, memo_count; /* values that fit in 32 bits */
    value *items; size_t n_items, room_items;
    node *nodes; size_t n_nodes, room_nodes;
    text *texts; size_t n_texts, room_texts;
    size_t newest_text; /* that was read */
    pair *pairs; size_t n_pairs, room_pairs;
    stack *stacks; size_t n_stacks, room_stacks;
    int32_t *stack_frames; size_t n_stack_frames, room_stack_frames;
    unsigned char *stack_text; size_t n_stack_text, room_stack_text;
    int32_t newest_stack; /* of the list of frames that was read last */
    int32_t guesses[GUESSES];
    int rewritten;        /* whether a memo place got another value: then no text says which */
    value *frames; size_t n_frames, room_frames; /* dicts, or the texts of forward_frames */
    trace *traces; size_t n_traces, room_traces;
    unknown *unknowns; size_t n_unknowns, room_unknowns;
    int32_t *text_table, *stack_table; size_t text_slots, stack_slots;
    int64_t *integers[INTEGERS]; int32_t *ids[IDS]; size_t n_rows, room_rows;
    unsigned seen;                       /* keys of the newest row */
    field fields[EVENT_KEYS + 1];        /* of the last event, in order; the last is none */
    /* The last short text of a field: its bytes in a word with its opcodes, as in a field. */
    uint64_t short_word, short_mask; unsigned short_length; value short_text;
    int found_traces;                    /* whether the key device_traces was met */
    size_t traces_at, traces_marks;      /* where on the stack the list of traces is */
    size_t trace_at, trace_marks; value newest_trace;
    unsigned char *out; size_t n_out, room_out; uint32_t out_memo;
    size_t left; /* bytes that may still be allocated */
} machine;

/* Real snapshots take 0.7 to 2.8 bytes of memory per byte; one of empty lists alone, 70. */
enum { MOST_RATIO = 16 };
#ifndef ALWAYS /* less in a fuzzer, so that it reaches the limit */
#define ALWAYS ((size_t)1 << 26)
#define LEAST_ROOM 64
#endif

/* Make room for `more` entries after the `used` ones. */
static int grow(machine *m, void **array, size_t *room, size_t used, size_t more, size_t width)
{
    if (*room - used >= more)
        return 1;
    size_t wanted = *room < LEAST_ROOM ? LEAST_ROOM : *room;
    while (wanted - used < more) {
        TRY(wanted <= SIZE_MAX / 4 / width);
        wanted += wanted / 2;
    }
    const size_t added = (wanted - *room) * width;
    TRY(added <= m->left);
    void *larger = realloc(*array, wanted * width);
    TRY(larger != NULL);
    m->left -= added;
    *array = larger;
    *room = wanted;
    return 1;
}
#define ROOM(m, name, more) \
    grow(m, (void **)&(m)->name, &(m)->room_##name, (m)->n_##name, more, sizeof *(m)->name)

static uint64_t mix(uint64_t hash, uint64_t with)
{
    hash ^= with;
    hash *= UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Move the rows of a table to a hash table with twice the slots, before one more makes it half
 * full. */
static int rehash(machine *m, int32_t **table, size_t *slots, size_t rows, const void *hashes,
                  size_t stride)
{
    if ((rows + 1) * 2 < *slots)
        return 1;
    const size_t wanted = *slots ? *slots * 2 : 1024;
    TRY(wanted <= SIZE_MAX / sizeof(int32_t));
    const size_t added = (wanted - *slots) * sizeof(int32_t);
    TRY(added <= m->left);
    int32_t *larger = malloc(wanted * sizeof(int32_t));
    TRY(larger != NULL);
    m->left -= added;
    memset(larger, 0xFF, wanted * sizeof(int32_t));
    for (size_t i = 0; i < rows; i++) {
        uint64_t hash;
        memcpy(&hash, (const unsigned char *)hashes + i * stride, sizeof hash);
        size_t slot = (size_t)hash & (wanted - 1);
        while (larger[slot] >= 0)
            slot = (slot + 1) & (wanted - 1);
        larger[slot] = (int32_t)i;
    }
    free(*table);
    *table = larger;
    *slots = wanted;
    return 1;
}

INLINE size_t four_bytes_at(const unsigned char *at)
{
    return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

INLINE uint64_t eight_bytes_at(const unsigned char *at)
{
    return four_bytes_at(at) | (uint64_t)four_bytes_at(at + 4) << 32;
}

/* ---- texts ---- */

/* Say whether bytes are UTF-8 as Python decodes it, and without surrogates. */
static int is_utf8(const unsigned char *bytes, size_t length)
{
    size_t i = 0;
    while (i < length) {
        const unsigned char lead = bytes[i];
        size_t more;
        uint32_t point, least;
        if (lead < 0x80) { i++; continue; }
        else if (lead >= 0xC2 && lead < 0xE0) { more = 1; point = lead & 0x1F; least = 0x80; }
        else if (lead >= 0xE0 && lead < 0xF0) { more = 2; point = lead & 0x0F; least = 0x800; }
        else if (lead >= 0xF0 && lead < 0xF5) { more = 3; point = lead & 7; least = 0x10000; }
        else return 0;
        if (length - i <= more)
            return 0;
        for (size_t k = 1; k <= more; k++) {
            if ((bytes[i + k] & 0xC0) != 0x80)
                return 0;
            point = point << 6 | (bytes[i + k] & 0x3F);
        }
        if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
            return 0;
        i += more + 1;
    }
    return 1;
}

static uint64_t hash_bytes(const unsigned char *bytes, size_t length)
{
    uint64_t hash = length, word = 0;
    size_t i = 0;
    for (; length - i >= 8; i += 8) {
        memcpy(&word, bytes + i, 8);
        hash = mix(hash, word);
    }
    word = 0;
    if (length > i)
        memcpy(&word, bytes + i, length - i);
    hash = mix(hash, word);
    return mix(hash, hash >> 32);
}

/* Find the text data[start : start + length], which lies within the data, or add it. */
static int intern_text(machine *m, size_t start, size_t length, value *result)
{
    const unsigned char *bytes = m->data + start;
    if (m->n_texts > 0) { /* nearly every event has this text again */
        const text *newest = &m->texts[m->newest_text];
        if (newest->length == length && memcmp(m->data + newest->start, bytes, length) == 0) {
            *result = make(TEXT, m->newest_text);
            return 1;
        }
    }
    TRY(length < UINT32_MAX);
    TRY(rehash(m, &m->text_table, &m->text_slots, m->n_texts,
               m->n_texts ? (const void *)&m->texts[0].hash : NULL, sizeof(text)));
    const uint64_t hash = hash_bytes(bytes, length);
    size_t slot = (size_t)hash & (m->text_slots - 1);
    for (unsigned probes = 0; m->text_table[slot] >= 0; probes++) {
        const size_t row = (size_t)m->text_table[slot];
        const text *known = &m->texts[row];
        if (known->hash == hash && known->length == length
            && memcmp(m->data + known->start, bytes, length) == 0) {
            *result = make(TEXT, row);
            m->newest_text = row;
            return 1;
        }
        TRY(probes < MOST_PROBES);
        slot = (slot + 1) & (m->text_slots - 1);
    }
    TRY(is_utf8(bytes, length) && m->n_texts < ROW_LIMIT && ROOM(m, texts, 1));
    int32_t key = 0;
    while (key < KEYS && (strlen(KEY_NAMES[key]) != length
                          || memcmp(KEY_NAMES[key], bytes, length) != 0))
        key++;
    m->texts[m->n_texts] = (text){start, (uint32_t)length, 0, key, -1, hash};
    m->text_table[slot] = (int32_t)m->n_texts;
    m->newest_text = m->n_texts++;
    *result = make(TEXT, m->newest_text);
    return 1;
}

/* ---- lists, dicts and tuples ---- */

static int new_node(machine *m, unsigned kind, unsigned role, value *result)
{
    TRY(m->n_nodes < ROW_LIMIT && ROOM(m, nodes, 1));
    m->nodes[m->n_nodes] = (node){0, 0, 0, -1, (uint8_t)kind, (uint8_t)role, 1};
    *result = make(NODE, m->n_nodes++);
    return 1;
}

/* Let a value become part of another: from now on it may not change. */
static int take(machine *m, value v)
{
    TRY(kind_of(v) != EVENT);
    if (kind_of(v) == NODE) {
        TRY(m->nodes[row_of(v)].role == PLAIN);
        m->nodes[row_of(v)].open = 0;
    }
    return 1;
}

/* Append values from the stack to a node's content. */
static int add_items(machine *m, size_t row, size_t from, size_t count)
{
    node *target = &m->nodes[row];
    if (count == 0)
        return 1;
    for (size_t i = 0; i < count; i++)
        TRY(take(m, m->values[from + i]));
    TRY(count < SIZE_MAX / 16 && ROOM(m, items, count + 3));
    if (m->n_items == 0) /* so that no chunk is at 0 */
        m->items[m->n_items++] = 0;
    const uint64_t chunk = m->n_items;
    m->items[chunk] = count;
    m->items[chunk + 1] = 0;
    memcpy(m->items + chunk + 2, m->values + from, count * sizeof(value));
    m->n_items += count + 2;
    if (target->first == 0)
        target->first = chunk;
    else
        m->items[target->last + 1] = chunk;
    target->last = chunk;
    return 1;
}

/* Say whether a dict can be a frame of an event: its keys are texts, as SETITEMS has checked, and
 * its values are equal only if they are the same. */
static int is_frame(const machine *m, const node *dict)
{
    for (uint64_t chunk = dict->first; chunk != 0; chunk = m->items[chunk + 1])
        for (uint64_t i = 1; i < m->items[chunk]; i += 2) {
            const value v = m->items[chunk + 2 + i];
            const unsigned kind = kind_of(v);
            TRY(kind == TEXT || kind == INT || kind == NONE
                || kind == LONG8 || kind == LONG9);
        }
    return 1;
}

static int number_frame(machine *m, value v, unsigned kind, int32_t *number)
{
    TRY(kind_of(v) == kind);
    node *dict = kind == NODE ? &m->nodes[row_of(v)] : NULL;
    int32_t *known = dict ? &dict->number : &m->texts[row_of(v)].number;
    if (*known < 0 || (dict && dict->kind != DICT)) {
        TRY(!dict
            || (dict->kind == DICT && dict->role == PLAIN && !dict->open && is_frame(m, dict)));
        TRY(m->n_frames < ROW_LIMIT && ROOM(m, frames, 1));
        *known = (int32_t)m->n_frames;
        m->frames[m->n_frames++] = v;
    }
    *number = *known;
    return 1;
}

/* Number the stack of the newest frames in stack_frames, which are dropped if it is not new. */
static int intern_stack(machine *m, size_t start, int32_t *number)
{
    const size_t length = m->n_stack_frames - start;
    uint64_t hash = 0;
    TRY(length < ROW_LIMIT);
    for (size_t i = 0; i < length; i++)
        hash = mix(hash, (uint64_t)m->stack_frames[start + i] + 1);
    hash = mix(hash, hash >> 32);
    TRY(rehash(m, &m->stack_table, &m->stack_slots, m->n_stacks,
               m->n_stacks ? (const void *)&m->stacks[0].hash : NULL, sizeof(stack)));
    size_t slot = (size_t)hash & (m->stack_slots - 1);
    for (unsigned probes = 0; m->stack_table[slot] >= 0; probes++) {
        const stack *known = &m->stacks[m->stack_table[slot]];
        if (known->hash == hash && known->length == length
            && (length == 0
                || memcmp(m->stack_frames + known->start, m->stack_frames + start,
                          length * sizeof(int32_t)) == 0)) {
            *number = m->stack_table[slot];
            m->n_stack_frames = start;
            return 1;
        }
        TRY(probes < MOST_PROBES);
        slot = (slot + 1) & (m->stack_slots - 1);
    }
    TRY(m->n_stacks < ROW_LIMIT && ROOM(m, stacks, 1));
    *number = (int32_t)m->n_stacks;
    m->stacks[m->n_stacks++] = (stack){start, hash, 0, (uint32_t)length, 0, 0, 0};
    m->stack_table[slot] = *number;
    return 1;
}

/* Number the stack that a list of frames is, by its content, and drop its items. The frames are
 * dicts (NODE), or the lines of a traceback (TEXT). */
static int number_stack(machine *m, value v, unsigned kind, int32_t *number)
{
    const size_t row = row_of(v);
    if (kind_of(v) == STACK)
        *number = (int32_t)row;
    else {
        TRY(kind_of(v) == NODE && m->nodes[row].kind == LIST && m->nodes[row].role == PLAIN
            && !m->nodes[row].open);
        *number = m->nodes[row].number;
    }
    if (*number >= 0) {
        const stack *s = &m->stacks[*number];
        return s->length == 0 || kind_of(m->frames[m->stack_frames[s->start]]) == kind;
    }
    const size_t start = m->n_stack_frames;
    const uint64_t first = m->nodes[row].first;
    for (uint64_t chunk = first; chunk != 0; chunk = m->items[chunk + 1]) {
        const uint64_t count = m->items[chunk];
        TRY(ROOM(m, stack_frames, (size_t)count));
        for (uint64_t i = 0; i < count; i++) {
            int32_t frame;
            TRY(number_frame(m, m->items[chunk + 2 + i], kind, &frame));
            m->stack_frames[m->n_stack_frames++] = frame;
        }
    }
    TRY(intern_stack(m, start, number));
    node *list = &m->nodes[row];
    list->number = *number;
    /* Nearly always its items are the newest, and can be dropped: the stack has them too. */
    if (first != 0 && first == list->last && first + 2 + m->items[first] == m->n_items)
        m->n_items = (size_t)first;
    list->first = list->last = 0;
    return 1;
}

/* Say whether a list of frames, from its MARK on, is written as the one that a stack was read from
 * first. */
static int is_written_as(const machine *m, const unsigned char *text, size_t most, int32_t number)
{
    if ((size_t)number >= m->n_stacks || m->rewritten)
        return 0;
    const stack *s = &m->stacks[number];
    return s->n_text > 0 && s->n_text <= most
        && memcmp(text, m->stack_text + s->text, s->n_text) == 0;
}

/* Read the frames of an event from their MARK on, if all were met before: APPENDS follows after a
 * BINGET or LONG_BINGET for each.
 *
 * Such a list is nearly always written as one before it, and then has the same stack, as no place
 * of the memo got another value. It mostly is the one that followed the last time, or that followed
 * when it began in the same way.
 *
 * Returns where the list ends, or NULL if it is another. */
static const unsigned char *read_frames(machine *m, const unsigned char *text,
                                        const unsigned char *limit, int32_t *number)
{
    const size_t start = m->n_stack_frames, most = (size_t)(limit - text);
    const int32_t before = m->newest_stack, next = m->n_stacks ? m->stacks[before].next : 0;
    if (is_written_as(m, text, most, next)) {
        *number = m->newest_stack = next;
        return text + m->stacks[next].n_text;
    }
    uint64_t hash = (uint64_t)before;
    if (most >= GUESSED_BY)
        for (size_t i = 0; i < GUESSED_BY; i += 8) {
            uint64_t word;
            memcpy(&word, text + i, 8);
            hash = mix(hash, word);
        }
    int32_t *const guess = &m->guesses[hash & (GUESSES - 1)];
    if (is_written_as(m, text, most, *guess)) {
        *number = m->newest_stack = m->stacks[before].next = *guess;
        return text + m->stacks[*guess].n_text;
    }
    size_t end = 1;
    while (most - end > 5 && (text[end] == 'h' || text[end] == 'j')) {
        const int is_long = text[end] == 'j';
        const size_t index = is_long ? four_bytes_at(text + end + 1) : text[end + 1];
        int32_t frame;
        if (index >= m->n_memo || kind_of(m->memo[index]) != NODE)
            break;
        m->nodes[row_of(m->memo[index])].open = 0; /* as get() does */
        if (!number_frame(m, m->memo[index], NODE, &frame) || !ROOM(m, stack_frames, 1))
            break;
        m->stack_frames[m->n_stack_frames++] = frame;
        end += is_long ? 5 : 2;
    }
    const size_t count = m->n_stack_frames - start;
    if (text[end] != 'e' || count == 0 || count >= BATCH || !intern_stack(m, start, number)) {
        m->n_stack_frames = start;
        return NULL;
    }
    end++;
    stack *s = &m->stacks[*number];
    if (s->n_text == 0) {
        if (!ROOM(m, stack_text, end))
            return NULL;
        s->text = m->n_stack_text;
        s->n_text = (uint32_t)end;
        memcpy(m->stack_text + s->text, text, end);
        m->n_stack_text += end;
    }
    m->newest_stack = m->stacks[before].next = *guess = *number;
    return text + end;
}

/* ---- events ---- */

static int add_row(machine *m, value *result)
{
    TRY(m->n_rows < ROW_LIMIT);
    if (m->n_rows == m->room_rows) {
        size_t room = m->room_rows;
        for (int i = 0; i < INTEGERS; i++) {
            room = m->room_rows;
            TRY(grow(m, (void **)&m->integers[i], &room, m->n_rows, 1, sizeof(int64_t)));
        }
        for (int i = 0; i < IDS; i++) {
            size_t same = m->room_rows;
            if (m->ids[i] != NULL)
                TRY(grow(m, (void **)&m->ids[i], &same, m->n_rows, 1, sizeof(int32_t)));
        }
        m->room_rows = room;
    }
    *result = make(EVENT, m->n_rows++);
    return 1;
}

static int new_row(machine *m, value *result)
{
    TRY(add_row(m, result));
    for (int i = 0; i < INTEGERS; i++)
        m->integers[i][m->n_rows - 1] = i == INTEGERS - 1 ? -1 : 0;
    for (int i = 0; i < IDS; i++)
        if (m->ids[i] != NULL)
            m->ids[i][m->n_rows - 1] = -1;
    m->seen = 0;
    return 1;
}

/* Set an id of the newest row; a column begins with its first one, and many files lack some. */
INLINE int set_id(machine *m, int column, size_t id)
{
    if (m->ids[column] == NULL) {
        size_t room = 0;
        TRY(grow(m, (void **)&m->ids[column], &room, 0, m->room_rows, sizeof(int32_t)));
        memset(m->ids[column], 0xFF, m->n_rows * sizeof(int32_t));
    }
    m->ids[column][m->n_rows - 1] = (int32_t)id;
    return 1;
}

static uint64_t unsigned_at(const unsigned char *at, unsigned width)
{
    uint64_t number = 0;
    for (unsigned i = width; i-- > 0;)
        number = number << 8 | at[i];
    return number;
}

INLINE int integer(const machine *m, value v, int64_t *number)
{
    if (kind_of(v) == INT) {
        *number = int_of(v);
        return 1;
    }
    TRY(kind_of(v) == LONG8);
    const uint64_t bits = eight_bytes_at(m->data + row_of(v));
    memcpy(number, &bits, sizeof bits);
    return 1;
}

static int count_unknown(machine *m, size_t key, size_t row)
{
    const int64_t newest = (int64_t)m->n_traces - 1;
    size_t i = m->n_unknowns, of_trace = 0;
    while (i > 0 && m->unknowns[i - 1].trace == newest) {
        unknown *known = &m->unknowns[--i];
        if (known->text == (int64_t)key) {
            TRY(known->last != (int64_t)row); /* twice in one event */
            known->last = (int64_t)row;
            known->count++;
            return 1;
        }
        of_trace++;
    }
    TRY(of_trace < MOST_UNKNOWN && ROOM(m, unknowns, 1));
    m->unknowns[m->n_unknowns++] = (unknown){newest, (int64_t)key, 1, (int64_t)row};
    return 1;
}

/* Set a field of the newest event. */
INLINE int set_field(machine *m, value key, value v)
{
    /* Columns of ids; the others are not set as texts. */
    static const int8_t COLUMNS[EVENT_KEYS] = {
        [ACTION] = 0, [FRAMES] = 1, [CONTEXT] = 2, [METADATA] = 3, [CATEGORY] = 4, [POOL] = 5,
        [FORWARD] = 6, [INTERNAL] = 7};
    const size_t row = m->n_rows - 1;
    int64_t ignored;
    int32_t number;
    TRY(kind_of(key) == TEXT && take(m, v));
    const int32_t which = m->texts[row_of(key)].key;
    if (which >= EVENT_KEYS)
        return count_unknown(m, row_of(key), row);
    TRY(!(m->seen & 1u << which));
    m->seen |= 1u << which;
    switch (which) {
    case ADDR: /* device_free, if there is one, takes its place */
        return integer(m, v, m->seen & 1u << DEVICE_FREE ? &ignored : &m->integers[0][row]);
    case DEVICE_FREE:
        return integer(m, v, &m->integers[0][row]);
    case SIZE:
        return integer(m, v, &m->integers[1][row]);
    case STREAM:
        return integer(m, v, &m->integers[2][row]);
    case TIME:
        return integer(m, v, &m->integers[3][row]);
    case FRAMES:
    case FORWARD:
        return kind_of(v) == NONE
            || (number_stack(m, v, which == FRAMES ? NODE : TEXT, &number)
                && set_id(m, COLUMNS[which], (size_t)number));
    default:
        if (kind_of(v) == NONE)
            return which != ACTION;
        return kind_of(v) == (which == POOL ? PAIR : TEXT) && set_id(m, COLUMNS[which], row_of(v));
    }
}

/* Set fields of the newest event from keys and values on the stack. */
static int set_fields(machine *m, size_t row, size_t from, size_t count)
{
    TRY(row + 1 == m->n_rows && m->n_traces > 0);
    for (size_t i = 0; i < count; i += 2)
        TRY(set_field(m, m->values[from + i], m->values[from + i + 1]));
    trace *own = &m->traces[m->n_traces - 1];
    if ((int64_t)row == own->begin)
        own->first_keys = m->seen;
    return 1;
}

/* ---- what is on the stack ---- */

INLINE int push(machine *m, value v)
{
    if (m->n_values == m->room_values)
        TRY(ROOM(m, values, 1));
    m->values[m->n_values++] = v;
    return 1;
}

/* The number of values below the last mark on the stack, which are out of reach. */
static size_t fence(const machine *m) { return m->n_marks ? m->marks[m->n_marks - 1] : 0; }

static int pop_mark(machine *m, size_t *from)
{
    TRY(m->n_marks > 0);
    *from = m->marks[--m->n_marks];
    return 1;
}

/* Say whether the next value pushed would go into the container at this place on the stack, which
 * was pushed with this many marks. */
static int is_into(const machine *m, size_t at, size_t marks)
{
    if (m->n_marks == marks)
        return m->n_values == at + 1;
    return m->n_marks == marks + 1 && m->marks[marks] == at + 1;
}

/* The role of a list or dict is guessed when it begins, and checked when it is used. */
static int push_list(machine *m)
{
    value v;
    unsigned role = PLAIN;
    const int in_top = m->n_values > 1 && kind_of(m->values[0]) == NODE
        && m->nodes[row_of(m->values[0])].role == TOP
        && ((m->n_marks == 0 && m->n_values == 2)
            || (m->n_marks == 1 && m->marks[0] == 1 && m->n_values % 2 == 0));
    if (in_top && kind_of(m->values[m->n_values - 1]) == TEXT
        && m->texts[row_of(m->values[m->n_values - 1])].key == DEVICE_TRACES) {
        TRY(!m->found_traces);
        m->found_traces = 1;
        role = TRACES;
        m->traces_at = m->n_values;
        m->traces_marks = m->n_marks;
    } else if (m->traces_at != SIZE_MAX && is_into(m, m->traces_at, m->traces_marks)) {
        role = TRACE;
        m->trace_at = m->n_values;
        m->trace_marks = m->n_marks;
    }
    TRY(new_node(m, LIST, role, &v));
    if (role == TRACE) {
        TRY(m->n_traces < ROW_LIMIT && ROOM(m, traces, 1));
        const int64_t rows = (int64_t)m->n_rows;
        m->nodes[row_of(v)].number = (int32_t)m->n_traces;
        m->traces[m->n_traces++] = (trace){rows, rows, 0};
    }
    return push(m, v);
}

static int is_into_trace(const machine *m)
{
    return m->trace_at != SIZE_MAX && is_into(m, m->trace_at, m->trace_marks);
}

static int push_dict(machine *m)
{
    value v;
    if (is_into_trace(m))
        TRY(new_row(m, &v));
    else
        TRY(new_node(m, DICT, m->n_values == 0 && m->n_nodes == 0 ? TOP : PLAIN, &v));
    return push(m, v);
}

/* Append the values from here on to the list below them. */
static int append(machine *m, size_t from)
{
    const size_t count = m->n_values - from;
    TRY(from > fence(m) && kind_of(m->values[from - 1]) == NODE);
    const size_t row = row_of(m->values[from - 1]);
    node *list = &m->nodes[row];
    TRY(list->kind == LIST && list->open);
    if (list->role == TRACE) {
        TRY(m->trace_at == from - 1 && (size_t)list->number + 1 == m->n_traces);
        trace *own = &m->traces[list->number];
        for (size_t i = 0; i < count; i++) {
            const value v = m->values[from + i];
            TRY(kind_of(v) == EVENT && (int64_t)row_of(v) == own->end);
            TRY(m->ids[0] != NULL && m->ids[0][row_of(v)] >= 0); /* it has an action */
            own->end++;
        }
    } else if (list->role == TRACES) {
        for (size_t i = 0; i < count; i++) {
            const value v = m->values[from + i];
            TRY(kind_of(v) == NODE && m->nodes[row_of(v)].role == TRACE
                && m->nodes[row_of(v)].open);
            m->nodes[row_of(v)].open = 0;
            /* The traces come in their order, so all later events belong to another. */
            TRY(m->nodes[row_of(v)].number == list->number + 1);
            list->number++;
        }
        m->trace_at = SIZE_MAX;
    } else {
        TRY(add_items(m, row, from, count));
    }
    m->n_values = from;
    return 1;
}

/* Set the keys and values from here on in the dict below them. */
static int set_items(machine *m, size_t from)
{
    const size_t count = m->n_values - from;
    TRY(count % 2 == 0 && from > fence(m));
    const value target = m->values[from - 1];
    if (kind_of(target) == EVENT) {
        TRY(set_fields(m, row_of(target), from, count));
    } else {
        TRY(kind_of(target) == NODE);
        const size_t row = row_of(target);
        TRY(m->nodes[row].kind == DICT && m->nodes[row].open);
        size_t traces = SIZE_MAX;
        for (size_t i = 0; i < count; i += 2) {
            const value key = m->values[from + i], v = m->values[from + i + 1];
            TRY(kind_of(key) == TEXT);
            if (m->nodes[row].role == TOP && m->texts[row_of(key)].key == DEVICE_TRACES) {
                traces = from + i + 1;
                TRY(traces == m->traces_at && kind_of(v) == NODE
                    && m->nodes[row_of(v)].role == TRACES
                    && (size_t)(m->nodes[row_of(v)].number + 1) == m->n_traces);
                m->nodes[row_of(v)].role = PLAIN;
                m->nodes[row_of(v)].number = -1; /* it is empty where it is written */
            }
        }
        TRY(add_items(m, row, from, count));
        if (traces != SIZE_MAX) { /* and is used here alone */
            m->nodes[row_of(m->values[traces])].role = TRACES;
            m->traces_at = m->trace_at = SIZE_MAX;
        }
    }
    m->n_values = from;
    return 1;
}

static int find_pair(machine *m, int64_t one, int64_t other, value *result)
{
    size_t i = 0;
    while (i < m->n_pairs && (m->pairs[i].one != one || m->pairs[i].other != other))
        i++;
    TRY(i < MOST_PAIRS);
    if (i == m->n_pairs) {
        TRY(ROOM(m, pairs, 1));
        m->pairs[m->n_pairs++] = (pair){one, other};
    }
    *result = make(PAIR, i);
    return 1;
}

static int push_tuple(machine *m, size_t from)
{
    const size_t count = m->n_values - from;
    const value *v = m->values + from;
    value result;
    if (count == 2 && kind_of(v[0]) == INT && kind_of(v[1]) == INT
        && find_pair(m, int_of(v[0]), int_of(v[1]), &result)) {
        m->n_values = from;
        return push(m, result);
    }
    TRY(new_node(m, TUPLE, PLAIN, &result));
    TRY(add_items(m, row_of(result), from, count));
    m->nodes[row_of(result)].open = 0;
    m->n_values = from;
    return push(m, result);
}

INLINE int memoize(machine *m, size_t index, value v)
{
    TRY(index < MEMO_LIMIT && v <= UINT32_MAX);
    if (index >= m->n_memo) {
        if (index >= m->room_memo)
            TRY(ROOM(m, memo, index - m->n_memo + 1));
        while (m->n_memo <= index)
            m->memo[m->n_memo++] = UNSET;
    }
    if (m->memo[index] == UNSET)
        m->memo_count++;
    else
        m->rewritten = 1;
    m->memo[index] = (uint32_t)v;
    return 1;
}

static int put(machine *m, size_t index)
{
    TRY(m->n_values > fence(m));
    return memoize(m, index, m->values[m->n_values - 1]);
}

/* Take a value from the memo. */
INLINE int recall(machine *m, size_t index, value *result)
{
    TRY(index < m->n_memo);
    const value v = *result = m->memo[index];
    const unsigned kind = kind_of(v);
    if (kind == NODE) {
        node *known = &m->nodes[row_of(v)];
        TRY(known->role == PLAIN);
        known->open = 0; /* a later change makes us give up, so nothing contains itself */
    } else {
        TRY(kind != UNSET && kind != EVENT);
    }
    return 1;
}

static int get(machine *m, size_t index)
{
    value v;
    return recall(m, index, &v) && push(m, v);
}

/* ---- the opcodes ---- */

/* Say whether a BINFLOAT is 0 or of an ordinary size, as in opcodes.c. */
static int is_common(const unsigned char *bytes)
{
    const unsigned char size = bytes[0] & 0x7F;
    unsigned any = size;
    for (int i = 1; i < 8; i++)
        any |= bytes[i];
    return any == 0 || (size >= 0x3C && size <= 0x43);
}

static value long_at(const machine *m, size_t start, size_t count)
{
    if (count > 7)
        return make(count == 8 ? LONG8 : LONG9, start);
    uint64_t bits = unsigned_at(m->data + start, (unsigned)count);
    if (count > 0 && m->data[start + count - 1] & 0x80)
        bits |= ~UINT64_C(0) << (8 * count);
    return make(INT, bits);
}

/* ---- events as they are nearly always written ---- */

/* An event that was read, and not yet added. */
typedef struct {
    int64_t integers[INTEGERS];
    int32_t ids[IDS];
    value memoized[EVENT_KEYS]; /* what gets a place in the memo, besides the event */
    unsigned n_memoized, seen, n_fields;
} event;

INLINE const unsigned char *read_integer(const unsigned char *at, int64_t *number)
{
    const unsigned count = at[1];
    uint64_t bits;
    unsigned unused;
    switch (*at) {
    case 'K':
        *number = at[1];
        return at + 2;
    case 'M':
        *number = at[1] | at[2] << 8;
        return at + 3;
    case 'J':
        unused = 32;
        bits = (uint64_t)four_bytes_at(at + 1) << unused;
        at += 5;
        break;
    case 0x8a:
        if (count == 0 || count > 8)
            return NULL;
        unused = 64 - 8 * count;
        bits = eight_bytes_at(at + 2) << unused;
        at += 2 + count;
        break;
    default:
        return NULL;
    }
    memcpy(number, &bits, sizeof bits);
    *number >>= unused; /* with its sign */
    return at;
}

/* Read a value that is no integer, or any integer as NO; `memoized` becomes whether it gets a place
 * in the memo. */
INLINE const unsigned char *read_value(machine *m, const unsigned char *at,
                                       const unsigned char *end, value *v, int *memoized)
{
    const size_t count = at[1];
    int64_t ignored;
    int32_t number;
    *memoized = 0;
    *v = NO;
    switch (*at) {
    case 'h':
        return recall(m, at[1], v) ? at + 2 : NULL;
    case 'j':
        return recall(m, four_bytes_at(at + 1), v) ? at + 5 : NULL;
    case 'N':
        *v = NONE;
        return at + 1;
    case ']':
        *memoized = 1;
        if (at[1] != 0x94 || at[2] != '(' || (at = read_frames(m, at + 2, end, &number)) == NULL)
            return NULL;
        *v = make(STACK, (size_t)number);
        return at;
    case 0x8c:
        *memoized = 1;
        if ((eight_bytes_at(at) & m->short_mask) == m->short_word) { /* as in nearly all events */
            *v = m->short_text;
            return at + m->short_length;
        }
        at += 2;
        if ((size_t)(end - at) <= count || at[count] != 0x94
            || !intern_text(m, (size_t)(at - m->data), count, v))
            return NULL;
        if (count <= sizeof m->short_word - 3) {
            m->short_length = (unsigned)count + 3;
            m->short_mask = ~UINT64_C(0) >> (64 - 8 * m->short_length);
            m->short_word = eight_bytes_at(at - 2) & m->short_mask;
            m->short_text = *v;
        }
        return at + count + 1;
    case 'K':
        if (at[2] == 'K' && at[4] == 0x86 && find_pair(m, at[1], at[3], v)) {
            *memoized = at[5] == 0x94;
            return at + 5 + *memoized;
        }
        /* fall through */
    default:
        return read_integer(at, &ignored);
    }
}

/* Find out what a key is that was met before, and is not the one that the field had in the event
 * before; the fields after it are then others, too. Returns 0 for one that is set in other ways. */
static int learn_field(machine *m, field *f, const unsigned char *at)
{
    static const struct { uint8_t column, kind; } COLUMNS[] = {
        [ACTION] = {INTEGERS, TEXT}, [ADDR] = {0, INT}, [SIZE] = {1, INT}, [STREAM] = {2, INT},
        [TIME] = {3, INT}, [FRAMES] = {INTEGERS + 1, STACK}, [CONTEXT] = {INTEGERS + 2, TEXT},
        [METADATA] = {INTEGERS + 3, TEXT}, [CATEGORY] = {INTEGERS + 4, TEXT},
        [POOL] = {INTEGERS + 5, PAIR}, [INTERNAL] = {INTEGERS + 7, TEXT},
        [EVENT_KEYS] = {INTEGERS, UNSET}};
    const unsigned length = *at == 'h' ? 2 : 5;
    value key;
    TRY(f < m->fields + EVENT_KEYS && (*at == 'h' || *at == 'j'));
    TRY(recall(m, *at == 'h' ? at[1] : four_bytes_at(at + 1), &key));
    TRY(kind_of(key) == TEXT);
    int32_t which = m->texts[row_of(key)].key;
    which = which < EVENT_KEYS ? which : EVENT_KEYS;
    TRY(which != DEVICE_FREE && which != FORWARD);
    for (const field *before = m->fields; before < f; before++)
        TRY(before->text != row_of(key));
    f->mask = ~UINT64_C(0) >> (64 - 8 * length);
    f->word = eight_bytes_at(at) & f->mask;
    f->text = row_of(key);
    f->length = (uint8_t)length;
    f->which = (uint8_t)which;
    f->column = COLUMNS[which].column;
    f->kind = COLUMNS[which].kind;
    for (field *next = f + 1; next <= m->fields + EVENT_KEYS; next++)
        *next = NO_FIELD;
    return 1;
}

/* Read an event as picklers mostly write it, from its EMPTY_DICT to its SETITEMS: every key was met
 * before. Returns where it ends; NULL if it is written in any other way, and nothing of it is set. */
INLINE const unsigned char *read_event(machine *m, const unsigned char *at,
                                       const unsigned char *end, event *e)
{
    enum { HEAD = 3, MOST = 18 }; /* bytes of a key and a value, a text or frames aside */
    if (end - at < HEAD + MOST || at[0] != '}' || at[1] != 0x94 || at[2] != '(')
        return NULL;
    memcpy(e->integers, (int64_t[INTEGERS]){0, 0, 0, -1}, sizeof e->integers);
    memset(e->ids, 0xFF, sizeof e->ids);
    e->n_memoized = e->seen = 0;
    const unsigned char *const last = end - MOST;
    field *f = m->fields;
    at += HEAD;
    do {
        value v;
        int memoized;
        if (at > last || ((eight_bytes_at(at) & f->mask) != f->word && !learn_field(m, f, at)))
            return NULL;
        at += f->length;
        e->seen |= 1u << f->which;
        if (f->kind == INT) {
            at = read_integer(at, &e->integers[f->column]);
        } else if ((at = read_value(m, at, end, &v, &memoized)) != NULL) {
            if (memoized)
                e->memoized[e->n_memoized++] = v;
            if (kind_of(v) == f->kind)
                e->ids[f->column - INTEGERS] = (int32_t)row_of(v);
            else if (f->kind == STACK && kind_of(v) == NODE) {
                if (!number_stack(m, v, NODE, &e->ids[f->column - INTEGERS]))
                    return NULL;
            } else if (f->kind != UNSET && (kind_of(v) != NONE || f->which == ACTION))
                return NULL;
        }
        f++;
        if (at == NULL || at >= end)
            return NULL;
    } while (*at != 'u');
    e->n_fields = (unsigned)(f - m->fields);
    return at + 1;
}

INLINE int add_event(machine *m, const event *e)
{
    value v;
    TRY(add_row(m, &v) && push(m, v) && m->n_traces > 0);
    const size_t row = m->n_rows - 1;
    for (int i = 0; i < INTEGERS; i++)
        m->integers[i][row] = e->integers[i];
    for (int i = 0; i < IDS; i++)
        if (m->ids[i] != NULL)
            m->ids[i][row] = e->ids[i];
        else if (e->ids[i] >= 0)
            TRY(set_id(m, i, (size_t)e->ids[i]));
    TRY(memoize(m, m->memo_count, v));
    for (unsigned i = 0; i < e->n_memoized; i++)
        TRY(memoize(m, m->memo_count, e->memoized[i]));
    for (unsigned i = 0; e->seen >> EVENT_KEYS && i < e->n_fields; i++)
        if (m->fields[i].which == EVENT_KEYS)
            TRY(count_unknown(m, m->fields[i].text, row));
    m->seen = e->seen;
    trace *own = &m->traces[m->n_traces - 1];
    if ((int64_t)row == own->begin)
        own->first_keys = m->seen;
    return 1;
}

/* Read events as long as they are written as picklers mostly do; what is then at the position is
 * read as anything else. */
static int read_events(machine *m, size_t *position, size_t limit)
{
    const unsigned char *const end = m->data + limit, *at = m->data + *position, *after;
    event e;
    /* What a key or a frame refers to may not be what its place in the memo held before. */
    while (!m->rewritten && m->memo_count == m->n_memo
           && (after = read_event(m, at, end, &e)) != NULL) {
        TRY(add_event(m, &e));
        at = after;
    }
    *position = (size_t)(at - m->data);
    return 1;
}

#define NEED(count) TRY(limit - position >= (size_t)(count))

/* Run the pickle to its STOP; returns 0 to give up. */
static int run(machine *m)
{
    const unsigned char *const data = m->data;
    const size_t length = m->length;
    /* An opcode must lie within its frame: otherwise Python skips the rest of the frame. */
    size_t position = 0, limit = length, from;
    /* As in opcodes.c: how many values on top are small integers, which may be parts of a tuple. */
    size_t small = 0, kept = 0;
    TRY(ROOM(m, values, 1)); /* so that there is a stack even if it stays empty */
    m->fields[0] = NO_FIELD;
    m->short_word = 1; /* which is no text's */
    for (;;) {
        if (position == limit)
            limit = length;
        NEED(1);
        const size_t start = position++;
        const unsigned char opcode = data[start];
        const size_t before = small;
        unsigned width = 4;
        small = 0;
        switch (opcode) {
        case 'h': /* BINGET */
            NEED(1);
            TRY(get(m, data[position]));
            position += 1;
            break;
        case 'j': /* LONG_BINGET: 8 of 10 opcodes */
            do {
                NEED(4);
                TRY(get(m, four_bytes_at(data + position)));
                position += 4;
            } while (limit - position > 4 && data[position] == 'j' && ++position);
            break;
        case 0x94: /* MEMOIZE */
            TRY(put(m, m->memo_count));
            small = before;
            goto kept_stack;
        case 'q': /* BINPUT */
            NEED(1);
            TRY(put(m, data[position]));
            position += 1;
            small = before;
            goto kept_stack;
        case 'r': { /* LONG_BINPUT */
            NEED(4);
            const size_t index = (size_t)unsigned_at(data + position, 4);
            TRY(index <= start); /* no larger index than a pickler could have used */
            TRY(put(m, index));
            position += 4;
            small = before;
            goto kept_stack;
        }
        case '(': /* MARK */
            TRY(ROOM(m, marks, 1));
            m->marks[m->n_marks++] = m->n_values;
            break;
        case ']': TRY(push_list(m)); break;
        case '}':
            if (is_into_trace(m)) {
                position = start;
                TRY(read_events(m, &position, limit));
                if (position > start)
                    break;
                position++;
            }
            TRY(push_dict(m));
            break;
        case 'a': /* APPEND */
            TRY(m->n_values > fence(m) + 1 && append(m, m->n_values - 1));
            break;
        case 'e': /* APPENDS */
            TRY(pop_mark(m, &from) && append(m, from));
            break;
        case 's': /* SETITEM */
            TRY(m->n_values > fence(m) + 2 && set_items(m, m->n_values - 2));
            break;
        case 'u': /* SETITEMS */
            TRY(pop_mark(m, &from) && set_items(m, from));
            break;
        case ')': TRY(push_tuple(m, m->n_values)); break;
        case 0x85: case 0x86: /* TUPLE1 TUPLE2 */
            TRY(before >= opcode - 0x84u && m->n_values - fence(m) >= opcode - 0x84u);
            TRY(push_tuple(m, m->n_values - (opcode - 0x84u)));
            break;
        case 'N': TRY(push(m, NONE)); break;
        case 0x88: TRY(push(m, YES)); break;
        case 0x89: TRY(push(m, NO)); break;
        case 'K': /* BININT1 */
            NEED(1);
            TRY(push(m, make(INT, data[position])));
            position += 1;
            small = before + 1;
            break;
        case 'M': /* BININT2 */
            NEED(2);
            TRY(push(m, make(INT, unsigned_at(data + position, 2))));
            position += 2;
            small = before + 1;
            break;
        case 'J': /* BININT */
            NEED(4);
            TRY(push(m, long_at(m, position, 4)));
            position += 4;
            small = before + 1;
            break;
        case 'G': /* BINFLOAT */
            NEED(8);
            TRY(is_common(data + position) && push(m, make(FLOAT, position)));
            position += 8;
            break;
        case 0x8a: { /* LONG1 */
            NEED(1);
            const size_t count = data[position++];
            NEED(count);
            TRY(count < MOST_INTEGER || (count == MOST_INTEGER && data[position + count - 1] == 0));
            TRY(push(m, long_at(m, position, count)));
            position += count;
            break;
        }
        case 0x8c: /* SHORT_BINUNICODE */
            width = 1;
            /* fall through */
        case 'X': { /* BINUNICODE */
            value v;
            NEED(width);
            const size_t count = (size_t)unsigned_at(data + position, width);
            position += width;
            NEED(count);
            TRY(count <= MOST_TEXT && intern_text(m, position, count, &v) && push(m, v));
            position += count;
            break;
        }
        case 0x95: /* FRAME */
            NEED(8);
            const uint64_t size = unsigned_at(data + position, 8);
            position += 8;
            TRY(limit == length && size <= length - position);
            limit = position + (size_t)size;
            small = before;
            goto kept_stack;
        case 0x80: /* PROTO */
            NEED(1);
            TRY(data[position] >= 2 && data[position] <= 5);
            position += 1;
            break;
        case '.': /* STOP */
            TRY(m->n_values == 1 && m->n_marks == 0 && m->traces_at == SIZE_MAX);
            TRY(kind_of(m->values[0]) == NODE && m->nodes[row_of(m->values[0])].role == TOP);
            return m->found_traces;
        default:
            return 0;
        }
        kept = 0;
        continue;
    kept_stack:
        if (++kept > MOST_KEPT)
            small = 0;
    }
}

/* ---- writing what is not an event ---- */

static int write_bytes(machine *m, const void *bytes, size_t count)
{
    TRY(ROOM(m, out, count));
    if (count > 0)
        memcpy(m->out + m->n_out, bytes, count);
    m->n_out += count;
    return 1;
}

static int write_number(machine *m, unsigned char opcode, uint64_t number, unsigned width)
{
    unsigned char bytes[9] = {opcode};
    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (unsigned char)(number >> (8 * i));
    return write_bytes(m, bytes, 1 + width);
}

static int write_op(machine *m, unsigned char opcode) { return write_number(m, opcode, 0, 0); }

static int write_int(machine *m, int64_t number)
{
    unsigned char bytes[10] = {0x8a, 8};
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        bytes[2 + i] = (unsigned char)(bits >> (8 * i));
    return write_bytes(m, bytes, sizeof bytes);
}

/* Write a reference to a value if it was written before; *before says whether it was. */
static int write_known(machine *m, uint32_t written, int *before)
{
    *before = written != 0;
    if (!*before)
        return 1;
    if (written <= 256)
        return write_number(m, 'h', written - 1, 1);
    return write_number(m, 'j', written - 1, 4);
}

static int write_memo(machine *m, uint32_t *written)
{
    TRY(m->out_memo < MEMO_LIMIT - 1);
    *written = ++m->out_memo;
    return write_number(m, 'r', *written - 1, 4);
}

static int write_text(machine *m, size_t row)
{
    text *t = &m->texts[row];
    int before;
    TRY(write_known(m, t->written, &before));
    if (before)
        return 1;
    TRY(write_number(m, 'X', t->length, 4) && write_bytes(m, m->data + t->start, t->length));
    return write_memo(m, &t->written);
}

/* Write an integer as it stood in the data. */
static int write_long(machine *m, size_t start, unsigned char count)
{
    return write_number(m, 0x8a, count, 1) && write_bytes(m, m->data + start, count);
}

static int write_value(machine *m, value v, unsigned depth);

static int write_frames(machine *m, int32_t number, unsigned depth)
{
    const stack s = m->stacks[number];
    for (uint32_t i = 0; i < s.length; i++)
        TRY(write_value(m, m->frames[m->stack_frames[s.start + i]], depth));
    return 1;
}

static int write_stack(machine *m, size_t row, unsigned depth)
{
    uint32_t *written = &m->stacks[row].written;
    int before;
    TRY(depth < DEEPEST && write_known(m, *written, &before));
    if (before)
        return 1;
    return write_op(m, ']') && write_memo(m, written) && write_op(m, '(')
        && write_frames(m, (int32_t)row, depth + 1) && write_op(m, 'e');
}

static int write_node(machine *m, size_t row, unsigned depth)
{
    node *n = &m->nodes[row];
    static const unsigned char BEGIN[] = {']', '}', '('}, END[] = {'e', 'u', 't'};
    int before;
    TRY(depth < DEEPEST && write_known(m, n->written, &before));
    if (before)
        return 1;
    TRY(write_op(m, BEGIN[n->kind]));
    if (n->kind != TUPLE) /* none contains itself: BINGET checks that */
        TRY(write_memo(m, &n->written) && write_op(m, '('));
    if (n->kind == LIST && n->number >= 0) {
        TRY(write_frames(m, n->number, depth + 1));
    } else {
        for (uint64_t chunk = n->first; chunk != 0; chunk = m->items[chunk + 1])
            for (uint64_t i = 0; i < m->items[chunk]; i++)
                TRY(write_value(m, m->items[chunk + 2 + i], depth + 1));
    }
    TRY(write_op(m, END[n->kind]));
    return n->kind != TUPLE || write_memo(m, &n->written);
}

static int write_value(machine *m, value v, unsigned depth)
{
    switch (kind_of(v)) {
    case NONE: return write_op(m, 'N');
    case YES: return write_op(m, 0x88);
    case NO: return write_op(m, 0x89);
    case INT: return write_int(m, int_of(v));
    case FLOAT: return write_op(m, 'G') && write_bytes(m, m->data + row_of(v), 8);
    case LONG8: return write_long(m, row_of(v), 8);
    case LONG9: return write_long(m, row_of(v), 9);
    case TEXT: return write_text(m, row_of(v));
    case PAIR:
        return write_int(m, m->pairs[row_of(v)].one) && write_int(m, m->pairs[row_of(v)].other)
            && write_op(m, 0x86);
    case NODE: return write_node(m, row_of(v), depth);
    case STACK: return write_stack(m, row_of(v), depth);
    default: return 0;
    }
}

/* Write a pickle of (the snapshot without its events, the frames of events, all texts, all pairs
 * of integers). */
static int write_rest(machine *m)
{
    TRY(write_number(m, 0x80, 4, 1) && write_op(m, '(') && write_value(m, m->values[0], 0));
    TRY(write_op(m, ']') && write_op(m, '('));
    for (size_t i = 0; i < m->n_frames; i++)
        TRY(write_value(m, m->frames[i], 0));
    TRY(write_op(m, 'e') && write_op(m, ']') && write_op(m, '('));
    for (size_t i = 0; i < m->n_texts; i++)
        TRY(write_text(m, i));
    TRY(write_op(m, 'e') && write_op(m, ']') && write_op(m, '('));
    for (size_t i = 0; i < m->n_pairs; i++)
        TRY(write_value(m, make(PAIR, i), 0));
    return write_op(m, 'e') && write_op(m, 't') && write_op(m, '.');
}

/* ---- entry points ---- */

/* What was read from a pickle; every pointer is valid until snapreport_events_free. */
typedef struct {
    void *machine;
    int64_t *integers[INTEGERS]; /* addr, size, stream, time_us; each with `rows` entries */
    int32_t *ids[IDS]; /* -1: none; action, stack, compile_context, user_metadata, category, pool,
                          forward, internal; NULL: no row has one */
    trace *traces;     /* each with its first row, the row after its last, the first one's keys */
    stack *stacks;
    int32_t *stack_frames;
    unknown *unknowns;
    unsigned char *rest;
    uint64_t rows, n_traces, n_stacks, n_stack_frames, n_unknowns, n_rest;
} parsed;

EXPORT void snapreport_events_free(parsed *result)
{
    machine *m = result->machine;
    if (m == NULL)
        return;
    for (int i = 0; i < INTEGERS; i++)
        free(m->integers[i]);
    for (int i = 0; i < IDS; i++)
        free(m->ids[i]);
    void *const all[] = {m->values, m->marks, m->memo, m->items, m->nodes, m->texts, m->pairs,
                         m->stacks, m->stack_frames, m->stack_text, m->frames, m->traces, m->unknowns,
                         m->text_table, m->stack_table, m->out, m};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    result->machine = NULL;
}

/* Leave the columns to the caller, who must free each with snapreport_release. */
EXPORT void snapreport_events_give(parsed *result)
{
    machine *m = result->machine;
    memset(m->integers, 0, sizeof m->integers);
    memset(m->ids, 0, sizeof m->ids);
}

EXPORT void snapreport_release(void *column) { free(column); }

static void release(void **array, size_t *room)
{
    free(*array);
    *array = NULL;
    *room = 0; /* the allowance is not raised again: it limits all memory ever used */
}

/* Read a pickle. Returns 1, and the caller must free the result; or 0 without a result. */
EXPORT int32_t snapreport_events(const unsigned char *data, size_t length, parsed *result)
{
    memset(result, 0, sizeof *result);
    machine *m = calloc(1, sizeof *m);
    if (m == NULL)
        return 0;
    result->machine = m;
    m->data = data;
    m->length = length;
    m->left = length <= (SIZE_MAX - ALWAYS) / MOST_RATIO ? ALWAYS + length * MOST_RATIO : SIZE_MAX;
    m->traces_at = m->trace_at = SIZE_MAX;
    int done = length < (UINT64_C(1) << 59) && run(m);
    if (done) { /* the largest part of its memory, and no longer needed */
        release((void **)&m->memo, &m->room_memo);
        done = write_rest(m);
    }
    if (!done) {
        snapreport_events_free(result);
        return 0;
    }
    release((void **)&m->items, &m->room_items);
    release((void **)&m->nodes, &m->room_nodes);
    for (int i = 0; i < INTEGERS; i++)
        result->integers[i] = m->integers[i];
    for (int i = 0; i < IDS; i++)
        result->ids[i] = m->ids[i];
    result->traces = m->traces;
    result->stacks = m->stacks;
    result->stack_frames = m->stack_frames;
    result->unknowns = m->unknowns;
    result->rest = m->out;
    result->rows = m->n_rows;
    result->n_traces = m->n_traces;
    result->n_stacks = m->n_stacks;
    result->n_stack_frames = m->n_stack_frames;
    result->n_unknowns = m->n_unknowns;
    result->n_rest = m->n_out;
    return 1;
}

/* Deflate a piece of a member of which the writer knows where things begin (RFC 1951).
 *
 * General compressors look for repeats at every byte, which is most of their time. What we write is
 * rows of few fields, and a field is like the same field of the row before, or equal to one not
 * long ago. So the writer marks where each field begins, and only there is a repeat looked for: at
 * the latest field of that kind, and at the latest one with the same end.
 */

#include "native.h"

enum { LITERALS = 286, DISTANCES = 30, LENGTHS = 19, END = 256, FIRST_LENGTH = 257 };
enum { MOST_BITS = 15, MOST_LENGTH_BITS = 7, DEEPEST = 64 };
/* A match is cut short where another begins that reaches so many bytes farther, about what it costs. */
enum { GAIN = 5 };
enum { MOST_MATCH = 258, FIRST_MATCH = 3, WINDOW = 1 << 15 };
/* Bits before and after the tokens, at most, and what flush() writes beyond them. */
enum { MOST_HEADER = 8 * 1024 };
enum { PLACE_BITS = 28, KINDS = 1 << (32 - PLACE_BITS), TABLE_BITS = 13, END_BYTES = 8 };

/* A token is a byte, or MATCH, 9 bits of length minus FIRST_MATCH, and 15 of distance minus 1. */
static const uint32_t MATCH = UINT32_C(1) << 31, PLACES = (UINT32_C(1) << PLACE_BITS) - 1;
enum { FAR_BITS = 15 };

static const uint16_t LENGTH_BASE[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t LENGTH_EXTRA[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint8_t LENGTH_ORDER[LENGTHS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                              11, 4,  12, 3, 13, 2, 14, 1, 15};

/* Codes of one alphabet: how often each symbol comes, its bits and their number. */
typedef struct {
    uint32_t count[LITERALS];
    uint16_t code[LITERALS];
    uint8_t bits[LITERALS];
} codes;

/* What is written: bits go into `held` from the lowest on. Its room is checked beforehand. */
typedef struct {
    uint8_t *out;
    uint64_t held;
    unsigned n_held;
} bits;

/* Put up to 56 bits, after flush(). */
static inline void put(bits *b, uint64_t value, unsigned n)
{
    b->held |= value << b->n_held;
    b->n_held += n;
}

/* Turn a number so that its lowest byte is the first in memory, and back. */
static uint64_t lowest_first(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(value);
#endif
    return value;
}

/* Write all whole bytes that are held; this takes room for eight. */
static inline void flush(bits *b)
{
    const uint64_t held = lowest_first(b->held);
    memcpy(b->out, &held, sizeof(held));
    b->out += b->n_held / 8;
    b->held >>= b->n_held / 8 * 8;
    b->n_held %= 8;
}

/* The distance codes are pairs of powers of two, with half of each. */
static unsigned distance_code(unsigned distance, unsigned *extra)
{
    unsigned rest = distance - 1;
    *extra = 0;
    if (rest < 4)
        return rest;
    const unsigned high = 31 - (unsigned)__builtin_clz(rest);
    *extra = high - 1;
    return 2 * high + (rest >> (high - 1) & 1);
}

static int by_key(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Give each symbol that comes, of two or more, a code of at most `most` bits: as short as its count
 * allows. */
static void make_codes(codes *c, unsigned n_symbols, unsigned most)
{
    uint64_t keys[LITERALS], weight[2 * LITERALS];
    unsigned parent[2 * LITERALS], depth[2 * LITERALS], at_depth[DEEPEST + 1] = {0};
    unsigned n = 0;
    for (unsigned i = 0; i < n_symbols; i++) {
        c->bits[i] = 0;
        if (c->count[i])
            keys[n++] = (uint64_t)c->count[i] << 16 | i;
    }
    qsort(keys, n, sizeof(*keys), by_key);
    for (unsigned i = 0; i < n; i++)
        weight[i] = keys[i] >> 16;
    /* Join the two lightest again and again: both leaves and joints are in order of weight. */
    unsigned leaf = 0, joint = n, end = n;
    for (; end < 2 * n - 1; end++) {
        weight[end] = 0;
        for (int k = 0; k < 2; k++) {
            const int is_leaf = leaf < n && (joint >= end || weight[leaf] <= weight[joint]);
            const unsigned taken = is_leaf ? leaf++ : joint++;
            weight[end] += weight[taken];
            parent[taken] = end;
        }
    }
    depth[end - 1] = 0;
    for (unsigned i = end - 1; i-- > 0;)
        depth[i] = depth[parent[i]] + 1;
    for (unsigned i = 0; i < n; i++)
        at_depth[depth[i] < most ? depth[i] : most]++;
    /* Too deep ones were moved up: move others down until there is a code for each. */
    uint64_t used = 0;
    for (unsigned i = 1; i <= most; i++)
        used += (uint64_t)at_depth[i] << (most - i);
    for (; used > UINT64_C(1) << most; used--) {
        unsigned i = most - 1;
        while (at_depth[i] == 0)
            i--;
        at_depth[most]--;
        at_depth[i]--;
        at_depth[i + 1] += 2;
    }
    unsigned next[MOST_BITS + 2] = {0}, symbol = 0;
    for (unsigned i = most; i > 0; i--) /* the rarest come first */
        for (unsigned k = 0; k < at_depth[i]; k++)
            c->bits[keys[symbol++] & 0xFFFF] = (uint8_t)i;
    for (unsigned i = 1; i <= most; i++)
        next[i + 1] = (next[i] + at_depth[i]) << 1;
    for (unsigned i = 0; i < n_symbols; i++) {
        unsigned code = c->bits[i] ? next[c->bits[i]]++ : 0, turned = 0;
        for (unsigned k = 0; k < c->bits[i]; k++)
            turned |= (code >> k & 1) << (c->bits[i] - 1 - k);
        c->code[i] = (uint16_t)turned;
    }
}

/* Put the numbers of bits of both alphabets, with runs shortened. */
static void put_lengths(bits *b, const codes *literals, const codes *distances)
{
    uint8_t all[LITERALS + DISTANCES];
    uint16_t runs[LITERALS + DISTANCES]; /* a symbol, and above its 5 bits what follows it */
    codes lengths = {0};
    unsigned n = 0, n_runs = 0, last = LENGTHS;
    memcpy(all, literals->bits, LITERALS);
    memcpy(all + LITERALS, distances->bits, DISTANCES);
    while (n < LITERALS + DISTANCES) {
        unsigned run = 1;
        while (n + run < LITERALS + DISTANCES && all[n + run] == all[n] && run < 138)
            run++;
        unsigned symbol = all[n], extra = 0;
        if (symbol == 0 && run >= 3) {
            symbol = run > 10 ? 18 : 17;
            extra = run - (run > 10 ? 11 : 3);
        } else if (run >= 4) { /* the first one, then a repeat of it */
            runs[n_runs++] = (uint16_t)symbol;
            lengths.count[symbol]++;
            run = run - 1 > 6 ? 7 : run;
            symbol = 16;
            extra = run - 1 - 3;
        } else {
            run = 1;
        }
        runs[n_runs++] = (uint16_t)(extra << 5 | symbol);
        lengths.count[symbol]++;
        n += run;
    }
    make_codes(&lengths, LENGTHS, MOST_LENGTH_BITS);
    while (lengths.bits[LENGTH_ORDER[last - 1]] == 0)
        last--;
    put(b, LITERALS - FIRST_LENGTH, 5);
    put(b, DISTANCES - 1, 5);
    put(b, last - 4, 4);
    for (unsigned i = 0; i < last; i++) {
        flush(b);
        put(b, lengths.bits[LENGTH_ORDER[i]], 3);
    }
    for (unsigned i = 0; i < n_runs; i++) {
        flush(b);
        const unsigned symbol = runs[i] & 31;
        put(b, lengths.code[symbol], lengths.bits[symbol]);
        if (symbol >= 16)
            put(b, runs[i] >> 5, symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
    }
}

static uint64_t eight(const uint8_t *data)
{
    uint64_t value;
    memcpy(&value, data, sizeof(value));
    return lowest_first(value);
}

/* Return how many bytes at two places are the same, up to a match's most or the end. */
static uint64_t alike(const uint8_t *data, uint64_t size, uint64_t old, uint64_t new)
{
    uint64_t most = size - new < MOST_MATCH ? size - new : MOST_MATCH, n = 0;
    for (; n + 8 <= most; n += 8) {
        const uint64_t unlike = eight(data + old + n) ^ eight(data + new + n);
        if (unlike)
            return n + (uint64_t)__builtin_ctzll(unlike) / 8;
    }
    while (n < most && data[old + n] == data[new + n])
        n++;
    return n;
}

/* Data as tokens, and how often each symbol of these comes. */
typedef struct {
    codes literals, distances;
    uint8_t code_of[MOST_MATCH + 1]; /* which code stands for a length */
    uint32_t *tokens;
    uint64_t n;
} block;

static void add_bytes(block *b, const uint8_t *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        b->literals.count[data[i]]++;
        b->tokens[b->n + i] = data[i];
    }
    b->n += n;
}

static void add_match(block *b, unsigned length, unsigned distance)
{
    unsigned extra;
    b->literals.count[FIRST_LENGTH + b->code_of[length]]++;
    b->distances.count[distance_code(distance, &extra)]++;
    b->tokens[b->n++] = MATCH | (length - FIRST_MATCH) << FAR_BITS | (distance - 1);
}

/* Turn data into tokens. */
static void find_tokens(block *b, const uint8_t *data, uint64_t size, const uint32_t *marks,
                        uint64_t n_marks, uint64_t least)
{
    uint32_t latest[KINDS] = {0}, table[1 << TABLE_BITS] = {0}; /* places, plus 1 */
    uint64_t begin = 0, place = 0; /* of the last match, whose token is not added yet */
    uint32_t distance = 0;
    for (uint64_t k = 0; k < n_marks; k++) {
        const uint32_t mark = marks[k] & PLACES;
        const uint64_t next = k + 1 < n_marks ? marks[k + 1] & PLACES : size;
        uint64_t key = next < END_BYTES ? 0 : eight(data + next - END_BYTES);
        if (next - mark < END_BYTES)
            key >>= 8 * (END_BYTES - (next - mark)); /* the first bytes are the lowest */
        key = (key + (next - mark)) * UINT64_C(0x9E3779B97F4A7C15);
        uint32_t *same = table + (key >> (64 - TABLE_BITS));
        uint32_t *of_kind = latest + (marks[k] >> PLACE_BITS);
        const uint32_t candidates[2] = {*of_kind, *same};
        const uint64_t reached = place > mark ? place : mark; /* by the match before */
        uint64_t most = 0;
        uint32_t best = 0;
        for (int i = 0; i < 2; i++) {
            const uint32_t far = mark + 1 - candidates[i];
            if (candidates[i] == 0 || far > WINDOW || reached == size)
                continue;
            if (data[reached] != data[reached - far])
                continue; /* this one does not reach farther */
            const uint64_t length = alike(data, size, mark - far, mark);
            if (length > most) {
                most = length;
                best = far;
            }
        }
        *same = *of_kind = mark + 1;
        if (most < least)
            continue;
        /* The match before is cut short if that pays: one that could be no longer goes on here. */
        if (place > mark && (mark - begin < least || mark + most < place + GAIN
                             || place - begin == MOST_MATCH))
            continue;
        const uint64_t end = place < mark ? place : mark;
        if (distance)
            add_match(b, (unsigned)(end - begin), distance);
        add_bytes(b, data + end, mark - end);
        begin = mark;
        place = mark + most;
        distance = best;
    }
    if (distance)
        add_match(b, (unsigned)(place - begin), distance);
    add_bytes(b, data + place, size - place);
}

/* Write data as one block that is not the last, and an empty one that ends on a whole byte.
 *
 * marks: `n_marks` places in the data, ascending, with the kind of what begins there above their
 * lowest PLACE_BITS bits. least: bytes of a match. tokens: room for `size` of them.
 *
 * Returns how many bytes of `out` are filled, NO_ROOM, or OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_deflate(const uint8_t *data, uint64_t size, const uint32_t *marks,
                                  uint64_t n_marks, uint64_t least, uint32_t *tokens, uint8_t *out,
                                  uint64_t room)
{
    if (size == 0 || size > PLACES || least < FIRST_MATCH)
        return OUT_OF_RANGE;
    for (uint64_t k = 0; k < n_marks; k++)
        if ((marks[k] & PLACES) >= size || (k && (marks[k] & PLACES) <= (marks[k - 1] & PLACES)))
            return OUT_OF_RANGE;
    block b = {.tokens = tokens};
    codes *literals = &b.literals, *distances = &b.distances;
    for (unsigned i = 0, length = FIRST_MATCH; length <= MOST_MATCH; length++) {
        while (i < 28 && LENGTH_BASE[i + 1] <= length)
            i++;
        b.code_of[length] = (uint8_t)i;
    }
    find_tokens(&b, data, size, marks, n_marks, least);
    literals->count[END] = 1;
    /* Some readers want a complete code, also where no or one distance comes. */
    distances->count[0] += distances->count[0] == 0;
    distances->count[1] += distances->count[1] == 0;
    make_codes(literals, LITERALS, MOST_BITS);
    make_codes(distances, DISTANCES, MOST_BITS);
    uint64_t most = MOST_HEADER;
    for (unsigned i = 0; i < LITERALS; i++)
        most += (uint64_t)literals->count[i] * (literals->bits[i] + (i > END ? 5U : 0U));
    for (unsigned i = 0; i < DISTANCES; i++)
        most += (uint64_t)distances->count[i] * (distances->bits[i] + 13U);
    if (most / 8 > room)
        return NO_ROOM;
    bits head = {.out = out};
    put(&head, 4, 3); /* not the last block; codes of its own */
    put_lengths(&head, literals, distances);
    bits to = head; /* which no other function has the address of: it stays in registers */
    for (uint64_t i = 0; i < b.n; i++) {
        const uint32_t token = tokens[i];
        flush(&to);
        if (!(token & MATCH)) {
            put(&to, literals->code[token], literals->bits[token]);
            continue;
        }
        const unsigned length = (token >> FAR_BITS & 511) + FIRST_MATCH;
        const unsigned distance = (token & (WINDOW - 1)) + 1, code = b.code_of[length];
        put(&to, literals->code[FIRST_LENGTH + code], literals->bits[FIRST_LENGTH + code]);
        put(&to, length - LENGTH_BASE[code], LENGTH_EXTRA[code]);
        unsigned extra;
        const unsigned far = distance_code(distance, &extra);
        put(&to, distances->code[far], distances->bits[far]);
        put(&to, (distance - 1) & ((1U << extra) - 1), extra);
    }
    flush(&to);
    put(&to, literals->code[END], literals->bits[END]);
    put(&to, 0, 3); /* a block without codes, empty */
    put(&to, 0, (8 - to.n_held % 8) % 8);
    flush(&to);
    put(&to, UINT64_C(0xFFFF0000), 32);
    flush(&to);
    return (int64_t)(to.out - out);
}

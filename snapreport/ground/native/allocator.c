/* Replay a program's requests through a model of PyTorch's caching allocator.
 *
 * The rules are those of DeviceCachingAllocator in c10/cuda/CUDACachingAllocator.cpp; each function
 * names the one that it models. tests/reference/allocator.py has the same in plain Python.
 *
 * Free blocks lie in treaps, ordered by size and address: one for each lane (a pool's blocks on one
 * stream) and half (small, large). Unmapped parts of expandable segments lie in treaps by address,
 * and so do the segments. A block is in one treap at most.
 *
 * The caller's columns are checked before they are used. Operations may be inconsistent: a free of
 * what was never placed does nothing.
 *
 * snapreport_replay() does all operations at once. A program that runs has them one by one: it
 * calls snapreport_replay_begin(), then snapreport_replay_go_on() as often as there are some to do,
 * and snapreport_replay_end().
 */

#include "native.h"

#define MIB ((int64_t)1 << 20)
#define NEVER ((int64_t)1 << 62)
#define MOST_BYTES ((int64_t)1 << 50) /* of a block, and of the range of an expandable segment */
#define TOP ((int64_t)1 << 60)        /* above all addresses that were recorded */

enum { NONE = -1, NOT_YET = -2 };
enum { ALLOCATE, FREE, AWAIT, EMPTY_CACHE, FAIL };
enum { MADE, RETURNED, MAPPED, UNMAPPED };
enum { AS_RECORDED, ASCENDING, DESCENDING, FIRST_FIT, ANYWHERE };
enum { INACTIVE, ACTIVE, PENDING };
enum { SEGMENT_COLUMNS = 6, EVENT_COLUMNS = 4, BLOCK_COLUMNS = 8 };

/* As in allocator_replay.py. */
typedef struct {
    /* Of each operation. */
    const int64_t *op, *row, *given, *freeable, *failed_size, *failed_lane;
    /* Of each allocation; block is 0 for those that are made. */
    const int64_t *rounded, *lane, *address, *block;
    const int64_t *start_rows; /* those that are live at the start, by address */
    const int64_t *lane_pool;  /* of each lane, ascending; 0 is the default pool */
    const int64_t *segments;   /* by address: address, size, lane, large, expandable, and where the
                                * entire range of an expandable one begins */
    int64_t *placed;           /* for each allocation: where it lies, 0 if nowhere */
    int64_t *sizes;            /* and the bytes of its block; NULL if nobody asks */
    int64_t *events;           /* room_events rows: operation, kind, address, size */
    void *model;               /* between begin and end */
    int64_t n_ops, n_rows, n_start, n_lanes, n_segments, room_events;
    /* The settings. */
    int64_t expandable, max_split, rounding, large_segment, garbage, capacity, limit, room;
    int64_t policy, seed, below, above, stop;
    int64_t live; /* whether rows may be added and, once freed, be made again; each is checked when
                   * it is made, and the events are in a table of ours, which grows */
    /* The result. */
    int64_t n_events, reserved, peak, allocated, peak_allocated, retries, driver_calls, failed_op;
    int64_t enough;
} replay;

typedef struct {
    int64_t key, address, size; /* key: the size of a free block, else 0 */
    int32_t left, right, prev, next, bin, range, row;
    uint32_t weight, age;
    uint8_t state, mapped;
} block;

typedef struct {
    int64_t base, size, granule, mapped;
    int32_t node; /* its block in the treap of segments */
} range;

typedef struct {
    replay *r;
    block *blocks;
    range *ranges;
    int32_t *at;              /* the block of each allocation */
    int32_t *free, *unmapped; /* the root of each bin */
    int32_t *found;           /* blocks or allocations to go through */
    uint32_t *calls;          /* searches, for each pool and half */
    int64_t op, before; /* the operation in the columns, and how many there were before those */
    int64_t cursor, lowest;
    int64_t n_rows, n_blocks, room_blocks, n_ranges, room_ranges, room_found;
    int32_t spare, segments, n_bins;
    int32_t first_waiting, last_waiting; /* blocks whose free is not completed */
    uint64_t random;
    int32_t wrong; /* NO_ROOM or OUT_OF_RANGE once something has failed, else 0 */
} model;

static int64_t up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }

/* splitmix64 */
static uint64_t next_random(model *m)
{
    uint64_t z = m->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Make room for one more in a table; 0 if there is none. */
static int grow_table(model *m, void **table, int64_t n, int64_t *room, size_t width)
{
    if (n < *room)
        return 1;
    const int64_t more = *room ? *room * 2 : 64;
    void *larger_table = more < INT32_MAX ? realloc(*table, (size_t)more * width) : NULL;
    if (!larger_table) {
        m->wrong = NO_ROOM;
        return 0;
    }
    *table = larger_table;
    *room = more;
    return 1;
}

/* Return a new block, or NONE if there is no memory. */
static int32_t make_block(model *m, int64_t address, int64_t size, int32_t bin, int32_t in_range)
{
    int32_t made = m->spare;
    if (made != NONE) {
        m->spare = m->blocks[made].next;
    } else {
        if (!grow_table(m, (void **)&m->blocks, m->n_blocks, &m->room_blocks, sizeof(block)))
            return NONE;
        made = (int32_t)m->n_blocks++;
    }
    block *b = &m->blocks[made];
    memset(b, 0, sizeof *b);
    b->address = address;
    b->size = size;
    b->left = b->right = b->prev = b->next = b->row = NONE;
    b->bin = bin;
    b->range = in_range;
    b->weight = (uint32_t)next_random(m);
    b->mapped = 1;
    return made;
}

static void drop_block(model *m, int32_t gone)
{
    m->blocks[gone].bin = NONE;
    m->blocks[gone].next = m->spare;
    m->spare = gone;
}

/* ---- Treaps ---- */

static int is_before(const block *b, int64_t key, int64_t address)
{
    return (b->key < key) | ((b->key == key) & (b->address < address)); /* no jump to predict */
}

static void insert(model *m, int32_t *root, int32_t added)
{
    block *blocks = m->blocks, *a = &blocks[added];
    while (*root != NONE && blocks[*root].weight >= a->weight)
        root = is_before(&blocks[*root], a->key, a->address)
            ? &blocks[*root].right : &blocks[*root].left;
    int32_t rest = *root, *below = &a->left, *above = &a->right;
    *root = added;
    while (rest != NONE) { /* split what was below by the key */
        block *b = &blocks[rest];
        if (is_before(b, a->key, a->address)) {
            *below = rest;
            below = &b->right;
            rest = b->right;
        } else {
            *above = rest;
            above = &b->left;
            rest = b->left;
        }
    }
    *below = *above = NONE;
}

static void take_out(model *m, int32_t *root, int32_t gone)
{
    block *blocks = m->blocks;
    const block *g = &blocks[gone];
    while (*root != NONE && *root != gone)
        root = is_before(&blocks[*root], g->key, g->address)
            ? &blocks[*root].right : &blocks[*root].left;
    if (*root == NONE)
        return;
    int32_t left = g->left, right = g->right;
    while (left != NONE && right != NONE) {
        if (blocks[left].weight >= blocks[right].weight) {
            *root = left;
            root = &blocks[left].right;
            left = *root;
        } else {
            *root = right;
            root = &blocks[right].left;
            right = *root;
        }
    }
    *root = left != NONE ? left : right;
}

/* Return where the first block from a key and an address on hangs, or NULL if there is none. */
static int32_t *link_from(model *m, int32_t *root, int64_t key, int64_t address)
{
    int32_t *found = NULL;
    while (*root != NONE) {
        block *b = &m->blocks[*root];
        const int before = is_before(b, key, address);
        found = before ? found : root;
        root = before ? &b->right : &b->left;
    }
    return found;
}

/* Return the first block from a key and an address on, or NONE. */
static int32_t first_from(model *m, int32_t root, int64_t key, int64_t address)
{
    const int32_t *found = link_from(m, &root, key, address);
    return found ? *found : NONE;
}

/* Return the last block before a key and an address, or NONE. */
static int32_t last_before(const model *m, int32_t root, int64_t key, int64_t address)
{
    int32_t found = NONE;
    while (root != NONE) {
        const block *b = &m->blocks[root];
        const int before = is_before(b, key, address);
        found = before ? root : found;
        root = before ? b->right : b->left;
    }
    return found;
}

static int32_t following(model *m, int32_t root, int32_t each)
{
    return first_from(m, root, m->blocks[each].key, m->blocks[each].address + 1);
}

/* ---- Blocks ---- */

static int32_t *bin_of(model *m, int32_t each)
{
    block *b = &m->blocks[each];
    b->key = b->mapped ? b->size : 0;
    return b->mapped ? &m->free[b->bin] : &m->unmapped[b->bin];
}

static uint32_t *calls_of(const model *m, int32_t bin)
{
    return &m->calls[2 * m->r->lane_pool[bin / 2] + bin % 2];
}

/* Put a block among the free or the unmapped ones. */
static void put_in(model *m, int32_t each)
{
    m->blocks[each].state = INACTIVE;
    m->blocks[each].age = *calls_of(m, m->blocks[each].bin);
    insert(m, bin_of(m, each), each);
}

static void pull_out(model *m, int32_t each) { take_out(m, bin_of(m, each), each); }

static int is_inactive(const model *m, int32_t each)
{
    return each != NONE && m->blocks[each].state == INACTIVE;
}

static int is_split(const block *b) { return b->prev != NONE || b->next != NONE; }

/* Put a block, which is in no list, between its neighbours. */
static void link_between(model *m, int32_t each, int32_t prev, int32_t next)
{
    m->blocks[each].prev = prev;
    m->blocks[each].next = next;
    if (prev != NONE)
        m->blocks[prev].next = each;
    if (next != NONE)
        m->blocks[next].prev = each;
}

/* try_merge_blocks: a block that is in no treap absorbs a neighbour if that is free too. */
static void merge(model *m, int32_t into, int32_t other)
{
    if (!is_inactive(m, other) || m->blocks[other].mapped != m->blocks[into].mapped)
        return;
    pull_out(m, other);
    block *b = &m->blocks[into], *o = &m->blocks[other];
    b->size += o->size;
    if (b->prev == other) {
        b->address = o->address;
        link_between(m, into, o->prev, b->next);
    } else {
        link_between(m, into, b->prev, o->next);
    }
    drop_block(m, other);
}

/* free_block */
static void free_block(model *m, int32_t each)
{
    m->blocks[each].state = INACTIVE;
    m->blocks[each].row = NONE;
    merge(m, each, m->blocks[each].prev);
    merge(m, each, m->blocks[each].next);
    put_in(m, each);
}

/* Blocks that await their free are in no treap, so its links keep them in the order of those. */
static void await_free(model *m, int32_t each)
{
    block *b = &m->blocks[each];
    b->state = PENDING;
    b->left = m->last_waiting;
    b->right = NONE;
    *(b->left == NONE ? &m->first_waiting : &m->blocks[b->left].right) = each;
    m->last_waiting = each;
    m->r->allocated -= b->size;
}

/* free, and what completes one that waited */
static void free_allocation(model *m, int32_t each)
{
    const block *b = &m->blocks[each];
    m->at[b->row] = NONE;
    if (b->state == PENDING) {
        *(b->left == NONE ? &m->first_waiting : &m->blocks[b->left].right) = b->right;
        *(b->right == NONE ? &m->last_waiting : &m->blocks[b->right].left) = b->left;
    } else {
        m->r->allocated -= b->size;
    }
    free_block(m, each);
}

static void note(model *m, int kind, int64_t address, int64_t size, int64_t granule)
{
    replay *r = m->r;
    r->reserved += kind == MADE || kind == MAPPED ? size : -size;
    r->peak = larger(r->peak, r->reserved);
    r->driver_calls += size / granule;
    if (r->live
        && !grow_table(m, (void **)&r->events, r->n_events, &r->room_events,
                       EVENT_COLUMNS * sizeof *r->events))
        return;
    if (r->n_events < r->room_events) {
        int64_t *event = &r->events[r->n_events * EVENT_COLUMNS];
        event[0] = m->before + m->op;
        event[1] = kind;
        event[2] = address;
        event[3] = size;
    }
    r->n_events++;
}

/* ---- Addresses ---- */

static int is_taken(const model *m, int64_t address, int64_t size)
{
    const int32_t before = last_before(m, m->segments, 0, address + size);
    return before != NONE && m->blocks[before].address + m->blocks[before].size > address;
}

static int64_t first_gap(model *m, int64_t size)
{
    int64_t at = m->r->above;
    int32_t each = first_from(m, m->segments, 0, at);
    while (each != NONE && m->blocks[each].address - at < size) {
        at = m->blocks[each].address + m->blocks[each].size;
        each = following(m, m->segments, each);
    }
    return at;
}

/* Return where the driver puts a new segment, and note it as taken. */
static int64_t place(model *m, int64_t size, int32_t *node)
{
    int64_t address = 0;
    switch (m->r->policy) {
    case AS_RECORDED:
        address = m->r->given[m->op];
        break;
    case DESCENDING:
        if (m->lowest - size >= 2 * MIB)
            address = m->lowest -= size;
        break;
    case FIRST_FIT:
        address = first_gap(m, size);
        break;
    case ANYWHERE:
        for (int tries = 0; tries < 64 && !address; tries++) {
            const uint64_t drawn = next_random(m);
            const int64_t end = drawn & 1 ? m->r->below : NEVER - MOST_BYTES;
            address = (int64_t)((drawn >> 2) % (uint64_t)end) / (2 * MIB) * 2 * MIB;
            if (address < 2 * MIB || is_taken(m, address, size))
                address = 0;
        }
        break;
    }
    if (!address || is_taken(m, address, size)) {
        for (address = m->cursor; is_taken(m, address, size); address += size)
            ;
        m->cursor = address + size;
    }
    if (address >= NEVER - MOST_BYTES)
        m->wrong = OUT_OF_RANGE;
    *node = make_block(m, address, size, NONE, NONE);
    if (*node != NONE)
        insert(m, &m->segments, *node);
    return address;
}

static void forget_segment(model *m, int32_t node)
{
    take_out(m, &m->segments, node);
    drop_block(m, node);
}

/* ---- Returning memory to the driver ---- */

/* release_block */
static void give_back(model *m, int32_t each)
{
    pull_out(m, each);
    const int64_t address = m->blocks[each].address, size = m->blocks[each].size;
    const int32_t node = first_from(m, m->segments, 0, address);
    if (node != NONE)
        forget_segment(m, node);
    drop_block(m, each);
    note(m, RETURNED, address, size, size);
}

/* unmap_block: the whole granules inside */
static void unmap(model *m, int32_t each)
{
    const int32_t in = m->blocks[each].range, bin = m->blocks[each].bin;
    const range whole = m->ranges[in];
    const int64_t address = m->blocks[each].address, end = address + m->blocks[each].size;
    const int64_t first = whole.base + up(address - whole.base, whole.granule);
    const int64_t last = whole.base + (end - whole.base) / whole.granule * whole.granule;
    if (first >= last)
        return;
    pull_out(m, each);
    if (first > address) {
        const int32_t kept = make_block(m, address, first - address, bin, in);
        if (kept == NONE)
            return;
        link_between(m, kept, m->blocks[each].prev, each);
        put_in(m, kept);
    }
    if (last < end) {
        const int32_t kept = make_block(m, last, end - last, bin, in);
        if (kept == NONE)
            return;
        link_between(m, kept, each, m->blocks[each].next);
        put_in(m, kept);
    }
    m->blocks[each].address = first;
    m->blocks[each].size = last - first;
    m->blocks[each].mapped = 0;
    merge(m, each, m->blocks[each].prev);
    merge(m, each, m->blocks[each].next);
    m->ranges[in].mapped -= last - first;
    if (m->ranges[in].mapped > 0) {
        put_in(m, each);
    } else { /* release_expandable_segment */
        forget_segment(m, whole.node);
        drop_block(m, each);
    }
    note(m, UNMAPPED, first, last - first, whole.granule);
}

/* Collect the free blocks of a half of a pool, in order; return how many. */
static int64_t collect(model *m, int64_t pool, int large)
{
    int64_t n = 0;
    for (int32_t bin = large; bin < m->n_bins; bin += 2) {
        if (m->r->lane_pool[bin / 2] != pool)
            continue;
        for (int32_t each = first_from(m, m->free[bin], 0, 0); each != NONE;
             each = following(m, m->free[bin], each)) {
            if (!grow_table(m, (void **)&m->found, n, &m->room_found, sizeof *m->found))
                return 0;
            m->found[n++] = each;
        }
    }
    return n;
}

/* release_blocks: plain segments first, expandable ones afterwards */
static void release_pool(model *m, int64_t pool, int large)
{
    const int64_t n = collect(m, pool, large);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const block *b = &m->blocks[m->found[i]];
        if (b->range != NONE)
            m->found[kept++] = m->found[i];
        else if (!is_split(b))
            give_back(m, m->found[i]);
    }
    for (int64_t i = 0; i < kept; i++)
        unmap(m, m->found[i]);
}

/* release_cached_blocks */
static void release_cached(model *m)
{
    while (m->first_waiting != NONE)
        free_allocation(m, m->first_waiting);
    release_pool(m, 0, 1);
    release_pool(m, 0, 0);
    const int64_t freeable = m->r->freeable[m->op];
    for (int64_t pool = 1; pool <= 62 && freeable >> (pool - 1); pool++)
        if (freeable >> (pool - 1) & 1) {
            release_pool(m, pool, 0);
            release_pool(m, pool, 1);
        }
}

/* Say whether a block is an entire segment. PyTorch's oversize blocks always are, but a recording
 * may have begun under another setting. */
static int is_whole(const model *m, int32_t each)
{
    return m->blocks[each].range == NONE && !is_split(&m->blocks[each]);
}

/* release_available_cached_blocks; returns whether to try again */
static int release_available(model *m, int32_t bin, int64_t size)
{
    const int64_t limit = m->r->max_split, key = larger(size, limit);
    if (limit >= NEVER)
        return 0;
    const int32_t enough = first_from(m, m->free[bin], key, 0);
    if (enough != NONE && is_whole(m, enough)) {
        give_back(m, enough);
        return 1;
    }
    int64_t released = 0;
    int32_t each = last_before(m, m->free[bin], key, 0);
    while (each != NONE && released < key && m->blocks[each].size >= limit) {
        const int32_t smaller =
            last_before(m, m->free[bin], m->blocks[each].key, m->blocks[each].address);
        if (is_whole(m, each)) {
            released += m->blocks[each].size;
            give_back(m, each);
        }
        each = smaller;
    }
    return released >= key;
}

/* garbage_collect_cached_blocks: those unused for longer than average */
static void collect_garbage(model *m)
{
    if (m->r->reserved <= m->r->garbage)
        return;
    const int64_t target = m->r->reserved - m->r->garbage;
    const uint32_t now = m->calls[1];
    const int64_t all = collect(m, 0, 1);
    int64_t n = 0, reclaimed = 0;
    for (int64_t i = 0; i < all; i++) {
        if (is_whole(m, m->found[i]))
            m->found[n++] = m->found[i];
    }
    for (int freed = 1; freed && n > 0 && reclaimed < target;) {
        uint64_t total = 0;
        for (int64_t i = 0; i < n; i++)
            total += now - m->blocks[m->found[i]].age;
        const double average = (double)total / (double)n;
        int64_t kept = 0;
        freed = 0;
        for (int64_t i = 0; i < n; i++) {
            const int32_t each = m->found[i];
            if ((double)(now - m->blocks[each].age) >= average) {
                freed = 1;
                reclaimed += m->blocks[each].size;
                give_back(m, each);
            } else {
                m->found[kept++] = each;
            }
        }
        n = kept;
    }
}

/* ---- Getting memory ---- */

/* map_block; returns whether there was memory */
static int map(model *m, int32_t each, int64_t size)
{
    const int32_t in = m->blocks[each].range, bin = m->blocks[each].bin;
    range *whole = &m->ranges[in];
    size = least(up(size, whole->granule), m->blocks[each].size);
    if (m->r->reserved + size > m->r->capacity) {
        m->r->enough = least(m->r->enough, m->r->reserved + size);
        return 0;
    }
    pull_out(m, each);
    if (!whole->base) { /* its addresses are known once the first of them is mapped */
        const int64_t address = place(m, whole->size, &whole->node);
        if (m->wrong)
            return 0;
        whole->base = m->blocks[each].address = address;
    }
    m->blocks[each].mapped = 1;
    const int64_t address = m->blocks[each].address, rest = m->blocks[each].size - size;
    if (rest) {
        const int32_t left = make_block(m, address + size, rest, bin, in);
        if (left == NONE)
            return 0;
        m->blocks[left].mapped = 0;
        m->blocks[each].size = size;
        link_between(m, left, each, m->blocks[each].next);
        put_in(m, left);
    }
    whole->mapped += size;
    const int64_t granule = whole->granule;
    merge(m, each, m->blocks[each].prev);
    merge(m, each, m->blocks[each].next);
    put_in(m, each);
    note(m, MAPPED, address, size, granule);
    return 1;
}

static int64_t granule_of(const model *m, int32_t bin)
{
    return bin % 2 ? m->r->large_segment : 2 * MIB;
}

static int32_t make_range(model *m, int64_t base, int64_t size, int32_t bin)
{
    if (!grow_table(m, (void **)&m->ranges, m->n_ranges, &m->room_ranges, sizeof(range)))
        return NONE;
    const range made = {base, size, granule_of(m, bin), 0, NONE};
    m->ranges[m->n_ranges] = made;
    return (int32_t)m->n_ranges++;
}

/* find_expandable_block: the lowest unmapped block that, with the free one before it, is large
 * enough */
static int32_t find_room(model *m, int32_t bin, int64_t size)
{
    for (int32_t each = first_from(m, m->unmapped[bin], 0, 0); each != NONE;
         each = following(m, m->unmapped[bin], each)) {
        const int32_t prev = m->blocks[each].prev, start = is_inactive(m, prev) ? prev : each;
        int64_t bytes = 0;
        for (int32_t at = start; bytes < size && is_inactive(m, at); at = m->blocks[at].next)
            bytes += m->blocks[at].size;
        if (bytes >= size)
            return start;
    }
    const int64_t bytes = up(larger(m->r->room, size), granule_of(m, bin));
    const int32_t in = make_range(m, 0, bytes, bin);
    const int32_t made = in == NONE ? NONE : make_block(m, 0, bytes, bin, in);
    if (made != NONE) {
        m->blocks[made].mapped = 0;
        put_in(m, made);
    }
    return made;
}

/* try_allocate_expandable_block */
static int32_t grow(model *m, int32_t bin, int64_t size)
{
    int32_t each = find_room(m, bin, size);
    if (each == NONE)
        return NONE;
    if (!m->blocks[each].mapped && !map(m, each, least(m->blocks[each].size, size))) {
        if (!m->wrong && !m->ranges[m->blocks[each].range].base) { /* it has no address yet */
            pull_out(m, each);
            drop_block(m, each);
            m->n_ranges--;
        }
        return NONE;
    }
    while (m->blocks[each].size < size) {
        const int32_t next = m->blocks[each].next;
        const int64_t missing = size - m->blocks[each].size;
        if (next == NONE || !map(m, next, least(missing, m->blocks[next].size)))
            return NONE;
        each = next; /* which took in the free block before it */
    }
    pull_out(m, each);
    return each;
}

/* get_allocation_size */
static int64_t segment_size(const model *m, int64_t size)
{
    if (size <= MIB)
        return 2 * MIB;
    return size < 10 * MIB ? m->r->large_segment : up(size, 2 * MIB);
}

/* alloc_block */
static int32_t from_driver(model *m, int32_t bin, int64_t size)
{
    replay *r = m->r;
    const int64_t segment = segment_size(m, size);
    if (r->reserved + segment > r->limit) {
        r->enough = least(r->enough, r->reserved + segment);
        return NONE;
    }
    if (r->expandable)
        return grow(m, bin, size);
    if (r->reserved + segment > r->capacity) {
        r->enough = least(r->enough, r->reserved + segment);
        return NONE;
    }
    int32_t node;
    const int64_t address = place(m, segment, &node);
    if (m->wrong)
        return NONE;
    note(m, MADE, address, segment, segment);
    return make_block(m, address, segment, bin, NONE);
}

static int64_t could_grow(const model *m, int32_t each)
{
    const int32_t next = m->blocks[each].next;
    const int64_t behind = next != NONE && !m->blocks[next].mapped ? m->blocks[next].size : 0;
    return m->blocks[each].size + behind;
}

/* get_free_block */
static int32_t from_cache(model *m, int32_t bin, int64_t size)
{
    const replay *r = m->r;
    const int32_t root = m->free[bin];
    ++*calls_of(m, bin);
    int32_t *link = link_from(m, &m->free[bin], size, 0), each = link ? *link : NONE;
    if (each != NONE && m->blocks[each].range != NONE) {
        if (r->expandable) {
            for (int32_t next; m->blocks[each].range != NONE; each = next) {
                next = following(m, root, each);
                if (next == NONE || could_grow(m, next) >= could_grow(m, each))
                    break;
            }
        } else {
            while (each != NONE && m->blocks[each].range != NONE)
                each = following(m, root, each);
        }
    }
    if (each == NONE)
        return NONE;
    const int64_t found = m->blocks[each].size;
    if (size < r->max_split ? found >= r->max_split : found >= size + r->rounding)
        return NONE;
    take_out(m, *link == each ? link : &m->free[bin], each); /* mostly, there is nothing to search */
    return each;
}

/* malloc; returns the block, or NONE if there is no memory */
static int32_t serve(model *m, int64_t size, int64_t lane)
{
    replay *r = m->r;
    const int32_t bin = (int32_t)(2 * lane + (size > MIB));
    int32_t each = from_cache(m, bin, size);
    if (each == NONE) {
        if (r->limit < NEVER && r->garbage > 0)
            collect_garbage(m);
        each = from_driver(m, bin, size);
    }
    if (each == NONE && !m->wrong && release_available(m, bin, size))
        each = from_driver(m, bin, size);
    if (each == NONE && !m->wrong && r->lane_pool[lane] == 0) {
        release_cached(m);
        r->retries++;
        each = from_driver(m, bin, size);
    }
    if (each == NONE || m->wrong) {
        if (r->failed_op < 0)
            r->failed_op = m->before + m->op;
        return NONE;
    }
    m->blocks[each].state = ACTIVE;
    const int64_t rest = m->blocks[each].size - size;
    const int splits = bin % 2 == 0 || r->expandable ? rest >= 512
                                                    : size < r->max_split && rest > MIB;
    if (splits) {
        const int32_t other = make_block(m, m->blocks[each].address + size, rest, bin,
                                         m->blocks[each].range);
        if (other == NONE)
            return NONE;
        m->blocks[each].size = size;
        link_between(m, other, each, m->blocks[each].next);
        put_in(m, other);
    }
    return each;
}

/* ---- The start ---- */

/* Add a free block after the last one, or extend that if it is free and mapped too. */
static int32_t add_hole(model *m, int32_t last, int64_t from, int64_t to, int32_t bin, int32_t in)
{
    if (is_inactive(m, last) && m->blocks[last].mapped) {
        pull_out(m, last);
        m->blocks[last].size += to - from;
        put_in(m, last);
        return last;
    }
    const int32_t hole = make_block(m, from, to - from, bin, in);
    if (hole != NONE) {
        link_between(m, hole, last, NONE);
        put_in(m, hole);
    }
    return hole;
}

static void set_place(replay *r, int64_t row, int64_t address, int64_t size)
{
    r->placed[row] = address;
    if (r->sizes)
        r->sizes[row] = size;
}

/* Add the blocks of a segment, or of a mapped run, after the last one; return the last. */
static int32_t fill(model *m, int32_t last, int64_t address, int64_t size, int32_t bin,
                    int32_t in, int64_t *next_start)
{
    replay *r = m->r;
    const int64_t end = address + size;
    int64_t at = address;
    while (*next_start < r->n_start && r->address[r->start_rows[*next_start]] < end) {
        const int64_t row = r->start_rows[(*next_start)++], start = r->address[row];
        if (start < at)
            continue;
        if (start > at && (last = add_hole(m, last, at, start, bin, in)) == NONE)
            return NONE;
        int64_t bytes = least(r->block[row], end - start);
        for (int64_t i = *next_start; i < r->n_start; i++)
            if (r->address[r->start_rows[i]] > start) {
                bytes = least(bytes, r->address[r->start_rows[i]] - start);
                break;
            }
        const int32_t held = make_block(m, start, bytes, bin, in);
        if (held == NONE)
            return NONE;
        link_between(m, held, last, NONE);
        m->blocks[held].state = ACTIVE;
        m->blocks[held].row = (int32_t)row;
        m->at[row] = held;
        set_place(r, row, start, bytes);
        r->allocated += bytes;
        at = start + bytes;
        last = held;
    }
    return at < end ? add_hole(m, last, at, end, bin, in) : last;
}

/* Add the unmapped part of a range from an address to another. */
static int32_t add_unmapped(model *m, int32_t last, int64_t from, int64_t to, int32_t bin,
                            int32_t in)
{
    const int32_t made = make_block(m, from, to - from, bin, in);
    if (made == NONE)
        return NONE;
    m->blocks[made].mapped = 0;
    link_between(m, made, last, NONE);
    put_in(m, made);
    return made;
}

static int lay_out_start(model *m)
{
    replay *r = m->r;
    int64_t next_start = 0, previous_end = 1;
    int32_t in = NONE, in_bin = NONE, last = NONE; /* the range that runs are added to */
    int64_t at = 0;
    for (int64_t i = 0; i <= r->n_segments; i++) {
        const int64_t *s = &r->segments[i * SEGMENT_COLUMNS];
        const int more = i < r->n_segments;
        const int64_t free_from = previous_end;
        if (more) {
            if (s[0] < previous_end || s[0] >= TOP || s[1] < 1 || s[1] > MOST_BYTES
                || s[2] < 0 || s[2] >= r->n_lanes || s[3] < 0 || s[3] > 1 || s[4] < 0 || s[4] > 1)
                return OUT_OF_RANGE;
            previous_end = s[0] + s[1];
            r->reserved += s[1];
            if (r->reserved > NEVER)
                return OUT_OF_RANGE;
        }
        const int32_t bin = more ? (int32_t)(2 * s[2] + s[3]) : NONE;
        const int64_t base = more && s[4] && s[5] >= free_from && s[5] <= s[0] ? s[5]
            : more ? s[0] : 0;
        const int joins = more && s[4] && in != NONE && bin == in_bin
            && s[0] + s[1] <= m->ranges[in].base + m->ranges[in].size;
        if (in != NONE && !joins) { /* the range ends at the next segment at the latest */
            range *whole = &m->ranges[in];
            if (more)
                whole->size = least(whole->size, base - whole->base);
            if (whole->base + whole->size > at
                && add_unmapped(m, last, at, whole->base + whole->size, in_bin, in) == NONE)
                return NO_ROOM;
            whole->node = make_block(m, whole->base, whole->size, NONE, NONE);
            if (whole->node == NONE)
                return NO_ROOM;
            insert(m, &m->segments, whole->node);
            in = NONE;
        }
        if (!more)
            break;
        while (next_start < r->n_start && r->address[r->start_rows[next_start]] < s[0])
            next_start++; /* in no segment */
        if (s[4]) {
            if (in == NONE) {
                const int64_t used = s[0] + s[1] - base;
                in = make_range(m, base, up(larger(r->room, used), granule_of(m, bin)), bin);
                if (in == NONE)
                    return NO_ROOM;
                in_bin = bin;
                last = NONE;
                at = base;
            }
            if (s[0] > at && (last = add_unmapped(m, last, at, s[0], bin, in)) == NONE)
                return NO_ROOM;
            m->ranges[in].mapped += s[1];
            at = s[0] + s[1];
            last = fill(m, last, s[0], s[1], bin, in, &next_start);
        } else {
            const int32_t node = make_block(m, s[0], s[1], NONE, NONE);
            if (node == NONE)
                return NO_ROOM;
            insert(m, &m->segments, node);
            fill(m, NONE, s[0], s[1], bin, NONE, &next_start);
        }
        if (m->wrong)
            return m->wrong;
    }
    return 0;
}

/* ---- The replay ---- */

static int settings_fit(const replay *r)
{
    return r->max_split >= 1 && r->max_split <= NEVER && r->rounding >= 1
        && r->rounding <= MOST_BYTES && r->large_segment >= 2 * MIB
        && r->large_segment % (r->expandable ? 2 * MIB : MIB) == 0 && r->large_segment <= MOST_BYTES && r->garbage >= 0
        && r->capacity >= 0 && r->capacity <= NEVER && r->limit >= 0 && r->limit <= NEVER
        && r->room >= 0 && r->room <= MOST_BYTES && r->policy >= AS_RECORDED
        && r->policy <= ANYWHERE && r->below >= 2 * MIB && r->below <= TOP
        && r->above >= 2 * MIB && r->above <= TOP;
}

static int row_fits(const replay *r, int64_t row)
{
    return r->lane[row] >= 0 && r->lane[row] < r->n_lanes && r->rounded[row] >= 1
        && r->rounded[row] <= MOST_BYTES;
}

static int columns_fit(const replay *r)
{
    if (r->n_rows < 0 || r->n_rows >= INT32_MAX || r->n_start < 0
        || r->n_start > r->n_rows || r->n_lanes < 0 || r->n_lanes >= INT32_MAX / 2
        || r->n_segments < 0 || r->room_events < 0)
        return 0;
    for (int64_t i = 0, last = 0; i < r->n_lanes; last = r->lane_pool[i++])
        if (r->lane_pool[i] < last || r->lane_pool[i] > 62)
            return 0;
    for (int64_t i = 0; i < r->n_rows; i++)
        if (!row_fits(r, i) || r->block[i] < 0 || r->block[i] > MOST_BYTES)
            return 0;
    for (int64_t i = 0, last = 0; i < r->n_start; i++) {
        const int64_t row = r->start_rows[i];
        if (row < 0 || row >= r->n_rows || r->block[row] == 0 || r->address[row] < last
            || r->address[row] >= TOP)
            return 0;
        last = r->address[row];
    }
    return 1;
}

/* Have a block for each row: some may have been added. */
static int take_rows(model *m)
{
    const int64_t n = m->r->n_rows;
    if (n < m->n_rows || n >= INT32_MAX || (n > m->n_rows && m->at && !m->r->live))
        return OUT_OF_RANGE;
    if (n == m->n_rows && m->at)
        return 0;
    int32_t *at = realloc(m->at, ((size_t)n + 1) * sizeof *at);
    if (!at)
        return NO_ROOM;
    m->at = at;
    while (m->n_rows < n)
        at[m->n_rows++] = NOT_YET;
    return 0;
}

static void allocate(model *m, int64_t row)
{
    replay *r = m->r;
    const int32_t got = serve(m, r->rounded[row], r->lane[row]);
    m->at[row] = got;
    if (got < 0) {
        set_place(r, row, 0, 0);
        return;
    }
    block *b = &m->blocks[got];
    b->row = (int32_t)row;
    set_place(r, row, b->address, b->size);
    r->allocated += b->size;
    r->peak_allocated = larger(r->peak_allocated, r->allocated);
}

static int go(model *m)
{
    replay *r = m->r;
    for (m->op = 0; m->op < r->n_ops && !m->wrong; m->op++) {
        const int64_t row = r->row[m->op], op = r->op[m->op];
        const int with_row = op == ALLOCATE || op == FREE || op == AWAIT;
        if (op < ALLOCATE || op > FAIL || (with_row && (row < 0 || row >= r->n_rows))
            || r->freeable[m->op] < 0 || r->given[m->op] < 0 || r->given[m->op] >= TOP)
            return OUT_OF_RANGE;
        const int32_t each = with_row ? m->at[row] : NONE;
        if (op == ALLOCATE) {
            if (r->live ? each >= 0 || !row_fits(r, row) : each != NOT_YET)
                return OUT_OF_RANGE;
            allocate(m, row);
        } else if (op == FREE && each >= 0) {
            free_allocation(m, each);
        } else if (op == AWAIT && each >= 0 && m->blocks[each].state == ACTIVE) {
            await_free(m, each);
        } else if (op == EMPTY_CACHE) {
            release_cached(m);
        } else if (op == FAIL) {
            const int64_t size = r->failed_size[m->op], lane = r->failed_lane[m->op];
            if (size < 1 || size > MOST_BYTES || lane < 0 || lane >= r->n_lanes)
                return OUT_OF_RANGE;
            const int32_t got = serve(m, size, lane);
            if (got >= 0)
                free_block(m, got); /* its outcome is not known */
        }
        if (r->failed_op >= 0 && r->stop)
            break;
    }
    return m->wrong;
}

/* Free what begin made. Where that failed there is no model, and nothing to be freed. */
EXPORT void snapreport_replay_end(replay *r)
{
    model *m = r->model;
    r->model = NULL;
    if (!m)
        return;
    if (r->live) {
        free(r->events);
        r->events = NULL;
        r->n_events = r->room_events = 0;
    }
    free(m->blocks);
    free(m->ranges);
    free(m->found);
    free(m->at);
    free(m->free);
    free(m->unmapped);
    free(m->calls);
    free(m);
}

static int32_t begin(model *m)
{
    replay *r = m->r;
    m->cursor = r->above;
    m->lowest = r->below;
    m->spare = m->segments = m->first_waiting = m->last_waiting = NONE;
    m->n_bins = (int32_t)(2 * r->n_lanes);
    m->random = (uint64_t)r->seed;
    const size_t bins = (size_t)m->n_bins + 1;
    m->free = malloc(bins * sizeof *m->free);
    m->unmapped = malloc(bins * sizeof *m->unmapped);
    m->calls = calloc(2 * 64, sizeof *m->calls);
    if (!m->free || !m->unmapped || !m->calls || take_rows(m))
        return NO_ROOM;
    for (int64_t i = 0; i < r->n_rows; i++) {
        if (r->block[i])
            m->at[i] = NONE;
        set_place(r, i, 0, 0);
    }
    for (size_t i = 0; i < bins; i++)
        m->free[i] = m->unmapped[i] = NONE;
    const int answer = lay_out_start(m);
    r->peak = r->reserved;
    r->peak_allocated = r->allocated;
    return answer;
}

/* Lay out what is there at the start; 0, or what was wrong. */
EXPORT int32_t snapreport_replay_begin(replay *r)
{
    r->model = NULL;
    if (!columns_fit(r) || !settings_fit(r))
        return OUT_OF_RANGE;
    model *m = r->model = calloc(1, sizeof *m);
    if (!m)
        return NO_ROOM;
    m->r = r;
    if (r->live) {
        r->events = NULL;
        r->room_events = 0;
    }
    r->n_events = r->reserved = r->allocated = r->retries = r->driver_calls = 0;
    r->failed_op = -1;
    r->enough = NEVER;
    const int32_t answer = begin(m);
    if (answer)
        snapreport_replay_end(r);
    return answer;
}

/* Do the operations in the columns, or those up to the first request that fails, or to one that is
 * out of range; 0, or what was wrong. They are numbered on from those before, which the columns
 * need not have any more; and columns may have been moved. */
EXPORT int32_t snapreport_replay_go_on(replay *r)
{
    model *m = r->model;
    if (!m || r->n_ops < 0)
        return OUT_OF_RANGE;
    int32_t answer = m->wrong ? m->wrong : take_rows(m);
    if (!answer && !(r->failed_op >= 0 && r->stop))
        answer = go(m);
    m->before += r->n_ops;
    return answer;
}

/* Write of each block, as far as there is room: address, size, state, row, lane, large, expandable,
 * and whether a segment begins with it, as one does with each run that is mapped of an expandable
 * one. Return how many blocks there are; they are in no order. */
EXPORT int64_t snapreport_replay_blocks(const replay *r, int64_t *blocks, int64_t room)
{
    const model *m = r->model;
    int64_t n = 0;
    for (int64_t i = 0; m && i < m->n_blocks; i++) {
        const block *b = &m->blocks[i];
        if (b->bin == NONE || !b->mapped) /* one that is spare, or stands for a segment */
            continue;
        if (n < room) {
            const int first = b->prev == NONE || !m->blocks[b->prev].mapped;
            const int64_t told[BLOCK_COLUMNS] = {b->address, b->size, b->state, b->row, b->bin / 2,
                                                 b->bin % 2, b->range != NONE, first};
            memcpy(&blocks[n * BLOCK_COLUMNS], told, sizeof told);
        }
        n++;
    }
    return n;
}

/* Replay all operations, or those up to the first request that fails; 0, or what was wrong. */
EXPORT int32_t snapreport_replay(replay *r)
{
    int32_t answer = snapreport_replay_begin(r);
    if (!answer)
        answer = snapreport_replay_go_on(r);
    snapreport_replay_end(r);
    return answer;
}

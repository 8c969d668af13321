/* Replay requests through the model of the allocator: all at once, some at a time, and live. */

#include "ground/native/allocator.c"

#include "harness.h"

enum { MOST_LANES = 6, GUARD = 512 };

/* No two allocations lie over one another, and each is where a segment was made or lay at first. */
static void check_places(const replay *r, const int64_t *gone)
{
    for (int64_t i = 0; i < r->n_rows; i++)
        for (int64_t j = 0; j < i; j++)
            if (r->placed[i] && !gone[i] && !gone[j])
                HOLDS(r->placed[i] != r->placed[j]);
}

static int by_address(const void *one, const void *other)
{
    const int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* The blocks lie side by side, and are what is reserved; those in use are what is allocated. */
static void check_blocks(const replay *r)
{
    const int64_t n = snapreport_replay_blocks(r, NULL, 0);
    int64_t *blocks = room((size_t)(n * BLOCK_COLUMNS), sizeof *blocks, 0xFF);
    HOLDS(snapreport_replay_blocks(r, blocks, n) == n);
    qsort(blocks, (size_t)n, BLOCK_COLUMNS * sizeof *blocks, by_address);
    int64_t all = 0, used = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t *b = &blocks[i * BLOCK_COLUMNS];
        all += b[1];
        used += b[2] == ACTIVE ? b[1] : 0;
        HOLDS(b[2] == INACTIVE ? b[3] == NONE : b[3] >= 0 && b[3] < r->n_rows);
        if (b[3] != NONE)
            HOLDS(r->placed[b[3]] == b[0] && r->sizes[b[3]] == b[1]);
        HOLDS(i + 1 == n || b[0] + b[1] <= b[BLOCK_COLUMNS]);
    }
    HOLDS(all == r->reserved && used == r->allocated && used <= r->peak_allocated);
    free(blocks);
}

static int64_t *part_of(const int64_t *column, int64_t from, int64_t n)
{
    int64_t *made = room((size_t)n, sizeof *made, 0);
    if (n)
        memcpy(made, column + from, (size_t)n * sizeof *made);
    return made;
}

/* The same as all at once, in columns of a few operations each. */
static void check_parts(replay whole, int32_t answer, int64_t few)
{
    const size_t rows = (size_t)whole.n_rows, events = (size_t)(whole.room_events * EVENT_COLUMNS);
    replay r = whole;
    r.placed = room(rows, sizeof *r.placed, 0xFF);
    r.sizes = room(rows, sizeof *r.sizes, 0xFF);
    r.events = room(events, sizeof *r.events, 0xFF);
    int32_t found = snapreport_replay_begin(&r);
    for (int64_t at = 0; !found && at < whole.n_ops; at += few) {
        r.n_ops = least(few, whole.n_ops - at);
        int64_t *parts[] = {part_of(whole.op, at, r.n_ops), part_of(whole.row, at, r.n_ops),
                            part_of(whole.given, at, r.n_ops), part_of(whole.freeable, at, r.n_ops),
                            part_of(whole.failed_size, at, r.n_ops),
                            part_of(whole.failed_lane, at, r.n_ops)};
        r.op = parts[0], r.row = parts[1], r.given = parts[2], r.freeable = parts[3];
        r.failed_size = parts[4], r.failed_lane = parts[5];
        found = snapreport_replay_go_on(&r);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            free(parts[i]);
    }
    HOLDS(found == answer);
    if (!answer) {
        check_blocks(&r);
        HOLDS(r.reserved == whole.reserved && r.peak == whole.peak && r.retries == whole.retries);
        HOLDS(r.failed_op == whole.failed_op && r.enough == whole.enough);
        HOLDS(r.allocated == whole.allocated && r.peak_allocated == whole.peak_allocated);
        HOLDS(r.n_events == whole.n_events && r.driver_calls == whole.driver_calls);
        HOLDS(equal(r.placed, whole.placed, rows * sizeof *r.placed));
        HOLDS(equal(r.sizes, whole.sizes, rows * sizeof *r.sizes));
        const size_t kept = (size_t)least(r.n_events, r.room_events) * EVENT_COLUMNS;
        HOLDS(equal(r.events, whole.events, kept * sizeof *r.events));
    }
    snapreport_replay_end(&r);
    free(r.placed);
    free(r.sizes);
    free(r.events);
}

/* One operation at a time, in few rows that are used again, and are more after some. */
static void live(replay r)
{
    const int64_t *op = r.op, *row = r.row, *failed = r.failed_size, *failed_lane = r.failed_lane;
    const int64_t *rounded = r.rounded, *lane = r.lane, n_rows = r.n_rows, n_ops = r.n_ops;
    const int64_t nothing = 0;
    int64_t *columns[4] = {NULL, NULL, NULL, NULL};
    r.given = r.freeable = &nothing;
    r.address = r.block = r.start_rows = NULL;
    r.n_rows = r.n_start = r.n_segments = 0;
    r.live = r.n_ops = 1;
    int32_t answer = snapreport_replay_begin(&r);
    for (int64_t i = 0, events = 0; !answer && i < n_ops; i++) {
        const int64_t most = least(n_rows, 2 + i / 8);
        for (size_t each = 0; each < 4 && most > r.n_rows; each++) {
            int64_t *moved = room((size_t)most, sizeof *moved, 0);
            for (int64_t at = 0; at < most; at++)
                moved[at] = at < r.n_rows ? columns[each][at] : each == 0 ? rounded[at]
                    : each == 1 ? lane[at] : 0;
            free(columns[each]);
            columns[each] = moved;
        }
        r.n_rows = larger(most, r.n_rows);
        r.rounded = columns[0], r.lane = columns[1], r.placed = columns[2], r.sizes = columns[3];
        const int64_t reserved = r.reserved;
        const int64_t asked = r.n_rows && row[i] > 0 ? row[i] % (r.n_rows + 1) : row[i];
        r.op = &op[i], r.row = &asked, r.failed_size = &failed[i], r.failed_lane = &failed_lane[i];
        const int32_t done = snapreport_replay_go_on(&r);
        HOLDS(done == 0 || (done == OUT_OF_RANGE && r.reserved == reserved));
        HOLDS(r.n_events >= events);
        int64_t change = 0;
        for (; events < r.n_events; events++) {
            const int64_t *event = &r.events[events * EVENT_COLUMNS];
            HOLDS(event[0] == i);
            change += event[1] == MADE || event[1] == MAPPED ? event[3] : -event[3];
        }
        HOLDS(r.reserved == reserved + change);
        if (i % 3 == 0) /* they were read */
            r.n_events = events = 0;
        if (i % 32 == 0)
            check_blocks(&r);
    }
    if (!answer)
        check_blocks(&r);
    snapreport_replay_end(&r);
    for (size_t each = 0; each < 4; each++)
        free(columns[each]);
}

static void put_in_order(int64_t *segments, int64_t n, int64_t lanes, unsigned odd)
{
    int64_t at = 2 * MIB;
    for (int64_t i = 0; i < n; i++) {
        int64_t *s = &segments[i * SEGMENT_COLUMNS];
        s[0] = at += (s[0] & 15) * 2 * MIB;
        s[1] = ((s[1] & 31) + 1) * 2 * MIB;
        at += s[1];
        s[2] = lanes ? (s[2] & 0x7F) % lanes : 0;
        s[3] &= 1;
        s[4] &= 1;
        s[5] = odd & 1 ? s[5] : s[0] - (s[5] & 7) * 2 * MIB;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    const unsigned form = (unsigned)next_number(&in, 1), odd = (unsigned)next_number(&in, 1);
    replay r = {.n_lanes = (int64_t)next_number(&in, 1) % MOST_LANES};
    r.n_segments = (int64_t)next_number(&in, 1) % 8;
    r.n_rows = next_length(&in) % 128;
    r.n_ops = next_length(&in) % 256;
    r.room_events = (int64_t)next_number(&in, 1) % 32;
    r.expandable = form & 1;
    r.stop = (form >> 1) & 1;
    r.policy = (form >> 2) % 5;
    r.seed = (int64_t)next_number(&in, 1);
    r.large_segment = form & 0x40 ? 12 * MIB : 20 * MIB;
    r.rounding = 20 * MIB;
    r.max_split = form & 0x80 ? 20 * MIB : NEVER;
    const uint64_t limited = next_number(&in, 1), wide = next_number(&in, 1);
    r.capacity = limited & 1 ? (int64_t)limited * 4 * MIB : NEVER;
    r.limit = limited & 2 ? (int64_t)limited * 3 * MIB : NEVER;
    r.garbage = r.limit < NEVER ? r.limit / 2 : 0;
    r.room = odd & 8 ? MOST_BYTES >> 8 : (int64_t)wide * MIB;
    r.below = 2 * MIB + (int64_t)wide * 64 * MIB;
    r.above = odd & 32 ? r.below : TOP;

    int64_t *pools = next_column(&in, r.n_lanes, 0);
    int64_t *segments = next_column(&in, r.n_segments * SEGMENT_COLUMNS, odd & 2 ? 3 : 0);
    int64_t *op = next_column(&in, r.n_ops, 0), *row = next_column(&in, r.n_ops, 0);
    int64_t *freeable = next_column(&in, r.n_ops, 0), *given = next_column(&in, r.n_ops, 0);
    int64_t *failed = next_column(&in, r.n_ops, 2), *failed_lane = next_column(&in, r.n_ops, 0);
    int64_t *rounded = next_column(&in, r.n_rows, 2), *lane = next_column(&in, r.n_rows, 0);
    int64_t *where = next_column(&in, r.n_rows, 2), *block_size = next_column(&in, r.n_rows, 0);
    int64_t *start_rows = room((size_t)r.n_rows, sizeof *start_rows, 0);
    int64_t *gone = room((size_t)r.n_rows, sizeof *gone, 0);
    int64_t last = 0;
    if (!(odd & 4)) { /* as the caller does */
        for (int64_t i = 0; i < r.n_lanes; i++)
            pools[i] = last += pools[i] & 1;
        put_in_order(segments, r.n_segments, r.n_lanes, odd);
        for (int64_t i = 0; i < r.n_ops; i++) {
            op[i] = (op[i] & 0x7F) % 5;
            row[i] = r.n_rows ? (row[i] & 0x7F) % r.n_rows : 0;
            freeable[i] &= 3;
            given[i] = (given[i] & 0x7F) * 2 * MIB;
            failed[i] = (failed[i] & 0x7FFF) * 4096 + GUARD;
            failed_lane[i] = r.n_lanes ? (failed_lane[i] & 0x7F) % r.n_lanes : 0;
        }
        last = 2 * MIB;
        for (int64_t i = 0; i < r.n_rows; i++) {
            rounded[i] = ((rounded[i] & 0x7FFF) + 1) * 4096;
            lane[i] = r.n_lanes ? (lane[i] & 0x7F) % r.n_lanes : 0;
            block_size[i] = block_size[i] > 64 ? block_size[i] * MIB / 16 : 0;
            where[i] = last += (where[i] & 0x7FFF) * 512;
            if (block_size[i])
                start_rows[r.n_start++] = i;
        }
    }
    r.op = op, r.row = row, r.given = given, r.freeable = freeable;
    r.failed_size = failed, r.failed_lane = failed_lane;
    r.rounded = rounded, r.lane = lane, r.address = where, r.block = block_size;
    r.start_rows = start_rows, r.lane_pool = pools, r.segments = segments;
    r.placed = room((size_t)r.n_rows, sizeof *r.placed, 0xFF);
    r.sizes = room((size_t)r.n_rows, sizeof *r.sizes, 0xFF);
    r.events = room((size_t)(r.room_events * EVENT_COLUMNS), sizeof *r.events, 0xFF);

    const int32_t answer = snapreport_replay(&r);
    HOLDS(answer == 0 || answer == OUT_OF_RANGE);
    HOLDS(r.model == NULL);
    check_parts(r, answer, 13 << (odd >> 6));
    if (odd & 16)
        live(r);
    if (answer == 0) {
        HOLDS(r.peak >= r.reserved && r.reserved >= 0 && r.failed_op < r.n_ops);
        HOLDS(r.retries >= 0 && r.n_events >= 0);
        for (int64_t i = 0; i < r.n_ops; i++)
            if ((op[i] == FREE || op[i] == AWAIT) && row[i] >= 0 && row[i] < r.n_rows)
                gone[row[i]] = 1;
        check_places(&r, gone);
        /* The same again: nothing of the last replay is left. */
        const int64_t peak = r.peak, events = r.n_events, calls = r.driver_calls;
        HOLDS(snapreport_replay(&r) == 0);
        HOLDS(r.peak == peak && r.n_events == events && r.driver_calls == calls);
    }
    int64_t *all[] = {pools, segments, op, row, freeable, given, failed, failed_lane, rounded, lane,
                      where, block_size, start_rows, gone, r.placed, r.sizes, r.events};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return 0;
}

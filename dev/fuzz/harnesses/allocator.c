/* Replay requests through the model of the allocator. */

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
    r.events = room((size_t)(r.room_events * EVENT_COLUMNS), sizeof *r.events, 0xFF);

    const int32_t answer = snapreport_replay(&r);
    HOLDS(answer == 0 || answer == OUT_OF_RANGE);
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
                      where, block_size, start_rows, gone, r.placed, r.events};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return 0;
}

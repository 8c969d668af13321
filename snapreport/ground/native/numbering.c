/* Number the values of a long column of integers. */

#include "native.h"

/* Number small values in order of first appearance; -1, which is none, stays.
 *
 * table: room for a number for each value from 0 to `most` - 1. found: room for `most` values.
 * place: room for `n` numbers.
 *
 * Returns how many are distinct, or OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_appear(const int32_t *values, int64_t n, int32_t *table, int64_t most,
                                 int32_t *found, int32_t *place)
{
    int32_t met = 0;
    if (n < 0 || n >= INT32_MAX || most < 0 || most > INT32_MAX)
        return OUT_OF_RANGE;
    for (int64_t value = 0; value < most; value++)
        table[value] = -1;
    for (int64_t i = 0; i < n; i++) {
        const int32_t value = values[i];
        if (value < -1 || value >= most)
            return OUT_OF_RANGE;
        if (value >= 0 && table[value] < 0) {
            found[met] = value;
            table[value] = met++;
        }
        place[i] = value < 0 ? -1 : table[value];
    }
    return met;
}

/* Count how many rows before each one are of its group; `counts` has room for all groups. */
EXPORT int32_t snapreport_count_before(const int64_t *group, int64_t n, int32_t *counts,
                                       int64_t groups, int32_t *before)
{
    if (n < 0 || n >= INT32_MAX || groups < 0 || groups > INT32_MAX)
        return OUT_OF_RANGE;
    for (int64_t i = 0; i < groups; i++)
        counts[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (group[i] < 0 || group[i] >= groups)
            return OUT_OF_RANGE;
        before[i] = counts[group[i]]++;
    }
    return 1;
}

/* Looks at the table for each value, on average: numbers that were chosen to collide need more, and
 * are sorted instead. */
enum { MOST_LOOKS = 8 };

/* Empty a table for at most so many of `n` numbers, and return the bits of its places, or
 * OUT_OF_RANGE. */
static int emptied(int32_t *table, int64_t slots, int64_t n, int64_t most)
{
    if (n < 0 || n > INT64_MAX / MOST_LOOKS || most < 0 || most >= slots)
        return OUT_OF_RANGE;
    if (slots < 2 || slots > INT32_MAX || (slots & (slots - 1)) != 0)
        return OUT_OF_RANGE;
    for (int64_t slot = 0; slot < slots; slot++)
        table[slot] = -1;
    return __builtin_ctzll((uint64_t)slots);
}

/* Number distinct values in order of first appearance.
 *
 * table: room for `slots` numbers, a power of two from 2 on, and more than `most`.
 * found: room for `most` values; place: for `n` numbers, which of `found` each value is.
 *
 * Returns how many are distinct; NO_ROOM if there are too many or they take too long; or
 * OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_number(const int64_t *values, int64_t n, int32_t *table, int64_t slots,
                                 int64_t *found, int64_t most, int64_t *place)
{
    const int bits = emptied(table, slots, n, most);
    if (bits < 0)
        return bits;
    const uint64_t mask = (uint64_t)slots - 1;
    int64_t met = 0, looks = MOST_LOOKS * n;
    for (int64_t i = 0; i < n; i++) {
        if (i && values[i] == values[i - 1]) {
            place[i] = place[i - 1];
            continue;
        }
        uint64_t slot = (uint64_t)values[i] * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
        while (table[slot] >= 0 && found[table[slot]] != values[i]) {
            if (--looks < 0)
                return NO_ROOM;
            slot = (slot + 1) & mask;
        }
        if (table[slot] < 0) {
            if (met == most)
                return NO_ROOM;
            found[met] = values[i];
            table[slot] = (int32_t)met++;
        }
        place[i] = table[slot];
    }
    return met;
}

enum { EVENT_KINDS = 4 };

/* Put one number for each event in the order of the kind of the event before; then of its own kind:
 * another, born, requested, freed; then of its row's group; and then in event order.
 *
 * of_events: for each of these kinds but the first, the event of each row; one beyond the recording
 * is none, and of two that are the same the one of the first kind decides. what: room for `n`
 * numbers. starts: room for one for each pair of kinds and group, and one more.
 */
EXPORT int32_t snapreport_by_kind(const int64_t *values, int64_t n, const int64_t *born,
                                  const int64_t *requested, const int64_t *freed,
                                  const int32_t *group, int64_t n_rows, int32_t groups,
                                  int32_t *what, int32_t *starts, int64_t *ordered)
{
    const int64_t *of_events[] = {NULL, born, requested, freed};
    if (n < 0 || n >= INT32_MAX || n_rows < 0 || n_rows >= INT32_MAX || groups < 1
        || groups > INT32_MAX / (EVENT_KINDS * EVENT_KINDS + 1))
        return OUT_OF_RANGE;
    const int32_t width = EVENT_KINDS * groups;
    memset(what, 0, (size_t)n * sizeof *what);
    memset(starts, 0, ((size_t)(EVENT_KINDS * width) + 1) * sizeof *starts);
    for (int32_t kind = EVENT_KINDS - 1; kind > 0; kind--)
        for (int64_t row = 0; row < n_rows; row++) {
            const int64_t event = of_events[kind][row];
            if (group[row] < 0 || group[row] >= groups)
                return OUT_OF_RANGE;
            if (event >= 0 && event < n)
                what[event] = kind * groups + group[row];
        }
    for (int64_t event = n - 1; event > 0; event--)
        what[event] += what[event - 1] / groups * width;
    for (int64_t event = 0; event < n; event++)
        starts[what[event] + 1]++;
    for (int32_t i = 0; i < EVENT_KINDS * width; i++)
        starts[i + 1] += starts[i];
    for (int64_t event = 0; event < n; event++)
        ordered[starts[what[event]]++] = values[event];
    return 1;
}

/* Number the rows of some columns, those that are alike in all of them with one number, in order of
 * first appearance.
 *
 * columns: `n_columns` of `n` numbers each. table: room for `slots` numbers, a power of two above n.
 * first: room for `n` rows, the first of each number; place: for `n` numbers.
 *
 * Returns how many are distinct, NO_ROOM if they take too long, or OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_alike(const int64_t *const *columns, int64_t n_columns, int64_t n,
                                int32_t *table, int64_t slots, int64_t *first, int64_t *place)
{
    const int bits = n_columns < 0 ? OUT_OF_RANGE : emptied(table, slots, n, n);
    if (bits < 0)
        return bits;
    const uint64_t mask = (uint64_t)slots - 1;
    int64_t met = 0, looks = MOST_LOOKS * n;
    for (int64_t i = 0; i < n; i++) {
        uint64_t mixed = 0;
        for (int64_t c = 0; c < n_columns; c++) {
            mixed = (mixed ^ (uint64_t)columns[c][i]) * UINT64_C(0x9E3779B97F4A7C15);
            mixed ^= mixed >> 32;
        }
        uint64_t slot = mixed * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
        for (; table[slot] >= 0; slot = (slot + 1) & mask) {
            const int64_t other = first[table[slot]];
            int64_t c = 0;
            while (c < n_columns && columns[c][i] == columns[c][other])
                c++;
            if (c == n_columns)
                break;
            if (--looks < 0)
                return NO_ROOM;
        }
        if (table[slot] < 0) {
            first[met] = i;
            table[slot] = (int32_t)met++;
        }
        place[i] = table[slot];
    }
    return met;
}

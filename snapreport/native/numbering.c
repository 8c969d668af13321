/* Number the values of a long column of integers. */

#include "native.h"

/* Looks at the table for each value, on average: numbers that were chosen to meet there need more,
 * and are sorted instead. */
enum { MOST_LOOKS = 8 };

/* Number distinct values in the order in which they are first met.
 *
 * table: room for 1 << bits numbers of 32 bits, more than `most`.
 * found: room for `most` values; place: for `n` numbers, which of `found` each value is.
 *
 * Returns how many are distinct, or -1 where there are too many or they take too long.
 */
EXPORT int64_t snapreport_number(const int64_t *values, int64_t n, int32_t *table, int32_t bits,
                                 int64_t *found, int64_t most, int64_t *place)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    int64_t met = 0, looks = MOST_LOOKS * n;
    for (uint64_t slot = 0; slot <= mask; slot++)
        table[slot] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i && values[i] == values[i - 1]) {
            place[i] = place[i - 1];
            continue;
        }
        uint64_t slot = (uint64_t)values[i] * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
        while (table[slot] >= 0 && found[table[slot]] != values[i]) {
            if (--looks < 0)
                return -1;
            slot = (slot + 1) & mask;
        }
        if (table[slot] < 0) {
            if (met == most)
                return -1;
            found[met] = values[i];
            table[slot] = (int32_t)met++;
        }
        place[i] = table[slot];
    }
    return met;
}

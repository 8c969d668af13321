/* Number and order long columns of integers, as sorting.py does without a compiler.
 *
 * sorting.py calls it and hands all memory over.
 */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Raise it when the meaning changes: sorting.py refuses a library of another version. */
EXPORT int32_t snapreport_sorting_version(void) { return 1; }

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

/* Return in `order` the places that sort keys, equal ones as they come.
 *
 * counts: a zero for each of the 65536 keys that there can be.
 */
EXPORT void snapreport_order(const uint16_t *keys, int64_t n, int64_t *counts, int64_t *order)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        counts[keys[i]]++;
    for (int64_t key = 0; key <= UINT16_MAX; key++) {
        int64_t count = counts[key];
        counts[key] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++)
        order[counts[keys[i]]++] = i;
}

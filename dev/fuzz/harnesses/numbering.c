/* Number the values of a column, and the rows of two. */

#include "ground/native/numbering.c"

#include "harness.h"

static int64_t number(const int64_t *values, int64_t n, int64_t slots, int64_t most, int64_t *found,
                      int64_t *place, int fill)
{
    int32_t *table = room((size_t)slots, sizeof *table, fill);
    const int64_t made = snapreport_number(values, n, table, slots, found, most, place);
    free(table);
    return made;
}

/* Number them again as the small values that their places are, and count those before each. */
static void check_small(const int64_t *place, int64_t n, int64_t met)
{
    int32_t *small = room((size_t)n, 4, 0), *before = room((size_t)n, 4, 0);
    int32_t *table = room((size_t)met, 4, 0), *found = room((size_t)met, 4, 0);
    for (int64_t i = 0; i < n; i++)
        small[i] = i % 5 ? (int32_t)place[i] : -1;
    const int64_t made = snapreport_appear(small, n, table, met, found, before);
    HOLDS(made >= 0 && made <= met);
    for (int64_t i = 0; i < n; i++)
        HOLDS(small[i] < 0 ? before[i] == -1 : found[before[i]] == small[i]);
    for (int64_t i = 0; i < made; i++)
        HOLDS(table[found[i]] == i);
    HOLDS(snapreport_count_before(place, n, table, met, before) == 1);
    int64_t firsts = 0;
    for (int64_t i = 0; i < n; i++)
        firsts += before[i] == 0;
    HOLDS(firsts == met);
    if (met > 1) {
        HOLDS(snapreport_count_before(place, n, table, met - 1, before) == OUT_OF_RANGE);
        small[0] = (int32_t)met;
        HOLDS(snapreport_appear(small, n, table, met, found, before) == OUT_OF_RANGE);
    }
    free(small);
    free(before);
    free(table);
    free(found);
}

/* Put the places in the order of what the values say happened: all are there once. */
static void check_order(const int64_t *values, const int64_t *place, int64_t n, int64_t met)
{
    const int32_t groups = (int32_t)(met % 4 + 1);
    int32_t *group = room((size_t)n, 4, 0), *what = room((size_t)n, 4, 0xFF);
    int32_t *starts = room((size_t)(16 * groups + 1), 4, 0xFF);
    int64_t *ordered = room((size_t)n, 8, 0), *numbers = room((size_t)n, 8, 0);
    uint8_t *there = room((size_t)n, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        group[i] = (int32_t)(place[i] % groups);
        numbers[i] = i;
    }
    HOLDS(snapreport_by_kind(numbers, n, place, values, numbers, group, n, groups, what, starts,
                             ordered) == 1);
    for (int64_t i = 0; i < n; i++)
        HOLDS(ordered[i] >= 0 && ordered[i] < n && !there[ordered[i]]++);
    if (n && groups > 1) {
        group[n / 2] = groups;
        HOLDS(snapreport_by_kind(numbers, n, place, values, numbers, group, n, groups, what,
                                 starts, ordered) == OUT_OF_RANGE);
    }
    free(group);
    free(what);
    free(starts);
    free(ordered);
    free(numbers);
    free(there);
}

/* Number the rows of two columns, the halves of the values. */
static void check_rows(const int64_t *values, int64_t n, int64_t slots)
{
    const int64_t *columns[2] = {values, values + n};
    int64_t *first = room((size_t)n, 8, 0), *place = room((size_t)n, 8, 0), met = 0;
    int32_t *table = room((size_t)slots, sizeof *table, 0);
    const int64_t made = snapreport_alike(columns, 2, n, table, slots, first, place);
    HOLDS(made <= n && made >= OUT_OF_RANGE && (made != NO_ROOM || n > 2 * MOST_LOOKS));
    for (int64_t i = 0; made >= 0 && i < n; i++) {
        HOLDS(place[i] >= 0 && place[i] <= met);
        HOLDS(place[i] < met || first[met] == i);
        HOLDS(values[first[place[i]]] == values[i] && values[n + first[place[i]]] == values[n + i]);
        met += place[i] == met;
    }
    HOLDS(made < 0 || met == made);
    for (int64_t k = 1; k < made; k++) /* of all pairs, neighbours */
        HOLDS(values[first[k]] != values[first[k - 1]] || values[n + first[k]] != values[n + first[k - 1]]);
    free(first);
    free(place);
    free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    const unsigned form = (unsigned)next_number(&in, 1);
    const int64_t slots = (int64_t)(form & 4 ? next_number(&in, 2) % 4096
                                    : UINT64_C(1) << next_number(&in, 1) % 13);
    const int64_t most = (int64_t)next_number(&in, 2) % 4096, n = next_length(&in);
    int64_t *values = next_column(&in, n, form);
    int64_t *found = room((size_t)most, 8, 0), *place = room((size_t)n, 8, 0);
    int64_t *again = room((size_t)most, 8, 0xFF), *place_again = room((size_t)n, 8, 0xFF);
    const int64_t made = number(values, n, slots, most, found, place, 0);
    HOLDS(made == number(values, n, slots, most, again, place_again, 0xFF));
    HOLDS(made <= most && made >= OUT_OF_RANGE);
    int64_t met = 0;
    for (int64_t i = 0; made >= 0 && i < n; i++) {
        HOLDS(place[i] == place_again[i] && place[i] >= 0 && place[i] <= met);
        HOLDS(found[place[i]] == values[i] && found[place[i]] == again[place[i]]);
        met += place[i] == met;
    }
    HOLDS(made < 0 || met == made);
    if (made >= 0) {
        check_small(place, n, made);
        check_order(values, place, n, made);
    }
    check_rows(values, n / 2, slots);
    free(values);
    free(found);
    free(place);
    free(again);
    free(place_again);
    return 0;
}

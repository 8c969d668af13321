/* Sweep over the events of a recording: the first byte says which of seven functions an input is for.
 * Each gets its columns in order, as its caller makes them, or with any numbers at all. */

#include "ground/native/sweeps.c"

#include "harness.h"

enum { MOST_TABLES = 32, RESULTS = 2 };

typedef struct {
    input in;
    unsigned form; /* of the numbers */
    int in_order, fill;
    void *tables[MOST_TABLES];
    int n_tables;
    void *results[RESULTS]; /* which are some of the tables */
    size_t sizes[RESULTS];
} sweep;

static void *next_table(sweep *s, int64_t n, size_t width, int fill)
{
    HOLDS(s->n_tables < MOST_TABLES);
    return s->tables[s->n_tables++] = room((size_t)n, width, fill);
}

static void *next_result(sweep *s, int which, int64_t n, size_t width, int fill)
{
    s->sizes[which] = (size_t)n * width;
    return s->results[which] = next_table(s, n, width, fill);
}

static int64_t *next_numbers(sweep *s, int64_t n)
{
    HOLDS(s->n_tables < MOST_TABLES);
    int64_t *made = next_column(&s->in, n, s->form);
    s->tables[s->n_tables++] = made;
    return made;
}

/* Where all is in order: each at least the one before, or another column's of its row. */
static int64_t *next_ascending(sweep *s, int64_t n, const int64_t *above)
{
    int64_t *made = next_numbers(s, n);
    for (int64_t i = 0; s->in_order && i < n; i++)
        made[i] = plus(above ? above[i] : i ? made[i - 1] : START, made[i] > 0 ? made[i] : 0);
    return made;
}

/* Where all is in order: numbers from the first one on, and less than the end; two stand for those
 * that are just beyond. */
static int64_t *next_within(sweep *s, int64_t n, int64_t first, int64_t end)
{
    int64_t *made = next_numbers(s, n);
    for (int64_t i = 0; s->in_order && first < end && i < n; i++)
        made[i] = made[i] == INT8_MAX ? end : made[i] == INT8_MIN ? first - 1
                : first + (int64_t)((uint64_t)made[i] % (uint64_t)(end - first));
    return made;
}

static int32_t *next_narrow(sweep *s, int64_t n, int64_t first, int64_t end)
{
    const int64_t *wide = next_within(s, n, first, end);
    int32_t *made = next_table(s, n, sizeof *made, 0);
    for (int64_t i = 0; i < n; i++)
        made[i] = (int32_t)(wide[i] % INT32_MAX);
    return made;
}

typedef struct { int64_t key, row; } keyed;

static int by_key(const void *one, const void *other)
{
    const keyed *a = one, *b = other;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : (a->row > b->row) - (a->row < b->row);
}

/* Where all is in order: the rows in the order of their keys. */
static int64_t *next_order(sweep *s, const int64_t *keys, int64_t n)
{
    if (!s->in_order)
        return next_numbers(s, n);
    int64_t *made = next_table(s, n, sizeof *made, 0);
    keyed *sorted = room((size_t)n, sizeof *sorted, 0);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (keyed){keys[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, by_key);
    for (int64_t i = 0; i < n; i++)
        made[i] = sorted[i].row;
    free(sorted);
    return made;
}

static int64_t sum_live(sweep *s)
{
    const int64_t n = next_length(&s->in), events = next_length(&s->in);
    const int64_t *weight = next_numbers(s, n);
    const int64_t *begin = next_within(s, n, START, events + 1);
    const int64_t *end = next_within(s, n, START, events + 1);
    return snapreport_sum_live(weight, begin, end, n, events,
                               next_result(s, 0, events + 2, 8, 0));
}

/* What is found is what comes of adding up all. */
static int64_t peak_without(sweep *s)
{
    const int64_t n = next_length(&s->in), n_values = next_length(&s->in);
    const int64_t *curve = next_numbers(s, n_values), *weight = next_numbers(s, n);
    const int64_t *begin = next_within(s, n, START, n_values);
    const int64_t *end = next_within(s, n, START, n_values);
    int64_t *tops = next_table(s, n_values / STRETCH + 1, 8, s->fill);
    const int32_t far = snapreport_tops(curve, n_values, tops);
    if (far < 0)
        return far;
    int64_t *found = next_result(s, 0, 2, 8, s->fill);
#define ASK() snapreport_peak_without(curve, n_values, tops, far, weight, begin, end, n, found)
    const int64_t done = ASK();
    if (done == 1) {
        int64_t *sums = next_table(s, n_values + 1, 8, 0), most = 0;
        HOLDS(snapreport_sum_live(weight, begin, end, n, n_values - 1, sums) == 1);
        for (int64_t i = 1; i < n_values; i++)
            most = minus(curve[i], sums[i]) > minus(curve[most], sums[most]) ? i : most;
        HOLDS(found[0] == minus(curve[most], sums[most]) && found[1] == most);
        const int64_t last = (n_values - 1) / STRETCH, was = tops[last];
        tops[last] = s->fill ? n_values : last * STRETCH - 1;
        HOLDS(ASK() == OUT_OF_RANGE);
        tops[last] = was;
    }
#undef ASK
    return done;
}

static int64_t weigh(sweep *s)
{
    const int64_t n = next_length(&s->in), *values = next_numbers(s, n + 1);
    const int64_t *times = next_ascending(s, n, NULL);
    return snapreport_weigh(values, times, n, next_result(s, 0, 4, 8, s->fill));
}

static int64_t locate(sweep *s)
{
    const int64_t n = next_length(&s->in), m = next_length(&s->in);
    const int64_t *address = next_numbers(s, n), *size = next_numbers(s, n);
    const int64_t *start = next_ascending(s, n, NULL), *end = next_ascending(s, n, start);
    const int64_t *ends_first = next_order(s, end, n);
    const int64_t *events = next_ascending(s, m, NULL), *wanted = next_numbers(s, m);
    int32_t *found = next_result(s, 0, m, sizeof *found, s->fill);
    const int64_t done = snapreport_locate(address, size, start, end, ends_first, n, events,
                                           wanted, m, found);
    for (int64_t i = 0; done == 1 && i < m; i++)
        HOLDS(found[i] >= NO_ID && found[i] < n);
    return done;
}

static int64_t fragmentation(sweep *s)
{
    const int64_t n = next_length(&s->in), m = next_length(&s->in), events = next_length(&s->in);
    int64_t *alloc_event = next_within(s, n, START, events);
    for (int64_t i = 1; s->in_order && i < n; i++)
        if (alloc_event[i] < alloc_event[i - 1])
            alloc_event[i] = alloc_event[i - 1];
    int64_t *free_event = next_within(s, n, START, events + 1);
    const int64_t *block_size = next_numbers(s, n);
    int32_t *born = next_narrow(s, n, NO_ID, m), *freed = next_narrow(s, n, NO_ID, m);
    int64_t *start = next_within(s, m, START, events + 1);
    int64_t *end = next_within(s, m, START, events + 1);
    const int64_t *size = next_numbers(s, m), *before = next_numbers(s, m);
    int64_t *used = next_table(s, m, 8, s->fill), *sums = next_result(s, 0, events + 2, 8, 0);
    int32_t *head = next_table(s, events, 4, s->fill), *next = next_table(s, n, 4, s->fill);
#define ASK() snapreport_fragmentation(alloc_event, free_event, block_size, born, freed, n, events, \
                                       start, end, size, before, m, used, head, next, sums)
    const int64_t done = ASK();
    if (done == 1) { /* what is in order is out of range with one number just beyond a bound */
        int64_t *const wide[] = {alloc_event, free_event, start, end};
        int32_t *const narrow[] = {born, freed};
        int64_t *kept = (int64_t *)copy_of((const uint8_t *)sums, (size_t)(events + 2) * 8);
        for (int column = 0; column < 8; column++) {
            int64_t *one = wide[column / 2];
            if (!(column < 4 ? n : m))
                continue;
            const int64_t last = (column < 4 ? n : m) - 1, at = column % 2 ? last : 0, was = one[at];
            one[at] = column % 2 ? events + 1 : START - 1;
            HOLDS(ASK() == OUT_OF_RANGE);
            one[at] = was;
        }
        for (int column = 0; n && column < 4; column++) {
            const int64_t row = column % 2 ? n - 1 : 0;
            int32_t *one = narrow[column / 2] + row, was = *one;
            *one = column % 2 ? (int32_t)m : NO_ID - 1;
            HOLDS(ASK() == OUT_OF_RANGE);
            *one = was;
        }
        memcpy(sums, kept, (size_t)(events + 2) * 8);
        free(kept);
    }
#undef ASK
    return done;
}

static int64_t segments(sweep *s)
{
    const int64_t n = next_length(&s->in), m = next_length(&s->in), less = next_length(&s->in);
    int64_t *final = next_numbers(s, n * COLUMNS), last = 0;
    for (int64_t i = 0; s->in_order && i < n; i++) {
        final[i * COLUMNS] = last += final[i * COLUMNS] & 0xFF;
        final[i * COLUMNS + 1] = last += final[i * COLUMNS + 1] & 0xFF;
    }
    const int64_t *kinds = next_within(s, m, ALLOC, UNMAP + 1), *event = next_numbers(s, m);
    const int64_t *low = next_within(s, m, 0, last + 0xFF);
    const int64_t *size = next_within(s, m, 0, 0xFF), *stream = next_numbers(s, m);
    int8_t *kind = next_table(s, m, 1, 0);
    for (int64_t i = 0; i < m; i++)
        kind[i] = (int8_t)(kinds[i] & 7);
    const int64_t most = less < n + 2 * m ? n + 2 * m - less : 0;
    int64_t *rows = next_result(s, 0, most, COLUMNS * 8, s->fill);
    int64_t *counts = next_result(s, 1, 2, 8, 0);
    counts[0] = n;
    const int64_t made =
        snapreport_segments(final, n, kind, event, low, size, stream, m, rows, most, counts);
    HOLDS(made <= most);
    s->sizes[0] = made > 0 ? (size_t)made * COLUMNS * 8 : 0;
    return made;
}

static int64_t holes(sweep *s)
{
    const int64_t n = next_length(&s->in), m = next_length(&s->in), places = next_length(&s->in);
    const int64_t *at = next_ascending(s, places, NULL), *place = next_within(s, n, 0, places);
    const int64_t *born = next_numbers(s, n), *died = next_ascending(s, n, born);
    const int64_t *by_birth = next_order(s, born, n), *by_death = next_order(s, died, n);
    const int64_t *address = next_numbers(s, m), *ends = next_ascending(s, m, address);
    const int64_t *start = next_numbers(s, m), *gone = next_ascending(s, m, start);
    const int64_t *by_start = next_order(s, start, m), *by_end = next_order(s, gone, m);
    return snapreport_holes(at, places, place, born, died, by_birth, by_death, n, address, ends,
                            start, gone, by_start, by_end, m, next_table(s, places, 4, s->fill),
                            next_table(s, places, 4, s->fill), next_result(s, 0, n, 8, 0),
                            next_result(s, 1, n, 8, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int64_t (*const functions[])(sweep *) = {
        sum_live, weigh, locate, fragmentation, segments, holes, peak_without};
    sweep both[2];
    int64_t done[2];
    for (int i = 0; i < 2; i++) { /* memory that is handed over unset is filled otherwise */
        both[i] = (sweep){.in = {data, size}, .fill = i ? 0xFF : 0};
        const unsigned which = (unsigned)next_number(&both[i].in, 1) % 7;
        both[i].form = (unsigned)next_number(&both[i].in, 1);
        both[i].in_order = (both[i].form & 4) != 0;
        done[i] = functions[which](&both[i]);
    }
    HOLDS(done[0] == done[1] && done[0] >= OUT_OF_RANGE);
    for (int i = 0; i < RESULTS && done[0] >= 0; i++)
        HOLDS(equal(both[0].results[i], both[1].results[i], both[0].sizes[i]));
    for (int i = 0; i < 2; i++)
        while (both[i].n_tables)
            free(both[i].tables[--both[i].n_tables]);
    return 0;
}

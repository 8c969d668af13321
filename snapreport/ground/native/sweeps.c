/* Sweep over the events of a recording.
 *
 * The caller provides all memory, and says how much it is. All else is checked: at the first event
 * or row that is out of range a function returns OUT_OF_RANGE, and its output is not valid. Numbers
 * in the wrong order only make a wrong result.
 */

#include "native.h"

enum { NO_ID = -1, START = -1 };

/* Say whether so many rows have row numbers; memory has no room for more. */
static int is_count(int64_t n) { return n >= 0 && n < INT32_MAX; }

/* Say whether all numbers are among the `n` rows. */
static int are_rows(const int64_t *numbers, int64_t count, int64_t n)
{
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] < 0 || numbers[i] >= n)
            return 0;
    return 1;
}

/* Sums wrap around as NumPy's do. */
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t minus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

static void running_sum(int64_t *values, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        values[i] = sum = plus(sum, values[i]);
}

/* Return the first place in ascending values that is not below `value`. */
static int64_t first_from(const int64_t *values, int64_t n, int64_t value)
{
    int64_t low = 0;
    for (; n > 1; n -= n / 2) /* as many steps whatever the value: no jump to predict */
        low += values[low + n / 2 - 1] < value ? n / 2 : 0;
    return low + (n && values[low] < value);
}

/* Return the first place that is above `value`. */
static int64_t first_above(const int64_t *values, int64_t n, int64_t value)
{
    int64_t low = 0;
    for (; n > 1; n -= n / 2)
        low += values[low + n / 2 - 1] <= value ? n / 2 : 0;
    return low + (n && values[low] <= value);
}

/* Numbers in ascending order, each with a row. They are kept in chunks of limited size, so that few
 * others move when one is added or removed, whatever their order in a stranger's file. */
#ifndef CHUNK /* fewer in a fuzzer, so that it splits them sooner */
#define CHUNK 1024
#endif

typedef struct {
    int64_t *key; /* those of slot s from s * CHUNK on */
    int32_t *row;
    int64_t *slot;   /* of each chunk in order; none is empty unless it is the only one */
    int64_t *before; /* how many numbers come before each chunk, and before the end of all */
    int64_t chunks, slots, n;
} ordered;

/* A slot is used once: a chunk is split only after half of it was added. */
static int make_room(ordered *all, int64_t room)
{
    size_t slots = (size_t)(room / (CHUNK / 2) + 2);
    all->n = 0;
    all->chunks = all->slots = 1;
    all->key = malloc(slots * CHUNK * sizeof(int64_t));
    all->row = malloc(slots * CHUNK * sizeof(int32_t));
    all->slot = calloc(slots + 1, sizeof(int64_t));
    all->before = calloc(slots + 1, sizeof(int64_t));
    return all->key && all->row && all->slot && all->before;
}

static void give_back(ordered *all)
{
    free(all->key);
    free(all->row);
    free(all->slot);
    free(all->before);
}

/* Return the chunk that a place is in; the last one for the place after all numbers. */
static int64_t chunk_at(const ordered *all, int64_t place)
{
    return all->chunks == 1 ? 0 : first_above(all->before, all->chunks, place) - 1;
}

static int64_t stored_at(const ordered *all, int64_t place)
{
    int64_t chunk = chunk_at(all, place);
    return all->slot[chunk] * CHUNK + place - all->before[chunk];
}

static int64_t key_at(const ordered *all, int64_t place) { return all->key[stored_at(all, place)]; }
static int32_t row_at(const ordered *all, int64_t place) { return all->row[stored_at(all, place)]; }

/* Return the first place whose key is not below a value or, with `above`, is above it. */
static int64_t place_of(const ordered *all, int64_t value, int above)
{
    int64_t low = 0;
    for (int64_t n = all->chunks - 1; n > 0;) { /* by the last key of each chunk */
        int64_t half = n / 2;
        int64_t last = all->key[all->slot[low + half] * CHUNK + all->before[low + half + 1] -
                                all->before[low + half] - 1];
        int more = above ? last <= value : last < value;
        low += more ? half + 1 : 0;
        n = more ? n - half - 1 : half;
    }
    const int64_t *keys = all->key + all->slot[low] * CHUNK;
    int64_t n = all->before[low + 1] - all->before[low];
    return all->before[low] + (above ? first_above(keys, n, value) : first_from(keys, n, value));
}

static void shift(ordered *all, int64_t chunk, int64_t from, int64_t to, int64_t count)
{
    int64_t *key = all->key + all->slot[chunk] * CHUNK;
    int32_t *row = all->row + all->slot[chunk] * CHUNK;
    memmove(key + to, key + from, (size_t)count * sizeof(int64_t));
    memmove(row + to, row + from, (size_t)count * sizeof(int32_t));
}

static void part(ordered *all, int64_t chunk)
{
    int64_t from = all->slot[chunk] * CHUNK + CHUNK / 2, to = all->slots * CHUNK;
    memcpy(all->key + to, all->key + from, CHUNK / 2 * sizeof(int64_t));
    memcpy(all->row + to, all->row + from, CHUNK / 2 * sizeof(int32_t));
    size_t rest = (size_t)(all->chunks - chunk) * sizeof(int64_t);
    memmove(all->slot + chunk + 2, all->slot + chunk + 1, rest - sizeof(int64_t));
    memmove(all->before + chunk + 2, all->before + chunk + 1, rest);
    all->slot[chunk + 1] = all->slots++;
    all->before[chunk + 1] = all->before[chunk] + CHUNK / 2;
    all->chunks++;
}

static void insert(ordered *all, int64_t place, int64_t key, int32_t row)
{
    int64_t chunk = chunk_at(all, place);
    if (all->before[chunk + 1] - all->before[chunk] == CHUNK) {
        part(all, chunk);
        chunk = chunk_at(all, place);
    }
    int64_t within = place - all->before[chunk];
    shift(all, chunk, within, within + 1, all->before[chunk + 1] - place);
    all->key[all->slot[chunk] * CHUNK + within] = key;
    all->row[all->slot[chunk] * CHUNK + within] = row;
    for (int64_t i = chunk + 1; i <= all->chunks; i++)
        all->before[i]++;
    all->n++;
}

static void take_out(ordered *all, int64_t first, int64_t last)
{
    while (first < last) {
        int64_t chunk = chunk_at(all, first), end = all->before[chunk + 1];
        int64_t count = (last < end ? last : end) - first, within = first - all->before[chunk];
        shift(all, chunk, within + count, within, end - first - count);
        for (int64_t i = chunk + 1; i <= all->chunks; i++)
            all->before[i] -= count;
        all->n -= count;
        last -= count;
        if (all->before[chunk] == all->before[chunk + 1] && all->chunks > 1) {
            size_t rest = (size_t)(all->chunks - chunk) * sizeof(int64_t);
            memmove(all->slot + chunk, all->slot + chunk + 1, rest - sizeof(int64_t));
            memmove(all->before + chunk, all->before + chunk + 1, rest);
            all->chunks--;
        }
    }
}

/* Add up weights from one event to another: `sums` has `events` + 2 zeros.
 *
 * Returns 1, or OUT_OF_RANGE.
 */
EXPORT int32_t snapreport_sum_live(const int64_t *weight, const int64_t *begin, const int64_t *end,
                                   int64_t n, int64_t events, int64_t *sums)
{
    if (events < 0 || events > INT64_MAX - 2)
        return OUT_OF_RANGE;
    for (int64_t i = 0; i < n; i++) {
        if (begin[i] < START || begin[i] > events || end[i] < START || end[i] > events)
            return OUT_OF_RANGE;
        sums[begin[i] + 1] = plus(sums[begin[i] + 1], weight[i]);
        sums[end[i] + 1] = minus(sums[end[i] + 1], weight[i]);
    }
    running_sum(sums, events + 2);
    return 1;
}

#ifndef STRETCH /* shorter in a fuzzer, so that there are several */
#define STRETCH 256
#endif

/* Find the first place of the most in each STRETCH of the `n_values` of a curve.
 *
 * Returns whether all values are far from wrapping around; or OUT_OF_RANGE if there are none.
 */
EXPORT int32_t snapreport_tops(const int64_t *curve, int64_t n_values, int64_t *tops)
{
    if (n_values < 1)
        return OUT_OF_RANGE;
    int64_t least = curve[0], most = curve[0];
    for (int64_t i = 0; i < n_values;) {
        int64_t first = i, highest = curve[i];
        for (; i < n_values && i - first < STRETCH; i++) {
            highest = curve[i] > highest ? curve[i] : highest;
            least = curve[i] < least ? curve[i] : least;
        }
        most = highest > most ? highest : most;
        while (curve[first] != highest)
            first++;
        *tops++ = first;
    }
    return least > -(INT64_C(1) << 61) && most < INT64_C(1) << 61;
}

/* A stretch of a curve, and the weights that are taken away in it. */
typedef struct {
    int64_t top, at_top;  /* where it is highest; and what is taken there that was not before it */
    int64_t change, fall; /* the same at its end; and by how much it falls at most inside */
    int64_t before;       /* what is taken just before it */
    int64_t sums;         /* where its sums begin; NO_ID if none of its values can be the most */
} stretch;

/* Find the most of a curve of `n_values` without weights from one event to another.
 *
 * What is left at the top of each stretch is known from one pass over the weights, and no value of
 * a stretch is more than its top without the least that is taken inside. So few stretches have to
 * be added up, if the values are far from wrapping around.
 *
 * found: the most, and the first place that has it.
 *
 * Returns 1; NO_ROOM; or OUT_OF_RANGE.
 */
EXPORT int32_t snapreport_peak_without(const int64_t *curve, int64_t n_values, const int64_t *tops,
                                       int32_t far, const int64_t *weight, const int64_t *begin,
                                       const int64_t *end, int64_t n, int64_t *found)
{
    if (n_values < 1)
        return OUT_OF_RANGE;
    int64_t stretches = (n_values - 1) / STRETCH + 1, kept = 0, before = 0, reached = INT64_MIN;
    for (int64_t k = 0; k < stretches; k++)
        if (tops[k] / STRETCH != k || tops[k] < 0 || tops[k] >= n_values)
            return OUT_OF_RANGE;
    stretch *all = calloc((size_t)stretches + 1, sizeof *all); /* and what is behind the end */
    if (!all)
        return NO_ROOM;
    for (int64_t k = 0; k < stretches; k++)
        all[k].top = tops[k];
    all[stretches].sums = NO_ID;
    uint64_t widest = 0;
    int64_t i = 0;
    for (; i < n; i++) {
        if (begin[i] < START || begin[i] >= n_values || end[i] < START || end[i] >= n_values)
            break;
        int64_t value = weight[i], first = begin[i] + 1, last = end[i] + 1;
        stretch *from = all + first / STRETCH, *to = all + last / STRETCH;
        widest |= (uint64_t)(value < 0 ? minus(0, value) : value);
        from->at_top = plus(from->at_top, first <= from->top ? value : 0);
        to->at_top = minus(to->at_top, last <= to->top ? value : 0);
        if (from == to && value >= 0 && first <= last)
            continue;
        from->change = plus(from->change, value);
        to->change = minus(to->change, value);
        if (value < 0)
            from->fall = minus(from->fall, value);
        else
            to->fall = plus(to->fall, value);
    }
    int right = i == n;
    for (int64_t k = 0; k < stretches; k++) {
        int64_t left = minus(curve[all[k].top], plus(before, all[k].at_top));
        reached = left > reached ? left : reached;
        all[k].before = before;
        before = plus(before, all[k].change);
    }
    far = far && widest < (UINT64_C(1) << 60) / ((uint64_t)n + 1);
    for (int64_t k = 0; k < stretches; k++) {
        int64_t highest = plus(minus(curve[all[k].top], all[k].before), all[k].fall);
        all[k].sums = far && highest < reached ? NO_ID : kept++ * STRETCH;
    }
    int64_t *sums = right ? calloc((size_t)kept * STRETCH, sizeof *sums) : NULL;
    for (i = 0; sums && i < n; i++) {
        int64_t first = begin[i] + 1, last = end[i] + 1;
        int64_t from = all[first / STRETCH].sums, to = all[last / STRETCH].sums;
        if (from != NO_ID)
            sums[from + first % STRETCH] = plus(sums[from + first % STRETCH], weight[i]);
        if (to != NO_ID)
            sums[to + last % STRETCH] = minus(sums[to + last % STRETCH], weight[i]);
    }
    found[0] = INT64_MIN;
    found[1] = 0;
    for (int64_t k = 0; sums && k < stretches; k++) {
        if (all[k].sums == NO_ID)
            continue;
        int64_t taken = all[k].before, end_of_it = (k + 1) * STRETCH;
        end_of_it = n_values < end_of_it ? n_values : end_of_it;
        for (i = k * STRETCH; i < end_of_it; i++) {
            taken = plus(taken, sums[all[k].sums + i % STRETCH]);
            if (minus(curve[i], taken) > found[0]) {
                found[0] = minus(curve[i], taken);
                found[1] = i;
            }
        }
    }
    free(all);
    free(sums);
    return !right ? OUT_OF_RANGE : sums ? 1 : NO_ROOM;
}

/* Weigh a curve by time: there is one more value than the `n` times.
 *
 * found: the least and the most value, and the sums of the lowest 20 bits and of those above them,
 * each times how long the value lasts: from its time, or the latest so far, to the next one.
 *
 * Returns 1, or OUT_OF_RANGE if there are no times.
 */
EXPORT int32_t snapreport_weigh(const int64_t *values, const int64_t *times, int64_t n,
                                int64_t *found)
{
    if (n < 1)
        return OUT_OF_RANGE;
    int64_t least = values[0], most = values[0], now = times[0];
    uint64_t low = 0, high = 0;
    for (int64_t i = 1; i <= n; i++) {
        int64_t value = values[i], next = i < n && times[i] > now ? times[i] : now;
        uint64_t lasting = (uint64_t)next - (uint64_t)now;
        least = value < least ? value : least;
        most = value > most ? value : most;
        low += (uint64_t)(value & 0xFFFFF) * lasting;
        high += (uint64_t)(value >> 20) * lasting;
        now = next;
    }
    found[0] = least;
    found[1] = most;
    found[2] = (int64_t)low;
    found[3] = (int64_t)high;
    return 1;
}

/* Find the life that holds each of some addresses at its event: `ends_first` has the rows of the
 * `n_lives` lives in order of their ends.
 *
 * Returns 1; NO_ROOM; or OUT_OF_RANGE, also if a life ends that never began.
 */
EXPORT int32_t snapreport_locate(const int64_t *address, const int64_t *size, const int64_t *start,
                                 const int64_t *end, const int64_t *ends_first, int64_t n_lives,
                                 const int64_t *events, const int64_t *wanted, int64_t n,
                                 int32_t *found)
{
    ordered there;
    int64_t begun = 0, ended = 0, i = 0;
    if (!is_count(n_lives) || !are_rows(ends_first, n_lives, n_lives))
        return OUT_OF_RANGE;
    const int room = make_room(&there, n_lives);
    if (room) {
        for (; i < n; i++) {
            for (;;) { /* changes up to this event; at one event, ends come first */
                int is_end = ended < n_lives && end[ends_first[ended]] <= events[i] &&
                             (begun == n_lives || end[ends_first[ended]] <= start[begun]);
                if (is_end) {
                    int64_t place =
                        place_of(&there, address[ends_first[ended++]], 0);
                    if (place >= there.n)
                        goto done;
                    take_out(&there, place, place + 1);
                } else if (begun < n_lives && start[begun] <= events[i]) {
                    int64_t place = place_of(&there, address[begun], 0);
                    insert(&there, place, address[begun], (int32_t)begun);
                    begun++;
                } else
                    break;
            }
            int64_t place = place_of(&there, wanted[i], 1) - 1;
            found[i] = NO_ID;
            int32_t row = place < 0 ? NO_ID : row_at(&there, place);
            if (row != NO_ID && wanted[i] < plus(address[row], size[row]))
                found[i] = row;
        }
    }
done:
    give_back(&there);
    return !room ? NO_ROOM : i == n ? 1 : OUT_OF_RANGE;
}

static int64_t waste(int64_t size, int64_t used) { return used > 0 ? minus(size, used) : 0; }

/* Add up what segments waste after each event; each held `before` bytes before it began.
 *
 * used, head, next: room for `n_lives`, `events` and `n` numbers.
 * sums: `events` + 2 zeros.
 *
 * Returns 1, or OUT_OF_RANGE, also for births out of order.
 */
EXPORT int32_t snapreport_fragmentation(const int64_t *alloc_event, const int64_t *free_event,
                                        const int64_t *block_size, const int32_t *born,
                                        const int32_t *freed, int64_t n, int64_t events,
                                        const int64_t *start, const int64_t *end,
                                        const int64_t *size, const int64_t *before,
                                        int64_t n_lives, int64_t *used, int32_t *head,
                                        int32_t *next, int64_t *sums)
{
    if (!is_count(n) || events < 0 || events > INT64_MAX - 2)
        return OUT_OF_RANGE;
    for (int64_t s = 0; s < n_lives; s++) {
        if (start[s] < START || start[s] > events || end[s] < START || end[s] > events)
            return OUT_OF_RANGE;
        used[s] = before[s];
        sums[start[s] + 1] = plus(sums[start[s] + 1], waste(size[s], before[s]));
    }
    for (int64_t event = 0; event < events; event++)
        head[event] = NO_ID;
    for (int64_t i = n - 1; i >= 0; i--) { /* so that each list is in the order of the rows */
        if (alloc_event[i] < START || alloc_event[i] > events || free_event[i] < START ||
            free_event[i] > events || (i && alloc_event[i] < alloc_event[i - 1]))
            return OUT_OF_RANGE;
        if (born[i] < NO_ID || born[i] >= n_lives || freed[i] < NO_ID || freed[i] >= n_lives)
            return OUT_OF_RANGE;
        if (free_event[i] > alloc_event[i] && free_event[i] < events && freed[i] != NO_ID) {
            next[i] = head[free_event[i]];
            head[free_event[i]] = (int32_t)i;
        }
    }
    int64_t i = 0;
    for (int64_t event = START; event < events; event++) {
        int64_t added = 0;
        for (; i < n && alloc_event[i] == event; i++) {
            if (free_event[i] <= event || born[i] == NO_ID)
                continue;
            int64_t *sum = used + born[i], was = waste(size[born[i]], *sum);
            *sum = plus(*sum, block_size[i]);
            added = plus(added, minus(waste(size[born[i]], *sum), was));
        }
        for (int32_t k = event < 0 ? NO_ID : head[event]; k != NO_ID; k = next[k]) {
            int64_t *sum = used + freed[k], was = waste(size[freed[k]], *sum);
            *sum = minus(*sum, block_size[k]);
            added = plus(added, minus(waste(size[freed[k]], *sum), was));
        }
        sums[event + 1] = plus(sums[event + 1], added);
    }
    if (i < n) /* born after the last event */
        return OUT_OF_RANGE;
    for (int64_t s = 0; s < n_lives; s++)
        sums[end[s] + 1] = minus(sums[end[s] + 1], waste(size[s], used[s]));
    running_sum(sums, events + 2);
    return 1;
}

/* A range of addresses, and the event at which it ends, looking backwards. */
typedef struct {
    int64_t low, high, end, stream, family, final, expandable;
} span;

enum { COLUMNS = 8, ALLOC = 1, FREE, MAP, UNMAP };

typedef struct {
    ordered fixed, mapped; /* their rows are those of `spans` */
    span *spans;
    int64_t n_spans, most_spans, families, misfits;
    int64_t *rows; /* COLUMNS numbers each */
    int64_t n_rows, most_rows;
    int full;
} replay;

static span *at(replay *all, const ordered *there, int64_t place)
{
    return all->spans + row_at(there, place);
}

static int32_t keep(replay *all, span one)
{
    if (all->n_spans == all->most_spans) {
        all->full = 1;
        return 0;
    }
    all->spans[all->n_spans] = one;
    return (int32_t)all->n_spans++;
}

/* Let what lies there begin at an event, and not exist before it. */
static void close_spans(replay *all, ordered *there, int64_t first, int64_t last, int64_t start)
{
    for (int64_t place = first; place < last; place++) {
        const span *old = at(all, there, place);
        if (old->end <= start)
            continue;
        if (all->n_rows == all->most_rows) {
            all->full = 1;
            return;
        }
        int64_t *row = all->rows + COLUMNS * all->n_rows++;
        row[0] = old->low;
        row[1] = old->high;
        row[2] = start;
        row[3] = old->end;
        row[4] = old->stream;
        row[5] = old->family;
        row[6] = old->final;
        row[7] = old->expandable;
    }
    take_out(there, first, last);
}

static void put(replay *all, ordered *there, int64_t place, span one)
{
    insert(there, place, one.low, keep(all, one));
}

static void overlapping(replay *all, const ordered *there, const span *one, int64_t *first,
                        int64_t *last)
{
    *first = place_of(there, one->low, 1);
    if (*first && at(all, there, *first - 1)->high > one->low)
        --*first;
    *last = place_of(there, one->high, 0);
    if (*last < *first)
        *last = *first;
}

/* Remove what lies where something else was until now, and return its place. */
static int64_t clear(replay *all, ordered *there, const span *gone)
{
    int64_t first, last;
    overlapping(all, there, gone, &first, &last);
    if (first < last) {
        all->misfits += last - first;
        close_spans(all, there, first, last, gone->end);
    }
    return first;
}

static void undo_alloc(replay *all, const span *made)
{
    ordered *there = &all->fixed;
    int64_t place = place_of(there, made->low, 0);
    if (place == there->n || key_at(there, place) != made->low) {
        all->misfits++;
        return;
    }
    all->misfits += at(all, there, place)->high != made->high;
    close_spans(all, there, place, place + 1, made->end);
}

static void undo_free(replay *all, span gone)
{
    gone.family = all->families++;
    clear(all, &all->mapped, &gone);
    put(all, &all->fixed, clear(all, &all->fixed, &gone), gone);
}

static void undo_map(replay *all, const span *made)
{
    ordered *there = &all->mapped;
    int64_t first, last, covered = 0, rest = all->n_spans;
    overlapping(all, there, made, &first, &last);
    for (int64_t place = first; place < last; place++) {
        span one = *at(all, there, place), part = one;
        covered = plus(covered, (one.high < made->high ? one.high : made->high) -
                                (one.low > made->low ? one.low : made->low));
        part.end = made->end;
        part.final = NO_ID;
        if (one.low < made->low) {
            part.high = made->low;
            keep(all, part);
        }
        if (one.high > made->high) {
            part.low = made->high;
            part.high = one.high;
            keep(all, part);
        }
    }
    all->misfits += covered != made->high - made->low;
    close_spans(all, there, first, last, made->end);
    for (; rest < all->n_spans && !all->full; rest++, first++)
        insert(there, first, all->spans[rest].low, (int32_t)rest);
}

static int joins(const span *one, const span *gone)
{
    return (one->high == gone->low || one->low == gone->high) && one->stream == gone->stream;
}

static void undo_unmap(replay *all, span gone)
{
    ordered *there = &all->mapped;
    int64_t first, last;
    gone.expandable = 1;
    clear(all, &all->fixed, &gone);
    overlapping(all, there, &gone, &first, &last);
    all->misfits += last - first;
    if (first && joins(at(all, there, first - 1), &gone))
        first--;
    if (last < there->n && joins(at(all, there, last), &gone))
        last++;
    for (int64_t place = first; place < last; place++) {
        const span *one = at(all, there, place);
        gone.low = one->low < gone.low ? one->low : gone.low;
        gone.high = one->high > gone.high ? one->high : gone.high;
        gone.family = gone.family == NO_ID ? one->family : gone.family;
    }
    if (gone.family == NO_ID)
        gone.family = all->families++;
    close_spans(all, there, first, last, gone.end);
    put(all, there, first, gone);
}

/* Undo the events of segments, the last first.
 *
 * final: COLUMNS numbers for each of the `n_final` segments at the end, in address order, in the
 *   columns of `rows`, the event of the start ignored.
 * kind, event, low, size, stream: of the `n` events, the last first; kind is ALLOC to UNMAP.
 * rows: room for `most_rows` lives: address, end of it, start, end, stream, family, final segment,
 *   expandable.
 * counts: families, the first new one at first; and misfits.
 *
 * Sizes are not negative, and no address with its size passes 63 bits.
 * Returns how many lives there are, NO_ROOM for them, or OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_segments(const int64_t *final, int64_t n_final, const int8_t *kind,
                                   const int64_t *event, const int64_t *low, const int64_t *size,
                                   const int64_t *stream, int64_t n, int64_t *rows,
                                   int64_t most_rows, int64_t *counts)
{
    if (!is_count(n_final) || !is_count(n) || !is_count(counts[0]))
        return OUT_OF_RANGE;
    for (const int64_t *row = final; row != final + COLUMNS * n_final; row += COLUMNS)
        if (row[0] < 0 || row[1] < row[0])
            return OUT_OF_RANGE;
    for (int64_t i = 0; i < n; i++)
        if (low[i] < 0 || size[i] < 0 || size[i] > INT64_MAX - low[i])
            return OUT_OF_RANGE;
    replay all = {.rows = rows, .most_rows = most_rows, .most_spans = n_final + 2 * n,
                  .families = counts[0]};
    if (!is_count(all.most_spans))
        return NO_ROOM;
    all.spans = malloc((size_t)(all.most_spans + 1) * sizeof(span));
    int room = make_room(&all.fixed, all.most_spans + 1);
    room = make_room(&all.mapped, all.most_spans + 1) && room && all.spans;
    for (int64_t i = 0; room && i < n_final; i++) {
        const int64_t *row = final + COLUMNS * i;
        ordered *there = row[7] ? &all.mapped : &all.fixed;
        put(&all, there, there->n,
            (span){row[0], row[1], row[3], row[4], row[5], row[6], row[7]});
    }
    for (int64_t i = 0; room && i < n && !all.full; i++) {
        span one = {low[i], low[i] + size[i], event[i], stream[i], NO_ID, NO_ID, 0};
        if (kind[i] == ALLOC)
            undo_alloc(&all, &one);
        else if (kind[i] == FREE)
            undo_free(&all, one);
        else if (kind[i] == MAP)
            undo_map(&all, &one);
        else if (kind[i] == UNMAP)
            undo_unmap(&all, one);
    }
    if (room && !all.full) {
        close_spans(&all, &all.fixed, 0, all.fixed.n, START);
        close_spans(&all, &all.mapped, 0, all.mapped.n, START);
    }
    give_back(&all.fixed);
    give_back(&all.mapped);
    free(all.spans);
    counts[0] = all.families;
    counts[1] = all.misfits;
    return room && !all.full ? all.n_rows : NO_ROOM;
}

/* Return where the segment around an address ends, 0 if there is none. */
static int64_t end_around(const ordered *segments, const int64_t *ends, int64_t address)
{
    int64_t place = place_of(segments, address, 1) - 1;
    if (place < 0 || address >= ends[row_at(segments, place)])
        return 0;
    return ends[row_at(segments, place)];
}

/* Which places are taken: a bit for each, and above each 64 bits one that says whether any is set.
 * So the next one is found in one step per level, wherever it is. */
enum { LEVELS = 6, WORD = 64 };

typedef struct {
    uint64_t *words[LEVELS];
    int levels;
} bits;

static int make_bits(bits *all, int64_t n)
{
    all->levels = 0;
    do {
        n = n / WORD + 1;
        uint64_t *words = calloc((size_t)n, sizeof(uint64_t));
        if (!words)
            return 0;
        all->words[all->levels++] = words;
    } while (n > 1 && all->levels < LEVELS);
    return n == 1;
}

static void give_bits_back(bits *all)
{
    while (all->levels)
        free(all->words[--all->levels]);
}

static void take_place(bits *all, int64_t place)
{
    for (int level = 0; level < all->levels; level++, place /= WORD)
        all->words[level][place / WORD] |= UINT64_C(1) << place % WORD;
}

static void leave_place(bits *all, int64_t place)
{
    for (int level = 0; level < all->levels; level++, place /= WORD) {
        uint64_t *word = all->words[level] + place / WORD;
        *word &= ~(UINT64_C(1) << place % WORD);
        if (*word)
            return;
    }
}

/* Return the first taken place above one, or the last below it; NO_ID if there is none. */
static int64_t taken_next_to(const bits *all, int64_t place, int above)
{
    for (int level = 0; level < all->levels; level++, place /= WORD) {
        uint64_t word = all->words[level][place / WORD], low = UINT64_C(1) << place % WORD;
        word &= above ? ~(low | (low - 1)) : low - 1;
        if (!word)
            continue;
        for (;; level--) {
            int bit = above ? __builtin_ctzll(word) : WORD - 1 - __builtin_clzll(word);
            place = place / WORD * WORD + bit;
            if (!level)
                return place;
            word = all->words[level - 1][place];
            place *= WORD;
        }
    }
    return NO_ID;
}

/* Return the distance from a place to the next taken one above, or to the segment's end; 0 if the
 * place is in no segment. */
static int64_t room_above(const bits *active, const ordered *segments, const int64_t *ends,
                          const int64_t *at, int64_t place)
{
    int64_t end = end_around(segments, ends, at[place]);
    int64_t above = end ? taken_next_to(active, place, 1) : NO_ID;
    if (above != NO_ID && at[above] < end)
        end = at[above];
    return end ? minus(end, at[place]) : 0;
}

/* Find the hole that each block was placed in, by going through births and deaths.
 *
 * at: `n_places` distinct addresses, ascending; place: at which of them each block begins.
 * by_death: the rows of the `n` blocks in order of their deaths; `by_birth` of their births.
 * start, gone: the events at which the `n_segments` segments begin and end; orders as above.
 * ends: where the segments end in memory.
 * count, ranged: room for `n_places` numbers each.
 * hole, bound: `n` zeros each.
 *
 * Any number of blocks or segments may begin at one address. Of segments, the latest counts; when
 * a block or segment goes, one of those that begin at its address goes.
 *
 * Returns 1, NO_ROOM, or OUT_OF_RANGE.
 */
EXPORT int32_t snapreport_holes(const int64_t *at, int64_t n_places, const int64_t *place,
                                const int64_t *born, const int64_t *died, const int64_t *by_birth,
                                const int64_t *by_death, int64_t n, const int64_t *address,
                                const int64_t *ends, const int64_t *start, const int64_t *gone,
                                const int64_t *by_start, const int64_t *by_end,
                                int64_t n_segments, int32_t *count, int32_t *ranged, int64_t *hole,
                                int64_t *bound)
{
    bits active = {.levels = 0};
    ordered segments;
    int64_t next_birth = 0, next_death = 0, next_start = 0, next_end = 0;
    if (!is_count(n_places) || !is_count(n) || !is_count(n_segments))
        return OUT_OF_RANGE;
    if (!are_rows(place, n, n_places) || !are_rows(by_birth, n, n) || !are_rows(by_death, n, n))
        return OUT_OF_RANGE;
    if (!are_rows(by_start, n_segments, n_segments) || !are_rows(by_end, n_segments, n_segments))
        return OUT_OF_RANGE;
    int room = make_room(&segments, n_segments);
    room = make_bits(&active, n_places) && room;
    for (int64_t i = 0; room && i < n_places; i++) {
        count[i] = 0;
        ranged[i] = NO_ID; /* the block there from before the recording */
    }
    for (int64_t i = 0; room && i < n_segments; i++)
        if (start[i] < 0) {
            insert(&segments, place_of(&segments, address[i], 1), address[i], (int32_t)i);
            next_start++;
        }
    for (int64_t i = 0; room && i < n; i++)
        if (born[i] < 0) {
            count[place[i]]++;
            take_place(&active, place[i]);
            ranged[place[i]] = (int32_t)i;
            next_birth++;
        }
    for (int64_t k = 0; k < next_birth; k++) {
        int64_t i = by_birth[k];
        bound[i] = room_above(&active, &segments, ends, at, place[i]);
    }
    while (room && (next_birth < n || next_death < n || next_start < n_segments ||
                    next_end < n_segments)) {
        /* At one event: a segment goes, a block goes, a segment comes, a block comes. */
        int64_t event = INT64_MAX;
        int what = -1;
        if (next_end < n_segments)
            event = gone[by_end[next_end]], what = 0;
        if (next_death < n && (what < 0 || died[by_death[next_death]] < event))
            event = died[by_death[next_death]], what = 1;
        if (next_start < n_segments && (what < 0 || start[by_start[next_start]] < event))
            event = start[by_start[next_start]], what = 2;
        if (next_birth < n && (what < 0 || born[by_birth[next_birth]] < event))
            what = 3;
        if (what == 0) {
            int64_t one = address[by_end[next_end++]], where = place_of(&segments, one, 0);
            if (where < segments.n && key_at(&segments, where) == one)
                take_out(&segments, where, where + 1); /* the first, and the latest stays */
        } else if (what == 1) {
            int64_t i = by_death[next_death++];
            if (count[place[i]] && --count[place[i]] == 0)
                leave_place(&active, place[i]);
            if (ranged[place[i]] == i)
                ranged[place[i]] = NO_ID;
        } else if (what == 2) {
            int64_t i = by_start[next_start++];
            insert(&segments, place_of(&segments, address[i], 1), address[i], (int32_t)i);
        } else {
            int64_t i = by_birth[next_birth++];
            hole[i] = room_above(&active, &segments, ends, at, place[i]);
            int64_t below = taken_next_to(&active, place[i], 0);
            int64_t limited = below == NO_ID ? NO_ID : ranged[below];
            if (limited != NO_ID && minus(at[place[i]], at[below]) < bound[limited])
                bound[limited] = minus(at[place[i]], at[below]);
            count[place[i]]++;
            take_place(&active, place[i]);
        }
    }
    give_bits_back(&active);
    give_back(&segments);
    return room ? 1 : NO_ROOM;
}

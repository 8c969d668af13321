/* Lay out strips and write the rows of allocations.json.
 *
 * Rows are laid in birth order, and each lies on those before it. So only two tables are kept: the
 * bytes live at each sampled event, and the bytes freed at each event, as a Fenwick tree. A row's
 * text is written once its path is known, and the path is then dropped.
 *
 * snapreport_strips_begin() refuses wrong input; after that no event or row is beyond its table.
 * Bytes are added up modulo 2^64, as in NumPy. The caller owns every table, and lets nobody else
 * write to them.
 */

#include "native.h"

/* Characters of two numbers of 64 bits with a comma each, and of a row without its points. */
enum { POINT_TEXT = 2 * 21, ROW_TEXT = 64 + 3 * 20, LEAST_POINTS = 2 };
/* Marks of the same. A text's marks have 28 bits for places. */
enum { POINT_MARKS = 3, ROW_MARKS = 6, PLACE_BITS = 28 };
enum { SIZE, EVENTS, EVENT, OFFSETS, OFFSET, COMMA, COLOR, END_OF_ROW }; /* kinds of marks */

/* As in library.py. */
typedef struct {
    const int64_t *alloc_event, *free_event, *size; /* of each row */
    const uint8_t *drawn;     /* of each row, whether it is drawn; NULL if all are */
    const int64_t *samples;   /* where to sample */
    uint64_t *live;           /* room for a number each: live at that event, of the rows so far */
    uint64_t *freed;          /* zeros, one for each event and one more */
    int64_t *point_events;     /* room for the path of a row: room_points of these */
    uint64_t *point_offsets;
    char *text;
    uint32_t *marks; /* where each field begins in the text, as deflate.c takes them */
    uint64_t n_rows, n_samples, room_points, room_text, room_marks;
    uint64_t most_points; /* of rows that are written at once, if it is not one row */
    int64_t events, end, first_id;
    /* The position; zeros at first. */
    uint64_t row, first_sample, n_points, total, moving, n_marks;
} strips;

/* Say whether the input is valid; if not, snapreport_strips_go_on() must not be called. */
EXPORT int32_t snapreport_strips_begin(const strips *s)
{
    if (s->row != 0 || s->first_sample != 0 || s->n_points != 0)
        return 0;
    if (s->events < 0 || s->end != (s->events > 0 ? s->events : 1) || s->n_samples == 0)
        return 0;
    if (s->first_id < 0 || s->n_rows > (uint64_t)(INT64_MAX - s->first_id))
        return 0;
    int64_t last = -1;
    for (uint64_t k = 0; k < s->n_samples; k++) {
        if (s->samples[k] <= last)
            return 0;
        last = s->samples[k];
    }
    if (last != s->end - 1)
        return 0;
    last = -1;
    for (uint64_t i = 0; i < s->n_rows; i++) {
        if (s->alloc_event[i] < last || s->alloc_event[i] >= s->events)
            return 0;
        if (s->free_event[i] <= s->alloc_event[i])
            return 0;
        last = s->alloc_event[i];
    }
    /* A birth, a death, and two points at a sample where it sinks. */
    if (s->n_samples > (UINT64_MAX - LEAST_POINTS) / 2)
        return 0;
    if (s->room_points < LEAST_POINTS + 2 * s->n_samples)
        return 0;
    const uint64_t room = s->room_text / (POINT_TEXT + ROW_TEXT / LEAST_POINTS);
    if (s->room_text >> PLACE_BITS)
        return 0;
    if (s->room_marks / (POINT_MARKS + ROW_MARKS / LEAST_POINTS) < room)
        return 0;
    return room >= s->room_points && room >= s->most_points;
}

/* Note that bytes are freed at an event below the end. */
static void add_freed(const strips *s, int64_t event, uint64_t bytes)
{
    for (uint64_t i = (uint64_t)event + 1; i <= (uint64_t)s->end; i += i & (0 - i))
        s->freed[i] += bytes;
}

/* Return how much of the rows so far is freed up to an event, from -1 to below the end. */
static uint64_t freed_until(const strips *s, int64_t event)
{
    uint64_t bytes = 0;
    for (uint64_t i = (uint64_t)(event + 1); i > 0; i &= i - 1)
        bytes += s->freed[i];
    return bytes;
}

static void add_point(strips *s, int64_t event, uint64_t offset)
{
    s->point_events[s->n_points] = event;
    s->point_offsets[s->n_points++] = offset;
}

/* Find the path of the next row. */
static void lay(strips *s)
{
    const int64_t born = s->alloc_event[s->row], begin = born > 0 ? born : 0;
    const uint64_t size = (uint64_t)s->size[s->row];
    int64_t freed = s->free_event[s->row];
    if (s->drawn && !s->drawn[s->row]) {
        add_point(s, begin, 0);
        add_point(s, freed < s->end ? freed : s->end, 0);
        return;
    }
    if (freed >= s->events)
        freed = s->end;
    while (s->samples[s->first_sample] < born) /* the last one is not */
        s->first_sample++;
    uint64_t k = s->first_sample;
    if (!s->moving) {
        if (freed == s->end) {
            /* Below all that is ever freed, it never moves. Its size counts from here on. */
            add_point(s, begin, s->total);
            add_point(s, freed, s->total);
            s->live[k] += size;
            s->total += size;
            return;
        }
        s->moving = 1;
        for (uint64_t i = 1; i < s->n_samples; i++)
            s->live[i] += s->live[i - 1];
    }
    uint64_t offset = s->total - freed_until(s, born);
    int turned = 0; /* whether the latest point is at the latest sample */
    add_point(s, begin, offset);
    for (; k < s->n_samples && s->samples[k] < freed; k++) {
        const uint64_t below = s->live[k];
        s->live[k] += size;
        if (below == offset) {
            turned = 0;
            continue;
        }
        if (!turned && k > 0 && begin < s->samples[k - 1])
            add_point(s, s->samples[k - 1], offset); /* up to here it lay as before */
        add_point(s, s->samples[k], below);
        offset = below;
        turned = 1;
    }
    const uint64_t at_last = s->total - freed_until(s, freed - 1);
    if (!turned && k > 0 && begin < s->samples[k - 1] && offset != at_last)
        add_point(s, s->samples[k - 1], offset);
    add_point(s, freed, at_last);
    if (freed < s->end)
        add_freed(s, freed, size);
    s->total += size;
}

static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

enum { MOST_DIGITS = 20 };

static const uint64_t POWERS[MOST_DIGITS] = {
    UINT64_C(1),
    UINT64_C(10),
    UINT64_C(100),
    UINT64_C(1000),
    UINT64_C(10000),
    UINT64_C(100000),
    UINT64_C(1000000),
    UINT64_C(10000000),
    UINT64_C(100000000),
    UINT64_C(1000000000),
    UINT64_C(10000000000),
    UINT64_C(100000000000),
    UINT64_C(1000000000000),
    UINT64_C(10000000000000),
    UINT64_C(100000000000000),
    UINT64_C(1000000000000000),
    UINT64_C(10000000000000000),
    UINT64_C(100000000000000000),
    UINT64_C(1000000000000000000),
    UINT64_C(10000000000000000000),
};

static char *put_number(char *out, int64_t number)
{
    uint64_t rest = (uint64_t)number;
    if (number < 0) {
        *out++ = '-';
        rest = 0 - rest;
    }
    unsigned digits = 1;
    while (digits < MOST_DIGITS && rest >= POWERS[digits])
        digits++;
    char *at = out + digits;
    for (; rest > UINT32_MAX; rest /= 100)
        memcpy(at -= 2, PAIRS + 2 * (rest % 100), 2);
    uint32_t low = (uint32_t)rest; /* which is faster to divide */
    for (; low >= 100; low /= 100)
        memcpy(at -= 2, PAIRS + 2 * (low % 100), 2);
    if (low >= 10)
        memcpy(at - 2, PAIRS + 2 * low, 2);
    else
        at[-1] = (char)('0' + low);
    return out + digits;
}

static char *put_text(char *out, const char *text, size_t length)
{
    memcpy(out, text, length);
    return out + length;
}

#define PUT(out, text) put_text(out, text, sizeof(text) - 1)

static void mark(strips *s, const char *out, uint32_t kind)
{
    s->marks[s->n_marks++] = kind << PLACE_BITS | (uint32_t)(out - s->text);
}

/* Write the row whose path is known: at most ROW_TEXT, and POINT_TEXT for each point. */
static char *write_row(strips *s, char *out)
{
    const int64_t id = s->first_id + (int64_t)s->row;
    *out++ = s->row ? ',' : '[';
    out = PUT(out, "{\"elem\":");
    out = put_number(out, id);
    mark(s, out, SIZE);
    out = PUT(out, ",\"size\":");
    out = put_number(out, s->drawn && !s->drawn[s->row] ? 0 : s->size[s->row]);
    mark(s, out, EVENTS);
    out = PUT(out, ",\"timesteps\":[");
    for (uint64_t i = 0; i < s->n_points; i++) {
        if (i > 0) {
            mark(s, out, EVENT);
            *out++ = ',';
        }
        out = put_number(out, s->point_events[i]);
    }
    mark(s, out, OFFSETS);
    out = PUT(out, "],\"offsets\":[");
    for (uint64_t i = 0; i < s->n_points; i++) {
        if (i > 0) {
            mark(s, out, COMMA);
            *out++ = ',';
        }
        mark(s, out, OFFSET);
        out = put_number(out, (int64_t)s->point_offsets[i]);
    }
    mark(s, out, COLOR);
    out = PUT(out, "],\"color\":");
    out = put_number(out, id);
    mark(s, out, END_OF_ROW);
    *out++ = '}';
    return out;
}

/* Write the next rows of the array, which the caller ends: up to `until`, and with at most most_points together, but at least one row.
 *
 * Returns the length of the text, which is 0 only if no rows are left before that one.
 */
EXPORT uint64_t snapreport_strips_go_on(strips *s, uint64_t until)
{
    char *out = s->text;
    uint64_t points = 0;
    s->n_marks = 0;
    for (; s->row < until && s->row < s->n_rows; s->row++) {
        if (s->n_points == 0)
            lay(s);
        points += s->n_points;
        if (points > s->most_points && points > s->n_points) /* it comes first the next time */
            break;
        out = write_row(s, out);
        s->n_points = 0;
    }
    return (uint64_t)(out - s->text);
}

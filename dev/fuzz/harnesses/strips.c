/* Lay out strips, write their rows, and deflate these. */

#include "ground/native/strips.c"

#include "harness.h"

EXPORT int64_t snapreport_deflate(const uint8_t *data, uint64_t size, const uint32_t *marks,
                                  uint64_t n_marks, uint64_t least, uint32_t *tokens, uint8_t *out,
                                  uint64_t room);

enum { START = -1, WORK = 1 << 16 };

typedef struct { uint64_t length, hash; } written;

/* Deflate a part whose marks are right, and any of it with those. */
static void deflate(const strips *s, uint64_t length)
{
    const uint64_t room_out = 2 * length + 2048, least = 3 + length % 4;
    uint8_t *text = copy_of((const uint8_t *)s->text, length), *out = room(room_out, 1, 0);
    uint32_t *tokens = room(length, sizeof *tokens, 0), *marks = room(s->n_marks, sizeof *marks, 0);
    memcpy(marks, s->marks, s->n_marks * sizeof *marks);
    const int64_t made =
        snapreport_deflate(text, length, marks, s->n_marks, least, tokens, out, room_out);
    HOLDS(made > 0 && (uint64_t)made <= room_out);
    HOLDS(memcmp(out + made - 4, "\0\0\xff\xff", 4) == 0);
    HOLDS(snapreport_deflate(text, length, marks, s->n_marks, least, tokens, out, 1) == NO_ROOM);
    for (uint64_t cut = length / 3; cut < length; cut += length / 3 + 1) {
        const int64_t less = snapreport_deflate(text, cut, marks, s->n_marks, least, tokens, out, room_out);
        HOLDS(less == OUT_OF_RANGE || less > 0);
    }
    free(text);
    free(out);
    free(tokens);
    free(marks);
}

/* Write all rows: so many points at once, and so many rows. */
static written write_all(strips s, uint64_t most_points, uint64_t step, int fill)
{
    written all = {0, 0};
    s.most_points = most_points;
    s.room_text = (s.room_points > most_points ? s.room_points : most_points)
        * (POINT_TEXT + ROW_TEXT / LEAST_POINTS);
    s.room_marks = s.room_text / (POINT_TEXT + ROW_TEXT / LEAST_POINTS)
        * (POINT_MARKS + ROW_MARKS / LEAST_POINTS);
    s.live = room(s.n_samples, 8, 0);
    s.freed = room(s.end > 0 ? (size_t)s.end + 1 : 0, 8, 0);
    s.point_events = room(s.room_points, 8, fill);
    s.point_offsets = room(s.room_points, 8, fill);
    s.text = room(s.room_text, 1, fill);
    s.marks = room(s.room_marks, sizeof *s.marks, fill);
    const int begun = snapreport_strips_begin(&s);
    for (uint64_t until = step; begun && s.row < s.n_rows; until += step) {
        uint64_t length;
        while ((length = snapreport_strips_go_on(&s, until)) != 0) {
            HOLDS(length <= s.room_text && s.row <= until);
            HOLDS(s.n_marks <= s.room_marks);
            for (uint64_t i = 0; i < length; i++)
                all.hash = all.hash * UINT64_C(0x100000001B3) + (uint8_t)s.text[i];
            all.length += length;
            deflate(&s, length);
        }
        HOLDS(s.row == (until < s.n_rows ? until : s.n_rows));
    }
    free(s.live);
    free(s.freed);
    free(s.point_events);
    free(s.point_offsets);
    free(s.text);
    free(s.marks);
    return all;
}

/* What is in order is refused with room for one number less, and without its last sample. */
static void check_bounds(strips s)
{
    const uint64_t wide = POINT_TEXT + ROW_TEXT / LEAST_POINTS;
    s.most_points = 1;
    s.room_points = LEAST_POINTS + 2 * s.n_samples;
    s.room_text = s.room_points * wide;
    s.room_marks = s.room_points * (POINT_MARKS + ROW_MARKS / LEAST_POINTS);
    if (!snapreport_strips_begin(&s))
        return;
    strips less = s;
    less.room_points--;
    HOLDS(!snapreport_strips_begin(&less));
    less = s;
    less.room_text--;
    HOLDS(!snapreport_strips_begin(&less));
    less = s;
    less.room_marks--;
    HOLDS(!snapreport_strips_begin(&less));
    less = s;
    less.most_points = s.room_points + 1;
    HOLDS(!snapreport_strips_begin(&less));
    less = s;
    less.n_samples--;
    HOLDS(!snapreport_strips_begin(&less));
    int64_t *samples = room(s.n_samples, sizeof *samples, 0);
    memcpy(samples, s.samples, s.n_samples * sizeof *samples);
    less = s;
    less.samples = samples;
    for (int by = -1; by <= 1; by += 2) {
        samples[s.n_samples - 1] = s.end - 1 + by;
        HOLDS(!snapreport_strips_begin(&less));
    }
    free(samples);
}

/* Put rows and samples in order, as the caller does; one number stands for a birth too early. */
static void put_in_order(strips *s, int64_t *alloc_event, int64_t *free_event, int64_t *samples,
                         unsigned without_last)
{
    int64_t last = START;
    for (uint64_t i = 0; i < s->n_rows; i++) {
        last -= alloc_event[i] == INT8_MIN;
        last += alloc_event[i] > 0 && alloc_event[i] < s->events - last ? alloc_event[i] : 0;
        alloc_event[i] = last;
        const int64_t lasting = free_event[i] > 0 && free_event[i] < s->end ? free_event[i] : 1;
        free_event[i] = last + lasting;
    }
    last = -1;
    uint64_t kept = 0;
    for (uint64_t k = 0; k < s->n_samples; k++)
        if (samples[k] > 0 && samples[k] < s->end - 1 - last)
            samples[kept++] = last += samples[k];
    if (last < s->end - 1 && s->n_samples && !without_last) {
        kept -= kept == s->n_samples;
        samples[kept++] = s->end - 1;
    }
    for (uint64_t k = kept; k < s->n_samples; k++)
        samples[k] = 0;
    s->n_samples = kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    const unsigned form = (unsigned)next_number(&in, 1), odd = (unsigned)next_number(&in, 1);
    const uint64_t most_points = next_number(&in, 1), step = next_number(&in, 1) + 1;
    strips s = {.first_id = (int64_t)next_number(&in, form & 4 ? 8 : 1)};
    s.events = (int16_t)next_number(&in, 2);
    s.end = odd & 1 ? (int16_t)next_number(&in, 2) : s.events > 0 ? s.events : 1;
    s.n_rows = (uint64_t)next_length(&in);
    s.n_samples = (uint64_t)next_length(&in) % (WORK / (s.n_rows + 1) + 8);
    s.room_points = odd & 2 ? (uint64_t)next_length(&in) : LEAST_POINTS + 2 * s.n_samples;
    const int64_t n = (int64_t)s.n_rows;
    int64_t *alloc_event = next_column(&in, n, form), *free_event = next_column(&in, n, form);
    int64_t *sizes = next_column(&in, n, form >> 3);
    int64_t *samples = next_column(&in, (int64_t)s.n_samples, form);
    uint8_t *drawn = copy_of(in.at, n <= (int64_t)in.left ? (size_t)n : 0);
    if (!(odd & 4) && s.events >= 0)
        put_in_order(&s, alloc_event, free_event, samples, odd & 8);
    s.alloc_event = alloc_event;
    s.free_event = free_event;
    s.size = sizes;
    s.samples = samples;
    s.drawn = n <= (int64_t)in.left ? drawn : NULL;
    check_bounds(s);
    written one = write_all(s, most_points, step, 0);
    written other = write_all(s, s.room_points, s.n_rows + 1, 0xFF);
    HOLDS(one.length == other.length && one.hash == other.hash);
    free(alloc_event);
    free(free_event);
    free(sizes);
    free(samples);
    free(drawn);
    return 0;
}

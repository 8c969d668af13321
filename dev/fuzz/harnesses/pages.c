/* Read the rows of a table from the pages of an SQLite file, and write them. */

#include "ground/native/pages.c"

#include "harness.h"

typedef struct {
    uint8_t *file;
    int64_t *leaves;
    uint64_t size, page_size, n_leaves, width, n, text;
} table;

typedef struct {
    int64_t *ids, *values;
    uint8_t *missing;
    uint64_t *texts, n_texts;
    int32_t done;
} rows;

static rows read_with(const table *t, int fill)
{
    rows r = {room(t->n, 8, fill), room(t->n * t->width, 8, fill), room(t->n * t->width, 1, fill),
              room(MOST_TEXTS, 8, fill), (uint64_t)fill, 0};
    r.done = snapreport_rows(t->file, t->size, t->page_size, t->leaves, t->n_leaves, t->width,
                             r.ids, r.values, r.missing, t->n, t->text, r.texts, &r.n_texts);
    return r;
}

static void check(const table *t, const rows *r)
{
    for (uint64_t i = 1; i < t->n; i++)
        HOLDS(r->ids[i - 1] < r->ids[i]);
    for (uint64_t i = 0; i < t->n * t->width; i++)
        HOLDS(r->missing[i] <= 1 && (r->missing[i] == 0 || r->values[i] == 0));
    HOLDS(r->n_texts <= MOST_TEXTS);
    for (uint64_t i = 0; i < r->n_texts; i++) {
        const uint64_t start = r->texts[i] >> LENGTH_BITS;
        HOLDS(start <= t->size && (r->texts[i] & 63) <= t->size - start);
    }
    for (uint64_t i = 0; t->text < t->width && i < t->n; i++)
        HOLDS((uint64_t)r->values[t->text * t->n + i] < r->n_texts);
}

static void give_back(rows *r)
{
    free(r->ids);
    free(r->values);
    free(r->missing);
    free(r->texts);
}

/* Write the rows that were read, with ids that count from the first one, and read them again. */
static void write_again(const table *t, const rows *r)
{
    enum { PAGE = 512, PAGES = 3 };
    const int64_t *columns[MOST_WRITTEN], null = INT64_MIN;
    int64_t *values = room(t->n * t->width, sizeof *values, 0);
    for (uint64_t i = 0; i < t->n * t->width; i++)
        values[i] = r->missing[i] ? null : r->values[i];
    for (uint64_t c = 0; c < t->width; c++)
        columns[c] = values + c * t->n;
    uint8_t *texts = room(MOST_TEXTS * MOST_TEXT, 1, 0); /* other ones: each is its own place */
    for (uint64_t i = 0; i < MOST_TEXTS; i++)
        memset(texts + i * MOST_TEXT, (int)i + 1, i % (MOST_TEXT + 1));
    const uint64_t first = (uint64_t)r->ids[0] & 0xFFFFFFFF, has_id = first & 1;
    written w = {columns, texts, t->width, t->n, MOST_TEXTS, null, UINT64_MAX, first, t->text, has_id, 0};
    uint64_t n_marks, read = 0;
    uint8_t *out = room(PAGE * PAGES, 1, 0xFF);
    int64_t last_ids[PAGES];
    const uint64_t room_marks = PAGES * (PAGE / (4 + t->width) * (t->width + 2) + 2);
    uint32_t *marks = room(room_marks, sizeof *marks, 0);
    while (w.row < t->n) {
        const int64_t pages =
            snapreport_leaves(&w, out, PAGE, PAGES, last_ids, marks, room_marks, &n_marks);
        HOLDS(pages > 0 && (pages == PAGES || w.row == t->n) && n_marks <= room_marks);
        for (uint64_t i = 0; i < n_marks; i++)
            HOLDS((i == 0 || (marks[i] & 0xFFFFFFF) > (marks[i - 1] & 0xFFFFFFF))
                  && (marks[i] & 0xFFFFFFF) < (uint64_t)pages * PAGE);
        HOLDS(last_ids[pages - 1] == (int64_t)(first + w.row - 1));
        int64_t leaves[PAGES] = {0, PAGE, 2 * PAGE};
        /* A column of the id comes first, and is NULL. */
        table back = {out, leaves, (uint64_t)pages * PAGE, PAGE, (uint64_t)pages, t->width + has_id,
                      w.row - read, t->text + has_id};
        rows again = read_with(&back, 0);
        HOLDS(again.done && again.ids[0] == (int64_t)(first + read));
        for (uint64_t c = 0; c < t->width; c++)
            for (uint64_t i = 0; i < back.n; i++) {
                const uint64_t here = (c + has_id) * back.n + i;
                const int64_t value = again.missing[here] ? null : again.values[here];
                if (c != t->text) {
                    HOLDS(value == columns[c][read + i]);
                    continue;
                }
                const uint8_t *text = out + (again.texts[value] >> LENGTH_BITS);
                const uint64_t length = again.texts[value] & 63, own = (uint64_t)columns[c][read + i];
                HOLDS(length == own % (MOST_TEXT + 1) && equal(text, texts + own * MOST_TEXT, length));
            }
        read = w.row;
        give_back(&again);
    }
    free(values);
    free(texts);
    free(out);
    free(marks);
}

/* Eight bytes say what is asked for, then come the numbers of the leaves, then the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    table t = {.n = 0};
    t.width = next_number(&in, 1);
    t.text = next_number(&in, 1);
    t.page_size = next_number(&in, 2);
    const int anywhere = next_number(&in, 1) & 1; /* leaves begin at any byte, not at pages */
    const int64_t more = (int8_t)next_number(&in, 1); /* rows than there are, or fewer */
    t.n_leaves = next_number(&in, 2) % (in.left / 2 + 1);
    t.leaves = next_column(&in, (int64_t)t.n_leaves, 2);
    t.size = in.left;
    t.file = copy_of(in.at, in.left);
    for (uint64_t i = 0; i < t.n_leaves; i++) {
        if (!anywhere)
            t.leaves[i] *= (int64_t)t.page_size;
        const uint64_t place = (uint64_t)t.leaves[i];
        if (place < t.size && t.size - place > 4)
            t.n += (uint64_t)t.file[place + 3] << 8 | t.file[place + 4];
    }
    t.n = more < 0 && t.n < (uint64_t)-more ? 0 : t.n + (uint64_t)more;
    if (t.n * (LEAST_ROW + t.width) <= t.size + 128 * 256) { /* nearly as in bundle/database_reader.py */
        rows one = read_with(&t, 0), other = read_with(&t, 0xFF);
        HOLDS(one.done == other.done);
        if (one.done) { /* so each number was written */
            check(&t, &one);
            HOLDS(equal(one.ids, other.ids, t.n * 8) && one.n_texts == other.n_texts);
            HOLDS(equal(one.values, other.values, t.n * t.width * 8));
            HOLDS(equal(one.missing, other.missing, t.n * t.width));
            if (t.n && t.width && t.width <= MOST_WRITTEN)
                write_again(&t, &one);
        }
        give_back(&one);
        give_back(&other);
    }
    free(t.leaves);
    free(t.file);
    return 0;
}

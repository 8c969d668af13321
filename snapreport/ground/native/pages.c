/* Read and write the rows of an SQLite table of integers. What is read may have one column of short
 * texts of which few are distinct.
 *
 * Every place is checked against the length of the file before it is read. At the first thing that
 * is not as expected it gives up; the caller then asks SQLite.
 */

#include "native.h"

/* A row has at least its place in the list, its length, its id and its header's length. */
enum { LEAF_HEADER = 8, LEAST_ROW = 5, MOST_COLUMNS = 126, VARINT = 8, FLOAT = 7, ONE = 9 };

/* A text's type is an odd number from FIRST_TEXT on, one byte here, and gives the length. */
enum { FIRST_TEXT = 13, MOST_TEXTS = 64, LENGTH_BITS = 6 };

/* Bytes of a number, by its type; 0 is NULL, 7 a float, and 8 and 9 are the numbers 0 and 1. */
static const uint8_t WIDTHS[10] = {0, 1, 2, 3, 4, 6, 8, 0, 0, 0};

/* Read a number of up to eight bytes of seven bits; return where it ends, 0 if it does not. */
static uint64_t varint(const uint8_t *data, uint64_t size, uint64_t place, int64_t *value)
{
    uint64_t number = 0;
    for (int i = 0; i < VARINT; i++) {
        if (place >= size)
            return 0;
        uint8_t byte = data[place++];
        number = number << 7 | (byte & 0x7F);
        if (byte < 0x80) {
            *value = (int64_t)number;
            return place;
        }
    }
    return 0;
}

/* Return the number of a text among those found so far, MOST_TEXTS if there is no room for it. */
static uint64_t number_of(const uint8_t *data, uint64_t place, uint64_t length, uint64_t *texts,
                          uint64_t *n_texts)
{
    const uint64_t mask = (1 << LENGTH_BITS) - 1;
    for (uint64_t i = 0; i < *n_texts; i++) {
        const uint8_t *known = data + (texts[i] >> LENGTH_BITS);
        if ((texts[i] & mask) == length && memcmp(known, data + place, length) == 0)
            return i;
    }
    if (*n_texts == MOST_TEXTS)
        return MOST_TEXTS;
    texts[*n_texts] = place << LENGTH_BITS | length;
    return (*n_texts)++;
}

/* Read the rows that the leaves of a table hold.
 *
 * data: an SQLite file of `size` bytes, in pages of `page_size`.
 * leaves: where its `n_leaves` leaves begin, in order; each has room for its header in the file.
 * width: how many columns the table has.
 * ids, values, missing: room for `n` ids, and for `width` times `n` numbers and bytes, a column
 * after the other. `n` is what the headers of the leaves add up to.
 * text: the column that holds texts, `width` for none. Its numbers say which of `texts` it is.
 * texts: room for MOST_TEXTS: where each distinct text begins, and in the lowest LENGTH_BITS how
 * long it is; `n_texts` becomes how many there are.
 *
 * Returns 1, or 0 if there is anything but such rows.
 */
EXPORT int32_t snapreport_rows(const uint8_t *data, uint64_t size, uint64_t page_size,
                               const int64_t *leaves, uint64_t n_leaves, uint64_t width,
                               int64_t *ids, int64_t *values, uint8_t *missing, uint64_t n,
                               uint64_t text, uint64_t *texts, uint64_t *n_texts)
{
    uint64_t row = 0;
    int64_t last_id = 0;
    *n_texts = 0;
    if (width > MOST_COLUMNS || page_size == 0)
        return 0;
    for (uint64_t k = 0; k < n_leaves; k++) {
        uint64_t page = (uint64_t)leaves[k];
        if (page >= size || size - page < LEAF_HEADER)
            return 0;
        uint64_t cells = (uint64_t)data[page + 3] << 8 | data[page + 4];
        if (size - page < page_size || page_size < LEAF_HEADER || n - row < cells)
            return 0;
        if (cells > (page_size - LEAF_HEADER) / (LEAST_ROW + width))
            return 0;
        const uint8_t *pointers = data + page + LEAF_HEADER;
        for (uint64_t i = 0; i < cells; i++, row++) {
            int64_t length, id;
            const uint64_t inside = (uint64_t)pointers[2 * i] << 8 | pointers[2 * i + 1];
            if (inside < LEAF_HEADER + 2 * cells || inside >= page_size)
                return 0; /* a cell lies after their list, and in the page */
            uint64_t place = varint(data, size, page + inside, &length);
            place = place ? varint(data, size, place, &id) : 0;
            if (!place || (row && id <= last_id))
                return 0;
            ids[row] = last_id = id;
            /* A header of one byte for itself and one per column, then the numbers. */
            if (place >= size || size - place < width + 1 || data[place] != width + 1)
                return 0;
            uint64_t end = place + width + 1;
            for (uint64_t c = 0; c < width; c++) {
                uint8_t kind = data[place + 1 + c];
                if (c == text) {
                    uint64_t bytes = (uint64_t)(kind - FIRST_TEXT) / 2;
                    if (kind < FIRST_TEXT || kind % 2 == 0 || kind > INT8_MAX || size - end < bytes)
                        return 0;
                    uint64_t which = number_of(data, end, bytes, texts, n_texts);
                    if (which == MOST_TEXTS)
                        return 0;
                    end += bytes;
                    values[c * n + row] = (int64_t)which;
                    missing[c * n + row] = 0;
                    continue;
                }
                if (kind > ONE || kind == FLOAT)
                    return 0;
                uint64_t bytes = WIDTHS[kind];
                if (size - end < bytes)
                    return 0;
                /* Its sign is that of its first byte. */
                uint64_t number = kind == ONE;
                if (bytes)
                    number = data[end] & 0x80 ? UINT64_MAX : 0;
                for (uint64_t b = 0; b < bytes; b++)
                    number = number << 8 | data[end + b];
                end += bytes;
                values[c * n + row] = (int64_t)number;
                missing[c * n + row] = kind == 0;
            }
            /* A row that does not fit in a page goes on elsewhere, and does not end here. */
            if ((int64_t)(end - place) != length || end > page + page_size)
                return 0;
        }
    }
    return row == n;
}

/* What is written: a row's header has one byte for itself, for the id and for each column. So it
 * and its cells have at most 2 + 12 + 8 * 12 + 16 bytes, whose number is a byte, too. */
enum { MOST_WRITTEN = 12, MOST_TEXT = 16, ID_BYTES = 8, LARGEST_PAGE = 1 << 15 };
enum { MOST_CELL = 1 + ID_BYTES + 2 + 9 * MOST_WRITTEN + MOST_TEXT };
enum { LEAF = 13, LONG = 2, ZERO = 8, PLACE_BITS = 28, MOST_MATCH = 258 }; /* as in deflate.c */
enum { HEADER_KIND = 0, CELL_KIND = 13, PAGE_KIND = 14 }; /* and from 1 on the columns */

/* As in library.py. */
typedef struct {
    const int64_t *const *columns; /* each of `n` numbers */
    const uint8_t *texts;          /* `n_texts` of them, MOST_TEXT bytes each with zeros at the end */
    uint64_t n_columns, n, n_texts;
    int64_t null;                  /* what stands for NULL, */
    uint64_t nullable;             /* and a bit for each column in which it does */
    uint64_t first_id;             /* of the first row; the others' count from there */
    uint64_t text;                 /* the column whose numbers are places in `texts`, if there is one */
    uint64_t has_id;               /* 1 if the table's first column is the id, which is stored once */
    uint64_t row;                  /* where to begin, and then where the next leaf does */
} written;

static int is_null(const written *t, uint64_t column, int64_t number)
{
    return number == t->null && (t->nullable >> column & 1);
}

/* Return the shortest type of a number that has bytes, 0 if the number needs none. */
static unsigned type_of(int64_t number)
{
    static const uint8_t types[] = {1, 2, 3, 4, 5, 5, 6, 6}; /* by its bytes, minus 1 */
    if (number == 0 || number == 1)
        return 0;
    const uint64_t positive = number < 0 ? ~(uint64_t)number : (uint64_t)number;
    return types[(64 - __builtin_clzll(positive << 1 | 1) - 1) / 8];
}

static unsigned id_length(uint64_t id)
{
    return 1 + (id ? (63 - (unsigned)__builtin_clzll(id)) / 7 : 0);
}

static const uint8_t *text_of(const written *t, int64_t place)
{
    return t->texts + (uint64_t)place * MOST_TEXT;
}

static unsigned text_length(const uint8_t *text)
{
    unsigned n = 0;
    while (n < MOST_TEXT && text[n])
        n++;
    return n;
}

/* Find how many of the next rows fit in a page, and the type that holds all numbers of a column.
 *
 * With one type for a column its cells are as long as one another, and so are the rows. Some are a
 * few bytes longer than SQLite makes them, but then all pages are much alike, and deflate well.
 */
static uint64_t fitting(const written *t, uint64_t page_size, uint8_t *widest)
{
    uint64_t rows = 0;
    uint8_t types[MOST_WRITTEN] = {0};                       /* of a text, its length */
    unsigned length = 2 + (unsigned)(t->n_columns + t->has_id); /* of a row, without its id */
    for (; t->row + rows < t->n; rows++) {
        for (uint64_t c = 0; c < t->n_columns; c++) {
            const int64_t number = t->columns[c][t->row + rows];
            const int is_text = c == t->text;
            const unsigned type = is_text ? text_length(text_of(t, number)) : type_of(number);
            if (type <= types[c] || (!is_text && is_null(t, c, number)))
                continue;
            length += is_text ? type - types[c] : (unsigned)(WIDTHS[type] - WIDTHS[types[c]]);
            types[c] = (uint8_t)type;
        }
        const unsigned with_id = length + id_length(t->first_id + t->row + rows);
        if (LEAF_HEADER + (rows + 1) * (with_id + 2) > page_size)
            break;
        memcpy(widest, types, MOST_WRITTEN);
    }
    return rows;
}

/* Write a row, and return how long it is. */
static unsigned write_cell(uint8_t *cell, const written *t, uint64_t row, const uint8_t *widest)
{
    unsigned length = 1; /* the first byte is written last */
    const uint64_t id = t->first_id + row;
    for (unsigned left = id_length(id); left-- > 0;)
        cell[length++] = (uint8_t)((left ? 0x80 : 0) | (id >> 7 * left & 0x7F));
    const unsigned begin = length;
    uint8_t *types = cell + length;
    length += 1 + (unsigned)(t->n_columns + t->has_id);
    *types++ = (uint8_t)(length - begin);
    if (t->has_id)
        *types++ = 0; /* it is not stored twice */
    for (uint64_t c = 0; c < t->n_columns; c++) {
        const int64_t number = t->columns[c][row];
        if (c == t->text) {
            const uint8_t *text = text_of(t, number);
            const unsigned bytes = text_length(text);
            types[c] = (uint8_t)(FIRST_TEXT + 2 * bytes);
            memcpy(cell + length, text, bytes);
            length += bytes;
        } else if (is_null(t, c, number) || widest[c] == 0) {
            types[c] = (uint8_t)(is_null(t, c, number) ? 0 : ZERO + number);
        } else {
            types[c] = widest[c];
            for (unsigned left = WIDTHS[widest[c]]; left > 0; left--)
                cell[length++] = (uint8_t)((uint64_t)number >> 8 * (left - 1));
        }
    }
    cell[0] = (uint8_t)(length - begin);
    return length;
}

/* Mark what begins at a place, for deflate.c. */
static void mark(uint32_t *marks, uint64_t *n_marks, uint64_t kind, uint64_t place)
{
    marks[(*n_marks)++] = (uint32_t)(kind << PLACE_BITS | place);
}

/* Mark a row, its header, and its long cells, which may have come before. */
static void mark_row(const uint8_t *out, uint64_t place, const written *t, uint32_t *marks, uint64_t *n)
{
    mark(marks, n, CELL_KIND, place);
    do
        place++;
    while (out[place] & 0x80);
    mark(marks, n, HEADER_KIND, ++place);
    const uint8_t *types = out + place + 1 + t->has_id;
    place += out[place];
    unsigned before = 0; /* bytes of the last cell */
    for (uint64_t c = 0; c < t->n_columns; c++) {
        const unsigned width = types[c] < FIRST_TEXT ? WIDTHS[types[c]] : (types[c] - FIRST_TEXT) / 2U;
        if (width == 0)
            continue;
        if (width >= LONG || before >= LONG) /* where a long one begins and ends */
            mark(marks, n, c + 1, place);
        place += width;
        before = width;
    }
}

/* Write rows as leaves.
 *
 * out: room for `n_pages` pages. last_ids: room for the last id of each.
 * marks: room for `room_marks` marks, as deflate.c takes them; `n_marks` becomes how many there are.
 *
 * Returns how many pages are filled; less than n_pages only with the last row. Or OUT_OF_RANGE.
 */
EXPORT int64_t snapreport_leaves(written *t, uint8_t *out, uint64_t page_size, uint64_t n_pages,
                                 int64_t *last_ids, uint32_t *marks, uint64_t room_marks,
                                 uint64_t *n_marks)
{
    const uint64_t most_id = UINT64_C(1) << (7 * ID_BYTES);
    uint64_t pages = 0;
    *n_marks = 0;
    if (t->has_id > 1 || t->n_columns > MOST_WRITTEN)
        return OUT_OF_RANGE;
    if (page_size < LEAF_HEADER + 2 + MOST_CELL || page_size > LARGEST_PAGE)
        return OUT_OF_RANGE;
    if (n_pages > (1U << PLACE_BITS) / page_size)
        return OUT_OF_RANGE;
    if (t->first_id >= most_id || t->n > most_id - t->first_id || t->row > t->n)
        return OUT_OF_RANGE;
    for (uint64_t i = t->row; t->text < t->n_columns && i < t->n; i++)
        if ((uint64_t)t->columns[t->text][i] >= t->n_texts)
            return OUT_OF_RANGE;
    for (; pages < n_pages && t->row < t->n; pages++) {
        uint8_t *page = out + pages * page_size, types[MOST_WRITTEN], cell[MOST_CELL];
        const uint64_t cells = fitting(t, page_size, types), pointers = LEAF_HEADER + 2 * cells;
        uint64_t end = page_size;
        for (uint64_t i = 0; i < cells; i++, t->row++) {
            const unsigned length = write_cell(cell, t, t->row, types);
            end -= length;
            memcpy(page + end, cell, length);
            page[LEAF_HEADER + 2 * i] = (uint8_t)(end >> 8);
            page[LEAF_HEADER + 2 * i + 1] = (uint8_t)end;
        }
        memset(page, 0, LEAF_HEADER);
        memset(page + pointers, 0, end - pointers);
        page[0] = LEAF;
        page[3] = (uint8_t)(cells >> 8);
        page[4] = (uint8_t)cells;
        page[5] = (uint8_t)(end >> 8);
        page[6] = (uint8_t)end;
        last_ids[pages] = (int64_t)(t->first_id + t->row - 1);
        if (room_marks - *n_marks < cells * (t->n_columns + 2) + 2)
            return OUT_OF_RANGE;
        for (uint64_t i = 0; i < 2 && i * MOST_MATCH < pointers; i++)
            mark(marks, n_marks, PAGE_KIND + i, pages * page_size + i * MOST_MATCH);
        for (uint64_t i = cells; i-- > 0;) { /* a row comes before those that were added earlier */
            const uint8_t *pointer = page + LEAF_HEADER + 2 * i;
            const uint64_t inside = (uint64_t)pointer[0] << 8 | pointer[1];
            mark_row(out, pages * page_size + inside, t, marks, n_marks);
        }
    }
    return (int64_t)pages;
}

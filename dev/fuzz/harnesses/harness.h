/* What the harnesses have in common. Each includes the source that it is for, so that it sees its
 * types, and hands over memory of exactly the size that it says: one byte behind that is found. */

#include <stdio.h>

#include "ground/native/native.h"

#define HOLDS(what) do { if (!(what)) fails(#what, __LINE__); } while (0)

static void fails(const char *what, int line)
{
    fprintf(stderr, "line %d of the harness: this does not hold: %s\n", line, what);
    abort();
}

static void *room(size_t n, size_t width, int fill)
{
    void *made = malloc(n * width);
    HOLDS(made != NULL);
    memset(made, fill, n * width);
    return made;
}

static inline uint8_t *copy_of(const uint8_t *data, size_t size)
{
    uint8_t *made = room(size, 1, 0);
    if (size)
        memcpy(made, data, size);
    return made;
}

static inline int equal(const void *one, const void *other, size_t size)
{
    return size == 0 || memcmp(one, other, size) == 0;
}

/* The fuzzer's bytes, taken from the front; zeros where they have ended. */
typedef struct { const uint8_t *at; size_t left; } input;

static inline uint64_t next_number(input *in, unsigned width)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < width && in->left; i++, in->at++, in->left--)
        number |= (uint64_t)*in->at << (8 * i);
    return number;
}

/* Take a length: never more than there are bytes left, so that small inputs make little work. */
static inline int64_t next_length(input *in)
{
    return (int64_t)(next_number(in, 2) % (in->left + 1) % (1 << 14));
}

/* Take numbers of one signed byte each, of two, or of eight. */
static inline int64_t *next_column(input *in, int64_t n, unsigned form)
{
    static const unsigned WIDTHS[] = {1, 1, 2, 8};
    const unsigned width = WIDTHS[form % 4];
    int64_t *made = room((size_t)n, sizeof *made, 0);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t number = next_number(in, width);
        made[i] = width == 1 ? (int8_t)number : width == 2 ? (int16_t)number : (int64_t)number;
    }
    return made;
}

/* Find the first opcode of a pickle that no snapshot may have; read/unpickle.py says which and why.
 *
 * It reads a stranger's bytes, so it is as small as possible: it writes nothing, allocates nothing,
 * and reads data[i] only after comparing i with the length.
 */

#include "native.h"

/* What follows an opcode: a fixed number of bytes, or a length of so many bytes and then as many
 * bytes as it says. */
enum { REFUSED = 0, FIXED = 1, COUNTED = 2 };

/* As in read/parsed.py and read/unpickle.py: bytes, bytes, parts, and opcodes after a part. */
enum { MOST_INTEGER = 9, MOST_TEXT = 1 << 18, MOST_PARTS = 2, MOST_KEPT = 3 };

static unsigned kind_of(unsigned char opcode, unsigned *width)
{
    switch (opcode) {
    case '(': case ')': case ']': case '}': case 'N': case 'a': case 'e': case 's': case 'u':
    case 0x85: case 0x86: case 0x88: case 0x89: case 0x94:
        *width = 0;
        return FIXED;
    case 'h': case 'q': case 'K': case 0x80:
        *width = 1;
        return FIXED;
    case 'M':
        *width = 2;
        return FIXED;
    case 'j': case 'r': case 'J':
        *width = 4;
        return FIXED;
    case 'G': case 0x95:
        *width = 8;
        return FIXED;
    case 0x8a: case 0x8c:
        *width = 1;
        return COUNTED;
    case 'X':
        *width = 4;
        return COUNTED;
    case 0x8d:
        *width = 8;
        return COUNTED;
    default:
        *width = 0;
        return REFUSED;
    }
}

/* How an opcode changes what is known about the top of the stack: SMALL puts an integer there that
 * may be part of a tuple, KEEP leaves it, and after all others nothing is known about it. */
enum { OTHER = 0, SMALL = 1, KEEP = 2 };

static unsigned effect_of(unsigned char opcode)
{
    switch (opcode) {
    case 'K': case 'M': case 'J':
        return SMALL;
    case 'q': case 'r': case 0x94: case 0x95:
        return KEEP;
    default:
        return OTHER;
    }
}

/* Say whether a BINFLOAT is 0 or of an ordinary size: see read/unpickle.py. */
static int is_common(const unsigned char *bytes)
{
    const unsigned char size = bytes[0] & 0x7F; /* the upper 7 of 11 bits of the exponent */
    unsigned any = size;
    for (int i = 1; i < 8; i++)
        any |= bytes[i];
    return any == 0 || (size >= 0x3C && size <= 0x43);
}

/* Return the place of the first opcode that is not allowed or not complete, or of STOP; the length
 * if there is none. */
EXPORT size_t snapreport_scan(const unsigned char *data, size_t length)
{
    const uint64_t most_memo = length >> 16 > 0x3FF ? 0x3FF : length >> 16;
    size_t position = 0;
    unsigned small = 0; /* integers on top of the stack, as far as known */
    unsigned kept = 0;  /* opcodes since that left the stack as it was */
    while (position < length) {
        const unsigned char opcode = data[position];
        const size_t left = length - position - 1; /* bytes after the opcode */
        const unsigned char *argument = data + position + 1;
        unsigned width;
        const unsigned kind = kind_of(opcode, &width);
        if (kind == REFUSED || left < width)
            return position;
        if (opcode == 0x80 && (argument[0] < 2 || argument[0] > 5))
            return position; /* PROTO of a protocol that snapshots do not have */
        if (opcode == 'r' && (argument[2] | (unsigned)argument[3] << 8) > most_memo)
            return position; /* LONG_BINPUT beyond the memo limit */
        if ((opcode == 0x85 || opcode == 0x86) && small < opcode - 0x84u)
            return position; /* a tuple of more than small integers */
        if (opcode == 'G' && !is_common(argument))
            return position;
        if (kind == COUNTED) {
            uint64_t count = 0;
            for (unsigned i = width; i-- > 0;)
                count = count << 8 | argument[i];
            if (count > left - width || count > (opcode == 0x8a ? MOST_INTEGER : MOST_TEXT))
                return position;
            if (opcode == 0x8a && count == MOST_INTEGER && argument[count] != 0)
                return position; /* an integer beyond 64 bits */
            position += (size_t)count;
        }
        const unsigned effect = effect_of(opcode);
        kept = effect == KEEP ? kept + 1 : 0;
        if (effect == SMALL)
            small += small < MOST_PARTS;
        else if (effect == OTHER || kept > MOST_KEPT)
            small = 0;
        position += 1 + width;
    }
    return position;
}

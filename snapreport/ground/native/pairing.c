/* Pair allocations with their frees.
 *
 * The caller provides all memory. Each action, place and row is checked before it is used; the order
 * of the events may be any.
 */

#include "native.h"

/* action, place and size: of `n` events; the place says which of `n_places` addresses it is.
 * code: of `n_actions` actions, which of the following it is, or -1.
 * live: room for the row that is live at each place.
 * rows: four columns of n_places + n: place, alloc, request and completion, ABSENT where there is
 * no such event. Allocations from before the first event end at row n_places, the others begin
 * there, each in the order of their first events, the former the last first.
 * leftover: room for `n` events that fit no allocation.
 * found: of the rows from before and of the others, of the leftover, of frees of another size, and
 * of each code, how many there are; then of each ODD how many, and the place and the event of the
 * first one at the first place.
 */
enum { ALLOC, REQUESTED, COMPLETED, CODES };
enum { BEFORE, OTHERS, LEFTOVER, RESIZED, COUNTS, ODD = COUNTS + CODES, ODDS = 4 };
enum { ALLOC_ON_LIVE, FREE_OF_DEAD, TWICE_REQUESTED, NOT_REQUESTED };
enum { ABSENT = -1, UNSEEN = -1, DEAD = -2 };

static void count_odd(int64_t *found, int which, int64_t place, int64_t event)
{
    int64_t *odd = found + ODD + 3 * which;
    if (odd[0]++ == 0 || place < odd[1]) {
        odd[1] = place;
        odd[2] = event;
    }
}

EXPORT int32_t snapreport_pair(const int16_t *action, const int64_t *place, const int64_t *size,
                               int64_t n, const int8_t *code, int64_t n_actions, int64_t n_places,
                               int32_t *live, int64_t *rows, int64_t *leftover, int64_t *found)
{
    if (n < 0 || n_places < 0 || n >= INT32_MAX - n_places)
        return OUT_OF_RANGE;
    const int64_t room = n_places + n;
    int64_t *const where = rows, *const alloc = where + room;
    int64_t *const requested = alloc + room, *const completed = requested + room;
    int64_t before = n_places, next = n_places, n_left = 0;
    memset(found, 0, (ODD + 3 * ODDS) * sizeof *found);
    for (int64_t i = 0; i < n_places; i++)
        live[i] = UNSEEN;
    for (int64_t event = 0; event < n; event++) {
        if (action[event] < 0 || action[event] >= n_actions || code[action[event]] >= CODES)
            return OUT_OF_RANGE;
        if (code[action[event]] >= 0)
            found[COUNTS + code[action[event]]]++;
    }
    for (int64_t event = 0; event < n; event++) {
        const int kind = code[action[event]];
        const int64_t at = place[event];
        if (kind < 0)
            continue;
        if (at < 0 || at >= n_places)
            return OUT_OF_RANGE;
        int64_t row = live[at];
        if (kind == ALLOC) {
            if (row >= 0) {
                count_odd(found, ALLOC_ON_LIVE, at, event);
                completed[row] = event;
                if (requested[row] == ABSENT)
                    requested[row] = event;
            }
            row = next++;
            where[row] = at;
            alloc[row] = event;
            requested[row] = completed[row] = ABSENT;
            live[at] = (int32_t)row;
            continue;
        }
        if (row == DEAD) {
            count_odd(found, FREE_OF_DEAD, at, event);
            leftover[n_left++] = event;
            continue;
        }
        if (row == UNSEEN) {
            live[at] = (int32_t)(row = --before);
            where[row] = at;
            alloc[row] = requested[row] = completed[row] = ABSENT;
        } else if (kind == REQUESTED && requested[row] != ABSENT) {
            count_odd(found, TWICE_REQUESTED, at, event);
            leftover[n_left++] = event;
            continue;
        } else if (kind == COMPLETED && requested[row] == ABSENT && found[COUNTS + REQUESTED]) {
            count_odd(found, NOT_REQUESTED, at, event);
            requested[row] = event;
        }
        if (alloc[row] != ABSENT && size[event] != size[alloc[row]]) {
            const int64_t other = requested[row]; /* which may have been counted */
            if (other == ABSENT || other == event || size[other] == size[alloc[row]])
                found[RESIZED]++;
        }
        (kind == REQUESTED ? requested : completed)[row] = event;
        if (kind == COMPLETED || !found[COUNTS + COMPLETED])
            live[at] = DEAD;
    }
    found[BEFORE] = n_places - before;
    found[OTHERS] = next - n_places;
    found[LEFTOVER] = n_left;
    return 1;
}

/* Pair allocations with their frees. */

#include "ground/native/pairing.c"

#include "harness.h"

enum { FOUND = ODD + 3 * ODDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    const int64_t n_actions = (int64_t)next_number(&in, 1) % 8;
    const int64_t n_places = (int64_t)next_number(&in, 1), n = next_length(&in);
    int8_t *code = room((size_t)n_actions, 1, 0);
    int16_t *action = room((size_t)n, 2, 0);
    for (int64_t i = 0; i < n_actions; i++)
        code[i] = (int8_t)((int)(next_number(&in, 1) % 5) - 1);
    for (int64_t i = 0; i < n; i++)
        action[i] = (int8_t)next_number(&in, 1);
    int64_t *place = next_column(&in, n, 0), *sizes = next_column(&in, n, 0);
    int32_t *live = room((size_t)n_places, 4, 0);
    const size_t rooms = (size_t)(n_places + n);
    int64_t *rows = room(4 * rooms, 8, 0), *leftover = room((size_t)n, 8, 0);
    int64_t *found = room(FOUND, 8, 0xFF);
    const int32_t done = snapreport_pair(action, place, sizes, n, code, n_actions, n_places, live,
                                         rows, leftover, found);
    HOLDS(done == 1 || done == OUT_OF_RANGE);
    if (done == 1) {
        HOLDS(found[BEFORE] >= 0 && found[BEFORE] <= n_places);
        HOLDS(found[OTHERS] == found[COUNTS + ALLOC] && found[LEFTOVER] >= 0);
        HOLDS(found[RESIZED] <= found[OTHERS]);
        int64_t last = ABSENT;
        for (int64_t i = n_places - found[BEFORE]; i < n_places + found[OTHERS]; i++) {
            const int64_t *row = rows + i;
            HOLDS(row[0] >= 0 && row[0] < n_places);
            HOLDS(i < n_places ? row[rooms] == ABSENT : row[rooms] > last && row[rooms] < n);
            for (size_t k = 2; k < 4; k++)
                HOLDS(row[k * rooms] >= ABSENT && row[k * rooms] < n);
            last = row[rooms];
        }
        for (int64_t i = 0; i < found[LEFTOVER]; i++)
            HOLDS(leftover[i] < n && leftover[i] > (i ? leftover[i - 1] : -1));
    }
    free(code);
    free(action);
    free(place);
    free(sizes);
    free(live);
    free(rows);
    free(leftover);
    free(found);
    return 0;
}

/* Pass over the opcodes of a pickle, and read its events: opcodes.c and events.c. */

#include "ground/native/events.c"

#include "harness.h"

size_t snapreport_scan(const unsigned char *data, size_t length);

static void check(const parsed *found, size_t size)
{
    const machine *m = found->machine;
    HOLDS(m->left <= ALWAYS + MOST_RATIO * size);
    HOLDS(found->rows <= size && found->n_stack_frames <= size && found->n_traces <= size);
    const size_t ends[IDS] = {m->n_texts, found->n_stacks, m->n_texts,
                              m->n_texts, m->n_texts, m->n_pairs};
    for (int column = 0; column < IDS; column++)
        for (uint64_t row = 0; row < found->rows && found->ids[column] != NULL; row++)
            HOLDS(found->ids[column][row] >= (column ? -1 : 0)
                  && found->ids[column][row] < (int64_t)ends[column]);
    int64_t row = 0;
    for (uint64_t i = 0; i < found->n_traces; i++) {
        HOLDS(found->traces[i].begin == row && found->traces[i].end >= row);
        row = found->traces[i].end;
    }
    HOLDS((uint64_t)row == found->rows);
    for (uint64_t i = 0; i < found->n_stacks; i++)
        HOLDS(found->stacks[i].start <= found->n_stack_frames
              && found->stacks[i].length <= found->n_stack_frames - found->stacks[i].start);
    for (uint64_t i = 0; i < found->n_stack_frames; i++)
        HOLDS(found->stack_frames[i] >= 0 && (size_t)found->stack_frames[i] < m->n_frames);
    for (uint64_t i = 0; i < found->n_unknowns; i++)
        HOLDS((uint64_t)found->unknowns[i].trace < found->n_traces
              && (uint64_t)found->unknowns[i].text < m->n_texts);
    HOLDS(found->n_rest > 2 && found->rest[0] == 0x80 && found->rest[found->n_rest - 1] == '.');
}

static void compare(const parsed *one, const parsed *other)
{
    HOLDS(one->rows == other->rows && one->n_traces == other->n_traces);
    HOLDS(one->n_stacks == other->n_stacks && one->n_unknowns == other->n_unknowns);
    for (int i = 0; i < INTEGERS; i++)
        HOLDS(equal(one->integers[i], other->integers[i], one->rows * sizeof(int64_t)));
    for (int i = 0; i < IDS; i++)
        HOLDS((one->ids[i] == NULL) == (other->ids[i] == NULL)
              && (one->ids[i] == NULL
                  || equal(one->ids[i], other->ids[i], one->rows * sizeof(int32_t))));
    HOLDS(one->n_rest == other->n_rest && equal(one->rest, other->rest, one->n_rest));
}

/* Read a file that changes between its last opcode and the writing of the rest. */
static void change_meanwhile(const uint8_t *data, size_t size, uint64_t n_rest)
{
    uint8_t *copy = copy_of(data, size);
    parsed found = {.machine = room(1, sizeof(machine), 0)};
    machine *m = found.machine;
    m->data = copy;
    m->length = size;
    m->left = ALWAYS + MOST_RATIO * size;
    m->traces_at = m->trace_at = SIZE_MAX;
    HOLDS(run(m));
    for (size_t i = 0; i < size; i++)
        copy[i] ^= (uint8_t)(0xFF >> i % 2);
    release((void **)&m->memo, &m->room_memo);
    HOLDS(write_rest(m) && m->n_out == n_rest);
    snapreport_events_free(&found);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = copy_of(data, size);
    const size_t end = snapreport_scan(copy, size);
    HOLDS(end <= size);
    if (size < 65536) { /* how large a memo index may be goes by the length */
        uint8_t *part = copy_of(data, end);
        HOLDS(snapreport_scan(part, end) == end);
        free(part);
    }
    parsed found, again;
    if (snapreport_events(copy, size, &found)) {
        HOLDS(end < size && copy[end] == '.'); /* nothing that the scan does not allow */
        free(copy);
        copy = copy_of(data, size);
        HOLDS(snapreport_events(copy, size, &again));
        memset(copy, 0, size); /* none of it is read any more */
        check(&found, size);
        compare(&found, &again);
        change_meanwhile(data, size, found.n_rest);
        snapreport_events_free(&again);
        snapreport_events_free(&found);
    }
    free(copy);
    return 0;
}

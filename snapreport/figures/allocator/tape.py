"""The tape of a device: what the program asked of the allocator, and what the allocator did.

The program allocates, frees and calls ``empty_cache()``. The allocator decides which block serves
an allocation, and which segments come and go; that is kept to compare a replay with.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import distinct, is_among, stable_order, unique
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.history.allocator_settings import MIB, SMALL_SEGMENT, UNLIMITED
from snapreport.history.block_sizes import infer_pools
from snapreport.history.segments import code_actions, lives_of, reserved_changes
from snapreport.model.history import START, DeviceHistory
from snapreport.model.replays import SMALL, SegmentLives
from snapreport.model.snapshot import NO_ID, NO_STACK

ALLOCATE, FREE, AWAIT, EMPTY_CACHE, FAIL = range(5)
"""Kinds of operations, as in allocator.c. ``AWAIT``: freed, but another stream may still use it;
``FAIL``: a request that failed when it was recorded."""

CERTAINLY, PERHAPS = 1, 2
MOST_ROOM = 1 << 42
"""The address range of an expandable segment, if unknown: more than any card has memory."""

MADE, RETURNED, MAPPED, UNMAPPED = range(4)
"""Kinds of segment events, as in allocator.c."""
SEGMENT_CODES = {
    "segment_alloc": MADE,
    "segment_free": RETURNED,
    "segment_map": MAPPED,
    "segment_unmap": UNMAPPED,
}
DEFAULT_POOL = (0, 0)
MOST_POOLS = 62
"""The most private pools: each is one bit of a number."""


@dataclass(frozen=True, eq=False)
class SegmentEvents(Shown):
    """Segment events in order; int64, shape (n,)."""

    op: NDArray[np.int64]
    """The operation that caused each; NO_ID where none did, as at the end of a recording."""
    kind: NDArray[np.int64]
    address: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def table(self) -> NDArray[np.int64]:
        """All four columns, as a replay returns them; int64, shape (n, 4)."""
        return np.stack([self.op, self.kind, self.address, self.size], axis=1)


@dataclass(frozen=True, eq=False)
class ReplayTape(Shown):
    """The operations of one device, its state before them, and what the allocator did."""

    lanes: list[tuple[tuple[int, int], int]]
    """Pool and stream of each lane, the default pool first; a block only serves its own lane."""

    op: NDArray[np.int64]
    """Kind of each operation; int64, shape (n_ops,), as are all columns of this group."""
    row: NDArray[np.int64]
    """The allocation that it makes or frees, a row of the device's; NO_ID for others."""
    event: NDArray[np.int64]
    """The event that recorded it; for ``EMPTY_CACHE`` the first."""
    given: NDArray[np.int64]
    """Address of the first segment that it got when recorded; 0 for none."""
    freeable: NDArray[np.int64]
    """Bit i: the i-th private pool in the order of the lanes may be given back."""
    failed_size: NDArray[np.int64]
    """Rounded bytes of a request that failed; 0 for all other operations."""
    failed_lane: NDArray[np.int64]

    size: NDArray[np.int64]
    """Requested bytes of each allocation; int64, shape (n_rows,), as all of this group."""
    lane: NDArray[np.int64]
    address: NDArray[np.int64]
    """As recorded."""
    block: NDArray[np.int64]
    """Bytes of its block, for those from before the recording; else 0."""

    segments: NDArray[np.int64]
    """Those at the start, by address: address, size, lane, large, expandable, and where the whole
    of an expandable one begins; shape (n, 6)."""
    recorded: SegmentEvents
    room: int
    """The most bytes of addresses an expandable segment can have without overlapping another."""
    undecided: int
    """Runs of segments given back where it does not show whether the program called
    ``empty_cache()`` or a request needed the room; the former is assumed."""
    retried: NDArray[np.int64]
    """Operations that gave segments back before they were served, or failed."""
    collected: NDArray[np.int64]
    """Operations before which long unused segments were given back as garbage."""
    waited: NDArray[np.int64]
    """Frees that a request completed while it waited for memory: CERTAINLY, PERHAPS, or 0; int64,
    shape (n_ops,). When another stream was done with the memory is not known of these."""
    limited: bool = False
    """Whether the process was found to have a limit of its own: it is checked for entire segments,
    and garbage is collected because of it."""

    def __len__(self) -> int:
        return len(self.op)

    @property
    def reserved(self) -> int:
        """Bytes in segments at the start."""
        return int(self.segments[:, 1].sum())


def recorded_reserved(tape: ReplayTape) -> NDArray[np.int64]:
    """Return the bytes reserved before each segment event and at the end; shape (n + 1,)."""
    recorded = tape.recorded
    grows = (recorded.kind == MADE) | (recorded.kind == MAPPED)
    changes = np.where(grows, recorded.size, -recorded.size)
    return tape.reserved + np.concatenate([[0], np.cumsum(changes)]).astype(np.int64)


def where_apart(recorded: NDArray[np.int64], replayed: NDArray[np.int64]) -> list[int]:
    """Return the operations of the first segment events that differ; none where all are equal.

    Args:
        recorded: as from ``SegmentEvents.table``; shape (n, 4).
        replayed: the same columns; shape (m, 4).
    """
    both = min(len(recorded), len(replayed))
    differ = np.flatnonzero((recorded[:both] != replayed[:both]).any(axis=1))
    at = int(differ[0]) if len(differ) else both
    return [int(side[at, 0]) for side in (recorded, replayed) if at < len(side)]


# The cause of each segment event: a request, or a call of empty_cache()

_NOTHING, _REQUEST, _FAILED, _RELEASE, _GROW, _LATE, _DONE = range(7)


@dataclass
class Owners:
    """The operation that caused each event that the program did not ask for itself."""

    owner: NDArray[np.int64]
    """By row of the other events: the event of the operation; the last event + 1 for none."""
    after: dict[int, int] = field(default_factory=dict)
    """Events of frees that a request completed while it waited, and that request's event."""
    doubtful: set[int] = field(default_factory=set)
    """Those of these events that may also have been completed before."""
    emptied: list[int] = field(default_factory=list)
    retried: set[int] = field(default_factory=set)
    collected: set[int] = field(default_factory=set)
    undecided: int = 0


def find_owners(
    history: DeviceHistory,
    code: NDArray[np.int64],
    *,
    oversize: bool,
    collects: bool,
    spares: bool,
    by_stack: bool,
) -> Owners:
    """Assign each segment event to the request that follows it, or to a call of ``empty_cache()``.

    Segments that a request gave back carry its stack; those of ``empty_cache()`` have a stack of
    their own, if stacks were recorded deep enough.

    Args:
        history: of one device.
        code: kinds of its other events.
        oversize: whether some blocks are never split.
        collects: whether a request may give back, without need, whole large segments.
        spares: whether memory freed only just before cannot be garbage: its free may have been
            waited for.
        by_stack: whether an equal stack is enough; else what a request lacked has to have lain
            above all that was ever reserved, too. That misses an expandable segment that grew
            elsewhere in the end, where less was lacking.
    """
    rows, other, n = history.allocations, history.other, history.events
    # Two places more than events: what is never freed writes to the first, the start to the last.
    what = np.zeros(n + 2, np.int8)
    what[rows.alloc_event] = _REQUEST
    what[rows.free_event] = _DONE
    what[rows.free_event[is_late(history)]] = _LATE
    what = what[: n + 1]
    what[n] = _NOTHING
    kinds = np.array([_GROW, _RELEASE, _GROW, _RELEASE, _FAILED, _NOTHING], np.int8)
    what[other.event] = kinds[code]
    place = np.full(n + 1, NO_ID, np.int64)
    place[other.event] = np.arange(len(other))
    some_wait = bool((what == _LATE).any())
    found = Owners(np.full(len(other), n, np.int64))
    after = reserved_after(history)
    most = int(after.max(initial=0))

    freed_at = np.full(n + 1 if oversize or spares else 0, NO_ID, np.int64)
    if len(freed_at):
        done = rows.free_event < n
        freed_at[rows.free_event[done]] = rows.addr[done]

    def holds(release: int, free: int) -> bool:
        start = other.addr[place[release]]
        return bool(start <= freed_at[free] < start + other.size[place[release]])

    moved = (what == _GROW) | (what == _RELEASE)
    between = moved | (what == _LATE)
    settled = np.flatnonzero(between[:-1] & ~between[1:]) + 1  # the first after each run of these

    def followed_by(events: NDArray[np.int64]) -> NDArray[np.int64]:
        return settled[np.searchsorted(settled, events, side="right")]

    before = np.flatnonzero(between[:-1]) + 1
    failed = np.flatnonzero(what == _FAILED)
    requests = unique(np.concatenate([failed, before[what[before] == _REQUEST]]))
    # Most that grew gave nothing back before, so that nothing else is to be found out.
    unsure = np.concatenate([failed, followed_by(np.flatnonzero(what == _RELEASE))])
    grown = np.flatnonzero(what == _GROW)
    for_whom = followed_by(grown)
    plain = (what[for_whom] == _REQUEST) & ~is_among(for_whom, unsure)
    found.owner[place[grown[plain]]] = for_whom[plain]
    requests = requests[is_among(requests, unsure)]
    stack = np.full(n + 1 if len(requests) else 0, NO_STACK, np.int64)
    if len(stack):
        born = rows.alloc_event >= 0
        stack[rows.alloc_event[born]] = rows.stack[born]
        stack[other.event] = other.stack
    kinds_at, stack_at = what.tobytes(), stack.data  # faster to look into than arrays
    for request in requests.tolist():
        first = request
        has_stack = stack_at[request] != NO_STACK
        while first > 0 and (kind := kinds_at[first - 1]) in (_RELEASE, _GROW, _LATE):
            if kind == _RELEASE and has_stack and stack_at[first - 1] != stack_at[request]:
                break
            first -= 1
        inside = np.arange(first, request)
        released = inside[what[first:request] == _RELEASE]
        if len(released):
            grown = inside[(what[first:request] == _GROW) & (inside > released[-1])]
            row = place[released[0]]
            lacked = after[row] + other.size[row] + other.size[place[grown]].sum() > most
            lacked |= by_stack
            returned = place[released]
            waiting = inside[what[inside] == _LATE]
            if (
                collects
                and has_stack
                and what[request] == _REQUEST
                and (code[returned] == RETURNED).all()
                and (other.size[returned] > SMALL_SEGMENT).all()
                and not (spares and any(holds(a, b) for a in released for b in waiting))
            ):
                found.collected.add(request)
                found.owner[place[inside[moved[inside]]]] = request
                continue
            if not (what[request] == _FAILED or (has_stack and lacked)):
                found.undecided += not has_stack
                inside, released = inside[inside > released[-1]], released[:0]
            else:
                found.retried.add(request)
        found.owner[place[inside[moved[inside]]]] = request
        if len(released) or what[request] == _FAILED:
            waited = inside[what[inside] == _LATE].tolist()
            # A free right before it may have waited, too, in a program where some do. If it did
            # not, it was of no use either. But oversize blocks, where there are any, are given
            # back first.
            if (
                some_wait
                and first > 0
                and what[first - 1] == _DONE
                and not (oversize and len(released) and holds(released[0], first - 1))
            ):
                waited.append(first - 1)
                found.doubtful.add(first - 1)
            found.after.update(dict.fromkeys(waited, request))
    releases = np.flatnonzero(np.isin(code, (RETURNED, UNMAPPED)) & (found.owner == n))
    at = other.event[releases]
    # Frees that are completed meanwhile part no run.
    late = np.flatnonzero(what == _LATE)
    first_of = np.ones(len(at), np.bool_)
    waits = np.searchsorted(late, at[1:]) - np.searchsorted(late, at[:-1] + 1)
    first_of[1:] = at[1:] - at[:-1] - 1 > waits
    found.emptied += at[first_of].tolist()
    found.owner[releases] = at[first_of][np.cumsum(first_of) - 1]
    return found


def reserved_after(history: DeviceHistory) -> NDArray[np.int64]:
    """Return the bytes reserved after each of the other events; int64, shape (len(other),)."""
    events, values = reserved_changes(history)
    return values[np.searchsorted(events, history.other.event, side="right") - 1]


def is_late(history: DeviceHistory) -> NDArray[np.bool_]:
    """Say of which allocations the free was not completed as soon as it was requested."""
    rows = history.allocations
    asked, done = rows.free_requested_event, rows.free_event
    apart = (asked < history.events) & (asked != done) & (asked != done - 1)
    late: NDArray[np.bool_] = apart | (asked == START)
    return late


# The program's operations, apart from the allocator's

_OOM, _ELSE = 4, 5
_MOST_RANGES = 3000


def make_tape(
    history: DeviceHistory,
    pools: list[tuple[int, int]],
    max_split_size: int = UNLIMITED,
    *,
    collects: bool = False,
    spares: bool = False,
    by_stack: bool = True,
) -> ReplayTape:
    """Separate what the program asked from what the allocator did.

    Args:
        history: of one device.
        pools: the file's, which ids of pools point into.
        max_split_size: the setting, in bytes: what is not below it has a segment to itself.
        collects: whether garbage is collected, where the process has a limit.
        spares: whether garbage is never what was freed only just then.
        by_stack: whether an equal stack tells what a request gave back.

    Raises:
        ValueError: there are more private pools, or more expandable segments over time, than can
            be told apart.
    """
    rows, other, lives = history.allocations, history.other, lives_of(history)
    code = code_actions(other, {**SEGMENT_CODES, "oom": _OOM}, _ELSE)
    # Where nothing tells, it is the default pool: private pools keep their segments until their
    # last user is gone, and the final segments name them.
    if (lives.kind == NO_ID).any():
        lives = infer_pools(history)
    lanes = _Lanes([*pools, DEFAULT_POOL])
    ooms = np.flatnonzero(code == _OOM)
    lane = lanes.of(rows.pool, rows.stream)
    life_lane = lanes.of(lives.pool, lives.stream)
    oom_lane = lanes.of(_failed_pools(history, ooms), other.stream[ooms])
    order = _pool_order(history, lives)
    lane, life_lane, oom_lane = lanes.in_order(order, lane, life_lane, oom_lane)

    owners = find_owners(
        history,
        code,
        oversize=max_split_size < UNLIMITED,
        collects=collects,
        spares=spares,
        by_stack=by_stack,
    )
    op, row, event = _operations(history, owners, other.event[ooms], ooms)
    place = np.full(history.events + 1, NO_ID, np.int64)
    done = np.flatnonzero(op != AWAIT)
    place[event[done]] = done
    moves = np.flatnonzero(code < _OOM)
    recorded = SegmentEvents(
        op=place[owners.owner[moves]],
        kind=code[moves],
        address=other.addr[moves],
        size=other.size[moves],
    )
    given = np.zeros(len(op) + 1, np.int64)
    new = np.flatnonzero((recorded.kind == MADE) | (recorded.kind == MAPPED))[::-1]
    given[recorded.op[new]] = recorded.address[new]  # of several the first one remains
    failed = np.flatnonzero(op == FAIL)
    failed_size, failed_lane = np.zeros((2, len(op)), np.int64)
    failed_size[failed] = other.size[row[failed]]
    failed_lane[failed] = oom_lane[np.searchsorted(ooms, row[failed])]
    row[failed] = NO_ID
    tape = ReplayTape(
        lanes=lanes.pairs,
        op=op,
        row=row,
        event=event,
        given=given[:-1],
        freeable=np.zeros(len(op), np.int64),
        failed_size=failed_size,
        failed_lane=failed_lane,
        size=rows.size,
        lane=lane,
        address=rows.addr,
        block=np.where(
            rows.alloc_event == START,
            np.where(rows.size >= max_split_size, rows.block_size_max, rows.block_size),
            0,
        ),
        segments=_segments(lives, life_lane),
        recorded=recorded,
        room=MOST_ROOM,
        undecided=owners.undecided,
        retried=place[sorted(owners.retried)],
        collected=place[sorted(owners.collected)],
        waited=_waited(owners, op, event),
    )
    _mark_freeable(tape, lives, life_lane, other.event[moves])
    return _with_ranges(tape, lives, other.event[moves])


class _Lanes:
    """Pairs of pool and stream, numbered as they are met."""

    def __init__(self, pools: list[tuple[int, int]]) -> None:
        self._pools = pools
        self._numbers: dict[tuple[tuple[int, int], int], int] = {}
        self.pairs: list[tuple[tuple[int, int], int]] = []

    def of(self, pool: NDArray[np.integer], stream: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number the pairs of some rows; NO_ID, the last pool, is the default one."""
        streams, place = distinct(stream)
        width = len(self._pools)
        pairs, row = distinct(place * width + np.where(pool == NO_ID, width - 1, pool))
        named = [
            (self._pools[each % width], int(streams[each // width])) for each in pairs.tolist()
        ]
        numbers = [self._numbers.setdefault(pair, len(self._numbers)) for pair in named]
        found: NDArray[np.int64] = np.array(numbers, np.int64)[row]
        return found

    def in_order(self, pools: list[int], *columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Renumber them: the default pool first, then some in order, each with its streams."""
        if len({pool for pool, _ in self._numbers}) > MOST_POOLS:
            raise ValueError(f"more than {MOST_POOLS} private pools")
        place = {self._pools[pool]: number for number, pool in enumerate(pools)}
        place[DEFAULT_POOL] = -1
        late = len(pools)
        order = sorted(self._numbers, key=lambda pair: (place.get(pair[0], late), *pair))
        self.pairs = order
        new = np.zeros(len(order) + 1, np.int64)
        for number, pair in enumerate(order):
            new[self._numbers[pair]] = number
        return [new[column] for column in columns]


def _operations(
    history: DeviceHistory, owners: Owners, oom_event: NDArray[np.int64], ooms: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return kind, row and event of all operations in their order."""
    rows, n = history.allocations, history.events
    made = np.flatnonzero(rows.alloc_event >= 0)
    freed = np.flatnonzero(rows.free_event < n)
    moved_free = is_among(rows.free_event, list(owners.after))
    waiting = np.flatnonzero(is_late(history) | (moved_free & (rows.free_event < n)))
    emptied = np.array(owners.emptied, np.int64)
    free_event = rows.free_event[freed]
    free_key = 2 * free_event
    if owners.after:
        moved = np.flatnonzero(moved_free[freed])
        free_key[moved] = [2 * owners.after[event] + 1 for event in free_event[moved].tolist()]
    asked = rows.free_requested_event[waiting]
    parts = (
        (ALLOCATE, made, rows.alloc_event[made], 2 * rows.alloc_event[made]),
        (FREE, freed, free_event, free_key),
        (AWAIT, waiting, asked, 2 * asked),
        (EMPTY_CACHE, np.full(len(emptied), NO_ID), emptied, 2 * emptied),
        (FAIL, ooms, oom_event, 2 * oom_event),
    )
    columns = [(np.full(len(row), op, np.int8), row, event, key) for op, row, event, key in parts]
    op, row, event, key = map(np.concatenate, zip(*columns, strict=True))
    order = stable_order(key)
    return op[order].astype(np.int64), row[order].astype(np.int64, copy=False), event[order]


def _waited(owners: Owners, op: NDArray[np.int64], event: NDArray[np.int64]) -> NDArray[np.int64]:
    """Mark the frees that were completed while a request waited for memory."""
    if not owners.after:
        return np.zeros(len(op), np.int64)
    waited = is_among(event, list(owners.after)) & (op == FREE)
    doubtful = is_among(event, list(owners.doubtful))
    return np.where(waited, np.where(doubtful, PERHAPS, CERTAINLY), 0)


def _segments(lives: SegmentLives, life_lane: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the segments before the first event, in the columns of ``ReplayTape.segments``."""
    there = np.flatnonzero(lives.start_event == START)
    there = there[np.argsort(lives.address[there], kind="stable")]
    address, large = lives.address[there], lives.kind[there] != SMALL
    columns = (address, lives.size[there], life_lane[there], large, lives.expandable[there])
    return np.stack([*columns, address], axis=1).astype(np.int64)


def _pool_order(history: DeviceHistory, lives: SegmentLives) -> list[int]:
    """Return the pools in the order in which their memory is given back, as far as it shows.

    PyTorch keeps them in a hash table. If their memory is given back together, the recording shows
    the order; other pools come in the order of use.
    """
    order: list[int] = []
    used = history.allocations.pool.astype(np.int64)
    first = {int(pool): int((used == pool).argmax()) for pool in distinct(used)[0] if pool != NO_ID}
    if len(first) < 2:
        return list(first)
    ended = np.flatnonzero((lives.end_event < history.events) & (lives.pool != NO_ID))
    ended = ended[np.argsort(lives.end_event[ended], kind="stable")]
    breaks = np.flatnonzero(np.diff(lives.end_event[ended]) > 1) + 1
    runs = [list(dict.fromkeys(lives.pool[run].tolist())) for run in np.split(ended, breaks)]
    for run in sorted(runs, key=len, reverse=True):
        for place, pool in enumerate(run):
            if pool not in order:
                order.insert(order.index(run[place - 1]) + 1 if place else 0, pool)
    return order + sorted(set(first) - set(order), key=first.__getitem__)


def _failed_pools(history: DeviceHistory, ooms: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the pool of each failed request; if not recorded, that of the allocation before."""
    rows, recorded = history.allocations, history.other.pool[ooms]
    if not len(rows):
        return recorded
    before = np.searchsorted(rows.alloc_event, history.other.event[ooms]) - 1
    likely = np.where((before >= 0) & (rows.alloc_event[before] >= 0), rows.pool[before], NO_ID)
    return np.where(recorded != NO_ID, recorded, likely).astype(np.int32)


def _mark_freeable(
    tape: ReplayTape,
    lives: SegmentLives,
    life_lane: NDArray[np.int64],
    move_event: NDArray[np.int64],
) -> None:
    """Note from when on the segments of each private pool may be given back.

    From the first event that gives one back, until the pool serves a request again.
    """
    pools = list(dict.fromkeys(pool for pool, _ in tape.lanes if pool != DEFAULT_POOL))
    if not pools:
        return
    bit = [1 << pools.index(pool) if pool != DEFAULT_POOL else 0 for pool, _ in tape.lanes]
    ended: dict[int, list[int]] = {}
    for each, event in enumerate(lives.end_event.tolist()):
        ended.setdefault(event, []).append(each)
    given_back: dict[int, int] = {}
    recorded = tape.recorded
    for each in np.flatnonzero(np.isin(recorded.kind, (RETURNED, UNMAPPED))).tolist():
        address, op = recorded.address[each], int(recorded.op[each])
        for life in ended.get(int(move_event[each]), ()):
            if lives.address[life] <= address < lives.address[life] + lives.size[life]:
                given_back[op] = given_back.get(op, 0) | bit[life_lane[life]]
    now = 0
    for each, (op, row) in enumerate(zip(tape.op.tolist(), tape.row.tolist(), strict=True)):
        if op == ALLOCATE:
            now &= ~bit[tape.lane[row]]
        now |= given_back.get(each, 0)
        tape.freeable[each] = now


def _with_ranges(tape: ReplayTape, lives: SegmentLives, moved: NDArray[np.int64]) -> ReplayTape:
    """Note where expandable segments begin, and how far it is at least to what lies above one.

    Their length is 9/8 of the card's memory, which no file tells. One is there from the first of
    its memory on that is mapped until the last of it is unmapped.
    """
    ranges: list[list[int]] = []  # start, first event, last event, bytes mapped
    of_group: dict[tuple[int, int], list[int]] = {}
    last = int(lives.end_event.max(initial=0))

    def grow(group: tuple[int, int], address: int, size: int, event: int) -> None:
        if group not in of_group:
            of_group[group] = [address, event, last, 0]
            ranges.append(of_group[group])
        of_group[group][0] = min(of_group[group][0], address)
        of_group[group][3] += size

    for address, size, lane, large, expandable, _ in tape.segments.tolist():
        if expandable:
            grow((lane, large), address, size, START)
    at_start = dict(of_group)
    recorded = tape.recorded
    paged = np.flatnonzero(np.isin(recorded.kind, (MAPPED, UNMAPPED)))
    columns = (
        column[paged]
        for column in (recorded.op, recorded.kind, recorded.address, recorded.size, moved)
    )
    for op, kind, address, size, event in zip(*(each.tolist() for each in columns), strict=True):
        if kind == MAPPED and op != NO_ID:
            row = tape.row[op]
            lane = tape.failed_lane[op] if row == NO_ID else tape.lane[row]
            bytes_ = tape.failed_size[op] if row == NO_ID else tape.size[row]
            grow((int(lane), int(bytes_ > MIB)), address, size, event)
        elif kind == UNMAPPED:
            below = [group for group, each in of_group.items() if each[0] <= address]
            if below:
                group = max(below, key=lambda each: of_group[each][0])
                of_group[group][3] -= size
                if of_group[group][3] <= 0:
                    of_group.pop(group)[2] = event
    if len(ranges) > _MOST_RANGES:
        raise ValueError(f"more than {_MOST_RANGES} expandable segments")
    plain = lives.where(~lives.expandable)
    room = MOST_ROOM
    for base, first, end, _ in ranges:
        there = (plain.start_event < end) & (plain.end_event > first) & (plain.address > base)
        room = min(room, int((plain.address[there] - base).min(initial=room)))
        for other, start, stop, _ in ranges:
            if other > base and start < end and stop > first:
                room = min(room, other - base)
    for segment in tape.segments:
        if segment[4]:
            segment[5] = at_start[int(segment[2]), int(segment[3])][0]
    return replace(tape, room=room)

"""Opens the native library, made from its sources, and calls what it reads and writes for others.

``columns`` and ``allocator_replay`` have the functions for its other entry points.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import DTypeLike, NDArray

from snapreport.ground.errors import NativeLibraryError
from snapreport.ground.native.compiling import NAME, CompileError, compile_library, is_fresh
from snapreport.ground.records import dataclass

FOLDER = Path(__file__).parent


def _taken(kind: str, *flags: Literal["WRITEABLE"]) -> type[Any]:
    """Return the type of an argument: a contiguous array of numbers of a type."""
    return ndpointer(np.dtype(kind), flags=("C_CONTIGUOUS", *flags))


_U8, _U32, _I8, _I16, _I32, _I64 = map(_taken, ("u1", "u4", "i1", "i2", "i4", "i8"))
# Arrays that the library writes to.
_OUT8, _OUT32, _OUT64 = (_taken(kind, "WRITEABLE") for kind in ("?", "i4", "i8"))
_OUTU8, _OUTU32, _OUTU64 = (_taken(kind, "WRITEABLE") for kind in ("u1", "u4", "u8"))
_N, _SIZE, _INT, _P = ctypes.c_int64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p

# What each function returns, then what it takes; None for nothing.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "scan": (ctypes.c_size_t, _U8, ctypes.c_size_t),
    "events": (_INT, _U8, ctypes.c_size_t, _P),
    "events_free": (None, _P),
    "events_give": (None, _P),
    "release": (None, _P),
    "rows": (
        *(_INT, _U8, _SIZE, _SIZE, _I64, _SIZE, _SIZE),
        *(_OUT64, _OUT64, _OUT8, _SIZE, _SIZE, _OUTU64, _OUTU64),
    ),
    "deflate": (_N, _U8, _SIZE, _U32, _SIZE, _SIZE, _OUTU32, _OUTU8, _SIZE),
    "leaves": (_N, _P, _OUTU8, _SIZE, _SIZE, _OUT64, _OUTU32, _SIZE, _P),
    "strips_begin": (_INT, _P),
    "strips_go_on": (_SIZE, _P, _SIZE),
    "replay": (_INT, _P),
    "replay_begin": (_INT, _P),
    "replay_go_on": (_INT, _P),
    "replay_blocks": (_N, _P, _OUT64, _N),
    "replay_end": (None, _P),
    "appear": (_N, _I32, _N, _OUT32, _N, _OUT32, _OUT32),
    "number": (_N, _I64, _N, _OUT32, _N, _OUT64, _N, _OUT64),
    "alike": (_N, _P, _N, _N, _OUT32, _N, _OUT64, _OUT64),
    "pair": (_INT, _I16, _I64, _I64, _N, _I8, _N, _N, _OUT32, _OUT64, _OUT64, _OUT64),
    "count_before": (_INT, _I64, _N, _OUT32, _N, _OUT32),
    "by_kind": (_INT, _I64, _N, _I64, _I64, _I64, _I32, _N, _INT, _OUT32, _OUT32, _OUT64),
    "sum_live": (_INT, _I64, _I64, _I64, _N, _N, _OUT64),
    "tops": (_INT, _I64, _N, _OUT64),
    "peak_without": (_INT, _I64, _N, _I64, _INT, _I64, _I64, _I64, _N, _OUT64),
    "weigh": (_INT, _I64, _I64, _N, _OUT64),
    "locate": (_INT, _I64, _I64, _I64, _I64, _I64, _N, _I64, _I64, _N, _OUT32),
    "fragmentation": (
        *(_INT, _I64, _I64, _I64, _I32, _I32, _N, _N),
        *(_I64, _I64, _I64, _I64, _N, _OUT64, _OUT32, _OUT32, _OUT64),
    ),
    "segments": (_N, _I64, _N, _I8, _I64, _I64, _I64, _I64, _N, _OUT64, _N, _OUT64),
    "holes": (
        *(_INT, _I64, _N, _I64, _I64, _I64, _I64, _I64, _N),
        *(_I64, _I64, _I64, _I64, _I64, _I64, _N, _OUT32, _OUT32, _OUT64, _OUT64),
    ),
}

NO_ROOM, _OUT_OF_RANGE = -1, -2
"""What some functions return if they fail, as in native.h."""

_INTEGERS = ("addr", "size", "stream", "time_us")
_IDS = (
    "action", "stack", "compile_context", "metadata", "category", "pool", "forward", "internal",
)  # fmt: skip


class Events(ctypes.Structure):
    """What was read from a pickle: ``parsed`` in events.c."""

    _fields_ = (
        ("machine", _P),
        ("integers", _P * len(_INTEGERS)),
        ("ids", _P * len(_IDS)),
        *((name, _P) for name in ("traces", "stacks", "stack_frames", "unknowns", "rest")),
        *((f"n_{name}", _SIZE) for name in ("rows", "traces", "stacks")),
        *((f"n_{name}", _SIZE) for name in ("stack_frames", "unknowns", "rest")),
    )


class Written(ctypes.Structure):
    """A table of which leaves are written: ``written`` in pages.c."""

    _fields_ = (
        *((name, _P) for name in ("columns", "texts")),
        *((name, _SIZE) for name in ("n_columns", "n", "n_texts")),
        ("null", _N),
        *((name, _SIZE) for name in ("nullable", "first_id", "text", "has_id", "row")),
    )


class Strips(ctypes.Structure):
    """The state of the writer of strips, and its tables: ``strips`` in strips.c."""

    _fields_ = (
        *((name, _P) for name in ("alloc_event", "free_event", "size", "drawn")),
        *((name, _P) for name in ("samples", "live", "freed")),
        *((name, _P) for name in ("point_events", "point_offsets", "text", "marks")),
        *((name, _SIZE) for name in ("n_rows", "n_samples", "room_points", "room_text")),
        *((name, _SIZE) for name in ("room_marks", "most_points")),
        *((name, _N) for name in ("events", "end", "first_id")),
        *((name, _SIZE) for name in ("row", "first_sample", "n_points", "total")),
        *((name, _SIZE) for name in ("moving", "n_marks")),
    )


class Replay(ctypes.Structure):
    """What is replayed, under which settings, and the result: ``replay`` in allocator.c."""

    _fields_ = (
        *((name, _P) for name in ("op", "row", "given", "freeable", "failed_size", "failed_lane")),
        *((name, _P) for name in ("rounded", "lane", "address", "block", "start_rows")),
        *((name, _P) for name in ("lane_pool", "segments", "placed", "sizes", "events", "model")),
        *((name, _N) for name in ("n_ops", "n_rows", "n_start", "n_lanes", "n_segments")),
        *((name, _N) for name in ("room_events", "expandable", "max_split", "rounding")),
        *((name, _N) for name in ("large_segment", "garbage", "capacity", "limit", "room")),
        *((name, _N) for name in ("policy", "seed", "below", "above", "stop", "live")),
        *((name, _N) for name in ("n_events", "reserved", "peak", "allocated", "peak_allocated")),
        *((name, _N) for name in ("retries", "driver_calls", "failed_op", "enough")),
    )


@functools.cache
def library() -> Any:
    """Return the library; its functions are named as in C, without ``snapreport_``.

    Raises:
        NativeLibraryError: it is missing, or was not made from the sources.
    """
    return _opened(FOLDER)


def _opened(folder: Path) -> SimpleNamespace:
    path = folder / NAME
    try:
        wrong = "" if is_fresh(folder) else "was not made from the sources beside it"
    except FileNotFoundError:
        wrong = "is missing"
    if wrong and not (folder.parents[2] / "hatch_build.py").is_file():  # not a checkout
        raise NativeLibraryError(
            f"snapreport's native library {path} {wrong};"
            " install snapreport again, with pip's option --force-reinstall."
        )
    try:
        if wrong:
            compile_library(folder)
        loaded, functions = ctypes.CDLL(str(path)), SimpleNamespace()
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = loaded[f"snapreport_{name}"]
            function.argtypes, function.restype = arguments, result
            setattr(functions, name, function)
        functions.symbols = loaded  # for functions that only other libraries call
        return functions
    except CompileError as error:
        raise NativeLibraryError(
            f"snapreport's native library {path} {wrong}, and {error}"
        ) from error
    except (OSError, AttributeError) as error:  # made for another machine
        raise NativeLibraryError(
            f"snapreport's native library cannot be used ({error}); delete {path} and install"
            " snapreport again."
        ) from error


def taken(kind: DTypeLike, n: int, *columns: NDArray[Any]) -> list[NDArray[Any]]:
    """Return columns as contiguous arrays of the type that the library takes.

    Args:
        kind: the type of their numbers.
        n: how many numbers each column has.
        columns: of this type, or of one that fits into it.

    Raises:
        TypeError: a column has numbers that do not fit.
        ValueError: a column has another shape.
    """
    for column in columns:
        if column.shape != (n,):
            raise ValueError(f"a column of {n:,} numbers has the shape {column.shape}")
    return [np.ascontiguousarray(each.astype(kind, casting="safe", copy=False)) for each in columns]


def checked(answer: int) -> int:
    """Return the result of a function, if it succeeded.

    Raises:
        ValueError: it refused its arguments.
        MemoryError: there was not enough memory.
    """
    if answer == _OUT_OF_RANGE:
        raise ValueError("a number, an order or a length is out of range")
    if answer == NO_ROOM:
        raise MemoryError
    return answer


def address(array: NDArray[Any]) -> int:
    """Return the address of an array, which the caller must keep alive."""
    return int(array.ctypes.data)


def pointer(structure: Events | Replay | Strips | Written) -> Any:
    """Return a pointer to a structure, as functions take it."""
    return ctypes.byref(structure)


def copied(place: int | None, length: int, kind: DTypeLike) -> NDArray[Any]:
    """Return a copy of an array that the library owns."""
    dtype = np.dtype(kind)
    if not length:
        return np.empty(0, dtype)
    raw = (ctypes.c_char * (length * dtype.itemsize)).from_address(place or 0)
    return np.array(np.frombuffer(memoryview(raw), dtype))


def _owned(place: int, length: int, kind: DTypeLike) -> NDArray[Any]:
    """Return an array that the library made, and releases with its last view."""
    if not length:
        return np.empty(0, kind)
    raw = (ctypes.c_char * (length * np.dtype(kind).itemsize)).from_address(place)
    weakref.finalize(raw, library().release, place).atexit = False
    return np.frombuffer(memoryview(raw), np.dtype(kind))


def _text_at(place: int | None, length: int) -> bytes:
    """Return a copy of bytes that the library owns."""
    return ctypes.string_at(place or 0, length) if length else b""


# The rows in the leaves of an SQLite table.

_MOST_TEXTS, _LENGTH_BITS = 64, 6  # as in pages.c


def read_leaves(
    data: NDArray[np.uint8],
    page_size: int,
    leaves: NDArray[np.int64],
    shape: tuple[int, int],
    text: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], list[bytes]] | None:
    """Return the ids, the values and where they are NULL, and the distinct texts.

    Args:
        data: uint8, shape (size,): an SQLite file.
        page_size: bytes of its pages.
        leaves: int64, shape (n_leaves,): where the leaves begin, in order.
        shape: how many columns there are, and how many rows the leaves say that they have.
        text: the column that holds texts; its values are places in the returned texts.

    Returns:
        int64, shape (n_rows,), ascending; int64 and bool of the given shape; and the texts. None
        if the rows have another form, such as floats, longer texts or too many of them.
    """
    width, n = shape
    ids, values, missing = np.empty(n, np.int64), np.empty(shape, np.int64), np.empty(shape, "?")
    texts, n_texts = np.empty(_MOST_TEXTS, np.uint64), np.empty(1, np.uint64)
    (starts,) = taken(np.int64, len(leaves), leaves)
    done = library().rows(
        *(data, len(data), page_size, starts, len(starts), width),
        *(ids, values, missing, n, width if text is None else text, texts, n_texts),
    )
    if not done:
        return None
    places = [divmod(place, 1 << _LENGTH_BITS) for place in texts[: int(n_texts[0])].tolist()]
    return ids, values, missing, [data[at : at + length].tobytes() for at, length in places]


PAGE_SIZE = 4096
"""Bytes of a page that is written: SQLite's default."""

_PAGES_AT_ONCE = 128


MOST_TEXT = 16
"""Bytes of a text that is written, as in pages.c."""


def write_leaves(
    columns: Sequence[NDArray[np.int64]],
    first_id: int,
    null: int,
    nullable: Sequence[bool],
    has_id: bool = True,
    text: tuple[int, Sequence[bytes]] | None = None,
) -> Iterator[tuple[Marked, NDArray[np.int64]]]:
    """Yield the leaves of a table of integers, some at a time, and the last id in each of them.

    Args:
        columns: int64, shape (n,) each: the cells, those of the id excepted.
        first_id: of the first row.
        null: stands for NULL, in the columns that may be NULL.
        nullable: whether each column may be.
        has_id: the table's first column is the id; without one SQLite numbers the rows.
        text: a column of texts, and those that its numbers are places of; at most MOST_TEXT bytes
            each, and none of them 0.

    Raises:
        ValueError: there are too many columns, the ids are out of range, a text is too long, or
            there is no such text.
    """
    n, width = len(columns[0]), len(columns)
    cells = taken(np.int64, n, *columns)
    places = np.array([address(column) for column in cells], np.uintp)
    place, texts = text or (width, ())
    known = np.array(texts, f"S{MOST_TEXT}")
    if known.tolist() != list(texts):
        raise ValueError(f"a text has more than {MOST_TEXT} bytes, or ends in 0")
    table = Written(
        columns=address(places), texts=address(known), n_columns=width, n=n, n_texts=len(known),
        null=null, nullable=sum(may << column for column, may in enumerate(nullable)),
        first_id=first_id, text=place, has_id=has_id, row=0,
    )  # fmt: skip
    n_marks = ctypes.c_uint64(0)
    # A row has two marks and one for each column, and bytes for these and two others.
    room = _PAGES_AT_ONCE * (PAGE_SIZE // (width + 4) * (width + 2) + 2)
    out, marks = np.empty(_PAGES_AT_ONCE * PAGE_SIZE, np.uint8), np.empty(room, np.uint32)
    last_ids = np.empty(_PAGES_AT_ONCE, np.int64)
    while table.row < n:
        pages = checked(
            library().leaves(
                *(pointer(table), out, PAGE_SIZE, _PAGES_AT_ONCE, last_ids),
                *(marks, len(marks), ctypes.byref(n_marks)),
            )
        )
        data = out[: pages * PAGE_SIZE].tobytes()
        yield Marked(data, marks[: n_marks.value].copy(), 3), last_ids[:pages].copy()


# Pickles: their opcodes checked, or their trace events as columns.

# As in events.c.
_TRACE = np.dtype([("begin", np.int64), ("end", np.int64), ("first_keys", np.int64)])
_STACK = np.dtype(
    [(name, np.uint64) for name in ("start", "hash", "text")]
    + [(name, np.uint32) for name in ("length", "n_text", "written", "next")]
)
_UNKNOWN = np.dtype([(name, np.int64) for name in ("trace", "text", "count", "last")])


def scan(data: bytes | mmap.mmap) -> int:
    """Return the place of the first opcode that is not allowed or not complete, or of STOP."""
    view = np.frombuffer(data, np.uint8)  # keeps the data alive while its address is in use
    return int(library().scan(view, len(view)))


@dataclass(frozen=True, eq=False)
class Columns:
    """The events of a pickle, and the rest of it."""

    by_name: dict[str, NDArray[Any]]
    """A column for each of _INTEGERS, int64, and of _IDS, int32; all have the same shape (n,)."""
    traces: NDArray[Any]
    """Records of ``begin`` and ``end``, rows of the events; and ``first_keys``, bits."""
    unknowns: NDArray[Any]
    """Records of ``trace``, ``text`` and ``count``: keys of events that we do not know."""
    stack_start: NDArray[np.uint64]
    """uint64, shape (n_stacks,): where each stack begins in ``stack_frames``."""
    stack_frames: NDArray[np.int32]
    """int32: the frames of all stacks, one after the other."""
    rest: bytes
    """A pickle of (the snapshot without events, the frames, the texts, the pairs of integers)."""


def columns_of(found: Events) -> Columns:
    """Return the events of a pickle as columns, which it then no longer has."""
    none = np.full(found.n_rows, -1, np.int32)  # where no event has one
    library().events_give(pointer(found))  # first: whatever ends this, nothing is freed twice
    columns = {
        name: none if not place and found.n_rows else _owned(place, found.n_rows, kind)
        for names, places, kind in (
            (_INTEGERS, found.integers, np.int64),
            (_IDS, found.ids, np.int32),
        )
        for name, place in zip(names, places, strict=True)
    }
    return Columns(
        columns,
        copied(found.traces, found.n_traces, _TRACE),
        copied(found.unknowns, found.n_unknowns, _UNKNOWN),
        copied(found.stacks, found.n_stacks, _STACK)["start"],
        copied(found.stack_frames, found.n_stack_frames, np.int32),
        _text_at(found.rest, found.n_rest),
    )


@contextmanager
def events(data: bytes | mmap.mmap) -> Iterator[Events | None]:
    """Read a pickle, and keep its events during the body; None if it does not have the usual form.

    Such a pickle may be anything, a snapshot or not, safe or not. ``columns_of()`` takes the
    events; how many of them and of traces there are is in ``n_rows`` and ``n_traces``.
    """
    found, opened = Events(), library()
    view = np.frombuffer(data, np.uint8)
    try:
        done = opened.events(view, len(view), pointer(found))
    finally:
        del view  # a traceback, as of a signal, would keep it alive, and the file open
    if not done:
        yield None
        return
    try:
        yield found
    finally:
        opened.events_free(pointer(found))


# Members of a bundle, deflated where their writers say that fields begin.


class Marked(NamedTuple):
    """Some bytes, and where their fields begin."""

    data: bytes
    marks: NDArray[np.uint32]
    """uint32, ascending: places, with the kind of field above their lowest 28 bits."""
    least: int = 5
    """Bytes that are worth to be looked up: fewer where bytes are less alike than digits are."""


_MOST_HEADER = 2048
"""Bytes of a block at most, if there are none of its data."""


def deflated(part: Marked) -> bytes:
    """Return a block of deflate that refers to nothing before it, and ends on a whole byte.

    Raises:
        ValueError: a mark is out of range or order, or there are no bytes.
    """
    size = len(part.data)
    data, out = np.frombuffer(part.data, np.uint8), np.empty(2 * size + _MOST_HEADER, np.uint8)
    (marks,) = taken(np.uint32, len(part.marks), part.marks)
    tokens = np.empty(size, np.uint32)
    length = library().deflate(data, size, marks, len(marks), part.least, tokens, out, len(out))
    return out[: checked(length)].tobytes()


# The rows of ``allocations.json``, laid out as they are written.

_POINT_TEXT = 2 * 21 + (64 + 3 * 20) // 2
"""Characters of a point at most, with its share of the rest of its row: as in strips.c."""


_POINT_MARKS = 3 + 6 // 2
"""Marks of a point at most, in the same way."""


class StripRows:
    """Writes the rows of a device; each call goes on where the last one stopped."""

    def __init__(
        self,
        rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        drawn: NDArray[np.bool_] | None,
        samples: NDArray[np.int64],
        events: int,
        first_id: int,
        most_points: int,
    ) -> None:
        """Make the tables, and check the input.

        Args:
            rows: the event of each allocation's birth, ascending from -1 on, the later event of its
                end, and its size. int64, shape (n,).
            drawn: bool, shape (n,), whether each is drawn; None where all are.
            samples: int64, shape (n_samples,), where to sample: ascending, with the last event.
            events: how many events there are.
            first_id: the first row's ``elem``.
            most_points: of rows that are written at once, if they are more than one.

        Raises:
            ValueError: events or sizes are not valid.
        """
        self._n, end = len(rows[0]), max(events, 1)
        room = 2 * len(samples) + 2
        alloc_event, free_event, size = taken(np.int64, self._n, *rows)
        self._tables: dict[str, NDArray[Any]] = {
            "alloc_event": alloc_event,
            "free_event": free_event,
            "size": size,
            "samples": taken(np.int64, len(samples), samples)[0],
            "live": np.zeros(len(samples), np.uint64),
            "freed": np.zeros(end + 1, np.uint64),
            "point_events": np.empty(room, np.int64),
            "point_offsets": np.empty(room, np.uint64),
            "text": np.empty(max(room, most_points) * _POINT_TEXT, np.uint8),
            "marks": np.empty(max(room, most_points) * _POINT_MARKS, np.uint32),
        }
        if drawn is not None:
            self._tables["drawn"] = taken(np.bool_, self._n, drawn)[0]
        self._strips = Strips(
            **{name: address(table) for name, table in self._tables.items()},
            n_rows=self._n,
            n_samples=len(samples),
            room_points=room,
            room_text=len(self._tables["text"]),
            room_marks=len(self._tables["marks"]),
            most_points=most_points,
            events=events,
            end=end,
            first_id=first_id,
        )
        if not library().strips_begin(pointer(self._strips)):
            raise ValueError("the allocations or the events are not in order")

    def up_to(self, row: int) -> Iterator[Marked]:
        """Yield the next rows up to this one, some at a time, with what comes before each."""
        while length := library().strips_go_on(pointer(self._strips), row):
            marks = self._tables["marks"][: self._strips.n_marks].copy()
            yield Marked(_text_at(self._strips.text, length), marks)

"""Opens the native library, and makes sure that it was made from its sources."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.ctypeslib import ndpointer

from snapreport.ground.errors import NativeLibraryError
from snapreport.native.compiling import NAME, CompileError, compile_library, is_fresh

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

FOLDER = Path(__file__).parent


def _taken(kind: str, *flags: Literal["WRITEABLE"]) -> type[Any]:
    """Return the type of an argument: a contiguous array of numbers of a type."""
    return ndpointer(np.dtype(kind), flags=("C_CONTIGUOUS", *flags))


_U8, _I8, _I32, _I64 = map(_taken, ("u1", "i1", "i4", "i8"))
# Arrays that the library writes to.
_OUT8, _OUT32, _OUT64 = (_taken(kind, "WRITEABLE") for kind in ("?", "i4", "i8"))
_OUTU64 = _taken("u8", "WRITEABLE")
_N, _SIZE, _INT, _P = ctypes.c_int64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p

# What each function returns, then what it takes; None for nothing.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "scan": (ctypes.c_size_t, _U8, ctypes.c_size_t),
    "events": (_INT, _U8, ctypes.c_size_t, _P),
    "events_free": (None, _P),
    "rows": (
        *(_INT, _U8, _SIZE, _SIZE, _I64, _SIZE, _SIZE),
        *(_OUT64, _OUT64, _OUT8, _SIZE, _SIZE, _OUTU64, _OUTU64),
    ),
    "strips_begin": (_INT, _P),
    "strips_go_on": (_SIZE, _P, _SIZE),
    "replay": (_INT, _P),
    "number": (_N, _I64, _N, _OUT32, _N, _OUT64, _N, _OUT64),
    "sum_live": (_INT, _I64, _I64, _I64, _N, _N, _OUT64),
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

INTEGERS = ("addr", "size", "stream", "time_us")
IDS = (
    "action", "stack", "compile_context", "metadata", "category", "pool", "forward", "internal",
)  # fmt: skip


class Events(ctypes.Structure):
    """What was read from a pickle: ``parsed`` in events.c."""

    _fields_ = (
        ("machine", _P),
        ("integers", _P * len(INTEGERS)),
        ("ids", _P * len(IDS)),
        *((name, _P) for name in ("traces", "stacks", "stack_frames", "unknowns", "rest")),
        *((f"n_{name}", _SIZE) for name in ("rows", "traces", "stacks")),
        *((f"n_{name}", _SIZE) for name in ("stack_frames", "unknowns", "rest")),
    )


class Strips(ctypes.Structure):
    """The state of the writer of strips, and its tables: ``strips`` in strips.c."""

    _fields_ = (
        *((name, _P) for name in ("alloc_event", "free_event", "size", "drawn")),
        *((name, _P) for name in ("samples", "live", "freed")),
        *((name, _P) for name in ("point_events", "point_offsets", "text")),
        *((name, _SIZE) for name in ("n_rows", "n_samples", "room_points", "room_text")),
        ("most_points", _SIZE),
        *((name, _N) for name in ("events", "end", "first_id")),
        *((name, _SIZE) for name in ("row", "first_sample", "n_points", "total")),
        ("moving", _SIZE),
    )


class Replay(ctypes.Structure):
    """What is replayed, under which settings, and the result: ``replay`` in allocator.c."""

    _fields_ = (
        *((name, _P) for name in ("op", "row", "given", "freeable", "failed_size", "failed_lane")),
        *((name, _P) for name in ("rounded", "lane", "address", "block", "start_rows")),
        *((name, _P) for name in ("lane_pool", "segments", "placed", "events")),
        *((name, _N) for name in ("n_ops", "n_rows", "n_start", "n_lanes", "n_segments")),
        *((name, _N) for name in ("room_events", "expandable", "max_split", "rounding")),
        *((name, _N) for name in ("large_segment", "garbage", "capacity", "limit", "room")),
        *((name, _N) for name in ("policy", "seed", "below", "stop", "n_events", "reserved")),
        *((name, _N) for name in ("peak", "retries", "driver_calls", "failed_op")),
        ("enough", _N),
    )


@functools.cache
def library() -> Any:
    """Return the library; its functions are named as in C, without ``snapreport_``.

    Raises:
        NativeLibraryError: it is missing, or was not made from the sources.
    """
    return _opened(FOLDER)


class _Library:
    """The functions by name, with their argument types."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = loaded[f"snapreport_{name}"]
            function.argtypes, function.restype = arguments, result
            setattr(self, name, function)


def _opened(folder: Path) -> _Library:
    path = folder / NAME
    try:
        wrong = "" if is_fresh(folder) else "was not made from the sources beside it"
    except FileNotFoundError:
        wrong = "is missing"
    if wrong and not (folder.parents[1] / "hatch_build.py").is_file():  # not a checkout
        raise NativeLibraryError(
            f"snapreport's native library {path} {wrong};"
            " install snapreport again, with pip's option --force-reinstall."
        )
    try:
        if wrong:
            compile_library(folder)
        return _Library(ctypes.CDLL(str(path)))
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


def pointer(structure: Events | Replay | Strips) -> Any:
    """Return a pointer to a structure, as functions take it."""
    return ctypes.byref(structure)


def copied(place: int | None, length: int, kind: DTypeLike) -> NDArray[Any]:
    """Return a copy of an array that the library owns."""
    dtype = np.dtype(kind)
    if not length:
        return np.empty(0, dtype)
    raw = (ctypes.c_char * (length * dtype.itemsize)).from_address(place or 0)
    return np.array(np.frombuffer(memoryview(raw), dtype))


def text_at(place: int | None, length: int) -> bytes:
    """Return a copy of bytes that the library owns."""
    return ctypes.string_at(place or 0, length) if length else b""

"""Find and call what was compiled from the C sources beside this when the package was installed.

The libraries are options: where there was no C compiler, or for one of them no headers of Python,
and wherever something unusual is met, the Python code beside them does the same more slowly. They
are plain shared libraries, so that one build serves every version of Python.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.libraries import Shape, open_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

_P, _N = ctypes.c_void_p, ctypes.c_ssize_t


@functools.cache
def _opcodes() -> ctypes.CDLL | None:
    """Return the library made from ``opcodes.c``, None where there is none to use."""
    shapes = {"snapreport_scan": (ctypes.c_size_t, _P, ctypes.c_size_t)}
    library: ctypes.CDLL | None = _open(
        ctypes.CDLL, "_opcodes.so", "snapreport_scan_version", shapes
    )
    return library


@functools.cache
def _columns() -> ctypes.PyDLL | None:
    """Return the library made from ``columns.c``, None where there is none to use."""
    # Builds for debugging or without the global lock lay objects out in other ways.
    if sys.implementation.name != "cpython" or vars(sys).get("abiflags"):
        return None
    objects = (ctypes.py_object, ctypes.py_object)
    shapes: dict[str, Shape] = {
        "snapreport_integers": (ctypes.c_int32, *objects, _P, _N),
        "snapreport_groups": (_N, *objects, _P, _P, _P, _P, _N, _N),
    }
    library: ctypes.PyDLL | None = _open(
        ctypes.PyDLL, "_columns.so", "snapreport_columns_version", shapes
    )
    return library


@functools.cache
def events() -> ctypes.CDLL | None:
    """Return the library made from ``events.c``, None where there is none; parsed.py calls it."""
    shapes: dict[str, Shape] = {
        "snapreport_events": (ctypes.c_int32, _P, ctypes.c_size_t, _P),
        "snapreport_events_free": (None, _P),
    }
    library: ctypes.CDLL | None = _open(
        ctypes.CDLL, "_events.so", "snapreport_events_version", shapes
    )
    return library


def _open(kind: type[Any], name: str, version: str, shapes: Mapping[str, Shape]) -> Any:
    return open_library(kind, Path(__file__).with_name(name), version, shapes)


def scan(data: bytes | mmap.mmap) -> int | None:
    """Do as ``opcodes.scan``; None where there is no library."""
    library = _opcodes()
    if library is None:
        return None
    view = np.frombuffer(data, np.uint8)  # holds on to the data while its address is in use
    position: int = library.snapreport_scan(view.ctypes.data, len(view))
    return position


def take_integers(rows: Sequence[Any], key: str) -> NDArray[np.int64] | None:
    """Return an integer field of each row; None where there is no library, or a row has none."""
    library = _columns()
    if library is None or type(rows) is not list:
        return None
    column = np.empty(len(rows), np.int64)
    return column if library.snapreport_integers(rows, key, column.ctypes.data, len(rows)) else None


def group_lists(
    rows: Sequence[Any], key: str
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """Group the lists that the rows have in a field, by having the same objects in them.

    Returns:
        each row's group, int32, -1 where it has no such field; and the first row of each group,
        int32, ascending. None where there is no library, or what is there is no list.
    """
    library = _columns()
    if library is None or type(rows) is not list:
        return None
    n, slots = len(rows), 1 << (2 * len(rows)).bit_length()
    group, first = np.empty(n, np.int32), np.empty(n, np.int32)
    hashes, table = np.empty(n, np.uint64), np.full(slots, -1, np.int32)
    addresses = [array.ctypes.data for array in (group, first, hashes, table)]
    groups = library.snapreport_groups(rows, key, *addresses, n, slots)
    return None if groups < 0 else (group, first[:groups])

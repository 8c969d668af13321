"""Find and call what was compiled from ``opcodes.c`` when the package was installed, if it was.

It is a plain shared library, which knows nothing of Python: one build serves every version. Where
there was no C compiler, ``opcodes.scan`` does the same more slowly.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from pathlib import Path

import numpy as np

NAME = "_opcodes.so"
"""The library's file, beside this one; the same name on every system."""

OFF = "SNAPREPORT_NO_COMPILED"
"""Set this in the environment to do without the library."""

_VERSION = 1


@functools.cache
def _library() -> ctypes.CDLL | None:
    path = Path(__file__).with_name(NAME)
    if os.environ.get(OFF) or not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        library.snapreport_scan_version.argtypes = ()
        library.snapreport_scan_version.restype = ctypes.c_int32
        if library.snapreport_scan_version() != _VERSION:
            raise OSError("it was compiled from another version's source")
        library.snapreport_scan.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        library.snapreport_scan.restype = ctypes.c_size_t
    except (OSError, AttributeError) as error:  # built for another machine, or out of date
        import logging  # otherwise not worth its time

        logging.getLogger(__name__).warning("%s is not used: %s", path, error)
        return None
    return library


def is_compiled() -> bool:
    """Say whether the library is there and in use."""
    return _library() is not None


def scan_compiled(data: bytes | mmap.mmap) -> int:
    """Do as ``opcodes.scan``, with the library; it must be there."""
    library = _library()
    assert library is not None
    view = np.frombuffer(data, np.uint8)  # holds on to the data while its address is in use
    position: int = library.snapreport_scan(view.ctypes.data, len(view))
    return position

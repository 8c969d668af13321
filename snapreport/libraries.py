"""Open what was compiled from the C sources in the package when it was installed.

The libraries are options: where there was no C compiler, and wherever something unusual is met,
the Python code beside them does the same more slowly. They are plain shared libraries, so that
one build serves every version of Python.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OFF = "SNAPREPORT_NO_COMPILED"
"""Set this in the environment to do without the libraries."""

_VERSION = 1


Shape = tuple[Any, ...]
"""What a function of a library returns, then what it takes: types of ctypes, None for nothing."""


def open_library(kind: type[Any], path: Path, version: str, shapes: Mapping[str, Shape]) -> Any:
    """Return a library, its functions ready to be called; None where there is none to use.

    Args:
        kind: ``ctypes.CDLL``, or ``ctypes.PyDLL`` for one that works on Python's objects.
        path: where it is.
        version: the name of its function that says from which version's source it was made.
        shapes: of its other functions that are used, by name.
    """
    if os.environ.get(OFF) or not path.is_file():
        return None
    try:
        library = kind(str(path))
        asked = getattr(library, version)
        asked.argtypes, asked.restype = (), ctypes.c_int32
        if asked() != _VERSION:
            raise OSError("it was compiled from another version's source")
        for name, (result, *arguments) in shapes.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:  # built for another machine, or out of date
        import logging  # otherwise not worth its time

        logging.getLogger(__name__).warning("%s is not used: %s", path, error)
        return None
    return library

"""The larger figures of a run's ranks in a file: memory has only a few numbers of each."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable
from dataclasses import fields
from typing import IO, Any

from snapreport.model.run import DeviceFacts

_LARGE = ("by_event", "by_time", "holders", "steps", "failed", "findings")
_ALL = tuple(each.name for each in fields(DeviceFacts))


class Shelf:
    """A file without a name, which ends with the last device that has figures in it."""

    def __init__(self) -> None:
        """Begin without a file: the first device makes one."""
        self._file: IO[bytes] | None = None
        self._full = False
        self._lock = threading.Lock()
        self._ends = array("q", [0])

    def put(self, device: DeviceFacts) -> DeviceFacts:
        """Return the device with its larger figures in the file, read each time they are used.

        Where the folder for temporary files cannot take them they stay in memory.
        """
        if self._full:
            return device
        try:
            return self._put(device)
        except OSError:
            self._full = True  # where the file ends is not known from now on
            return device

    def _put(self, device: DeviceFacts) -> DeviceFacts:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        kept = object.__new__(_OnShelf)
        put = object.__setattr__
        put(kept, "shelf", self)
        put(kept, "number", len(self._ends) - 1)
        for name in _ALL:
            value = getattr(device, name)
            if name not in _LARGE:
                put(kept, name, sys.intern(value) if isinstance(value, str) else value)
            elif not value:
                put(kept, name, value)
                self._ends.append(self._ends[-1])
            else:
                self._ends.append(self._ends[-1] + self._file.write(pickle.dumps(value, 5)))
        self._file.flush()
        return kept

    def get(self, number: int) -> Any:
        """Return the figures of a number; a device has as many numbers as kinds of figures."""
        assert self._file is not None
        begin, end = self._ends[number : number + 2]
        if hasattr(os, "pread"):  # which leaves the place in the file alone: forks share it
            data = os.pread(self._file.fileno(), end - begin, begin)
        else:
            with self._lock:
                self._file.seek(begin)
                data = self._file.read(end - begin)
                self._file.seek(0, 2)
        return pickle.loads(data)  # noqa: S301  (nobody else can have written it)


class _OnShelf(DeviceFacts):
    """A device whose larger figures are in a file, but for those that are empty."""

    __slots__ = ("number", "shelf")
    number: int
    shelf: Shelf

    def __getattr__(self, name: str) -> Any:
        if name not in _LARGE:
            raise AttributeError(name)
        return self.shelf.get(self.number + _LARGE.index(name))

    def __reduce__(self) -> tuple[Callable[..., DeviceFacts], tuple[Any, ...]]:
        return DeviceFacts, tuple(getattr(self, name) for name in _ALL)

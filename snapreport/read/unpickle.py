"""Loads pickles of plain data only: no class, no call, nothing that runs."""

from __future__ import annotations

import io
import mmap
import pickle
from typing import Any, NoReturn

from snapreport.ground.errors import NotASnapshotError, UnsafePickleError
from snapreport.read.memory_need import parsed_memory, require_memory, unpickled_memory
from snapreport.read.opcodes import check_opcodes
from snapreport.read.parsed import parse


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that refuses every class and every persistent object.

    ``check_opcodes`` has already refused them all; this is a second line of defence.
    """

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(
            f"asks for {module}.{name}, and a snapshot has no classes; nothing in it was run."
        )

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise UnsafePickleError("asks for a persistent object; nothing in it was run.")


def load_plain_pickle(data: bytes | mmap.mmap) -> Any:
    """Load a pickle of dicts, lists, tuples, strings and numbers.

    Args:
        data: the pickle, uncompressed.

    Raises:
        UnsafePickleError: it holds anything that could run code; nothing in it was run.
        NotASnapshotError: it is damaged.
        NotEnoughMemoryError: it is too large for this machine.
    """
    check_opcodes(data)
    require_memory(unpickled_memory(data))
    return _load(data)


def load_snapshot_pickle(data: bytes | mmap.mmap) -> Any:
    """Load a pickle like ``load_plain_pickle()``, but its device traces as columns where possible.

    Returns:
        the object; if it is a snapshot of the usual form, its ``device_traces`` are
        a list of ``ParsedTrace``.

    Raises:
        UnsafePickleError, NotASnapshotError, NotEnoughMemoryError: as ``load_plain_pickle()``.
    """
    require_memory(parsed_memory(data))
    top = parse(data, _load)
    return load_plain_pickle(data) if top is None else top


def _load(data: bytes | mmap.mmap) -> Any:
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        return _PlainUnpickler(stream).load()
    except UnsafePickleError:
        raise
    except Exception as error:
        # The C unpickler raises nearly any class on damaged input (KeyError, EOFError, ...).
        reason = str(error) or type(error).__name__
        raise NotASnapshotError(
            f"is a damaged pickle ({reason}); copy or record it again."
        ) from error

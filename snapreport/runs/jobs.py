"""Decide how many files to work on at once, by this machine's processors and memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from snapreport.bundle.archive import checked_members
from snapreport.ground.errors import SnapreportError
from snapreport.ground.files import open_regular
from snapreport.ground.processes.machine import available_memory, usable_cpus
from snapreport.ground.remote.remote_paths import is_remote
from snapreport.runs.engines.engine_choice import Engine

_MIB = 1 << 20
_PROCESS = 64 * _MIB
"""What a process needs for a small file."""
_PICKLE, _JSON, _TABLES = 8, 9, 12
"""Peak memory in multiples of the unpacked pickle, the JSON, and a bundle's elements.db. A million
events need 5.5 times their pickle and 11.8 times their tables; small files with deep call stacks
up to 10 times the pickle, most of which _PROCESS covers; JSON of 100 MB 7.3 to 7.9 times its
size."""
_PACKED = 10
"""How many times larger an unpacked snapshot usually is at most, if it does not state its size."""


def jobs_for(engine: Engine | Executor, sources: Sequence[Path], wanted: int | None) -> int | None:
    """Return how many files to work on at once, or None to let a cluster decide.

    Args:
        engine: where to work; a running cluster and a caller's executor know their own machines.
        sources: the files.
        wanted: the number that the user gave.
    """
    if wanted is not None:
        return min(wanted, len(sources))
    if isinstance(engine, Executor) or engine.address:
        return None
    return fit_jobs([memory_needed(path) for path in sources], usable_cpus(), available_memory())


def fit_jobs(needs: Sequence[int], cpus: int, memory: int | None) -> int:
    """Return how many jobs fit, whichever files run at the same time.

    Args:
        needs: the most bytes that each file will need.
        cpus: processors that may be used.
        memory: free bytes; None if unknown.
    """
    most = max(min(cpus, len(needs)), 1)
    if memory is None:
        return most
    together, fit = 0, 0
    for need in sorted(needs, reverse=True)[:most]:
        together += need
        if together > memory:
            break
        fit += 1
    return max(fit, 1)


def memory_needed(path: Path) -> int:
    """Estimate the peak memory of converting or rendering a file, in bytes, from its size."""
    try:
        size = path.stat().st_size
        if is_remote(path):
            # By its name: each look is a request, and there may be a thousand files.
            packed = path.suffix in (".gz", ".zst", ".zip")
            return _PROCESS + _PICKLE * size * (_PACKED if packed else 1)
        with open_regular(path) as file:
            head = file.read(64)
            if head[:2] == b"PK":
                return _PROCESS + _TABLES * _elements(path)
            if head[:2] == b"\x1f\x8b":
                file.seek(-4, os.SEEK_END)
                unpacked = int.from_bytes(file.read(4), "little")
                # The trailer has the size modulo 4 GiB, and only of the last part.
                unpacked = max(unpacked, size if unpacked >= size else _PACKED * size)
                return _PROCESS + size + _PICKLE * unpacked
            if head[:4] == b"\x28\xb5\x2f\xfd":
                return _PROCESS + size + _PICKLE * (_zstd_content(head) or _PACKED * size)
    except OSError:
        return _PROCESS
    return _PROCESS + (_JSON if head[:1] in (b"{", b"[") else _PICKLE) * size


def _elements(bundle: Path) -> int:
    """Return the bytes of a bundle's tables, unpacked."""
    try:
        with checked_members(bundle) as members:
            return members.size("elements.db")
    except SnapreportError:  # its reader says what is wrong with it
        return 0


def _zstd_content(head: bytes) -> int:
    """Return the unpacked size that a zstd frame states, 0 if it does not."""
    import zstandard

    try:
        return max(zstandard.frame_content_size(head), 0)
    except zstandard.ZstdError:
        return 0

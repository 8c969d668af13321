"""How many files to work on at once: what the processors and the memory of this machine allow."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

_MIB = 1 << 20
_PROCESS = 64 * _MIB
"""What a process needs for a small file."""
_PICKLE, _JSON, _TABLES = 8, 9, 12
"""Peak memory by bytes of the unpacked pickle, the JSON, and a bundle's elements.db. A million
events need 5.5 times their pickle and 11.8 times their tables; small files with deep call stacks
up to 10 times the pickle, most of which _PROCESS has; JSON of 100 MB 7.3 to 7.9 times its size."""
_PACKED = 10
"""By how much a packed snapshot grows at most, as a rule, where it does not say its size."""
_CGROUP = Path("/sys/fs/cgroup")


def choose_jobs(sources: Sequence[Path]) -> int:
    """Return how many of these files to work on at once, 1 at least."""
    return fit_jobs([memory_needed(path) for path in sources], usable_cpus(), available_memory())


def fit_jobs(needs: Sequence[int], cpus: int, memory: int | None) -> int:
    """Return how many jobs fit, whichever of the files come together.

    Args:
        needs: bytes that each file will need at most.
        cpus: processors that may be used.
        memory: bytes that are free; None where that cannot be told.
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
        with path.open("rb") as file:
            head = file.read(64)
            if head[:2] == b"PK":
                return _PROCESS + _TABLES * _elements(path)
            if head[:2] == b"\x1f\x8b":
                file.seek(-4, os.SEEK_END)
                unpacked = int.from_bytes(file.read(4), "little")
                # The trailer has the size modulo 4 GiB, and of the last part alone.
                unpacked = max(unpacked, size if unpacked >= size else _PACKED * size)
                return _PROCESS + size + _PICKLE * unpacked
            if head[:4] == b"\x28\xb5\x2f\xfd":
                return _PROCESS + size + _PICKLE * (_zstd_content(head) or _PACKED * size)
    except OSError:
        return _PROCESS
    return _PROCESS + (_JSON if head[:1] in (b"{", b"[") else _PICKLE) * size


def usable_cpus() -> int:
    """Return how many processors this process may use: those it is bound to, less a quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    words = _read(_CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        count = min(count, max(int(words[0]) // int(words[1]), 1))
    return count


def available_memory() -> int | None:
    """Return the bytes that processes can still get, within a container's limit; None if unknown.

    Source: proc(5), MemAvailable; Linux, "Control Group v2", memory.max and memory.current, of
    which memory.stat's inactive_file is given back when asked for.
    """
    free: int | None = None
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = _read(_CGROUP / "memory.max"), _read(_CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        cached = 0
        for line in _read(_CGROUP / "memory.stat").splitlines():
            if line.startswith("inactive_file "):
                cached = int(line.split()[1])
        left = max(int(limit) - int(used) + cached, 0)
        free = left if free is None else min(free, left)
    return free


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _elements(bundle: Path) -> int:
    """Return the bytes of a bundle's tables, unpacked."""
    try:
        with zipfile.ZipFile(bundle) as archive:
            return archive.getinfo("elements.db").file_size
    except (zipfile.BadZipFile, KeyError, ValueError, OverflowError, RuntimeError):
        return 0


def _zstd_content(head: bytes) -> int:
    """Return the unpacked size that a zstd frame states, 0 if it does not."""
    import zstandard

    try:
        return max(zstandard.frame_content_size(head), 0)
    except zstandard.ZstdError:
        return 0

"""Say before reading a file that it needs more memory than there is, not after the swapping."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from snapreport.allowed import NO_MEMORY_CHECK
from snapreport.errors import NotEnoughMemoryError
from snapreport.units import format_bytes

# Measured as the most private memory of `convert`, less that of an empty program. What PyTorch
# writes has 90 to 375 bytes in a file for an event, call stacks included; the first figure below is
# of 1.3 million events of 158 bytes, the second of 0.9 million without stacks, of 38 bytes.
OBJECTS = 4.8
"""Bytes for each byte of a file that is loaded as objects: 4.8, 9.0."""

LIST, DICT = 120, 240
"""Bytes at most for a list and for a dict with one thing in it: of one byte in a pickle each."""

REST = 12
"""Bytes at most for each byte of what the compiled part leaves to the unpickler."""

PARSED = 1.0
"""Bytes for each byte of a pickle while the compiled part reads it: 0.7, 2.8."""

PARSED_EVENT = 200
"""Bytes for each event after that, besides its row of columns: 195, 187."""

_ALWAYS_TRIED = 1 << 28


def require_memory(needed: float, root: Path = Path("/")) -> None:
    """Check that there is so much memory, where that can be known; a little is always tried.

    Args:
        needed: bytes that will be allocated from now on.
        root: where the folders ``proc`` and ``sys`` are.

    Raises:
        NotEnoughMemoryError: there is less.
    """
    if needed <= _ALWAYS_TRIED or os.environ.get(NO_MEMORY_CHECK):
        return
    available = available_memory(root)
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"needs about {format_bytes(int(needed))} of memory, and {format_bytes(available)} are"
            " free; end other programs, take a machine with more, or set"
            f" {NO_MEMORY_CHECK}=1 to try it."
        )


def available_memory(root: Path = Path("/")) -> int | None:
    """Return how many bytes can still be allocated without swapping; None where that is unknown.

    It is what Linux says is available, or less where a control group (of a container or a batch
    job) sets a limit. File pages count as free: they can be read again.

    Args:
        root: where the folders ``proc`` and ``sys`` are.
    """
    return min((*_machine(root), *_groups(root)), default=None)


def _machine(root: Path) -> Iterator[int]:
    for name, number in _table(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield number * 1024


def _groups(root: Path) -> Iterator[int]:
    """Give what is left in each group that this process is in, and in those around it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        # In a container the path may be the host's: what is not there says nothing.
        inside = PurePosixPath(path.lstrip("/"))
        if ".." in inside.parts:
            inside = PurePosixPath()
        for folder in (inside, *inside.parents):
            yield from _left(top / folder, *names)


def _left(group: Path, limit: str, usage: str, prefix: str) -> Iterator[int]:
    try:
        most, used = (int(_text(group / name)) for name in (limit, usage))
    except ValueError:  # no such group, or its limit is "max"
        return
    cached = {f"{prefix}{kind}_file" for kind in ("active", "inactive")}
    files = sum(number for name, number in _table(group / "memory.stat") if name in cached)
    yield max(0, most - used + files)


def _table(path: Path) -> Iterator[tuple[str, int]]:
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdecimal():
            yield words[0], int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

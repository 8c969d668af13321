"""The memory and processors that the machine and its control groups leave to this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def available_memory(root: Path = _ROOT) -> int | None:
    """Return how many bytes can still be allocated without swapping; None where that is unknown.

    It is what Linux says is available, or less where a control group (of a container or a batch
    job) sets a limit. File pages count as free: they can be read again.

    Args:
        root: the folder with ``proc`` and ``sys``, as in the functions below.

    Source: proc(5), MemAvailable; Linux, "Control Group v2", memory.max, memory.current and
    memory.stat; "Memory Resource Controller" for those of version 1.
    """
    machine = (1024 * n for name, n in _table(root / "proc/meminfo") if name == "MemAvailable:")
    return min((*machine, *_memory_left(root)), default=None)


def usable_cpus(root: Path = _ROOT) -> int:
    """Return how many processors this process may use: those it is bound to, less a quota.

    Source: Linux, "Control Group v2", cpu.max; "CFS Bandwidth Control" for version 1.
    """
    bound = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    return max(1, min((count, *_processors(root))))


def _memory_left(root: Path) -> Iterator[int]:
    for group, new in _groups(root, "memory"):
        limit, usage = _LIMITS[new]
        most, used = _number(group / limit), _number(group / usage)
        if most is not None and used is not None:
            prefix = "" if new else "total_"
            cached = {f"{prefix}{kind}_file" for kind in ("active", "inactive")}
            files = sum(count for name, count in _table(group / "memory.stat") if name in cached)
            yield max(0, most - used + files)


_LIMITS = {
    True: ("memory.max", "memory.current"),
    False: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def _processors(root: Path) -> Iterator[int]:
    for group, new in _groups(root, "cpu"):
        if new:
            words = _text(group / "cpu.max").split()
        else:
            words = [_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        numbers = [int(word) for word in words if word.strip().isdecimal()]
        if len(numbers) == 2 and numbers[1]:
            yield numbers[0] // numbers[1]


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Give each group that this process is in, and those around it; True where of version 2."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if controllers else "")
        # In a container the path may be the host's: what is not there says nothing.
        inside = PurePosixPath(path.lstrip("/"))
        if ".." in inside.parts:
            inside = PurePosixPath()
        for folder in (inside, *inside.parents):
            yield top / folder, not controllers


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # a limit may be "max"


def _table(path: Path) -> Iterator[tuple[str, int]]:
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdecimal():
            yield words[0], int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # no such group
        return ""

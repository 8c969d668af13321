"""Settings of the allocator: as a snapshot records them, and as PYTORCH_ALLOC_CONF writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import AllocatorSettingsError
from snapreport.history.block_sizes import split_rules

MIB = 1 << 20
UNLIMITED = 1 << 62
INTERVALS = 16
"""How many values ``roundup_power2_divisions`` has: one for each power of two from 1 MiB on."""
SMALL_SEGMENT = 2 * MIB
_LEAST_SEGMENT = 10 * MIB
_LARGE_SEGMENT = 20 * MIB
_MOST_MB = 1 << 24

# These change no address and no size: they are about how memory is obtained, or the host's memory.
_WITHOUT_EFFECT = {
    "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_register_threads", "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb", "throw_on_cudamalloc_oom",
}  # fmt: skip


@dataclass(frozen=True)
class AllocatorSettings:
    """The settings that affect where blocks are placed; sizes in bytes."""

    expandable_segments: bool = False
    max_split_size: int = UNLIMITED
    max_non_split_rounding: int = 0
    """0 if not set; the size of large segments is then used."""
    roundup_power2_divisions: tuple[int, ...] = ()
    """For sizes from 1, 2, 4, ... MiB; empty for none."""
    garbage_collection_threshold: float = 0.0
    large_segment_size: int = _LARGE_SEGMENT
    memory_fraction: float = 0.0
    """``per_process_memory_fraction``; 0 for none."""

    @property
    def rounding(self) -> int:
        """How much larger than an oversize request a block may be, in bytes."""
        return self.max_non_split_rounding or self.large_segment_size

    def __str__(self) -> str:
        """Return what to set the environment variable to; ``default`` for the defaults."""
        parts = [
            f"{name}:{write(value)}"
            for name, (field, _, write) in _SETTINGS.items()
            if (value := getattr(self, field)) != getattr(AllocatorSettings, field)
        ]
        return ",".join(parts) or "default"


def recorded_settings(settings: Mapping[str, Any]) -> AllocatorSettings:
    """Read the settings that a snapshot records; defaults if it has none.

    Settings that have no entry of their own are read from the environment variable's text.
    """
    text = settings.get("PYTORCH_CUDA_ALLOC_CONF")
    try:
        parsed = parse_settings(text) if isinstance(text, str) else AllocatorSettings()
    except AllocatorSettingsError:
        parsed = AllocatorSettings()
    rules = split_rules(settings)
    threshold = settings.get("garbage_collection_threshold")
    return replace(
        parsed,
        expandable_segments=rules.expandable,
        max_split_size=min(rules.max_split_size, UNLIMITED),
        roundup_power2_divisions=rules.divisions,
        garbage_collection_threshold=float(threshold) if isinstance(threshold, float) else 0.0,
    )


def segment_sizes(rounded: NDArray[np.int64], settings: AllocatorSettings) -> NDArray[np.int64]:
    """Return the bytes of the segment that a request needs if no segment can grow.

    Args:
        rounded: int64, shape (n,): the bytes that the requests ask of the pools.
        settings: the allocator's.
    """
    whole = -(-rounded // SMALL_SEGMENT) * SMALL_SEGMENT
    large = np.where(rounded < _LEAST_SEGMENT, settings.large_segment_size, whole)
    return np.where(rounded <= MIB, SMALL_SEGMENT, large)


def parse_settings(text: str) -> AllocatorSettings:
    """Read settings as the environment variable ``PYTORCH_ALLOC_CONF`` has them.

    Raises:
        AllocatorSettingsError: PyTorch would refuse them, or they are not modelled.
    """
    found = AllocatorSettings()
    if text.strip() in ("", "default"):
        return found
    for name, value in _pairs(text):
        found = _with(found, name, value)
    return found


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in "".join(text.split()):
        depth = max(depth + (letter == "[") - (letter == "]"), 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    pairs = []
    for part in parts:
        name, colon, value = part.partition(":")
        if not (name and colon and value):
            raise AllocatorSettingsError(
                f"{part!r} is not a setting; write NAME:VALUE, such as expandable_segments:True."
            )
        pairs.append((name, value))
    return pairs


def _with(found: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    if name in _SETTINGS:
        field, read, _ = _SETTINGS[name]
        return replace(found, **{field: read(name, value)})
    if name in _WITHOUT_EFFECT or (name, value) == ("backend", "native"):
        return found
    if name == "backend":
        raise AllocatorSettingsError(f"the backend {value!r} is not modelled: it has no snapshots.")
    raise AllocatorSettingsError(f"{name!r} is not modelled; these are: {', '.join(_SETTINGS)}.")


def _switch(name: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise AllocatorSettingsError(f"{name} must be True or False, not {value!r}.")
    return value == "True"


def _bytes_from(least: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not least <= int(value) <= _MOST_MB:
            raise AllocatorSettingsError(
                f"{name} is a number of MiB from {least} on, not {value!r}."
            )
        return int(value) * MIB

    return read


def _megabytes(size: int) -> str:
    return str(size // MIB)


def _share(name: str, value: str) -> float:
    if not re.fullmatch(r"0?\.[0-9]{1,12}|1|1\.0*", value) or not float(value) > 0:
        raise AllocatorSettingsError(f"{name} must be above 0 and at most 1, not {value!r}.")
    return float(value)


def _divisions(_name: str, value: str) -> tuple[int, ...]:
    found = _listed(value) if value.startswith("[") else (_power(value),) * INTERVALS
    return found if max(found) > 1 else ()


def _listed(value: str) -> tuple[int, ...]:
    """Read the divisions from powers of two of MiB on: ``[256:1,>:4]``."""
    divisions = [0] * INTERVALS
    last: int | None = None
    if not re.fullmatch(r"\[[^\[\]]*\]", value):
        raise AllocatorSettingsError(f"{value!r} lacks a bracket.")
    for part in value[1:-1].split(","):
        start, _, number = part.partition(":")
        count = 0 if number == "0" else _power(number)
        if start == ">":
            first = 0 if last is None else last + 1
            divisions[first:] = [count] * (INTERVALS - first)
            continue
        at = min(_power(start).bit_length() - 1, INTERVALS - 1)
        if last is None:
            divisions[:at] = [count] * at
        divisions[at] = count
        last = at
    return tuple(divisions)


def _power(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text).bit_count() != 1:
        raise AllocatorSettingsError(f"roundup_power2_divisions has powers of two, not {text!r}.")
    return int(text)


def _divisions_text(divisions: tuple[int, ...]) -> str:
    if len(set(divisions)) == 1:
        return str(divisions[0])
    return f"[{','.join(f'{1 << i}:{value}' for i, value in enumerate(divisions))}]"


_SETTINGS: dict[str, tuple[str, Callable[[str, str], Any], Callable[[Any], str]]] = {
    "expandable_segments": ("expandable_segments", _switch, str),
    "max_split_size_mb": ("max_split_size", _bytes_from(20), _megabytes),
    "max_non_split_rounding_mb": ("max_non_split_rounding", _bytes_from(20), _megabytes),
    "roundup_power2_divisions": ("roundup_power2_divisions", _divisions, _divisions_text),
    "garbage_collection_threshold": ("garbage_collection_threshold", _share, "{:g}".format),
    "large_segment_size_mb": ("large_segment_size", _bytes_from(_LEAST_SEGMENT // MIB), _megabytes),
    "per_process_memory_fraction": ("memory_fraction", _share, "{:g}".format),
}
"""Of each setting that is modelled: its field, how it is read, and how it is written."""

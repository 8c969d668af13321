"""Settings of the allocator: as a snapshot records them, and as PYTORCH_ALLOC_CONF writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from snapreport.ground.errors import AllocatorSettingsError
from snapreport.history.block_sizes import split_rules

MIB = 1 << 20
UNLIMITED = 1 << 62
INTERVALS = 16
"""Of ``roundup_power2_divisions``: one for each power of two from 1 MiB on."""
LEAST_SEGMENT = 10 * MIB
_LARGE_SEGMENT = 20 * MIB
_MOST_MB = 1 << 24

# They change no address and no size: how memory is got, and memory of the host.
_WITHOUT_EFFECT = {
    "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_register_threads", "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb", "throw_on_cudamalloc_oom",
}  # fmt: skip


@dataclass(frozen=True)
class AllocatorSettings:
    """What changes where blocks lie; sizes in bytes."""

    expandable_segments: bool = False
    max_split_size: int = UNLIMITED
    max_non_split_rounding: int = 0
    """0 where nothing sets it: then it is the size of large segments."""
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
        parts = []
        if self.expandable_segments:
            parts.append("expandable_segments:True")
        if self.max_split_size != UNLIMITED:
            parts.append(f"max_split_size_mb:{self.max_split_size // MIB}")
        if self.max_non_split_rounding:
            parts.append(f"max_non_split_rounding_mb:{self.max_non_split_rounding // MIB}")
        if divisions := self.roundup_power2_divisions:
            if len(set(divisions)) == 1:
                parts.append(f"roundup_power2_divisions:{divisions[0]}")
            else:
                listed = ",".join(f"{1 << i}:{value}" for i, value in enumerate(divisions))
                parts.append(f"roundup_power2_divisions:[{listed}]")
        if self.garbage_collection_threshold:
            parts.append(f"garbage_collection_threshold:{self.garbage_collection_threshold:g}")
        if self.large_segment_size != _LARGE_SEGMENT:
            parts.append(f"large_segment_size_mb:{self.large_segment_size // MIB}")
        if self.memory_fraction:
            parts.append(f"per_process_memory_fraction:{self.memory_fraction:g}")
        return ",".join(parts) or "default"


def recorded_settings(settings: Mapping[str, Any]) -> AllocatorSettings:
    """Read the settings that a snapshot records; defaults where it has none.

    What has no field of its own is read out of the text that the environment variable held.
    """
    text = settings.get("PYTORCH_CUDA_ALLOC_CONF")
    try:
        told = parse_settings(text) if isinstance(text, str) else AllocatorSettings()
    except AllocatorSettingsError:
        told = AllocatorSettings()
    rules = split_rules(settings)
    threshold = settings.get("garbage_collection_threshold")
    return replace(
        told,
        expandable_segments=rules.expandable,
        max_split_size=min(rules.max_split_size, UNLIMITED),
        roundup_power2_divisions=rules.divisions,
        garbage_collection_threshold=float(threshold) if isinstance(threshold, float) else 0.0,
    )


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
                f"{part!r} is no setting; write NAME:VALUE, such as expandable_segments:True."
            )
        pairs.append((name, value))
    return pairs


def _with(found: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    if name == "expandable_segments":
        if value not in ("True", "False"):
            raise AllocatorSettingsError(f"{name} is True or False, not {value!r}.")
        return replace(found, expandable_segments=value == "True")
    if name == "max_split_size_mb":
        return replace(found, max_split_size=_megabytes(name, value, 20) * MIB)
    if name == "max_non_split_rounding_mb":
        return replace(found, max_non_split_rounding=_megabytes(name, value, 20) * MIB)
    if name == "large_segment_size_mb":
        least = LEAST_SEGMENT // MIB
        return replace(found, large_segment_size=_megabytes(name, value, least) * MIB)
    if name == "garbage_collection_threshold":
        return replace(found, garbage_collection_threshold=_share(name, value))
    if name == "per_process_memory_fraction":
        return replace(found, memory_fraction=_share(name, value))
    if name == "roundup_power2_divisions":
        divisions = _divisions(value)
        return replace(
            found,
            roundup_power2_divisions=divisions if any(each > 1 for each in divisions) else (),
        )
    if name == "backend" and value == "native":
        return found
    if name in _WITHOUT_EFFECT:
        return found
    if name == "backend":
        raise AllocatorSettingsError(f"the backend {value!r} is not modelled: it has no snapshots.")
    raise AllocatorSettingsError(
        f"{name!r} is not modelled; these are: expandable_segments, max_split_size_mb,"
        " max_non_split_rounding_mb, large_segment_size_mb, garbage_collection_threshold,"
        " per_process_memory_fraction, roundup_power2_divisions."
    )


def _megabytes(name: str, value: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", value) or not least <= int(value) <= _MOST_MB:
        raise AllocatorSettingsError(f"{name} is a number of MiB from {least} on, not {value!r}.")
    return int(value)


def _share(name: str, value: str) -> float:
    if not re.fullmatch(r"0?\.[0-9]{1,12}|1|1\.0*", value) or not float(value) > 0:
        raise AllocatorSettingsError(f"{name} is above 0 and at most 1, not {value!r}.")
    return float(value)


def _divisions(value: str) -> tuple[int, ...]:
    """Read one number for all sizes, or those from powers of two of MiB on: ``[256:1,>:4]``."""
    if not value.startswith("["):
        return (_power(value),) * INTERVALS
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

"""Settings of the allocator: as a snapshot records them, and as PYTORCH_ALLOC_CONF writes them.

A snapshot has fields for some settings and the text of the environment variable for all. The text
is that of the last call, so a program that sets something else while it runs loses the rest of it,
although PyTorch goes on with the size of large segments that was set before. That size shows in the
segments themselves.

Source: c10/core/AllocatorConfig.cpp, ``parseArgs``; c10/cuda/CUDAAllocatorConfig.cpp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import AllocatorSettingsError
from snapreport.ground.memoize import once_for_each
from snapreport.ground.native.columns import unique
from snapreport.ground.records import dataclass
from snapreport.ground.units import list_of
from snapreport.history.segments import code_actions
from snapreport.model.history import DeviceHistory
from snapreport.model.replays import LARGE_SEGMENT

MIB = 1 << 20
UNLIMITED = 1 << 62
INTERVALS = 16
"""How many values ``roundup_power2_divisions`` has: one for each power of two from 1 MiB on."""
SMALL_SEGMENT = 2 * MIB
"""``kSmallBuffer``: a segment of the small pool, and what an expandable one grows by."""
LEAST_LARGE = 10 * MIB
"""``kMinLargeAlloc``: a request from here on gets a segment as large as itself."""
NPU_PADDING = 32
"""What the allocator of Ascend's NPUs adds to a request before it rounds."""
_MOST_MB = 1 << 24
_MOST_SIZES = 64
_TEXTS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")

# These change no address and no size on a device: they are about how memory is obtained, about what
# a capture frees when (which is recorded), or about the host's memory.
_WITHOUT_EFFECT = {
    "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_register_threads",
    "pinned_free_catch_all", "graph_capture_record_stream_reuse",
}  # fmt: skip
_FIELDS = {
    "expandable_segments", "max_split_size", "garbage_collection_threshold",
    "roundup_power2_divisions", "max_round_threshold", "max_cached_size",
    "trace_alloc_max_entries", "trace_alloc_overflowed",
}  # fmt: skip
"""Fields of ``allocator_settings`` that are no settings by these names, and are read elsewhere."""
_MOST_NAMED = 8
_NOT_MODELLED = {
    "throw_on_cudamalloc_oom": "it refuses requests before anything cached is given back",
    "expandable_segments_reserve": "it limits how far an expandable segment can grow",
    "expandable_segments_reserve_by_class": "it limits how far an expandable segment can grow",
}
"""Settings that affect where blocks are placed, or whether, and that no replay knows: why."""
_OFF = {("backend", "native"), ("throw_on_cudamalloc_oom", "False")}


@dataclass(frozen=True)
class AllocatorSettings:
    """The settings that affect how large blocks are and where they are placed; sizes in bytes.

    The last four fields are no settings: they say which allocator it is that rounds and splits.
    """

    expandable_segments: bool = False
    max_split_size: int = UNLIMITED
    max_non_split_rounding: int = 0
    """0 if not set; the size of large segments is then used."""
    roundup_power2_divisions: tuple[int, ...] = ()
    """For sizes from 1, 2, 4, ... MiB; empty for none."""
    garbage_collection_threshold: float = 0.0
    large_segment_size: int = LARGE_SEGMENT
    memory_fraction: float = 0.0
    """``per_process_memory_fraction``; 0 for none."""
    pinned_max_round_threshold: int = UNLIMITED
    """Pinned memory that is larger is not rounded to a power of two; nor where it is not cached."""
    pinned_max_cached_size: int = UNLIMITED
    not_modelled: tuple[str, ...] = ()
    """What else was recorded as set, as NAME:VALUE, that would affect it and that is not known."""
    pinned: bool = False
    """It is that of pinned host memory: sizes round up to a power of two, and nothing is split."""
    padding: int = 0
    """Bytes that are added to every request before it is rounded."""
    mixed: bool = False
    """There are expandable and plain segments, so the setting was changed."""
    unknown: bool = False
    """It is one of another kind: a block is at least what was asked for."""

    @property
    def rounding(self) -> int:
        """How much larger than an oversize request a block may be, in bytes."""
        return self.max_non_split_rounding or self.large_segment_size

    @property
    def pinned_limit(self) -> int:
        """Requests for pinned memory that are larger, in bytes, are not rounded."""
        return min(self.pinned_max_round_threshold, self.pinned_max_cached_size)

    @property
    def refusal(self) -> str:
        """Why nothing can be predicted from these, as the end of a sentence; ``""`` if it can."""
        if not self.not_modelled:
            return ""
        whys = dict.fromkeys(
            _NOT_MODELLED.get(each.partition(":")[0], "what it does is not known")
            for each in self.not_modelled
        )
        verb = "is" if len(self.not_modelled) == 1 else "are"
        return f"{list_of(self.not_modelled)} {verb} not modelled ({'; '.join(whys)})"

    def __str__(self) -> str:
        """Return what to set the environment variable to; ``default`` for the defaults."""
        parts = [
            f"{name}:{write(value)}"
            for name, (field, _, write) in _SETTINGS.items()
            if (value := getattr(self, field)) != getattr(AllocatorSettings, field)
        ]
        return ",".join([*parts, *self.not_modelled]) or "default"


def recorded_settings(settings: Mapping[str, Any], kind: str = "cuda") -> AllocatorSettings:
    """Read the settings that a snapshot records; defaults if it has none.

    Settings that have no field of their own are read from the environment variable's text. What
    cannot be read there, and a field that no version is known to have, is kept as not modelled.

    Args:
        settings: as recorded.
        kind: of the device whose allocator is meant, such as ``host`` for pinned memory.
    """
    text = next((each for name in _TEXTS if isinstance(each := settings.get(name), str)), "")
    found, unknown = AllocatorSettings(), list[str]()
    for part in _parts(text):
        try:
            found = _with(found, *_pair(part))
        except AllocatorSettingsError:
            unknown.append(part)
    expandable = settings.get("expandable_segments", found.expandable_segments) is True
    limit = settings.get("max_split_size")
    if isinstance(limit, int):
        found = replace(found, max_split_size=min(limit, UNLIMITED) if limit >= 0 else UNLIMITED)
    threshold = settings.get("garbage_collection_threshold")
    if isinstance(threshold, float):
        found = replace(found, garbage_collection_threshold=threshold)
    table = settings.get("roundup_power2_divisions")
    if isinstance(table, Mapping):
        values = [table.get(str(2**power), 0) for power in range(INTERVALS)]
        given = all(isinstance(value, int) for value in values) and any(v > 1 for v in values)
        found = replace(found, roundup_power2_divisions=tuple(values) if given else ())
    for name, value in settings.items():
        # Nothing, zero and -1 are what fields have that were not set.
        if name in _FIELDS or name in _TEXTS or not value or value == -1:
            continue
        try:
            found = _with(found, name, str(value) if isinstance(value, str | int | float) else "")
        except AllocatorSettingsError:
            unknown.append(f"{name}:{value}" if isinstance(value, str | int | float) else name)
    if not expandable:
        unknown = [each for each in unknown if not each.startswith("expandable_segments_reserve")]
    return replace(
        found,
        expandable_segments=expandable,
        not_modelled=tuple(unknown[:_MOST_NAMED]),
        pinned=kind == "host",
        padding=NPU_PADDING if kind == "npu" else 0,
    )


def possible_settings(
    settings: Mapping[str, Any], device: DeviceHistory
) -> tuple[AllocatorSettings, ...]:
    """Return what a device may have been recorded under, the likeliest first; nearly always one.

    The size of large segments may have been set at run time, which shows in the segments.
    """
    found = recorded_settings(settings)
    paged, segment, request = _grown_for(device)
    most = request * 2 if found.roundup_power2_divisions else request + 511  # once rounded
    sizes = unique(segment[~paged & (most < LEAST_LARGE)]).tolist()
    if not sizes and paged.any():
        whole = math.gcd(*unique(segment[paged]).tolist())
        above = max(int((segment - most)[paged].max()), LEAST_LARGE)
        pages = range(above // MIB + 1, whole // MIB + 1)
        sizes = [page * MIB for page in pages if whole % (page * MIB) == 0]
        if found.large_segment_size in sizes:
            sizes = []
    sizes.sort(key=lambda size: (size != found.large_segment_size, size))
    sizes = sizes[:_MOST_SIZES]
    return tuple(replace(found, large_segment_size=size) for size in sizes) or (found,)


def large_page(settings: Mapping[str, Any], device: DeviceHistory) -> int:
    """Return the bytes by which expandable segments of the large pool grow and shrink.

    Where several sizes are possible, it is a multiple of all: a whole page of that is one of any.
    """
    sizes = [each.large_segment_size for each in possible_settings(settings, device)]
    return min(math.lcm(*sizes), UNLIMITED)


@once_for_each
def _grown_for(
    device: DeviceHistory,
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return what the large pool got from the driver for the allocation in the very next event.

    Returns:
        shape (n,) each: whether an expandable segment grew, by how much or how large the new
        segment is, and what was asked for, in bytes.
    """
    other, rows = device.other, device.allocations
    code = code_actions(other, {"segment_alloc": 0, "segment_map": 1}, 2)
    got = np.flatnonzero(code < 2)
    row = np.searchsorted(rows.alloc_event, other.event[got] + 1)
    row = np.minimum(row, max(len(rows) - 1, 0))
    if not len(rows):
        got = row = np.empty(0, np.int64)
    next_event = rows.alloc_event[row] == other.event[got] + 1
    inside = rows.addr[row] < other.addr[got] + other.size[got]
    kept = next_event & inside & (rows.size[row] > MIB) & (other.size[got] > 0)
    return code[got[kept]] == 1, other.size[got[kept]], rows.size[row[kept]]


def segment_sizes(rounded: NDArray[np.int64], settings: AllocatorSettings) -> NDArray[np.int64]:
    """Return the bytes of the segment that a request needs if no segment can grow.

    Args:
        rounded: int64, shape (n,): the bytes that the requests ask of the pools.
        settings: the allocator's.
    """
    whole = -(-rounded // SMALL_SEGMENT) * SMALL_SEGMENT
    large = np.where(rounded < LEAST_LARGE, settings.large_segment_size, whole)
    return np.where(rounded <= MIB, SMALL_SEGMENT, large)


def parse_settings(text: str) -> AllocatorSettings:
    """Read settings as the environment variable ``PYTORCH_ALLOC_CONF`` has them.

    Raises:
        AllocatorSettingsError: PyTorch would refuse them, or they are not modelled.
    """
    found = AllocatorSettings()
    for part in _parts(text):
        found = _with(found, *_pair(part))
    for name, size in (
        ("max_split_size_mb", found.max_split_size),
        ("max_non_split_rounding_mb", found.rounding),
    ):
        if size < found.large_segment_size:
            raise AllocatorSettingsError(
                f"{name} must be {_megabytes(found.large_segment_size)} or more, the size of large"
                f" segments in MiB, not {_megabytes(size)}."
            )
    return found


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if text.strip() in ("", "default"):
        return []
    parts, depth = [""], 0
    for letter in "".join(text.split()):
        depth = max(depth + (letter == "[") - (letter == "]"), 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _pair(part: str) -> tuple[str, str]:
    name, colon, value = part.partition(":")
    if not (name and colon and value):
        raise AllocatorSettingsError(
            f"{part!r} is not a setting; write NAME:VALUE, such as expandable_segments:True."
        )
    return name, value


def _with(found: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    if name in _SETTINGS:
        field, read, _ = _SETTINGS[name]
        return replace(found, **{field: read(name, value)})
    if name in _WITHOUT_EFFECT or (name, value) in _OFF:
        return found
    if name in _NOT_MODELLED:
        raise AllocatorSettingsError(f"{name} is not modelled: {_NOT_MODELLED[name]}.")
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
                f"{name} must be a number of MiB, {least} or more, not {value!r}."
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
        raise AllocatorSettingsError(f"roundup_power2_divisions takes powers of two, not {text!r}.")
    return int(text)


def _divisions_text(divisions: tuple[int, ...]) -> str:
    if len(set(divisions)) == 1:
        return str(divisions[0])
    return f"[{','.join(f'{1 << i}:{value}' for i, value in enumerate(divisions))}]"


_SETTINGS: dict[str, tuple[str, Callable[[str, str], Any], Callable[[Any], str]]] = {
    "expandable_segments": ("expandable_segments", _switch, str),
    # Each must be above 10, and the others at least as large as the large segments.
    "max_split_size_mb": ("max_split_size", _bytes_from(11), _megabytes),
    "max_non_split_rounding_mb": ("max_non_split_rounding", _bytes_from(11), _megabytes),
    "roundup_power2_divisions": ("roundup_power2_divisions", _divisions, _divisions_text),
    "garbage_collection_threshold": ("garbage_collection_threshold", _share, "{:g}".format),
    "large_segment_size_mb": (
        "large_segment_size",
        _bytes_from(11),
        _megabytes,
    ),
    "per_process_memory_fraction": ("memory_fraction", _share, "{:g}".format),
    "pinned_max_round_threshold_mb": ("pinned_max_round_threshold", _bytes_from(1), _megabytes),
    "pinned_max_cached_size_mb": ("pinned_max_cached_size", _bytes_from(1), _megabytes),
}
"""Of each setting that is modelled: its field, how it is read, and how it is written."""

"""Whether an allocator other than CUDA's made a recording, and what its blocks are.

Other backends write PyTorch's format, too, but their allocators need not round as CUDA's does. That
of Ascend's NPUs adds 32 bytes to every request before it rounds up to 512, and is otherwise the
same. Of the others no rule is known: a block is then at least what was asked for.

Nothing in the file says which allocator wrote it. Call stacks may pass through its package; the
final blocks have other sizes than CUDA's rounding gives; or blocks live at the same time overlap,
or never touch, where by CUDA's rounding they would.

Source: torch_npu, NPUCachingAllocator.cpp, ``round_size``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.native.columns import begins_run, is_among, stable_order
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_count
from snapreport.history.allocator_settings import NPU_PADDING, AllocatorSettings
from snapreport.history.block_sizes import (
    SMALL_SIZE,
    find_unsplit_pools,
    round_sizes,
)
from snapreport.history.pairing import ABSENT, Pairs
from snapreport.model.history import OtherAllocator
from snapreport.model.snapshot import (
    INACTIVE,
    Segments,
    StackTable,
    Trace,
)

_PACKAGES = {
    "npu": ("torch_npu", "c10_npu::", "at_npu::"),
    "mlu": ("torch_mlu", "torch_mlu::"),
    "musa": ("torch_musa", "c10::musa::", "at::musa::"),
    "gcu": ("torch_gcu", "torch_gcu::"),
    "hpu": ("habana_frameworks", "habana::"),
    "xla": ("torch_xla", "torch_xla::"),
    "xpu": ("intel_extension_for_pytorch", "c10::xpu::", "at::xpu::"),
}
"""Of each kind of device its package, and how its functions in C++ begin."""
_PATTERNS = {
    kind: expression(rf"(^|[/\\]){package}[/\\]|(^|[^\w:])({'|'.join(native)})")
    for kind, (package, *native) in _PACKAGES.items()
}
_SIGNS = 4
"""From this many blocks on that CUDA's rule would not give, it is no accident."""
_NEVER = 8
"""From this many blocks on, it is no accident that none touches the next."""
_MOST_WATCHED = 100_000
"""Of so many allocations the neighbours are looked at: enough to tell, and quick."""


def backend_in(stacks: StackTable) -> tuple[str, str]:
    """Return the other kind of device whose package is in the call stacks, and the package.

    Both are ``""`` if none is.
    """
    texts = {*stacks.frames.filenames, *stacks.frames.names}
    whole = "\n".join(texts)
    for kind, signs in _PACKAGES.items():
        # Plain text first: to search all names of C++ functions takes long, as they are long.
        if any(sign in whole for sign in signs) and any(map(_PATTERNS[kind].search, texts)):
            return kind, signs[0]
    return "", ""


def other_allocator(
    backend: tuple[str, str],
    trace: Trace,
    pairs: Pairs,
    segments: Segments,
    rules: AllocatorSettings,
    default_pool: int,
) -> OtherAllocator | None:
    """Say which other allocator a device's memory is from; None if CUDA's rule explains it.

    Args:
        backend: from ``backend_in``.
        trace, pairs, segments: of the device.
        rules: CUDA's, under the recorded settings.
        default_pool: the row of the default pool in the file's pools.
    """
    kind, package = backend
    padded = replace(rules, padding=NPU_PADDING)
    size, rounded, as_npu = _final_blocks(segments, rules, padded, default_pool)
    odd = int((size != rounded).sum())
    near = _Neighbours(0, 0, 0)
    if not odd or kind:
        near = _neighbours(trace, pairs, rules, padded)
    fits_npu = bool((size == as_npu).all()) and near.overlapping < _SIGNS > near.touching
    signs = [f"call stacks pass through {package}"] if package else []
    if odd >= _SIGNS:
        signs.append(
            f"{format_count(odd)} final blocks are not as large as their requests rounded to 512"
        )
    if near.overlapping >= _SIGNS:
        signs.append(
            f"{format_count(near.overlapping)} blocks would overlap the next one if rounded to 512"
        )
    if fits_npu and not near.touching and near.apart >= _NEVER:
        signs.append(
            f"{format_count(near.apart)} blocks would all end 512 bytes before the next one if"
            " rounded to 512"
        )
    if not signs:
        return None
    told = odd >= _SIGNS or near.apart >= _NEVER
    if fits_npu and (kind == "npu" or (not kind and told)):
        return OtherAllocator("npu", " and ".join(signs), known=True)
    return OtherAllocator(kind or "cuda", " and ".join(signs), known=False)


def _final_blocks(
    segments: Segments, rules: AllocatorSettings, padded: AllocatorSettings, default_pool: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes of small final blocks in use, and what CUDA's rule and Ascend's give.

    In the small pool every block is split, so it is no larger than its rounded request.
    """
    of = segments.block_segment
    chosen = (segments.block_state != INACTIVE) & ~segments.large[of]
    chosen &= (segments.pool[of] == default_pool) & (segments.block_requested > 0)
    chosen &= ~is_among(segments.pool[of], find_unsplit_pools(segments, rules))
    asked = segments.block_requested[chosen].astype(np.int64)
    size = segments.block_size[chosen].astype(np.int64)
    return size, round_sizes(asked, rules), round_sizes(asked, padded)


@dataclass(frozen=True)
class _Neighbours:
    """How small blocks lie beside those that live at the same time."""

    overlapping: int
    """They would reach into the next one, if rounded as CUDA does."""
    touching: int
    """The next one begins where they end by CUDA's rule, and not by Ascend's."""
    apart: int
    """The next one begins where they end by Ascend's rule, and not by CUDA's."""


def _neighbours(
    trace: Trace, pairs: Pairs, rules: AllocatorSettings, padded: AllocatorSettings
) -> _Neighbours:
    made = np.flatnonzero(pairs.alloc != ABSENT)
    made = made[stable_order(pairs.place[made])[:_MOST_WATCHED]]
    if not len(made):
        return _Neighbours(0, 0, 0)
    addr, born = pairs.addr[made], pairs.alloc[made]  # in order of both
    gone = np.where(pairs.completed[made] == ABSENT, len(trace), pairs.completed[made])
    asked = trace.size[born]
    first = begins_run(addr)
    places, place = addr[first], np.cumsum(first) - 1
    key = place * (len(trace) + 1) + born

    def lives_with(rows: NDArray[np.int64], at: NDArray[np.int64]) -> int:
        """Count the rows during whose life a block begins at an address."""
        there = np.minimum(np.searchsorted(places, at), len(places) - 1)
        last = np.searchsorted(key, there * (len(trace) + 1) + gone[rows]) - 1
        other = np.maximum(last, 0)
        alive = (last >= 0) & (place[other] == there) & (gone[other] > born[rows])
        return int((alive & (places[there] == at)).sum())

    small = np.flatnonzero(asked < SMALL_SIZE - NPU_PADDING)
    end, padded_end = addr + round_sizes(asked, rules), addr + round_sizes(asked, padded)
    following = places[np.minimum(place + 1, len(places) - 1)]
    into = small[(following > addr)[small] & (following < end)[small]]
    differs = small[(end != padded_end)[small]]
    return _Neighbours(
        overlapping=lives_with(into, following[into]),
        touching=lives_with(differs, end[differs]),
        apart=lives_with(differs, padded_end[differs]),
    )

"""Judge and say whether an allocator setting would have served a request that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from snapreport.diagnosis.oom.verdict import OomVerdict, Request, judge
from snapreport.figures.allocator.factual import model_device
from snapreport.figures.allocator.settings import FailedSettings, settings_for_failed
from snapreport.figures.segments import Heap, allocator_of, heap_at
from snapreport.ground.memoize import once_for_both
from snapreport.ground.native.columns import unique
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, list_of
from snapreport.history.allocator_settings import (
    SMALL_SEGMENT,
    UNLIMITED,
    AllocatorSettings,
    possible_settings,
    recorded_settings,
)
from snapreport.history.block_sizes import SMALL_SIZE, live_at, round_sizes
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History

_PROBABLY = {False: "", True: "probably "}
"""Keyed by whether memory was allocated before the recording began."""


@dataclass(frozen=True)
class SettingVerdict:
    """What allocator settings could have done for a request that failed."""

    needed: int
    """Bytes of all live requests and the failed one: no setting needs less."""
    there: int | None
    """Bytes that PyTorch could have had; None if not known."""
    replayed: FailedSettings | None
    """The answer of a model of the allocator; None if it is not exact, or not needed."""

    @property
    def hopeless(self) -> bool:
        """Whether no setting could have helped."""
        return self.there is not None and self.needed > self.there

    @property
    def known(self) -> bool:
        """Whether it is known what settings could have done."""
        return self.hopeless or self.replayed is not None

    def may_help(self, setting: str) -> bool:
        """Say whether nothing known speaks against a setting."""
        if self.hopeless or self.replayed is None:
            return not self.hopeless
        if self.replayed.serve:
            return any(setting in each for each in self.replayed.serve)
        return not any(setting in each for each in self.replayed.fail)


def judge_settings(tables: History, device: DeviceFigures, verdict: OomVerdict) -> SettingVerdict:
    """Say what settings could have done for a request.

    Args:
        verdict: on the request.
    """
    divided = bool(recorded_settings(tables.settings).roundup_power2_divisions)
    # With roundup_power2_divisions the recorded size is rounded, to less than twice the request.
    size = verdict.size // 2 if divided else verdict.size
    needed = live_at(device.history, verdict.event) + size
    # Older files do not say what the driver had left.
    there = verdict.ceiling if verdict.device_free > 0 else None
    found = SettingVerdict(needed, there, None)
    first = device.ooms[0].event == verdict.event
    # If others' memory came and went, or the driver refused what it had, no capacity is known.
    known = verdict.missing > 0 and not verdict.foreign and verdict.cause != "unclear"
    if there is None or found.hopeless or not (first and known) or verdict.pool != "default":
        return found
    return replace(found, replayed=_replay_for_first(device, tables))


@once_for_both
def _replay_for_first(device: DeviceFigures, tables: History) -> FailedSettings | None:
    """Replay up to the first failed request, with what PyTorch could have had then."""
    modelled, first = model_device(tables, device.history), device.ooms[0]
    if modelled is None:
        return None
    return settings_for_failed(modelled, first.event, (first.reserved or 0) + first.device_free)


def settings_words(of: SettingVerdict) -> str:
    """Say what settings could have done, as sentences; ``""`` if nothing is known."""
    if of.there is not None and of.hopeless:
        needs, has = format_bytes(of.needed), format_bytes(of.there)
        if needs != has:
            return f"No setting could have helped: {needs} were needed, {has} were available."
        more = format_bytes(of.needed - of.there)
        return f"No setting could have helped: {has} were available, {more} less than needed."
    replayed = of.replayed
    if replayed is None or not (replayed.serve or replayed.fail):
        return ""
    by = (
        "By a model of the allocator, which puts all"
        f" {format_count(replayed.allocations)} allocations where they were recorded,"
    )
    if not replayed.serve:
        others = list_of(replayed.fail, " or ")
        return f"{by} this request would probably have failed under {others} as well."
    first, *rest = replayed.serve
    text = f"{by} {first} would {_PROBABLY[replayed.late]}have served this request"
    if rest:
        text += f", and so would {list_of(rest)}"
    if replayed.late:
        text += "; where memory from before the recording would have been is not known"
        return f"{text}, nor what the program would have asked for next."
    return f"{text}. What the program would have asked for next is not known."


_WORTH = 0.05
"""Advice that frees less than this part of the missing bytes is not worth the work."""
_SPLIT_SIZES = tuple(size << 20 for size in (512, 256, 128, 64, 32))
"""Values tried for ``max_split_size_mb``: large ones first, as they cost least."""
_DIVISIONS = 8
"""The value for ``roundup_power2_divisions``: at most an eighth is lost."""
_MANY_SIZES = 16
"""Rounding is advised with at least this many sizes, of which it leaves at most half."""


def advise_on_settings(
    tables: History, device: DeviceFigures, verdict: OomVerdict, settings: SettingVerdict
) -> tuple[Suggestion, ...]:
    """Return what would have made room without changing the model, the largest effect first.

    Args:
        verdict: on the request.
        settings: what settings could have done; if that is known, nothing is estimated.
    """
    if verdict.missing <= 0:
        return ()
    found = [*_of_use(verdict)]
    if not settings.known:
        found += _of_settings(tables, device, verdict)
    worth = max(_WORTH * verdict.missing, 1)
    kept = sorted((each for each in found if each[0] >= worth), key=lambda each: -each[0])
    replayed, there, serve = settings.replayed, settings.there, []
    if replayed is not None and there is not None:
        serve = [
            _setting(
                value,
                f"Set {value}: by the model of the allocator, this request would"
                f" {_PROBABLY[replayed.late]}have been served with the {format_bytes(there)} that"
                " PyTorch could have had. This has not been measured.",
            )
            for value in replayed.serve
        ]
    return (*serve, *(suggestion for _, suggestion in kept))


def _is_enough(size: int, verdict: OomVerdict) -> str:
    if size < verdict.missing:
        return " By itself not enough for this request."
    return " That alone would have been enough for this request."


def _of_use(verdict: OomVerdict) -> Iterator[tuple[int, Suggestion]]:
    """Yield other uses of the allocator, each after the most bytes that it frees."""
    waiting, locked = verdict.pending, verdict.locked
    if waiting:
        yield (
            waiting,
            Suggestion(
                "wait-for-stream",
                "Make streams wait instead of calling record_stream():"
                f" {format_bytes(waiting)} were freed already, but held back because another stream"
                " might still use them. Where the freeing stream waits for the other, they are free"
                f" at once.{_is_enough(waiting, verdict)}",
                frees=Frees.exactly(waiting),
            ),
        )
    if verdict.pool != "default":
        back = sum(each.returnable for each in verdict.pools)
        if back >= verdict.missing:
            yield (
                back,
                Suggestion(
                    "return-cache",
                    "Give unused segments back before a graph is captured: the allocator cannot do"
                    f" that during the capture. {format_bytes(back)} could have gone back."
                    f"{_is_enough(back, verdict)}",
                    "torch.cuda.empty_cache()  # before the capture",
                    Frees.exactly(back),
                ),
            )
    elif locked:
        short = _is_enough(locked, verdict) if locked < verdict.missing else ""
        yield (
            locked,
            Suggestion(
                "share-pool",
                "Let captured graphs share one pool (torch.cuda.graph_pool_handle()), or drop those"
                f" that are no longer replayed: {format_bytes(locked)} were free in pools that"
                " serve nothing else. A graph may use this memory when it is replayed, which no"
                f" recording shows.{short}",
            ),
        )


def _of_settings(
    tables: History, device: DeviceFigures, verdict: OomVerdict
) -> Iterator[tuple[int, Suggestion]]:
    """Yield settings that could have been enough, each after the most bytes that it frees."""
    short = verdict.missing - verdict.returnable
    if verdict.expandable or verdict.pieces < short:
        return
    settings = possible_settings(tables.settings, device.history)
    in_pages = _from_pages(verdict, settings[0].large_segment_size)
    if in_pages >= short:
        yield (
            in_pages,
            _setting(
                "expandable_segments:True",
                "Switch on expandable segments, which grow and shrink in place: with blocks side by"
                f" side, up to {format_bytes(in_pages)} of what was free in pieces could have"
                " served this request.",
            ),
        )
    heap = heap_at(tables, device, verdict.event)
    request = Request(verdict.size, verdict.stream, settings)
    if settings[0].max_split_size == UNLIMITED:
        # PyTorch allows no limit below the size of its large segments.
        limits = [each for each in _SPLIT_SIZES if each >= settings[0].large_segment_size]
        limit, kept = _best_split(heap, request, limits)
        if limit and kept >= short:
            yield (
                kept,
                _setting(
                    f"max_split_size_mb:{limit >> 20}",
                    f"Keep large segments for large requests: {format_bytes(kept)} were free in"
                    f" segments of at least {limit >> 20} MiB that only smaller blocks kept in"
                    " use.",
                ),
            )
    if not settings[0].roundup_power2_divisions:
        most = _from_rounding(device, heap, request, verdict.pieces)
        if most >= short:
            yield (
                most,
                _setting(
                    f"roundup_power2_divisions:{_DIVISIONS}",
                    "Round sizes up further, so that blocks of slightly different sizes can take"
                    f" each other's place: sizes vary a lot here. At most {format_bytes(most)} of"
                    " what was free in pieces could have served this request, after subtracting"
                    " what the rounding costs.",
                ),
            )


def _setting(value: str, text: str) -> Suggestion:
    return Suggestion("allocator-setting", text, f"export PYTORCH_CUDA_ALLOC_CONF={value}")


def _from_pages(verdict: OomVerdict, large_page: int) -> int:
    """Return the most bytes that would be free if blocks lay side by side in pages.

    Part of the last page of each kind stays unused, as does the rest of the request's last page.
    """
    own = [
        each for each in verdict.pools if (each.pool, each.stream) == (verdict.pool, verdict.stream)
    ]
    free = -verdict.returnable
    for kind, page in (("small", SMALL_SEGMENT), ("large", large_page)):
        used = sum(each.allocated + each.pending for each in own if each.kind == kind)
        asked = verdict.size if (verdict.size > SMALL_SIZE) == (kind == "large") else 0
        pages = -(-(used + asked) // page) * page - asked
        free += sum(each.reserved for each in own if each.kind == kind) - pages
    # The driver would give pages for the request, not a whole segment.
    return min(free + verdict.needed - verdict.size, verdict.pieces)


def _best_split(heap: Heap, request: Request, limits: Sequence[int]) -> tuple[int, int]:
    """Return the split limit that would have kept the most bytes whole, and these bytes.

    A segment at least as large as the limit serves no smaller request. So a segment kept in use
    only by smaller blocks would have been free.
    """
    largest = np.zeros(len(heap.size), np.int64)
    np.maximum.at(largest, heap.segment, heap.bytes)
    own = request.sources(heap) & ~heap.expandable & (heap.used > 0)
    best = (0, 0)
    for limit in limits:
        kept = own & (heap.size >= limit) & (largest < limit)
        free = int((heap.size - heap.used)[kept].sum())
        if free > best[1]:
            best = (limit, free)
    return best


def _from_rounding(device: DeviceFigures, heap: Heap, request: Request, pieces: int) -> int:
    """Return the most bytes that rounding could free, 0 if sizes do not vary enough."""
    rows = device.history.allocations
    sizes = rows.size[(rows.size > SMALL_SIZE) & (rows.stream == request.stream)]
    rounded = AllocatorSettings(roundup_power2_divisions=(_DIVISIONS,) * 16)
    distinct = unique(sizes)
    if len(distinct) < _MANY_SIZES:
        return 0
    if 2 * len(unique(round_sizes(distinct, rounded))) > len(distinct):
        return 0
    mine = (heap.stream == request.stream)[heap.segment]
    live = heap.row[mine]
    needed = np.maximum(round_sizes(rows.size[live], rounded), heap.bytes[mine])
    return max(pieces - int((needed - heap.bytes[mine]).sum()), 0)


# Expandable segments, as findings about any program advise them.

WORTH = 32 << 20
"""Smaller losses are not worth a finding: the allocator gets memory 2 to 20 MiB at a time, and a
program of a few hundred MiB always has some of that free."""
EXPANDABLE = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def expandable_may_help(tables: History, device: DeviceFigures) -> bool:
    """Say whether expandable segments are off, and nothing known speaks against them.

    Where a request failed, a replay may show that they would not have served it.
    """
    if is_expandable(tables, device):
        return False
    verdict = judge(tables, device, device.ooms[0]) if device.ooms else None
    if verdict is None:
        return True
    return judge_settings(tables, device, verdict).may_help("expandable_segments:True")


def is_expandable(tables: History, device: DeviceFigures) -> bool:
    """Say whether expandable segments are on, by the settings or as the segments show."""
    seen = bool(allocator_of(device).segments.expandable.any())
    return tables.settings.get("expandable_segments") is True or seen

"""Say how well a replay through the model of PyTorch's allocator matches the recording."""

from __future__ import annotations

from snapreport.ground.units import format_count, share_in_words
from snapreport.model.diagnoses import Figure
from snapreport.model.replay.replays import CAUSES, FactualReplay
from snapreport.model.trust import Check, Mark

_MODEL = "A model of PyTorch's allocator puts"


def check_replay(found: FactualReplay) -> Check:
    """Say how far the model matches the allocator, and what follows if it does not fully.

    No other figure depends on it.
    """
    mark: Mark = "ok" if found.explains else "unknown"
    return Check("replay", mark, "Replay", _sentence(found), _figures(found))


def _sentence(found: FactualReplay) -> str:
    if found.cause == "other-allocator":
        return (
            "The model covers only CUDA's own allocator, and another allocator made this recording."
        )
    count = format_count(found.allocations)
    if found.exact and found.not_modelled:
        return (
            f"{_MODEL} all {count} allocations at their recorded addresses; but no other settings"
            f" are tried on this recording: {found.not_modelled}."
        )
    if found.exact:
        if found.allocations == 1:
            return f"{_MODEL} the only allocation at its recorded address{_same(found)}."
        return f"{_MODEL} all {count} allocations at their recorded addresses{_same(found)}."
    if found.placed == found.allocations:
        how = f"all {count} allocations at their recorded addresses, but handles segments otherwise"
    else:
        share = share_in_words(found.placed, found.allocations)
        how = f"{share} of the allocations at their recorded addresses"
    return (
        f"{_MODEL} {how}; so no other settings are tried on this recording. Likely cause:"
        f" {CAUSES[found.cause]}."
    )


def _same(found: FactualReplay) -> str:
    return ", and reserves the same at every event, to the byte" if found.reserved_equal else ""


def _figures(found: FactualReplay) -> tuple[Figure, ...]:
    figures = [Figure("at their recorded address", found.placed, "count")]
    if found.segment_events:
        figures.append(Figure("segment events the same", found.segment_events_met, "count"))
    if found.divergence is None:
        return tuple(figures)
    return (
        Figure("allocations", found.allocations, "count"),
        figures[0],
        Figure("segment events", found.segment_events, "count"),
        *figures[1:],
        Figure("reserved at most, by the model", found.peak_reserved_model),
        Figure("first departs at event", found.divergence, "count"),
    )

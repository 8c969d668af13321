"""Replays through the model of the allocator as documents: the recording's own, other settings.

Text, Markdown and the page say the same of other settings; the page, on which a reader chooses one
to draw it on the timeline, lays out its table itself, from the sentences, headings and cells here.
"""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_range,
    format_share,
    plural,
)
from snapreport.model.replays import CAUSES, Between, FactualReplay, OtherSettings, SettingOutcome
from snapreport.reporters.document import (
    Block,
    Code,
    Column,
    Document,
    Paragraph,
    Table,
    sentence,
)
from snapreport.reporters.words import event_name

_SERVES = {True: "yes", False: "no", None: "perhaps"}
_LONGEST = 400


def replay_document(device: str, found: FactualReplay) -> Document:
    """Say how exact the replay under the recorded settings is."""
    return Document(
        f"Replay of {device} under its recorded settings", [*map(Paragraph, _replay(device, found))]
    )


def _replay(device: str, found: FactualReplay) -> Iterator[str]:
    exact = "exactly as recorded" if found.exact else "not as recorded throughout"
    yield f"{device}: replayed under the recorded settings ({found.settings}), {exact}"
    yield (
        f"{format_count(found.placed)} of {plural(found.allocations, 'allocation')} at the recorded"
        f" address ({format_share(found.placed, found.allocations)})"
    )
    if found.segment_events:
        yield (
            f"{format_count(found.segment_events_met)} of"
            f" {plural(found.segment_events, 'segment event')} the same, in the same order"
        )
    reserved = "equal to the byte" if found.reserved_equal else "not the same throughout"
    yield (
        f"reserved {reserved}: {format_bytes(found.peak_reserved_model)} at its peak, and"
        f" {format_bytes(found.peak_reserved)} recorded"
    )
    if found.retries:
        yield (
            f"{plural(found.retries, 'request')} failed or made PyTorch give cached memory back:"
            f" never more than {format_bytes(found.capacity or 0)} could be reserved"
        )
    if found.divergence is not None:
        yield (
            f"first departs from the recording at event {event_name(found.divergence)}; the likely"
            f" cause: {CAUSES[found.cause]}"
        )
    if found.not_modelled:
        yield f"nothing is predicted for other settings: {found.not_modelled}"


def settings_document(device: str, found: OtherSettings) -> Document:
    """Say what other settings would have needed, or why none were compared."""
    title = f"Other settings of the allocator on {device}"
    return Document(title, list(settings_blocks(found, device)))


def settings_blocks(found: OtherSettings, device: str = "") -> Iterator[Block]:
    """Yield what is said of other settings; ``device`` is named where nothing above does so."""
    yield from map(Paragraph, lead(found, device))
    if not found.outcomes:
        return
    yield Table(
        [Column("settings", True, "end"), *map(Column, headings(found))],
        [
            (
                (Code(each.settings, _LONGEST), " (recorded)" if each.recorded else ""),
                *cells(each, found),
            )
            for each in found.outcomes
        ],
    )
    yield Paragraph(how_text(found))


def lead(found: OtherSettings, device: str = "") -> list[str]:
    """Return the sentences before the table, or instead of it where there is none.

    The first one says which number of bytes no setting gets below.
    """
    at = "at the start" if found.floor_event < 0 else f"at event {event_name(found.floor_event)}"
    floor = (
        f"no setting gets below the {format_bytes(found.floor)} that were live or asked for {at}."
    )
    said = [f"{device}: {floor}" if device else sentence(floor)]
    if found.hopeless:
        needed, there = format_bytes(found.floor), format_bytes(found.capacity or 0)
        said.append(f"No setting could have helped: {needed} needed, {there} available.")
    elif found.refused:
        said.append(sentence(found.refused))
    if found.outcomes and found.capacity is not None:
        there = format_bytes(found.capacity)
        said.append(f"Fits: whether every request is served with {there} for all segments.")
    return said


def headings(found: OtherSettings) -> tuple[str, ...]:
    """Return the titles of the columns with figures."""
    fits = () if found.capacity is None else ("fits",)
    return (*fits, "smallest capacity", "peak reserved", "retries", "driver calls")


def cells(outcome: SettingOutcome, found: OtherSettings) -> list[str]:
    """Return a setting's figures."""
    fits = [] if found.capacity is None else [_SERVES[outcome.serves]]
    # If the recording began late, the ranges under other settings are no bounds.
    about = "about " if found.starts > 1 and not outcome.recorded else ""
    sizes = [
        about + format_range(each.least, each.most) for each in (outcome.capacity, outcome.peak)
    ]
    return [*fits, *sizes, _count(outcome.retries), _count(outcome.driver_calls)]


def _count(each: Between) -> str:
    least, most = format_count(each.least), format_count(each.most)
    return least if each.one else f"{least} to {most}"


def how_text(found: OtherSettings) -> str:
    """Say what the figures are, where their ranges come from, and what they leave out."""
    late = (
        " The recording began late: where another setting would have placed the memory from before"
        " it is not known. So figures of other settings are estimates here, from two starting"
        " points: that memory left where it was, or requested again. The true values may be outside"
        " these ranges."
        if found.starts > 1
        else ""
    )
    return (
        "This comes from a model of the allocator and was not measured. Smallest capacity: the"
        " least memory for PyTorch's segments that serves every request, with the retries and"
        " driver calls it takes there. Peak reserved: without any limit. Ranges come from"
        f" {found.tried} ways in which the driver may place segments. Calls of empty_cache() that"
        " gave nothing back leave no trace in a recording; under another setting they might have"
        f" given memory back.{late}"
    )

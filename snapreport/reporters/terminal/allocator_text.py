"""A recording replayed through the model of the allocator, as text for a terminal."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count, format_range, format_share
from snapreport.model.replay.replays import (
    CAUSES,
    Between,
    FactualReplay,
    OtherSettings,
    SettingOutcome,
)
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.summary_rows import event_name, plural

_SERVES = {True: "yes", False: "no", None: "perhaps"}


def factual(page: Page, device: str, found: FactualReplay) -> None:
    """Say how exact the replay under the recorded settings is."""
    exact = "exactly as recorded" if found.exact else "not as recorded throughout"
    page.say(f"{device}: replayed under the recorded settings ({found.settings}), {exact}")
    page.say(
        f"{format_count(found.placed)} of {plural(found.allocations, 'allocation')} on the recorded"
        f" address ({format_share(found.placed, found.allocations)})"
    )
    if found.segment_events:
        page.say(
            f"{format_count(found.segment_events_met)} of"
            f" {plural(found.segment_events, 'segment event')} the same, in the same order"
        )
    reserved = "equal to the byte" if found.reserved_equal else "not the same throughout"
    page.say(
        f"reserved {reserved}: {format_bytes(found.peak_reserved_model)} at its peak, and"
        f" {format_bytes(found.peak_reserved)} recorded"
    )
    if found.retries:
        page.say(
            f"{plural(found.retries, 'request')} gave cached memory back first, or failed:"
            f" more than {format_bytes(found.capacity or 0)} was never there"
        )
    if found.divergence is not None:
        page.say(
            f"first departs from the recording at event {event_name(found.divergence)}; the likely"
            f" cause: {CAUSES[found.cause]}"
        )


def others(page: Page, device: str, found: OtherSettings) -> None:
    """Say what other settings come to: first what none of them gets below."""
    at = "at the start" if found.floor_event < 0 else f"at event {event_name(found.floor_event)}"
    page.say(
        f"{device}: no setting gets below the {format_bytes(found.floor)} that were live or asked"
        f" for {at}"
    )
    if found.hopeless:
        page.say(
            f"No setting could have helped: {format_bytes(found.floor)} needed,"
            f" {format_bytes(found.capacity or 0)} there"
        )
        return
    if found.refused:
        page.say(found.refused)
        return
    page.part()
    asked = found.capacity is not None
    headings = ["smallest capacity", "peak reserved", "retries", "driver calls"]
    if found.capacity is not None:
        there = format_bytes(found.capacity)
        page.say(f"fits: whether every request is served with {there} for all segments")
        page.part()
        headings.insert(0, "fits")
    page.table((*headings, "settings"), [_row(each, asked) for each in found.outcomes])
    page.part()
    page.say(_how(found))


def _row(each: SettingOutcome, asked: bool) -> list[str]:
    cells = [_bytes(each.capacity), _bytes(each.peak)]
    cells += [_count(each.retries), _count(each.driver_calls)]
    name = f"{each.settings} (recorded)" if each.recorded else each.settings
    return [*([_SERVES[each.serves]] if asked else []), *cells, name]


def _bytes(each: Between) -> str:
    return format_range(each.least, each.most)


def _count(each: Between) -> str:
    least, most = format_count(each.least), format_count(each.most)
    return least if each.one else f"{least} to {most}"


def _how(found: OtherSettings) -> str:
    starts = (
        " They also cover both ways to begin: memory from before the recording left where it was,"
        " or requested anew."
        if found.starts > 1
        else ""
    )
    return (
        "This comes from a model of the allocator and was not measured. Smallest capacity: the"
        " least memory for PyTorch's segments that serves every request, with the retries and"
        " driver calls it takes there. Peak reserved: without any limit. Ranges cover"
        f" {found.tried} ways in which the driver may place segments.{starts}"
    )

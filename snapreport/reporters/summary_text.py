"""The summary of a recording as text for a terminal."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.model.replays import CAUSES, FactualReplay, OtherSettings
from snapreport.model.roles import Steps
from snapreport.reporters.document import Paragraph
from snapreport.reporters.summary import steps_table
from snapreport.reporters.text_tables import Page
from snapreport.reporters.words import (
    asked_text,
    cells,
    ending_text,
    event_name,
    floor_text,
    headings,
    how_text,
    identified_text,
    setting_name,
)

# Replays of a recording through the model of the allocator, as text for a terminal.


def factual(page: Page, device: str, found: FactualReplay) -> None:
    """Say how exact the replay under the recorded settings is."""
    exact = "exactly as recorded" if found.exact else "not as recorded throughout"
    page.say(f"{device}: replayed under the recorded settings ({found.settings}), {exact}")
    page.say(
        f"{format_count(found.placed)} of {plural(found.allocations, 'allocation')} at the recorded"
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
            f"{plural(found.retries, 'request')} failed or made PyTorch give cached memory back:"
            f" never more than {format_bytes(found.capacity or 0)} could be reserved"
        )
    if found.divergence is not None:
        page.say(
            f"first departs from the recording at event {event_name(found.divergence)}; the likely"
            f" cause: {CAUSES[found.cause]}"
        )
    if found.not_modelled:
        page.say(f"nothing is predicted for other settings: {found.not_modelled}")


def others(page: Page, device: str, found: OtherSettings) -> None:
    """Write the outcome of other settings, after the bytes that no setting gets below."""
    page.say(f"{device}: {floor_text(found)}")
    if ending := ending_text(found):
        page.say(ending)
        return
    page.part()
    if asked := asked_text(found):
        page.say(asked)
        page.part()
    rows = [[*cells(each, found), setting_name(each)] for each in found.outcomes]
    page.table((*headings(found), "settings"), rows)
    page.part()
    page.say(how_text(found))


def write_steps(page: Page, steps: Steps, most: int | None) -> None:
    """Write the memory of the program's steps."""
    page.blocks([steps_table(steps, most), Paragraph(identified_text(steps))])

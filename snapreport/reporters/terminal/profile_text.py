"""A profile as text, JSON or CSV: memory by group over time."""

from __future__ import annotations

import csv
import io
from typing import Any

from snapreport.ground.safe_text import csv_cell
from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.answer_tables import Profile
from snapreport.reporters.json.json_parts import fields_of
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import cut
from snapreport.reporters.words.summary_rows import event_name


def write_profile(page: Page, profile: Profile, by: str) -> None:
    """Write each group's bytes at the device's peak, its own peak, and its rule."""
    whole = profile.peak_bytes
    page.say(
        f"{format_bytes(whole)} {profile.curve} at the peak"
        f" (event {event_name(profile.peak_event)})"
    )
    page.table(
        ("at the peak", "share", "own peak", "at event", "allocations", by),
        [
            (
                format_bytes(group.at_peak),
                format_share(group.at_peak, whole),
                format_bytes(group.peak_bytes),
                event_name(group.peak_event),
                format_count(group.count),
                f"{group.name}  [{group.rule}]" if group.rule else group.name,
            )
            for group in profile.groups
        ],
        cut=cut,
    )


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain objects: one list of events, and a list of bytes for each group."""
    return {
        **fields_of(profile, "curve peak_event peak_bytes"),
        "events": profile.events.tolist(),
        "total": profile.total.tolist(),
        "groups": [
            {
                **fields_of(group, "name rule peak_bytes peak_event at_peak"),
                "allocations": group.count,
                "bytes": group.bytes.tolist(),
            }
            for group in profile.groups
        ],
    }


def profile_csv(profile: Profile, times: list[int | None]) -> str:
    """Return a profile as CSV: a row for each event, a column for each group.

    Args:
        profile: the profile.
        times: the time of each of its events in microseconds, None where unknown.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["event", "time_us", "total", *(csv_cell(group.name) for group in profile.groups)]
    )
    columns = [group.bytes.tolist() for group in profile.groups]
    rows = zip(profile.events.tolist(), times, profile.total.tolist(), *columns, strict=True)
    for event, time, *values in rows:
        writer.writerow([event, "" if time is None else time, *values])
    return text.getvalue()

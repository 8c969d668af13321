"""Words about other allocator settings, the same in text, in Markdown and on the page."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count, format_range
from snapreport.model.replay.replays import Between, OtherSettings, SettingOutcome
from snapreport.reporters.words.summary_rows import event_name

_SERVES = {True: "yes", False: "no", None: "perhaps"}


def floor_text(found: OtherSettings) -> str:
    """Say which number of bytes no setting gets below."""
    at = "at the start" if found.floor_event < 0 else f"at event {event_name(found.floor_event)}"
    return f"no setting gets below the {format_bytes(found.floor)} that were live or asked for {at}"


def ending_text(found: OtherSettings) -> str:
    """Say why no settings were compared: none could help, or no model; "" if they were."""
    if found.hopeless:
        needed, there = format_bytes(found.floor), format_bytes(found.capacity or 0)
        return f"No setting could have helped: {needed} needed, {there} available"
    return found.refused


def asked_text(found: OtherSettings) -> str:
    """Explain the column "fits"; "" without it."""
    if found.capacity is None:
        return ""
    there = format_bytes(found.capacity)
    return f"fits: whether every request is served with {there} for all segments"


def lead(found: OtherSettings) -> list[str]:
    """Return the sentences before the table, or instead of it where there is none."""
    texts = [floor_text(found), ending_text(found), asked_text(found) if found.outcomes else ""]
    return [f"{text[0].upper()}{text[1:].rstrip('.')}." for text in texts if text]


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


def setting_name(outcome: SettingOutcome) -> str:
    """Return the value of the environment variable, and whether it is the recorded one."""
    return f"{outcome.settings} (recorded)" if outcome.recorded else outcome.settings


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

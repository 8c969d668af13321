"""The values of findings as text."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_share,
    plural,
)
from snapreport.model.diagnoses import (
    SEVERITIES,
    Figure,
    Finding,
    Frees,
    Suggestion,
    Table,
    Unit,
    Value,
)
from snapreport.reporters.words.summary_rows import event_name


def value_text(value: Value, unit: Unit) -> str:
    """Write a value in its unit; ``-`` where it is not known."""
    if value is None:
        return "-"
    if unit == "text" or isinstance(value, str):
        return str(value)
    if unit == "share":
        return format_share(value)
    number = round(value)
    if unit == "bytes":
        return format_bytes(number)
    if unit == "event":
        return event_name(number)
    if unit == "time_us":
        return format_duration(number)
    return format_number(value)


def texts_of(table: Table) -> list[int]:
    """Return the columns of a table that hold texts."""
    return [i for i, column in enumerate(table.columns) if column.unit == "text"]


def cells_of(table: Table, most: int | None) -> list[list[str]]:
    """Return the first rows of a table as texts, ``most`` of them or all."""
    units = [column.unit for column in table.columns]
    return [list(map(value_text, row, units)) for row in table.rows[:most]]


def figure_text(figure: Figure) -> str:
    """Write a figure's value, with its upper bound where it is a range."""
    text = value_text(figure.value, figure.unit)
    if figure.most is None or figure.most == figure.value:
        return text
    most = value_text(figure.most, figure.unit)
    if most == text and isinstance(figure.value, int | float):
        return f"{text} (up to {value_text(figure.most - figure.value, figure.unit)} more)"
    return f"{text} to {most}"


def exact_text(value: Value, unit: Unit) -> str:
    """Write bytes to the byte, for a tooltip; ``""`` where the short form is exact."""
    if unit != "bytes" or value is None or isinstance(value, str):
        return ""
    return f"{format_count(round(value))} bytes"


def frees_text(frees: Frees | None) -> str:
    """Say how much a suggestion would free; ``""`` where that is not known."""
    if frees is None:
        return ""
    if not frees.most:
        return "frees no memory"
    least, about, most = map(format_bytes, (frees.least, frees.expected, frees.most))
    if frees.least == frees.most:
        return f"frees {about}"
    if not frees.least:
        return f"frees up to {most}" + (f", about {about}" if about != most else "")
    between = f"{least} to {most}" if about != most else f"at least {least}"
    return f"frees {between}, about {about}"


def saving_text(suggestions: Sequence[Suggestion]) -> str:
    """Say how much the best suggestion is expected to free; ``""`` if none frees any."""
    best = max(suggestions, key=lambda each: each.expected, default=None)
    if best is None or best.frees is None or not best.expected:
        return ""
    about = "" if best.frees.least == best.frees.most else "about "
    return f"{about}{format_bytes(best.expected)}"


def reasons(frees: Frees | None) -> list[str]:
    """Return what the bounds and the estimate rest on, a sentence each."""
    if frees is None:
        return []
    said = [
        ("At least", frees.least, frees.why_least),
        ("About", frees.expected, frees.why_expected),
        ("At most", frees.most, frees.why_most),
    ]
    return [f"{which} {format_bytes(size)}: {why}." for which, size, why in said if why and size]


def conditions(suggestion: Suggestion) -> str:
    """Say what a suggestion costs, and when it does not apply; ``""`` where nothing is known."""
    return " ".join(filter(None, (suggestion.costs, suggestion.unless)))


def tally(findings: tuple[Finding, ...]) -> str:
    """Count findings by severity: ``1 critical, 2 warnings, 4 notes``."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for each in findings:
        counts[each.severity] += 1
    words = [
        f"{count} critical" if severity == "critical" else plural(count, severity)
        for severity, count in counts.items()
        if count
    ]
    return ", ".join(words) or "nothing found"

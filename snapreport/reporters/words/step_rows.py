"""The rows of the table of steps, the same in text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.iterations import Kind, Steps, StepUse, runs_of, step_range
from snapreport.reporters.words.summary_rows import event_range

STEP_HEADINGS = ("step", "events", "start", "peak", "kept", "note")
"""The columns of ``step_rows``; "kept" is the bytes that a step allocated and that outlive it."""

_KINDS: dict[Kind, str] = {
    "warm-up": "warm-up",
    "steady": "alike",
    "other": "differs",
    "unknown": "",
}


def step_rows(steps: Steps, most: int | None = None) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows under STEP_HEADINGS, as texts, and how many steps are left out.

    Consecutive steady steps share one row, which shows their lowest to highest value.

    Args:
        steps: of one device.
        most: the most rows, plus the row of the peak; None for all.
    """
    runs = runs_of(steps.steps)
    shown = [
        run
        for i, run in enumerate(runs)
        if most is None or i < most or any(step.number == steps.peak for step in run)
    ]
    left = len(steps) - sum(map(len, shown))
    return [_row(run, steps.peak) for run in shown], left


def identified_text(steps: Steps) -> str:
    """Say how the steps were identified, and how sure that is."""
    sure = f" ({steps.confidence:.0%} sure)" if steps.confidence < 1 else ""
    return f"Identified {steps.how}{sure}."


def _row(run: Sequence[StepUse], peak: int | None) -> tuple[str, ...]:
    return (
        step_range(run),
        event_range(run[0].start_event, run[-1].end_event),
        _spread([step.start_bytes for step in run]),
        _spread([step.peak_bytes for step in run]),
        _spread([step.kept_bytes for step in run]),
        _note(run, peak),
    )


def _note(run: Sequence[StepUse], peak: int | None) -> str:
    notes = [run[0].name] if len(run) == 1 else []
    if peak is not None and any(step.number == peak for step in run):
        notes.append("peak" if len(run) == 1 else f"peak in {format_count(peak)}")
    if run[0].kind != "steady" or len(run) > 1:
        notes.append(_KINDS[run[0].kind])
    if not run[0].start_event and run[0].start_bytes:
        notes.append("begins with the recording")  # and may have begun before it
    return ", ".join(filter(None, notes))


def _spread(values: Sequence[int]) -> str:
    least, most = format_bytes(min(values)), format_bytes(max(values))
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least} to {most}"

"""What a short script says that loads the pickle and adds up, as one writes it in a minute.

It starts from zero where the recording starts, walks forward, and knows no blocks. ``None`` is what
such a script cannot tell.
"""

from __future__ import annotations

from pathlib import Path

from dev.evals import plain_truth as plain
from dev.evals import run_truth
from dev.evals.questions import Question

_SAME = {
    "count-events",
    "count-actions",
    "count-segments",
    "largest-block",
    "largest-request",
    "requested-in-all",
    "has-failed",
    "failed-size",
    "failed-event",
    "device-free",
    "setting",
    "made-at",
    "top-line",
}
"""Questions that a look at the entries answers; there is one way to do it."""


def answer(question: Question, path: Path, base: Path | None) -> str | None:
    """Return what the script says, or None where it says nothing."""
    if question.of_run:
        return _of_run(question, path)
    device = int(question.device.split(":")[1])
    if question.kind in _SAME:
        return plain.answer(question, path, base)
    name: str | None = question.about.get("curve")
    if question.kind == "known-peak":
        name = "requested"  # the entries have no other size
    if question.kind == "peak-change" and base is not None and name is not None:
        return str(max(_levels(path, device, name)) - max(_levels(base, device, name)))
    if name is None or question.kind == "peak-without":
        return None
    levels = _levels(path, device, name)
    if question.kind in ("peak", "known-peak"):
        return str(max(levels))
    if question.kind == "peak-event":
        return str(levels.index(max(levels)) - 1)
    if question.kind == "held-at":
        return str(levels[question.about["event"] + 1])
    return str(levels[0 if question.kind == "held-at-start" else -1])


def _of_run(question: Question, run: Path) -> str:
    """The same of each rank, and the ranks compared."""
    said = run_truth.answer(question, run)
    if question.kind in ("rank-peak", "rank-step-peak"):
        start = plain.held_at_start(run_truth.ranks_of(run)[question.about["rank"]], 0, "requested")
        return str(int(said) - start)
    return said


def _levels(path: Path, device: int, name: str) -> list[int]:
    """Return the running sum from zero."""
    values = plain.curve(path, device, name)
    return [value - values[0] for value in values]

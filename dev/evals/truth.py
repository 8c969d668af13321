"""The answers to all questions, by plain arithmetic."""

from __future__ import annotations

from pathlib import Path

from dev.evals import plain_truth, run_truth
from dev.evals.questions import Question


def answer(question: Question, path: Path, base: Path | None) -> str | None:
    """Return a question's answer; None for the kinds that were checked by hand.

    Args:
        question: what is asked.
        path: the recording or the run.
        base: what it is compared with.
    """
    if question.of_run:
        return run_truth.answer(question, path)
    return plain_truth.answer(question, path, base)

"""Ask Mosaic's tools all questions, and count how right they are."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal

from dev.evals import mosaic_answers
from dev.evals.mosaic_calls import PATIENCE, Mosaic, MosaicError
from dev.evals.questions import Question, files_of, is_right

Grade = Literal["exact", "right to its digits", "wrong", "without a tool", "crashed"]
GRADES: tuple[Grade, ...] = ("exact", "right to its digits", "wrong", "without a tool", "crashed")
"""The first three are answers."""

_FIGURE = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?) ?(GiB|MB|KB)")
_UNITS = {"GiB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}
"""As Mosaic writes them."""


@dataclass(frozen=True)
class Scored:
    """What came of a question."""

    question: Question
    grade: Grade
    said: str
    """Or why it crashed."""


def ask_mosaic(
    checkout: Path,
    questions: Sequence[Question],
    folders: Sequence[Path],
    patience: float = PATIENCE,
) -> list[Scored]:
    """Ask every question whose recording is in one of the folders.

    Args:
        checkout: of Mosaic.
        questions: asked in their order.
        folders: with the recordings.
        patience: seconds for a call.

    Raises:
        MosaicError: the checkout is none.
    """
    with tempfile.TemporaryDirectory() as scratch:
        mosaic = Mosaic(checkout, Path(scratch), patience)
        found = [(each, files_of(each, folders)) for each in questions]
        return [_ask(mosaic, each, *files) for each, files in found if files is not None]


def grade(question: Question, said: str) -> Grade:
    """Say how right an answer is: a figure with a unit may be rounded to the digits it has."""
    if is_right(question, said):
        return "exact"
    found = _FIGURE.fullmatch(said)
    if found is None or not question.answer.lstrip("-").isdigit():
        return "wrong"
    unit, answer = _UNITS[found[2]], int(question.answer)
    if float(found[1]) * unit == answer:
        return "exact"
    printed = Decimal(found[1])
    rounded = (Decimal(answer) / unit).quantize(printed)
    return "right to its digits" if rounded == printed else "wrong"


def _ask(mosaic: Mosaic, question: Question, path: Path, base: Path | None) -> Scored:
    try:
        said = mosaic_answers.answer(question, mosaic, path, base)
    except MosaicError as error:
        return Scored(question, "crashed", str(error))
    except (LookupError, TypeError, ValueError) as error:
        return Scored(question, "crashed", f"not found in the reply: {error!r}")
    if said is None:
        return Scored(question, "without a tool", "")
    return Scored(question, grade(question, said), said)

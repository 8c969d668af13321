"""The questions, and whether an answer is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "questions.yaml"
_COMMON = {"file", "device", "kind", "answer", "question"}
_NUMBER = re.compile(r"[-+]?\d[\d,_]*")
_OTHER_UNIT = re.compile(r"\d\s*[kmgt]i?b\b", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """A question about a recording or a run, with its one right answer."""

    file: str
    """Or the folder of a run."""
    device: str
    """``cuda:0``; ``""`` of a run, whose ranks have one each."""
    kind: str
    answer: str
    """Digits, ``yes``, ``no``, ``true``, ``false``, or ``file:line``."""
    text: str
    about: dict[str, Any] = field(default_factory=dict)
    """What the kind of question takes: a curve, an event, a rank."""

    @property
    def of_run(self) -> bool:
        """Whether it is about a run."""
        return self.kind.startswith(("run-", "rank-"))

    @property
    def asked(self) -> str:
        """The question as an agent gets it, with its file."""
        how = "Give the exact figure, in digits." if self.answer.lstrip("-").isdigit() else ""
        what = "run" if self.of_run else "recording"
        return f"In the {what} {self.file}: {self.text} {how}".rstrip()


def read_questions() -> list[Question]:
    """Return all questions in the order of the file."""
    rows = yaml.safe_load(FILE.read_text("utf-8"))
    return [
        Question(
            row["file"],
            row.get("device", ""),
            row["kind"],
            str(row["answer"]),
            row["question"],
            {name: value for name, value in row.items() if name not in _COMMON},
        )
        for row in rows
    ]


def find_file(name: str, folders: Sequence[Path]) -> Path | None:
    """Return where a recording lies; None if it is in none of the folders."""
    return next((each / name for each in folders if (each / name).exists()), None)


def files_of(question: Question, folders: Sequence[Path]) -> tuple[Path, Path | None] | None:
    """Return what a question is about and what that is compared with; None if one is missing."""
    path, base = find_file(question.file, folders), question.about.get("base")
    other = None if base is None else find_file(base, folders)
    if path is None or (base is not None and other is None):
        return None
    return path, other


def is_right(question: Question, said: str) -> bool:
    """Say whether an answer is the right one.

    The last line counts. A figure has to be its only number or follow ``ANSWER:``; commas between
    digits and ``bytes`` after them do no harm; a rounded figure is wrong, and so is one in another
    unit.
    """
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    last = re.sub(r"^.*ANSWER:", "", last, flags=re.IGNORECASE).strip(" .*`\"'")
    if question.answer.lstrip("-").isdigit():
        numbers = [] if _OTHER_UNIT.search(last) else _NUMBER.findall(last)
        return len(numbers) == 1 and re.sub("[,_+]", "", numbers[0]) == question.answer
    return last.casefold() == question.answer.casefold()


def is_near(question: Question, said: str) -> bool:
    """Say whether a figure is within 1 % of the right one: wrong, but of use to many."""
    if not (question.answer.lstrip("-").isdigit() and said.lstrip("-").isdigit()):
        return False
    return 100 * abs(int(said) - int(question.answer)) <= abs(int(question.answer))

"""What is known of a made recording: which findings are true of it, and their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SEVERITIES = ("critical", "warning", "note")
"""From worst."""


NEVER = frozenset(["oom", "leak"])
"""What a healthy program must not be told, not even as a note."""
MID_WAY = ("started-late", "missing-stacks", "unmatched-frees", "inferred-sizes")
"""What is true of a recording that began while the program ran."""


@dataclass(frozen=True)
class Expected:
    """A finding that is true of a recording, as known from its making."""

    code: str
    cause: str = ""
    """Of a failed request; ``""`` where there is none."""
    figures: Mapping[str, int] = field(default_factory=dict)
    """The true values, by what they are called in the evidence; exact."""
    least: str = "note"
    """It must be at least as severe."""


@dataclass(frozen=True, eq=False)
class Case:
    """A recording with what is true of it."""

    name: str
    seed: int
    snapshot: dict[str, Any]
    expected: tuple[Expected, ...] = ()
    """Findings that have to be made; none for a healthy program."""
    also: frozenset[str] = frozenset()
    """Codes that are true of it as well, and may be found or not; all other findings that are
    more than a note are false alarms."""
    never: frozenset[str] = frozenset()
    """Codes that are wrong of it, even as a note."""

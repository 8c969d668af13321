"""How much is tried of what repeats: a part in ``make test``, and all of it in ``make thorough``.

``SNAPREPORT_EXAMPLES`` says how many times as many examples a property test tries. From 1 on,
every case is tried of what is otherwise a choice of seeds and of real files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings

_Case = TypeVar("_Case")

_USUAL = 0.25
_TIMES = float(os.environ.get("SNAPREPORT_EXAMPLES", _USUAL))

IN_FULL = _TIMES >= 1
"""Whether every case is tried."""

OTHERS_EACH_TIME = _TIMES > 1
"""Whether examples are drawn anew, or are those of every other time."""

_SMALL = 500_000
"""Bytes of a file that takes no time to speak of."""


def tried(examples: int) -> settings:
    """Return the settings of a test that tries so many examples, or a part or a multiple of them.

    They are the same ones every time, so that CI is stable and quick, unless there are more.
    """
    return settings(
        max_examples=max(round(examples * _TIMES), 1),
        deadline=None,
        derandomize=not OTHERS_EACH_TIME,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def some(cases: Sequence[_Case], count: int) -> Sequence[_Case]:
    """Return so many of the cases, the first among them, or every one; fewer of fewer examples."""
    count = max(round(count * min(_TIMES / _USUAL, 1)), 1)
    if IN_FULL or len(cases) <= count:
        return cases
    return [cases[i * len(cases) // count] for i in range(count)]


def small(files: Sequence[Path]) -> Sequence[Path]:
    """Return the files that are small, or every one: for what shows in any file alike."""
    return files if IN_FULL else [path for path in files if path.stat().st_size < _SMALL]

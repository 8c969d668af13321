"""How many examples a property test tries: the same few every time, or many others."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_TIMES = float(os.environ.get("SNAPREPORT_EXAMPLES", "1"))

OTHERS_EACH_TIME = _TIMES != 1
"""Whether examples are drawn anew, or are those of every other time."""


def tried(examples: int) -> settings:
    """Return the settings of a test that tries so many examples.

    They are the same ones every time, so that CI is stable and quick. ``SNAPREPORT_EXAMPLES=10``
    tries ten times as many, others each time; ``make thorough`` sets it.
    """
    return settings(
        max_examples=max(round(examples * _TIMES), 1),
        deadline=None,
        derandomize=not OTHERS_EACH_TIME,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

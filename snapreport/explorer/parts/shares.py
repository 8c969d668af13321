"""Colours by share: the more of all a row holds, the warmer it is."""

from __future__ import annotations

_HEAT = (0.05, 0.2, 0.4, 0.7)
"""From which shares on a row is warmer."""


def heat(share: float) -> str:
    """Return the role of a row that holds this share of all."""
    return f"heat{sum(share >= least for least in _HEAT)}"

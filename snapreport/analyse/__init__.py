"""Columns to histories (``build``), and histories to findings.

``find`` is not imported here, because converting does without it; and ``build_history`` only when
it is asked for, because rendering a bundle does without that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snapreport.analyse.paths import shorten
from snapreport.analyse.recording import find_warnings

if TYPE_CHECKING:
    from snapreport.analyse.build import build_history

__all__ = ["build_history", "find_warnings", "shorten"]


def __getattr__(name: str) -> Any:
    if name != "build_history":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from snapreport.analyse.build import build_history

    return build_history

"""Columns to histories (``build``), and histories to findings.

``find`` is not imported here, because converting does without it.
"""

from snapreport.analyse.build import build_history
from snapreport.analyse.paths import shorten
from snapreport.analyse.recording import find_warnings

__all__ = ["build_history", "find_warnings", "shorten"]

"""Columns to histories (``build``), and histories to findings (``find``)."""

from snapreport.analyse.build import build_history
from snapreport.analyse.find import find

__all__ = ["build_history", "find"]

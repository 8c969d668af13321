"""Converts lines to Textual's strips; every line goes to the terminal this way."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from snapreport.explorer.drawing.palette import style_of
from snapreport.explorer.parts.inking import Line, width_of
from snapreport.ground.safe_text import visible


def strip_of(line: Line, width: int, theme: str) -> Strip:
    """Return a line of exactly ``width`` columns, without control characters or markup."""
    segments, wide = [], 0
    for text, role in line.runs:
        shown = visible(text)
        whole = f"{role}|{line.mark}" if line.mark and "|" not in role else role
        segments.append(Segment(shown, style_of(whole, theme)))
        wide += width_of(shown)
    rest = f"|{line.mark}" if line.mark else ""
    if wide < width:
        segments.append(Segment(" " * (width - wide), style_of(rest, theme)))
    return Strip(segments, max(wide, width)).crop(0, width)

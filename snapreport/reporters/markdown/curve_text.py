"""The allocated curve as a line of block characters."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import DeviceFindings
from snapreport.reporters.page.svg import maxima

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDE = 72


def curve_lines(device: DeviceFindings) -> tuple[str, str, str]:
    """Draw allocated memory over the events: a title, the curve, and the labels of its ends.

    A column shows the maximum over its events; the peak is a full block.
    """
    curve = device.curves["allocated"]
    columns = maxima(curve, _WIDE).tolist()
    top = max(columns)
    drawn = "".join(_BLOCKS[max(-(-8 * value // top) - 1, 0)] if top else "▁" for value in columns)
    end = f"event {format_count(len(curve) - 2)}"
    return (
        f"Allocated memory over the recording; the highest block is {format_bytes(top)}",
        drawn,
        f"start{end:>{max(len(drawn) - 5, len(end) + 1)}}",
    )

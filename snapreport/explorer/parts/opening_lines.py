"""The screen while a file is being opened: the progress, then the first picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapreport.explorer.parts.axis_scale import EventScale
from snapreport.explorer.parts.chart_cells import Bars, chart, in_line
from snapreport.explorer.parts.inking import EMPTY, Line, clipped, ink
from snapreport.figures.curves import find_curves
from snapreport.figures.range_maxima import Heights
from snapreport.ground.units import format_bytes
from snapreport.model.history import History
from snapreport.reporters.words.summary_rows import event_name

_WIDE = 40


class OpeningLines:
    """What is being done and its progress; once the file is read, its curve and peak."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """``cancel``: stops the opening."""
        self._cancel = cancel
        self.what = "Opening"
        self.fraction: float | None = None
        self._device = ""
        self._curves: dict[str, Heights] = {}

    def tell(self, what: str, fraction: float | None) -> None:
        """Show progress."""
        self.what, self.fraction = what, fraction

    def picture(self, file: History) -> None:
        """Show the curves of a file that is read, while its figures are computed."""
        if file.devices:
            device = file.devices[file.default_device]
            curves = find_curves(device, file.layout != "profiler")
            self._curves = {name: Heights(values) for name, values in curves.items()}
            self._device = str(device.device)
        self.tell("Computing the figures", None)

    def press(self, name: str) -> bool:
        """Handle a key: some keys cancel."""
        if name in ("escape", "q", "Q", "ctrl+c", "ctrl+q"):
            self._cancel()
            return True
        return False

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines."""
        lines = [ink((" snapreport ", "brand"), f"  {self.what}")]
        if self._curves and height > 6:
            lines += self._picture(width, height - 4)
        else:
            wide = min(_WIDE, max(width - 4, 1))
            done = 0 if self.fraction is None else round(self.fraction * wide)
            bar = ink("  ", ("█" * done, "bar"), ("░" * (wide - done), "axis"))
            lines += [EMPTY] * max(height // 2 - 3, 0)
            lines += [EMPTY if self.fraction is None else bar, EMPTY]
        lines += [EMPTY] * (height - 1 - len(lines))
        lines.append(ink(("  Esc", "key"), (" cancels", "dim")))
        return [clipped(line, width) for line in lines[:height]]

    def _picture(self, width: int, height: int) -> list[Line]:
        """Return the entire curve, as the timeline draws it, and its peak."""
        curve = self._curves["allocated"].values
        scale = EventScale(len(curve) - 1)
        first, end = scale.spans(np.linspace(*scale.whole, max(width - 4, 1) + 1))
        found = {name: each.most(first + 1, end + 1) for name, each in self._curves.items()}
        bars = Bars(found["allocated"], found["requested"], found.get("reserved"))
        peak = int(curve.argmax())
        title = f"  {self._device}: {format_bytes(int(curve[peak]))} allocated at the peak"
        high = max(int(each.values.max()) for each in self._curves.values())
        cells = chart(bars, height - 1, 0, max(high, 1))
        head = ink((title, "key"), (f", event {event_name(peak - 1)}", "dim"))
        return [head, *(Line(ink("  ").runs + in_line(row)) for row in cells)]

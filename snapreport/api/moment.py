"""What is live on one device after one event: the Python interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape

import numpy as np

from snapreport.api.device_data import DeviceData
from snapreport.figures.amounts import find_amounts
from snapreport.figures.curves import time_at
from snapreport.figures.event_at import entry_at
from snapreport.figures.grouping import find_groups
from snapreport.figures.line_memory import find_lines
from snapreport.figures.trees.calltree import find_call_tree
from snapreport.ground.object_display import html_table, rows_of
from snapreport.model.answer_tables import Group, LineUse, LiveRows, Parts, TraceEntry
from snapreport.model.category_rules import Rule
from snapreport.model.findings import Amounts, CallTree


class Moment:
    """What is live on a device after one event."""

    def __init__(self, device: DeviceData, event: int, curve: str) -> None:
        """Name a moment; ``Device.at()`` is the usual way to get one."""
        self.device = device
        self.event = event
        self.curve = curve

    @property
    def time_us(self) -> int | None:
        """Microseconds since 1970, None where unknown."""
        return time_at(self.device.times, self.event)

    @cached_property
    def amounts(self) -> Amounts:
        """Requested, allocated, active, reserved, slack, inactive and fragmented bytes."""
        device = self.device
        return find_amounts(device.history, device.figures.curves, device.times, self.event)

    @property
    def bytes(self) -> int:
        """The curve's value."""
        return int(self.device.curve(self.curve)[self.event + 1])

    def tree(self, *, upward: bool = False, folded: bool = False) -> CallTree:
        """Return the call tree, whose root is the curve's value to the byte.

        Args:
            upward: begin at the allocating frame instead of the outermost one.
            folded: leave out library-internal frames.
        """
        history, stacks = self.device.history, self.device.file.stacks
        return find_call_tree(history, stacks, self.event, self._live, upward=upward, folded=folded)

    def lines(
        self, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> tuple[LineUse, ...]:
        """Return bytes by source line, most first: the line of the innermost matching frame.

        Args:
            include: files to look for: parts of names, globs, or ``/regex/``; without any, the
                line is the call site's.
            exclude: files whose frames to skip, in the same form.

        Raises:
            PatternError: a pattern is invalid.
        """
        device = self.device
        return find_lines(
            device.history, device.file.stacks, self.event, self._live, include, exclude
        )

    def by(self, grouping: str, rules: Sequence[Rule] | None = None) -> tuple[Group, ...]:
        """Return what is live, grouped by one of ``GROUPINGS``, most bytes first.

        Raises:
            ValueError: there is no such grouping.
        """
        device = self.device
        return find_groups(device.file, device.history, self.event, grouping, self._live, rules)

    def live(self) -> LiveRows:
        """Return the live allocations, largest first."""
        rows = self.device.allocations
        live = np.flatnonzero(rows.live_at(self.event, self._live))
        weight = rows.weights(self._live)[live]
        order = np.lexsort((live, -weight))
        return LiveRows(live[order].astype(np.int64), weight[order])

    def entry(self) -> TraceEntry | None:
        """Return the trace entry of this moment's event; None at the start."""
        return entry_at(self.device.history, self.event)

    def parts(self) -> Parts:
        """Return how much of the live memory is from before the recording, and how much is not."""
        live = self.live()
        old = self.device.allocations.alloc_event[live.rows] < 0
        return Parts(
            baseline_bytes=int(live.bytes[old].sum()),
            baseline_count=int(old.sum()),
            dynamic_bytes=int(live.bytes[~old].sum()),
            dynamic_count=int((~old).sum()),
        )

    @property
    def _live(self) -> str:
        """The curve that says what is live: reserved memory belongs to no allocation."""
        return "active" if self.curve == "reserved" else self.curve

    def __repr__(self) -> str:
        return f"<Moment {self.device.name} event {self.event}: {self.bytes:,} {self.curve} bytes>"

    def _repr_html_(self) -> str:
        held = ((self.amounts,), self.by("stack"))
        tables = "".join(html_table(*rows_of(rows)) for rows in held if rows)
        return f"<div><strong>{escape(repr(self)[1:-1])}</strong>{tables}</div>"

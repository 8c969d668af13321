"""What one device of a snapshot recorded, as columns, curves and names: the Python interface."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import name_sites
from snapreport.figures.curves import time_at
from snapreport.figures.grouping import label_forward
from snapreport.frames.frame_kinds import classify_frames
from snapreport.frames.site_names import tree_frames
from snapreport.history.segment_replay import lives_of
from snapreport.model.findings import Amounts, CurvePeak, DeviceFigures, StageUse
from snapreport.model.history import DeviceHistory, History
from snapreport.model.iterations import Steps
from snapreport.model.roles import AllocationsWithRoles, Roles, with_roles
from snapreport.model.segment_lives import SegmentLives
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import FrameTable


class DeviceData:
    """One device's memory over the recording; a ``Device`` answers questions about it.

    All sizes are bytes. An event is the index of a trace event; -1 is the start.
    """

    def __init__(self, file: History, figures: DeviceFigures) -> None:
        """Wrap a device; ``Snapshot.device()`` is the usual way to get one."""
        self.file = file
        self.figures = figures

    @property
    def name(self) -> str:
        """The device's name, such as ``cuda:0``."""
        return str(self.figures.device)

    @property
    def history(self) -> DeviceHistory:
        """The columns: allocations, other events, segments, stages."""
        return self.figures.history

    @cached_property
    def allocations(self) -> AllocationsWithRoles:
        """Every allocation as NumPy columns, in order of allocation, with its role as text."""
        return with_roles(self.history.allocations, self.roles)

    @property
    def roles(self) -> Roles:
        """What each allocation is for, inferred from call stacks and lifetimes, with evidence."""
        return self.figures.roles

    @property
    def events(self) -> int:
        """Number of trace events."""
        return self.history.events

    @property
    def peak(self) -> Amounts:
        """Every amount at the first event of the allocated peak."""
        return self.figures.peak

    @property
    def peaks(self) -> dict[str, CurvePeak]:
        """The peak of each known curve, by name."""
        return self.figures.peaks

    @property
    def stages(self) -> tuple[StageUse, ...]:
        """Every annotated stage with its memory at start, peak and end."""
        return self.figures.stages

    @property
    def steps(self) -> Steps | None:
        """The steps of the program's loop, their kinds and which has the peak; None if unknown."""
        return self.figures.steps

    @property
    def times(self) -> NDArray[np.int64]:
        """Each event's time in microseconds since 1970, NO_TIME where unknown; (events,)."""
        return self.figures.times

    def curve(self, name: str) -> NDArray[np.int64]:
        """Return a curve: bytes after each event; int64, shape (events + 1,), start first.

        Args:
            name: ``allocated``, ``requested``, ``active`` or ``reserved``, which is not known
                before the event ``figures.reserved_from``.

        Raises:
            ValueError: there is no such curve; profiles have no ``reserved`` curve.
        """
        if name not in self.figures.curves:
            raise ValueError(f"curve is {name!r}, not one of {', '.join(self.figures.curves)}")
        return self.figures.curves[name]

    @cached_property
    def segments(self) -> SegmentLives:
        """Every segment; the ones that exist after event s have start_event <= s < end_event."""
        return lives_of(self.history)

    @cached_property
    def frame_kinds(self) -> NDArray[np.int8]:
        """Each frame's kind, from code outside PyTorch to machinery; shape (n_frames,)."""
        return classify_frames(self.file.stacks.frames)

    @property
    def tree_frames(self) -> FrameTable:
        """The frames as they are shown in trees: C++ is called by what it does."""
        return tree_frames(self.file.stacks)

    def site_names(self, rows: NDArray[np.int64]) -> list[str]:
        """Return each allocation's call site as ``function  file:line``, or why it has none."""
        return name_sites(self.history, self.file.stacks, rows)

    def forward_lines(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return the forward line behind each allocation, None where PyTorch noted none."""
        number, names = label_forward(self.file.stacks)
        found = number[self.allocations.stack[rows]].tolist()
        return [names[each] if each else None for each in found]

    def metadata(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return what the program said of each allocation, None where it said nothing."""
        return self._texts(self.allocations.metadata[rows])

    def compile_contexts(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return the compiled graph that made each allocation, None where PyTorch noted none."""
        return self._texts(self.allocations.compile_context[rows])

    def _texts(self, ids: NDArray[np.int32]) -> list[str | None]:
        texts = self.file.strings
        return [None if each == NO_ID else texts[each] for each in ids.tolist()]

    def times_of(self, events: NDArray[np.int64]) -> list[int | None]:
        """Return the times of some events in microseconds since 1970, None where unknown."""
        return [time_at(self.times, event) for event in events.tolist()]

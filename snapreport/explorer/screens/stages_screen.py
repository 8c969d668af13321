"""Stages: the memory of each annotated stage."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from snapreport.explorer.parts.inking import Line, fit, ink
from snapreport.explorer.parts.key_bindings import Key, key
from snapreport.explorer.parts.sending import Table
from snapreport.explorer.screens.screen_base import ListScreen
from snapreport.ground.units import format_signed_bytes
from snapreport.model.findings import StageUse
from snapreport.reporters.words.summary_rows import amount, event_name, event_range, stage_name

if TYPE_CHECKING:
    from snapreport.explorer.parts.viewpoint import Viewpoint

_WIDE = 100
"""From this width on there is room for events."""
_FIGURES = attrgetter(
    "name", "depth", "start_event", "end_event", "start_bytes", "peak_bytes", "end_bytes", "change"
)


class StagesScreen(ListScreen):
    """A row for each stage, with the stages inside it below."""

    name = "stages"
    title = "Stages"
    short = "Stages"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("enter", "go to the stage's peak", "go_to_peak", "its peak"),
        key("z", "zoom the timeline to the stage", "zoom", "zoom to it"),
        key("h", "hide or show the stages inside it", "fold", "fold"),
        *ListScreen.SEARCH,
    )

    items: Sequence[int] = ()
    """Numbers of the visible stages."""
    folded: frozenset[int] = frozenset()

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether there are stages."""
        return bool(view.device.stages)

    @property
    def stages(self) -> tuple[StageUse, ...]:
        """Every stage, in the order of their starts."""
        return self.view.device.stages

    def depends_on(self) -> object:
        """The device, and which stages are folded."""
        return self.view.device.name, self.folded

    def gather(self) -> None:
        """List the stages that are not inside a folded one."""
        hidden: set[int] = set()
        for number, stage in enumerate(self.stages):
            if stage.parent is not None and (stage.parent in hidden or stage.parent in self.folded):
                hidden.add(number)
        self.items = [number for number in range(len(self.stages)) if number not in hidden]

    @property
    def chosen(self) -> StageUse:
        """The stage with the cursor."""
        return self.stages[self.items[self.cursor]]

    def head(self) -> list[Line]:
        """Return the headings."""
        figures = f"{'start':>10} {'peak':>10} {'end':>10} {'change':>11}"
        events = f"  {'events':<19}" if self.width >= _WIDE else ""
        return [ink((f"{figures}{events}  stage", "title"))]

    def row(self, place: int) -> Line:
        """Return a stage; those that contain the moment are marked."""
        number = self.items[place]
        stage = self.stages[number]
        change = "-" if stage.change is None else format_signed_bytes(stage.change)
        amounts = (stage.start_bytes, stage.peak_bytes, stage.end_bytes)
        figures = " ".join(f"{amount(each):>10}" for each in amounts)
        events = ""
        if self.width >= _WIDE:
            events = f"  {fit(event_range(stage.start_event, stage.end_event), 19)}"
        on = stage.start_event <= self.view.event < stage.end_event
        fold = "▸" if number in self.folded else " "
        name = f"  {'  ' * min(stage.depth, 8)}{fold}{stage_name(stage)}"
        role = "more" if (stage.change or 0) > 0 else "less" if (stage.change or 0) < 0 else ""
        return ink(figures, (f" {change:>11}", role), (events, "dim"), (name, "key" if on else ""))

    def text(self, place: int) -> str:
        """Return a stage's name."""
        return self.stages[self.items[place]].name

    def foot(self) -> list[Line]:
        """Return what the stage allocated."""
        stage = self.chosen
        made = "-" if stage.allocations is None else f"{stage.allocations:,}"
        peak = "-" if stage.peak_event is None else event_name(stage.peak_event)
        text = f"  events {event_range(stage.start_event, stage.end_event)}, peak at event {peak}"
        bytes_ = amount(stage.allocated_bytes)
        return [ink((stage.name, "key"), (f"{text}, {made} allocations of {bytes_}", "dim"))]

    def go_to_peak(self) -> None:
        """Go to the peak of the stage."""
        event = self.chosen.peak_event
        if event is None:
            self.desk.say("this stage was not recorded")
        else:
            self.view.go_to(event)

    def zoom(self) -> None:
        """Show the stage on the timeline."""
        stage = self.chosen
        self.go_to_peak()
        self.desk.zoom_to(stage.start_event, max(stage.end_event, stage.start_event + 1))

    def fold(self) -> None:
        """Hide or show the stages inside."""
        self.folded = self.folded ^ {self.items[self.cursor]}

    def as_table(self) -> Table:
        """Return every stage."""
        titles = ("stage", "depth", "first event", "end event", "start", "peak", "end", "change")
        return titles, [_FIGURES(each) for each in self.stages]

"""What all screens of a recording share: the device, the curve, and one moment."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from snapreport.ground.units import format_bytes, format_duration
from snapreport.reporters.words.summary_rows import event_name

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.api.moment import Moment
    from snapreport.explorer.opening.opened_file import OpenedFile
    from snapreport.ground.cards.card_lookup import CardWanted

COUNTED = ("allocated", "requested")
"""The curves that can be counted, as on the page."""


class Viewpoint:
    """A moment of one device; every screen shows it."""

    def __init__(
        self, opened: OpenedFile, device: str | None = None, card: CardWanted | None = None
    ) -> None:
        """Start at a device's peak; ``card`` is the card that it should fit on."""
        self.opened = opened
        self.card = card
        self.pair: tuple[Viewpoint, Viewpoint] | None = None
        """Both recordings, if there are two, including this one; otherwise None."""
        self.curve = COUNTED[0]
        self.look_at(opened.snapshot.device(device))

    def look_at(self, device: Device) -> None:
        """Show another device, at its peak."""
        self.device = device
        self.event = self.opening
        self.__dict__.pop("moment", None)

    @property
    def opening(self) -> int:
        """The event of the curve's peak; the end if no history was recorded."""
        return self.device.at(curve=self.curve).event

    @cached_property
    def moment(self) -> Moment:
        """The current moment."""
        return self.device.at(event=self.event, curve=self.curve)

    @property
    def state(self) -> tuple[str, str, int]:
        """What screens depend on: device, curve and event."""
        return self.device.name, self.curve, self.event

    def go_to(self, event: int) -> None:
        """Show another event, limited to the recording's range."""
        self.event = min(max(event, -1), self.device.events - 1)
        self.__dict__.pop("moment", None)

    def count(self, curve: str) -> None:
        """Count another curve; a moment at one curve's peak moves to the other's."""
        at_peak = self.event == self.opening
        self.curve = curve
        self.go_to(self.opening if at_peak else self.event)

    @property
    def elapsed_us(self) -> int | None:
        """Microseconds since the first event, None if unknown."""
        now, first = self.moment.time_us, self.device.figures.first_time_us
        return None if now is None or first is None else now - first

    @property
    def stage_path(self) -> tuple[str, ...]:
        """The stages at this event, outermost first."""
        return tuple(
            stage.name
            for stage in self.device.stages
            if stage.start_event <= self.event < stage.end_event
        )

    @property
    def name(self) -> str:
        """``at the peak (event 793)``, ``at event 12``, ``at the start``, as on the page."""
        if not self.device.figures.recorded:
            return "when the snapshot was written"
        if self.event == self.opening:
            return "at the peak" + (
                ", which is the start" if self.event < 0 else f" (event {event_name(self.event)})"
            )
        if self.event < 0:
            return "at the start"
        event = f"event {event_name(self.event)}"
        return f"at the end ({event})" if self.event == self.device.events - 1 else f"at {event}"

    @property
    def figures(self) -> str:
        """``4.45 GiB allocated, 5.10 GiB reserved, 12.1 ms after the first event``."""
        moment = self.moment
        parts = [f"{format_bytes(moment.bytes)} {self.curve}"]
        reserved = moment.amounts.reserved
        if reserved is not None:
            parts.append(f"{format_bytes(reserved)} reserved")
        if self.elapsed_us is not None and self.device.figures.recorded:
            parts.append(f"+{format_duration(max(self.elapsed_us, 0))}")
        return ", ".join(parts)

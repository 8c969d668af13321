"""Forecasts of a few lines, in this process, and what they allocated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from snapreport.ground.cards import find_card
from snapreport.recorders.forecast.forecasting import EnoughSteps, Forecasting, Wanted


@dataclass
class Seen:
    """A forecast, and where in it something begins."""

    running: Forecasting
    _begun: int = field(default=0)

    @property
    def _book(self) -> Any:
        self.running.book.settle()
        return self.running.book.devices[0]

    def mark(self) -> None:
        """Let what follows begin here."""
        self._begun = len(self._book.events)
        self.running.book.reset_peaks(0)

    def sizes(self) -> list[int]:
        """Return the requested bytes of each allocation since the mark."""
        return [size for action, _, size, *_ in self._book.events[self._begun :]
                if action == "alloc"]  # fmt: skip

    @property
    def live(self) -> int:
        """Requested bytes in use now."""
        return sum(each.bytes for each in self._book.live.values())

    @property
    def peak(self) -> int:
        """The most bytes that were requested at once since the mark."""
        return int(self._book.peak_requested)

    @property
    def assumed(self) -> dict[tuple[str, str], int]:
        """How often a value was assumed, by kind and line of the test."""
        found: dict[tuple[str, str], int] = {}
        for each in self.running.values.all_assumed():
            key = (each.kind, each.place.partition(":")[0])
            found[key] = found.get(key, 0) + each.count
        return found

    @property
    def notes(self) -> str:
        """What was left out."""
        return " ".join(self.running.device.notes)


@contextmanager
def forecast(card: str = "h100-80", **wanted: Any) -> Iterator[Seen]:
    """Forecast the body, which ends once its steps are enough."""
    running = Forecasting(Wanted(find_card(card), **wanted))
    with suppress(EnoughSteps), running.there():
        yield Seen(running)

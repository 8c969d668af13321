"""A forecast from start to end: puts the card in, counts the program's steps, notes the result."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import torch

from snapreport.ground.cards import Card, find_card
from snapreport.ground.errors import RecordingError
from snapreport.ground.native.pretend import Pretended
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import AllocatorSettings
from snapreport.model.forecasts import how_far
from snapreport.model.snapshot import (
    MAY_TAKE_LESS,
    PLACEMENT,
    Forecast,
    ForecastPart,
    UnknownKernel,
)
from snapreport.recorders import cuda
from snapreport.recorders.forecast import rules
from snapreport.recorders.forecast.book import Book, DeviceBook
from snapreport.recorders.forecast.device import Device, Properties
from snapreport.recorders.forecast.kernels import Processor
from snapreport.recorders.forecast.ranks import Groups, Rank
from snapreport.recorders.forecast.running import Runner
from snapreport.recorders.forecast.substitutes import Substitutes
from snapreport.recorders.forecast.values import Values

_OLDEST = (2, 6)
_USUAL = ((8, 0), 108)
"""Capability and multiprocessors of an A100, for a card of which only the size is given."""
_FEWER_THREADS = ((8, 6), (8, 9), (12, 0))


_ASKED = ("alloc", "free_requested")
"""What a program asks for itself."""


class EnoughSteps(SystemExit):
    """The program has made the steps that a forecast needs, and ends here."""


@dataclass(frozen=True)
class Wanted:
    """What is forecast."""

    card: Card
    devices: int = 1
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)
    steps: int | None = None
    """How many steps the program makes; None for all until one repeats the one before it, 0 for
    all that it makes."""
    assume: Mapping[str, float] = field(default_factory=dict)
    rank: Rank | None = None
    """Which process of a run of many this is; None as the environment says."""


_running: Forecasting | None = None


class Forecasting:
    """The one forecast of a process."""

    def __init__(self, wanted: Wanted) -> None:
        """Prepare; PyTorch has been imported.

        Raises:
            RecordingError: this PyTorch or machine cannot run one.
        """
        version = _version()
        if version < _OLDEST:
            raise RecordingError(
                f"A forecast needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or newer; here is"
                f" {torch.__version__}."
            )
        if torch.version.hip:
            raise RecordingError(
                "A forecast needs a PyTorch for the CPU or for CUDA, not for ROCm."
            )
        if wanted.card.name.startswith(("mi", "rx-")):
            raise RecordingError(
                f"Forecasts are for NVIDIA's cards; what {wanted.card.title} would do is not known."
            )
        # Optimizers import it, and it lists PyTorch's functions: before some are replaced.
        importlib.import_module("torch._dynamo")
        self.wanted = wanted
        capability, processors = _USUAL
        if wanted.card.capability is not None:
            capability, processors = wanted.card.capability, wanted.card.multiprocessors
        self.processor = Processor(
            capability, processors, 1536 if capability in _FEWER_THREADS else 2048, version
        )
        self.book = Book(wanted.settings, wanted.card.bytes, wanted.devices)
        self.values = Values(wanted.assume)
        pretended = Pretended(Path(torch.__file__).parent)
        self.runner = Runner(pretended, self.book, self.values, self.processor)
        rules.put_in(self.runner)
        title = wanted.card.title.removeprefix("an ").removeprefix("a ")
        self.device = Device(
            pretended,
            Properties(
                f"NVIDIA {title}", *capability, wanted.card.bytes, processors,
                max_threads_per_multi_processor=self.processor.threads_per_multiprocessor,
            ),
            wanted.devices, self.book, self.runner, self._completed,
        )  # fmt: skip
        self.groups = Groups(self.runner, wanted.rank)
        self.steps = 0
        self.repeats = False
        self._counted: int | None = None
        self._begun: list[int] = [0] * wanted.devices
        self._last: list[list[Any]] | None = None

    @contextmanager
    def there(self) -> Iterator[Forecasting]:
        """Let the program in the body run on the card.

        Raises:
            RecordingError: another forecast is running, or autograd does not find the cards.
        """
        global _running
        if _running is not None:
            raise RecordingError("A forecast is already running in this process.")
        with ExitStack() as undo:
            _running = self
            undo.callback(_forget)
            before = cuda.recorder_class
            cuda.recorder_class = ForecastRecorder
            undo.callback(setattr, cuda, "recorder_class", before)
            undo.enter_context(self.device.there())
            undo.enter_context(self.runner.there())
            substitutes = Substitutes(self.processor)  # after the kernels, which they go before
            undo.callback(substitutes.remove)
            undo.enter_context(self.groups.there())
            self._start_autograd()
            from torch.optim.optimizer import register_optimizer_step_post_hook

            undo.callback(register_optimizer_step_post_hook(self._stepped).remove)
            yield self

    def _start_autograd(self) -> None:
        """Let autograd start its threads for the cards, without memory on one.

        Raises:
            RecordingError: it has started them, for fewer devices.
        """
        last = self.wanted.devices - 1
        value, gradient = (self.runner.unbooked((1,), torch.float32, last) for _ in range(2))
        with torch.enable_grad():
            viewed = value.requires_grad_().view(1, 1)
        try:
            torch.autograd.grad(viewed, value, gradient.view(1, 1))
        except RuntimeError as error:
            if "device_ready_queues_" not in str(error):
                raise
            raise RecordingError(
                "A forecast cannot begin here: backward() has run in this process before, and"
                " autograd counts the devices only once, when it first runs. Begin the forecast"
                " before, or in a process of its own, as snapreport forecast does."
            ) from None

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Count a step of the optimizer that stepped first, and end the program if it is enough."""
        if self._counted is None:
            self._counted = id(optimizer)
        if id(optimizer) != self._counted:
            return
        self.steps += 1
        self.values.step()
        self.book.settle()
        new = [
            [(action, size, stream) for action, _, size, stream, _, _ in book.events[first:]]
            for book, first in zip(self.book.devices, self._begun, strict=True)
        ]
        asked = [[each for each in events if each[0] in _ASKED] for events in new]
        self._begun = [len(book.events) for book in self.book.devices]
        self.repeats = asked == self._last
        self._last = asked
        steps = self.wanted.steps
        if steps is None:
            # Until nothing new is reserved either. A program that records itself ends by itself.
            grew = any(each[0] == "segment_alloc" for events in new for each in events)
            enough = self.repeats and not grew and not self.device.history_was_on
        else:
            enough = bool(steps) and self.steps >= steps
        if enough:
            raise EnoughSteps

    def noted(self) -> dict[str, Any]:
        """Return what a snapshot notes of the forecast, as plain values."""
        self.book.settle()
        parts = [
            part for n, book in enumerate(self.book.devices) for part in _parts(f"cuda:{n}", book)
        ]
        return Forecast(
            card=self.wanted.card.name,
            steps=self.steps,
            repeats=self.repeats,
            parts=tuple(parts),
            assumed=tuple(self.values.all_assumed()),
            unknown=tuple(
                UnknownKernel(name, count) for name, count in self.runner.unknown.most_common()
            ),
            notes=(*self.device.notes, *self.groups.notes()),
        ).as_plain()

    def how_far(self) -> str:
        """Return a sentence on how far the program ran."""
        return how_far(self.steps, repeats=self.repeats)

    def snapshot(self, begun: list[int] | None = None) -> dict[str, Any]:
        """Return a snapshot in PyTorch's shape, marked as a forecast.

        Args:
            begun: for each device the number of the first event to include; None for all.
        """
        return self._completed(self.book.snapshot(begun))

    def _completed(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        snapshot["snapreport"] = {
            "format": 1,
            "recorder": "forecast",
            "forecast": self.noted(),
            "devices": [
                {
                    "device": f"cuda:{n}",
                    "name": self.device.properties.name,
                    "capacity": self.wanted.card.bytes,
                }
                for n in range(self.wanted.devices)
            ],
        }
        return snapshot


def count_a_card() -> None:
    """Let autograd count a card before it first runs, so that a forecast can begin later, too.

    Raises:
        RecordingError: as ``Forecasting``, or it has run already.
    """
    with Forecasting(Wanted(find_card("a100-80"))).there():
        pass


def _forget() -> None:
    global _running
    _running = None


def _parts(device: str, book: DeviceBook) -> Iterator[ForecastPart]:
    """Yield the reasons why a device's peak may be another."""
    peak = book.peak_allocated
    if book.unsure_at_peak:
        yield ForecastPart(device, MAY_TAKE_LESS, book.unsure_at_peak, 0)
    for why, most in sorted(book.highest.items()):
        if most > peak:
            yield ForecastPart(device, why, 0, most - peak)
    lower, higher = book.spread()
    if lower or higher:
        yield ForecastPart(device, PLACEMENT, lower, higher)


def _version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class ForecastRecorder(cuda.CudaRecorder):
    """Records the forecast of this process, from its first allocation on; see ``Recorder``."""

    kind = "forecast"

    def snapshot(self) -> dict[str, Any]:
        """Return everything that the program allocated.

        Raises:
            RecordingError: no forecast is running.
        """
        if _running is None:
            raise RecordingError("The forecast has ended.")
        return _running.snapshot()

    def start(self) -> None:
        """Do nothing: a forecast is always recorded."""
        self._started = self._running = True

    def stop(self) -> None:
        """Do nothing, either."""
        self._running = False

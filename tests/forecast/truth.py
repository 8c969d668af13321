"""What PyTorch recorded on real cards of programs such as ``programs/decoder.py``, and forecasts.

The recordings are of one training step (or a forward pass) after five others, gradients set to None
before. Of one there is the snapshot, ``medium_512_training.pickle`` among the real snapshots.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import snapreport
from snapreport.model.snapshot import Forecast
from tests.conftest import REPOSITORY
from tests.recording import ready

DECODER = REPOSITORY / "tests" / "forecast" / "programs" / "decoder.py"
CARD = "a100-80"
"""cuBLAS's workspaces in the snapshot have 8,519,680 bytes, so it was no Hopper."""
LARGE = ("--d-model", "2560", "--layers", "32", "--heads", "32", "--d-ff", "10240",
         "--optimizer", "torch")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A real run."""

    name: str
    arguments: tuple[str, ...]
    """Of the program. How many batches lie on the card is not known, and taken as what fits."""
    allocated: int
    """PyTorch's peak of allocated memory on the card, in bytes."""
    reserved: int | None = None
    """Its reserved memory then, where it is known."""


@dataclass(frozen=True)
class Told:
    """What was forecast of it."""

    allocated: int
    reserved: int
    least: int
    most: int

    def error(self, real: int) -> float:
        """Return how far the peak of allocated memory is off, as a share."""
        return (self.allocated - real) / real


SMALL = (
    Case("context 128", ("--context", "128", "--kept-batches", "5"), 7_026_606_592),
    Case("context 256", ("--context", "256", "--kept-batches", "5"), 9_113_374_720),
    Case("inference, context 1024", ("--context", "1024", "--inference", "--kept-batches", "2"),
         2_879_401_984),
    Case(
        "context 512, bf16", ("--context", "512", "--bf16", "--kept-batches", "5"),
        12_434_494_464, 12_660_506_624,
    ),
    Case(
        "context 1024, bf16", ("--context", "1024", "--bf16", "--kept-batches", "3"),
        24_213_918_720,
    ),
)  # fmt: skip
CASES = (
    *SMALL,
    Case("2560x32, context 128", (*LARGE, "--context", "128"), 68_711_221_760),
    Case("2560x32, context 128, bf16", (*LARGE, "--context", "128", "--bf16"), 68_630_923_776),
    Case("2560x32, context 512", (*LARGE, "--context", "512"), 70_370_929_664),
    Case("2560x32, context 512, bf16", (*LARGE, "--context", "512", "--bf16"), 68_417_112_576),
)


def forecast(arguments: tuple[str, ...], folder: Path, card: str = CARD) -> Told:
    """Forecast the decoder in a process of its own; the snapshot is left in the folder."""
    given = ["-m", "snapreport", "forecast", "--card", card, "--steps", "0", "--format", "pickle",
             "--output", str(folder), str(DECODER), *arguments]  # fmt: skip
    done = ready.run(given, REPOSITORY, {})
    assert done.returncode == 0, done.stderr
    peak = re.search(r"^peak (\d+) (\d+)$", done.stdout, re.MULTILINE)
    assert peak is not None, done.stdout
    allocated, reserved = int(peak[1]), int(peak[2])
    noted = forecast_of(folder / "latest" / "snapshot.pickle")
    return Told(allocated, reserved, *noted.range_of("cuda:0", allocated))


def forecast_of(path: Path) -> Forecast:
    """Return what a snapshot notes of its forecast."""
    recorder = snapreport.load(path).history.recorder
    assert recorder is not None
    assert recorder.forecast is not None
    return recorder.forecast


def report() -> str:
    """Return a table of all cases."""
    lines = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            told = forecast(case.arguments, Path(folder))
        within = "within" if told.least <= case.allocated <= told.most else "NOT within"
        lines.append(
            f"{case.name}: {case.allocated:,} real, {told.allocated:,} forecast"
            f" ({told.error(case.allocated):+.4%}), {within} {told.least:,} to {told.most:,};"
            f" reserved {told.reserved:,}"
            + (f", {case.reserved:,} real" if case.reserved is not None else "")
        )
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)

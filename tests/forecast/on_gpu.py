"""Forecasts and recordings of the same programs on a real GPU: python -m tests.forecast gpu.

Each run is a process of its own: a recording by PyTorch, which ends with its counters, and a
forecast for that card, which sees none.
"""

from __future__ import annotations

import json
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import snapreport
from snapreport.ground.cards import find_card
from snapreport.ground.errors import CardError
from tests.conftest import REPOSITORY
from tests.forecast.lined_up import line_up, rows_of
from tests.forecast.truth import DECODER, forecast_of
from tests.laboratory.programs import all_programs
from tests.laboratory.tables import markdown

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
STEPS = 4
NEAR = 0.001
"""How far a forecast's peak may be off, as a share, unless its range has the real one."""
_LONGEST_S = 600
_SMALL = ("--d-model", "256", "--layers", "4", "--heads", "8", "--d-ff", "1024",
          "--context", "128", "--warm-up", "3")  # fmt: skip
DECODERS: Mapping[str, tuple[str, ...]] = {
    "decoder": _SMALL,
    "decoder-bf16": (*_SMALL, "--bf16"),
    "decoder-foreach": (*_SMALL, "--optimizer", "torch"),
    "decoder-foreach-bf16": (*_SMALL, "--optimizer", "torch", "--bf16"),
    "decoder-inference": (*_SMALL, "--inference"),
    "decoder-inference-bf16": (*_SMALL, "--inference", "--bf16"),
}
LABORATORY = (
    "transformer", "naive-attention", "large-vocabulary", "accumulation", "lora", "resnet", "unet",
    "gan", "recurrent", "custom-optimizer", "kept-gradients", "wide-model", "vision-transformer",
    "distillation",
)  # fmt: skip
PROGRAMS = (*DECODERS, *LABORATORY)


@dataclass(frozen=True)
class Peaks:
    """The most memory of a run, in bytes."""

    allocated: int
    reserved: int


@dataclass(frozen=True)
class Compared:
    """A forecast beside the real run."""

    real: Peaks
    made: Peaks
    least: int
    most: int
    first_difference: str
    """Empty if all allocations are the same."""

    @property
    def error(self) -> float:
        """How far the peak of allocated memory is off, as a share."""
        return (self.made.allocated - self.real.allocated) / self.real.allocated

    @property
    def holds(self) -> bool:
        """Whether the forecast is near, or its range has the real peak."""
        return abs(self.error) <= NEAR or self.least <= self.real.allocated <= self.most


def compare(real: Path, made: Path, counted: Peaks | None = None) -> Compared:
    """Compare the snapshots of a recording and of a forecast.

    Args:
        real: the recording's.
        made: the forecast's.
        counted: PyTorch's own counters of the real run; without, the recording's.
    """
    peaks = [_peaks(path) for path in (real, made)]
    least, most = forecast_of(made).range_of("cuda:0", peaks[1].allocated)
    recorded, forecast = (rows_of(pickle.loads(path.read_bytes())) for path in (real, made))
    found = line_up(recorded, forecast)
    differences = [*found.unexplained, *found.otherwise_freed]
    return Compared(
        counted or peaks[0], peaks[1], least, most, differences[0] if differences else ""
    )


def _peaks(path: Path) -> Peaks:
    peaks = snapreport.load(path).device("cuda:0").peaks
    return Peaks(peaks["allocated"].bytes, peaks["reserved"].bytes)


COLUMNS = ("program", "allocated", "forecast", "error", "within", "reserved", "forecast",
           "first difference")  # fmt: skip


def row_of(name: str, found: Compared) -> list[str]:
    """Return a program's row of the table."""
    within = found.least <= found.real.allocated <= found.most
    return [
        name, f"{found.real.allocated:,}", f"{found.made.allocated:,}", f"{found.error:+.3%}",
        "yes" if within else "no", f"{found.real.reserved:,}", f"{found.made.reserved:,}",
        found.first_difference.partition(", inner=")[0],
    ]  # fmt: skip


def card_of(name: str, total: int) -> str:
    """Return the card that PyTorch names, or its size where we do not know it."""
    try:
        return find_card(name).name
    except CardError:
        return f"{total >> 20}MiB"


def run_once(program: str, card: str, folder: Path) -> None:
    """Record a program in this process, or forecast it for a card; leave the snapshot.

    Args:
        program: one of ``PROGRAMS``.
        card: its name; empty to record.
        folder: where ``snapshot.pickle`` is left, and of a recording ``peaks``.
    """
    import torch

    arguments: dict[str, Any] = {"formats": ["pickle"], "quiet": True}
    recording: Any
    if card:
        recording = snapreport.forecast(folder / "made", card=card, steps=0, **arguments)
    else:
        recording = snapreport.record(folder / "made", **arguments)
    with recording:
        _program(program)()
        if not card:
            torch.cuda.synchronize()
            counted = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            (folder / "peaks").write_text(json.dumps(counted))
    (folder / "made" / "1" / "snapshot.pickle").rename(folder / "snapshot.pickle")


def _program(name: str) -> Callable[[], None]:
    def decoder() -> None:
        sys.argv = [str(DECODER), *DECODERS[name]]
        runpy.run_path(str(DECODER), run_name="__main__")

    def laboratory() -> None:
        import torch

        torch.set_default_device("cuda")
        made = all_programs()[name]()
        made.build()
        made.run(STEPS, lambda _: None)

    return decoder if name in DECODERS else laboratory


def run(program: str, card: str, folder: Path) -> Path:
    """Record or forecast a program in a process of its own; return its snapshot.

    Raises:
        CalledProcessError: the program failed.
    """
    folder.mkdir()
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if card else {}
    subprocess.run(
        [sys.executable, "-m", __name__, program, card, str(folder)], cwd=REPOSITORY, check=True,
        timeout=_LONGEST_S, env=os.environ | hidden, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder / "snapshot.pickle"


def check(only: Sequence[str] | None) -> int:
    """Print the table; the exit status is 1 where a forecast does not hold or a program fails."""
    import torch

    if not torch.cuda.is_available():
        print("No GPU: forecasts were not checked on one.")
        return SKIPPED
    properties = torch.cuda.get_device_properties(0)
    card = card_of(properties.name, properties.total_memory)
    rows, failed, hold = [], [], True
    for program in only or PROGRAMS:
        with tempfile.TemporaryDirectory() as name:
            try:
                real = run(program, "", Path(name, "real"))
                made = run(program, card, Path(name, "made"))
            except subprocess.SubprocessError as error:
                failed.append(f"{program}: {error}")
                continue
            counted = Peaks(*json.loads(real.with_name("peaks").read_text()))
            # The decoder begins its peaks and its history anew before its last step.
            found = compare(real, made, None if program in DECODERS else counted)
        rows.append(row_of(program, found))
        hold = hold and found.holds
    print(f"{properties.name}, PyTorch {torch.__version__}, forecast for {card}\n")
    print(markdown(COLUMNS, rows))
    print("".join(f"\nFAILED to run: {each}" for each in failed))
    return 0 if hold and not failed else 1


if __name__ == "__main__":
    given, on, beside = sys.argv[1:]
    run_once(given, on, Path(beside))

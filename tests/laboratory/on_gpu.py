"""Advice against reality on a GPU: the same programs and changes, recorded by PyTorch itself.

Nothing is kept: each run is a process of its own, and its peak is PyTorch's counter.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import snapreport
from snapreport.api.device import Device
from tests.laboratory import advice
from tests.laboratory.advice import STEPS, Pair, predictions
from tests.laboratory.programs import all_programs
from tests.laboratory.tables import markdown

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_LONGEST_S = 600
_NAMES = {"cuda": "cuda:0"}
_ON_THE_CPU = ("huggingface", "offloading", "offloaded_images", "ranks")
"""Programs that choose their own device, keep memory in NumPy's arrays, or meet through Gloo."""


def programs() -> list[str]:
    """Return the programs that run on any device."""
    return [
        name
        for name, made in all_programs().items()
        if made.variants and made.__module__.rpartition(".")[2] not in _ON_THE_CPU
    ]


def has_gpu() -> bool:
    """Say whether PyTorch has a GPU here."""
    import torch

    return bool(torch.cuda.is_available())


def run_once(program: str, variant: str, device: str, folder: Path) -> None:
    """Record a program in this process, and leave PyTorch's own peak beside the snapshot."""
    import torch

    torch.set_default_device(device)
    made = all_programs()[program](variant)
    recording = snapreport.record(folder / "made", formats=["pickle"], quiet=True)
    recording.start()
    made.build()
    made.run(STEPS, lambda _: None)
    files = recording.stop()
    files["pickle"].rename(folder / "snapshot.pickle")
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    (folder / "peak").write_text(str(peak))


def record(program: str, variant: str, device: str) -> Device:
    """Record a program in a process of its own.

    Raises:
        AssertionError: the recorded peak is not PyTorch's.
        CalledProcessError: the program failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", __name__, program, variant, device, name]
        subprocess.run(command, check=True, timeout=_LONGEST_S)
        found = snapreport.load(folder / "snapshot.pickle").device(_NAMES.get(device, device))
        counted = int((folder / "peak").read_text())
    recorded = found.peaks["allocated"]
    if device == "cuda" and not recorded.bytes <= counted <= recorded.bytes + recorded.width:
        raise AssertionError(f"{program} {variant}: {recorded.bytes} recorded, {counted} counted")
    return found


def pairs_of(program: str, device: str, failed: list[str]) -> Iterator[Pair]:
    """Make the changes of a program, and yield what came of each; name what fails in ``failed``."""
    base = record(program, "", device)
    said = predictions(base)
    for variant in all_programs()[program].variants:
        try:
            changed = record(program, variant, device)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed.append(f"{program} {variant}: {error}")
            continue
        saved = base.peak.allocated - changed.peak.allocated
        yield Pair(program, variant, base.peak.allocated, saved, said.get(variant))


def check(only: Sequence[str] | None, device: str = "cuda") -> int:
    """Print the table; the exit status is 1 where a bound is false or a program fails."""
    if device == "cuda" and not has_gpu():
        print("No GPU: advice was not checked on one.")
        return SKIPPED
    failed: list[str] = []
    pairs = [pair for program in only or programs() for pair in pairs_of(program, device, failed)]
    print(markdown(advice.COLUMNS, [advice.row_of(pair) for pair in pairs]))
    print(f"\n{advice.summary(pairs)}")
    print("".join(f"\nFAILED to run: {each}" for each in failed))
    return 0 if all(pair.within for pair in pairs) and not failed else 1


if __name__ == "__main__":
    name, change, where, beside = sys.argv[1:]
    run_once(name, change, where, Path(beside))

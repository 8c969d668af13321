"""A forecast for a card that is too small: the program meets the card's own failure."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapreport
from tests.recording import ready

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

_PROGRAM = """
import torch
kept, x = [], torch.randn(1 << 13, 1 << 12, device="cuda", requires_grad=True)
layer = torch.nn.Linear(1 << 12, 1 << 12).to("cuda")
try:
    for _ in range(100):
        x = layer(x)
        kept.append(x)
except torch.OutOfMemoryError as error:
    print("caught", str(error).split(".")[0])
del kept
print(torch.empty(1 << 20, device="cuda").device)
"""


def test_the_program_can_catch_what_the_card_would_raise(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    ran = ready.run(
        ["-m", "snapreport", "forecast", "--card", "1GiB", "-o", "out", "train.py"], tmp_path, {}
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["caught CUDA out of memory", "cuda:0"]
    assert "ctypes" not in ran.stderr
    found = snapreport.load(tmp_path / "out/latest/snap.zip")
    (oom,) = found.findings().devices[0].ooms
    assert oom.size == 128 << 20


def test_a_module_that_is_moved_has_parameters(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    ready.run(
        ["-m", "snapreport", "forecast", "--card", "1GiB", "-o", "out", "train.py"], tmp_path, {}
    )
    device = snapreport.load(tmp_path / "out/latest/snap.zip").device()
    held = {group.name: group.bytes for group in device.at().by("role")}
    assert held["parameter"] >= 4 * (1 << 24)


_TOO_LATE = """
import snapreport, torch
x = torch.ones(3, requires_grad=True)
x.sum().backward()
try:
    with snapreport.forecast("made", card="1GiB"):
        print("began")
except snapreport.RecordingError as error:
    print(str(error).partition(":")[0])
"""


def test_a_forecast_says_that_autograd_has_counted_the_devices(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TOO_LATE)
    ran = ready.run(["train.py"], tmp_path, {})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["A forecast cannot begin here"]

"""Files that a program writes while it is forecast."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.forecast.forecasts import forecast
from tests.needed import needed

torch = needed("torch")


def test_real_checkpoints_are_neither_replaced_nor_copied_over(tmp_path: Path) -> None:
    real = [tmp_path / name for name in ("best.pt", "last.pt", "final.pt")]
    for path in real:
        path.write_bytes(b"of a real run")
    with forecast():
        weights = {"weight": torch.empty(10, device="cuda")}
        torch.save(weights, real[0])
        torch.save(weights, tmp_path / "new.pt")
        shutil.copyfile(tmp_path / "new.pt", real[1])
        shutil.copy(tmp_path / "new.pt", tmp_path / "copy.pt")
        os.replace(tmp_path / "new.pt", real[2])
        assert torch.load(tmp_path / "copy.pt")["weight"].shape == (10,)
    assert {path.read_bytes() for path in real} == {b"of a real run"}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in real)


def test_a_real_file_takes_the_place_of_one_without_values(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    with forecast():
        torch.save({"weight": torch.empty(10, device="cuda")}, path)
        torch.save({"epoch": torch.tensor(3)}, path)
        assert torch.load(path) == {"epoch": torch.tensor(3)}
    assert torch.load(path) == {"epoch": torch.tensor(3)}


def test_the_programs_own_snapshot_replaces_no_recording(tmp_path: Path) -> None:
    recorded = tmp_path / "memory.pickle"
    recorded.write_bytes(b"of a card")
    with forecast():
        torch.cuda.memory._record_memory_history()
        kept = torch.empty(1000, device="cuda")
        for _ in range(2):
            torch.cuda.memory._dump_snapshot(str(recorded))
        del kept
    assert recorded.read_bytes() == b"of a card"
    assert (tmp_path / "memory.forecast.pickle").exists()

"""The callback in a real Trainer of Lightning, on the CPU."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import snapreport
from tests.needed import needed
from tests.recording import ready

torch = needed("torch")
lightning = needed("lightning.pytorch")
pytestmark = pytest.mark.filterwarnings("default")  # theirs are not ours


def tiny(fails_at: int | None = None) -> Any:
    class Tiny(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Linear(100, 200)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == fails_at:
                raise ValueError("mine")
            return self.weight(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    return Tiny()


def train(folder: Path, callback: Any, model: Any, batches: int = 4) -> None:
    trainer = lightning.Trainer(
        default_root_dir=folder,
        max_epochs=1,
        limit_train_batches=batches,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    )
    trainer.fit(model, torch.utils.data.DataLoader(torch.ones(16, 100), batch_size=2))


def test_chosen_batches_are_stages_and_what_the_module_holds_is_told(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.lightning import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", skip=1, steps=2, formats=["pickle", "html"])
    train(tmp_path, callback, tiny())
    assert set(callback.files) == {"pickle", "html"}
    snapshot = snapreport.load(callback.files["pickle"])
    named = [each.name for each in snapshot.device().stages if each.name.startswith("step ")]
    assert named == ["step 1", "step 2"]
    assert snapshot.history.recorder is not None
    kinds = {(row.kind, row.name) for row in snapshot.history.recorder.storages}
    assert ("parameter", "weight.weight") in kinds
    assert ("optimizer state", "weight.weight.exp_avg") in kinds


def test_a_training_shorter_than_its_recording_leaves_the_files_at_its_end(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.lightning import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", formats=["pickle"])
    train(tmp_path, callback, tiny(), batches=2)
    train(tmp_path, callback, tiny(), batches=1)
    for number in ("1", "2"):
        assert [path.name for path in (tmp_path / "out" / number).iterdir()] == ["snapshot.pickle"]


def test_a_training_that_fails_leaves_its_files_and_its_own_exception(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.lightning import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", formats=["pickle", "md"])
    with pytest.raises(ValueError, match="mine") as caught:
        train(tmp_path, callback, tiny(fails_at=2))
    told = callback.files["md"].read_text()
    assert re.search(
        r"Ended by: `ValueError: mine in \w+ \(test_hooks_lightning.py:\d+\), in step 2`", told
    )
    if sys.version_info >= (3, 11):
        assert str(callback.files["md"]) in caught.value.__notes__[0]


def test_a_number_that_cannot_be_is_refused_before_the_training(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.lightning import MemoryCallback

    with pytest.raises(ValueError, match="steps 1 or more"):
        MemoryCallback(tmp_path, steps=0)
    with pytest.raises(ValueError, match="formats must name some of"):
        MemoryCallback(tmp_path, formats=["gif"])


def test_the_package_whose_trainer_it_is_decides_what_it_extends(tmp_path: Path) -> None:
    (tmp_path / "pytorch_lightning.py").write_text("class Callback: ...")
    program = """
import pytorch_lightning
from snapreport.recorders.hosts.lightning import MemoryCallback
assert issubclass(MemoryCallback, pytorch_lightning.Callback)
"""
    result = ready.run(["-c", program], tmp_path, {}, ready.OURS)
    assert result.returncode == 0, result.stderr

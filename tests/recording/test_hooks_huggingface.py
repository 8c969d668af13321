"""The callback in a real Trainer, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import snapreport
from tests.needed import needed

torch = needed("torch")
transformers = needed("transformers")
needed("accelerate")
pytestmark = pytest.mark.filterwarnings("default")  # theirs are not ours


def tiny(fails_at: int | None = None) -> Any:
    class Tiny(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Linear(100, 200)
            self.calls = 0

        def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
            if self.calls == fails_at:
                raise ValueError("mine")
            self.calls += 1
            return {"loss": self.weight(x).sum()}

    return Tiny()


def train(folder: Path, callback: Any, steps: int = 4, model: Any = None, **arguments: Any) -> None:
    settings = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **arguments,
    )
    rows = [{"x": torch.ones(100), "labels": torch.ones(1)} for _ in range(16)]
    transformers.Trainer(
        model or tiny(), settings, train_dataset=rows, callbacks=[callback]
    ).train()


def stages(path: Path) -> list[str]:
    found = snapreport.load(path).device().stages
    return [stage.name for stage in found if stage.name.startswith("step ")]


def test_chosen_steps_of_a_training_are_stages_of_the_recording(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.huggingface import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", skip=1, steps=2, formats=["pickle", "html"])
    train(tmp_path, callback, gradient_accumulation_steps=2)
    assert set(callback.files) == {"pickle", "html"}
    assert stages(callback.files["pickle"]) == ["step 1", "step 2"]


def test_what_the_model_and_optimizer_hold_is_told_by_name(tmp_path: Path) -> None:
    from snapreport.recorders.hosts.huggingface import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", formats=["pickle"])
    train(tmp_path, callback, steps=2)
    noted = snapreport.load(callback.files["pickle"]).history.recorder
    assert noted is not None
    kinds = {(row.kind, row.name) for row in noted.storages}
    assert ("parameter", "weight.weight") in kinds
    assert ("optimizer state", "weight.weight.exp_avg") in kinds


def test_a_training_that_fails_leaves_its_files_when_it_is_stopped_or_the_next_begins(
    tmp_path: Path,
) -> None:
    from snapreport.recorders.hosts.huggingface import MemoryCallback

    callback = MemoryCallback(tmp_path / "out", formats=["pickle"])
    with pytest.raises(ValueError, match="mine") as caught:
        train(tmp_path, callback, model=tiny(fails_at=1))
    assert callback.files == {}
    callback.stop(caught.value)
    noted = snapreport.load(callback.files["pickle"]).history.recorder
    assert noted is not None
    assert noted.failure is not None
    assert noted.failure.type == "ValueError"

    with pytest.raises(ValueError, match="mine"):
        train(tmp_path, callback, model=tiny(fails_at=1))
    train(tmp_path, callback, steps=1)
    for number in ("1", "2", "3"):
        assert [path.name for path in (tmp_path / "out" / number).iterdir()] == ["snapshot.pickle"]

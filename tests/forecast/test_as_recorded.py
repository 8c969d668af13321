"""What a forecast books, where recordings showed that it once booked something else."""

from __future__ import annotations

import functools
import pickle
import tempfile
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.forecast.lined_up import Row, rows_of
from tests.needed import needed
from tests.recording import ready

needed("torch")

BODIES = {
    "loss": """
value = torch.ones(1000, 250, device="cuda", requires_grad=True)
kept = [torch.nn.functional.mse_loss(value, value.detach()) for _ in range(3)]
""",
    "default device": """
torch.set_default_device("cuda")
weight = torch.nn.Parameter(torch.empty(1000, 1000))
assert weight.device.type == "cuda"
weight.sum().backward()
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
layer = torch.nn.Linear(512, 512, device="cuda")
def again(x):
    return layer(x).exp()
x = torch.ones(100, 512, device="cuda", requires_grad=True)
checkpoint(again, x, use_reentrant=False).sum().backward()
""",
    "product": """
value = torch.ones(500, 500, device="cuda")
product = value @ value
""",
}


@functools.cache
def forecast(body: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            "import sys, torch, snapreport",
            "with snapreport.forecast(sys.argv[1], card='h100-80', formats=['pickle']):",
            *(f"    {line}" for line in BODIES[body].strip().splitlines()),
        ]
        program = Path(folder, "program.py")
        program.write_text("\n".join(lines))
        done = ready.run([str(program), str(Path(folder, "made"))], REPOSITORY, {})
        assert done.returncode == 0, done.stderr
        snapshot = Path(folder, "made", "1", "snapshot.pickle")
        return rows_of(pickle.loads(snapshot.read_bytes()))


def test_a_kept_mean_of_losses_keeps_the_memory_of_all_losses() -> None:
    kept = [row for row in forecast("loss") if row.operators[0] == "mse_loss" and not row.freed]
    assert [row.bytes for row in kept] == [1_000_000] * 3


def test_a_large_tensor_is_on_the_default_device() -> None:
    assert forecast("default device")[0].bytes == 4_000_000


def test_what_a_checkpoint_computes_again_was_called_by_python() -> None:
    exponents = [row for row in forecast("checkpoint") if row.operators[0] == "exp"]
    assert [row.node for row in exponents] == ["", ""]
    assert len({row.line for row in exponents}) == 1
    products = [row for row in forecast("checkpoint") if row.operators[0] == "mm"]
    assert {row.node for row in products} == {"AddmmBackward0"}


def test_a_workspace_is_taken_after_the_first_product() -> None:
    assert [row.bytes for row in forecast("product")] == [1_000_000, 1_000_000, 32 << 20]

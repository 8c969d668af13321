"""What modules and optimizers hold when the snapshot is taken has its kind and its name."""

from __future__ import annotations

from typing import Any

from snapreport.history.build import build_history
from snapreport.model.history import History
from tests.builders import KIB, TraceBuilder, read_object, trace


def noted(made: TraceBuilder, *storages: tuple[str, str, str]) -> History:
    """Read a trace of which storages were noted: place, kind and name of each."""
    rows: list[dict[str, Any]] = [
        {
            "device": "cuda:0",
            "address": made.address(place),
            "size": KIB,
            "kind": kind,
            "name": name,
        }
        for place, kind, name in storages
    ]
    return build_history(read_object(made.snapshot() | {"snapreport": {"storages": rows}}))


def told(file: History) -> list[tuple[str | None, str | None]]:
    """Return category and metadata of each allocation."""
    rows = file.devices[0].allocations
    names = [*file.strings, None]
    return [(names[c], names[m]) for c, m in zip(rows.category, rows.metadata, strict=True)]


def test_a_tensor_of_a_module_has_its_kind_and_its_path() -> None:
    made = trace().alloc("weight", KIB).alloc("other", KIB).alloc("grad", KIB)
    path = "blocks.3.mlp.weight"
    file = noted(made, ("weight", "parameter", path), ("grad", "gradient", path))
    assert told(file) == [("parameter", path), (None, None), ("gradient", path)]


def test_what_was_at_its_address_before_is_something_else() -> None:
    made = trace().alloc("place", KIB).free("place").alloc("place", KIB)
    assert told(noted(made, ("place", "buffer", "mean"))) == [(None, None), ("buffer", "mean")]


def test_what_pytorch_recorded_stays() -> None:
    made = trace().alloc("a", KIB, user_metadata="mine", category="input").alloc("b", KIB)
    file = noted(made, ("a", "parameter", "weight"), ("b", "optimizer state", ""))
    assert told(file) == [("input", "mine"), ("optimizer state", None)]

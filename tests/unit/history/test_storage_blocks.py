"""What is said of allocations: their tensors' kinds and names, and the program's annotations."""

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


def annotated(builder: TraceBuilder, place: str, text: str) -> TraceBuilder:
    return builder.event("annotate", addr=builder.address(place), user_metadata=text)


def test_an_annotation_joins_the_allocation_that_is_live_at_its_address() -> None:
    made = trace().alloc("place", KIB).free("place").alloc("place", KIB).alloc("b", KIB)
    file = annotated(annotated(made, "place", "kept"), "place", "twice").free("place").file()
    assert told(file) == [(None, None), (None, "kept\ntwice"), (None, None)]
    assert file.oddities == {}


def test_an_annotation_adds_a_line_to_what_was_set_before() -> None:
    file = annotated(trace().alloc("a", KIB, user_metadata='{"layer":3}'), "a", "kept").file()
    assert told(file) == [(None, '{"layer":3}\nkept')]


def test_memory_from_before_the_recording_can_be_annotated() -> None:
    made = trace().segment("a", 2 * KIB, (KIB, KIB, "live"))
    assert told(annotated(made, "a", "kept").file()) == [(None, "kept")]


def test_an_annotation_of_free_memory_is_counted() -> None:
    file = annotated(trace().alloc("a", KIB).free("a"), "a", "late").file()
    assert told(file) == [(None, None)]
    assert file.oddities == {"annotation of memory that is not allocated": 1}


def test_annotations_cannot_repeat_a_long_text_for_each_allocation() -> None:
    made, text = trace(), "x" * 5000
    for i in range(50):
        made.alloc(f"a{i}", KIB, user_metadata=f"m{i}")
        annotated(made, f"a{i}", text)
    file = made.file()
    assert sum(map(len, file.strings)) <= 2 * file.length
    assert file.oddities["annotation that is too long to keep"] > 40

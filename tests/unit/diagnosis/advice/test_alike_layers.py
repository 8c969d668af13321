"""What one layer holds, and what all of them do."""

from __future__ import annotations

from typing import Any

import pytest

from snapreport.diagnosis.advice.planning import suggest
from snapreport.diagnosis.advice.situation import Situation, find_layers, layers_sentence, look_at
from snapreport.model.history import History
from tests.builders import MIB, frame, trace
from tests.unit.diagnosis.advice.test_program_changes import (
    BACK,
    BLOCK,
    CALL,
    MAIN,
    training,
)


def situation(file: History) -> Situation:
    device = file.devices[0]
    return look_at(file, device)


def test_twelve_layers_hold_twelve_times_what_one_does() -> None:
    found = situation(training(12, weight=10).file())
    assert found.peak == (10 + 20 + 12 * 4) * MIB
    assert layers_sentence(found, found.event) == (
        "The 12 calls of layers from forward (model.py:20) held 48.00 MiB (61.5%) of what was"
        " allocated, 4.00 MiB each. "
    )


def test_what_the_backward_pass_allocates_for_layers_is_told_apart_from_what_they_hold() -> None:
    def forward(line: int) -> list[str]:
        places = (("train.py", 1, "main"), ("model.py", line, "forward"))
        return [f'  File "{file}", line {at}, in {name}\n    x\n' for file, at, name in places]

    made = training(12)
    for layer in range(12):
        made.alloc(f"inner{layer}", 3 * MIB, frames=[frame("inner", "model.py", 3), *BLOCK])
        made.alloc(f"outer{layer}", MIB, frames=BLOCK)
    node = [frame("torch::autograd::generated::MulBackward0::apply", "??", 0)]
    made.alloc("of layers", 7 * MIB, frames=node, forward_frames=forward(20))
    made.alloc("of the loss", 9 * MIB, frames=node, forward_frames=forward(30))
    found = situation(made.file())
    layers = find_layers(found, found.event)
    assert layers is not None
    assert (layers.bytes, layers.backward) == (48 * MIB, 7 * MIB)
    assert layers_sentence(found, found.event).endswith(
        " 4.00 MiB each. The backward pass of the layers called there held 7.00 MiB more. "
    )
    (checkpoint,) = [each for each in suggest(found) if each.code == "checkpoint"]
    assert checkpoint.frees is not None
    assert checkpoint.frees.most <= layers.bytes


def test_an_embedding_beside_layers_is_none_of_them_and_layers_may_differ_a_little() -> None:
    made = trace()
    for turn in range(2):
        for layer, size in enumerate((2, 40, 42, 44, 60)):
            made.alloc(f"{turn}.{layer}", size * MIB, frames=[frame("inner", "model.py"), *BLOCK])
            made.alloc(f"{turn}.{layer} out", MIB, frames=BLOCK)
        for layer in reversed(range(5)):
            made.free(f"{turn}.{layer} out", frames=BACK).free(f"{turn}.{layer}", frames=BACK)
    found = situation(made.file())
    layers = find_layers(found, found.event)
    assert layers is not None
    assert (layers.count, layers.bytes) == (3, (41 + 43 + 45) * MIB)
    assert (layers.least, layers.most) == (41 * MIB, 45 * MIB)


def test_what_is_no_call_of_a_module_or_little_is_not_named() -> None:
    few = situation(training(2).file())
    assert layers_sentence(few, few.event) == ""
    little = situation(training(4, weight=200).file())
    assert layers_sentence(little, little.event) == ""
    assert layers_sentence(little, -1) == ""
    # The program's own function calls a module four times: these are no layers of a model.
    outside = [*CALL, frame("loss", "train.py", 9), MAIN]
    made = trace()
    for turn in range(2):
        for part in range(4):
            for line in (1, 2):
                frames = [frame("forward", "model.py", line), *outside]
                made.alloc(f"{turn}.{part}.{line}", MIB, frames=frames)
        for part in range(4):
            for line in (1, 2):
                made.free(f"{turn}.{part}.{line}", frames=BACK)
    found = situation(made.file())
    assert found.blocks[0].in_a_turn == 4
    assert layers_sentence(found, found.event) == ""


def test_of_calls_whose_backward_has_begun_it_is_said_how_many_still_held() -> None:
    made = trace()
    for turn in range(2):
        for layer in range(12):
            made.alloc(f"{turn}.{layer}", 3 * MIB, frames=[frame("inner", "model.py", 3), *BLOCK])
            made.alloc(f"{turn}.{layer} out", MIB, frames=BLOCK)
        made.free(f"{turn}.11 out", frames=BACK).free(f"{turn}.11", frames=BACK)
        made.alloc(f"{turn} back", 6 * MIB, frames=BACK).free(f"{turn} back", frames=BACK)
        for layer in reversed(range(11)):
            made.free(f"{turn}.{layer} out", frames=BACK).free(f"{turn}.{layer}", frames=BACK)
    found = situation(made.file())
    assert found.peak == (11 * 4 + 6) * MIB
    assert layers_sentence(found, found.event) == (
        "Of the 12 calls of layers from forward (model.py:20), 11 held 44.00 MiB (88.0%) of what"
        " was allocated, 4.00 MiB each. "
    )
    (advised,) = (each for each in suggest(found) if each.code == "checkpoint")
    assert "the 12 calls of layers from forward (model.py:20) in each" in advised.text


def test_an_operation_inside_of_each_layer_is_no_layer() -> None:
    made = trace()
    for turn in range(2):
        for layer in range(4):  # called by the program itself: three modules in each of them
            for line, size in ((5, 10), (6, 4), (7, 6)):
                block = [frame("forward", "block.py", line), *CALL, MAIN]
                inner = [frame("forward", f"part{line}.py", 1), *CALL, *block]
                made.alloc(f"{turn}.{layer}.{line}", size * MIB, frames=inner)
        for layer in reversed(range(4)):
            for line in (7, 6, 5):
                made.free(f"{turn}.{layer}.{line}", frames=BACK)
    found = situation(made.file())
    assert [each.in_a_turn for each in found.blocks] == [4]
    assert layers_sentence(found, found.event) == ""


@pytest.mark.parametrize(
    ("library", "named"),
    [
        (frame("forward", "/x/torch/nn/modules/container.py", 253), "nn.Sequential at "),
        (frame("run", "/x/torch/_inductor/utils.py", 2128), ""),
    ],
    ids=["in nn.Sequential", "compiled"],
)
def test_of_layers_that_a_library_calls_the_line_of_the_program_is_named(
    library: dict[str, Any], named: str
) -> None:
    made = trace()
    for turn in range(2):
        for layer in range(5):
            inside = [library, *CALL, frame("run", "train.py", 7), MAIN]
            for line in (3, 4):
                frames = [frame("forward", "layer.py", line), *CALL, *inside]
                made.alloc(f"{turn}.{layer}.{line}", MIB, frames=frames)
        for layer in reversed(range(5)):
            for line in (4, 3):
                made.free(f"{turn}.{layer}.{line}", frames=BACK)
    found = situation(made.file())
    assert layers_sentence(found, found.event) == (
        f"The 5 calls of layers from {named}run (train.py:7) held 10.00 MiB (100.0%)"
        " of what was allocated, 2.00 MiB each. "
    )


@pytest.mark.parametrize("lines", [(5, 6), (6, 5, 6, 5)], ids=["in turn", "nested"])
def test_the_lines_of_a_layer_are_parts_of_one_call(lines: tuple[int, ...]) -> None:
    # (6, 5, 6, 5) is of ``x + b(x + a(x))``, where both calls and both sums are on two lines.
    made, model = trace(), [frame("forward", "model.py", 20), *CALL, MAIN]
    for turn in range(2):
        names = []
        for layer in range(6):
            for place, line in enumerate(lines):
                block = [frame("forward", "block.py", line), *CALL, *model]
                part = [frame("forward", f"part{place}.py", 1), *CALL, *block]
                parts = [part, part] if layer in (2, 4) and place == 1 else [part]  # a projection
                for number, frames in enumerate(parts):
                    names.append(f"{turn}.{layer}.{place}.{number}")
                    made.alloc(names[-1], MIB, frames=frames)
        for name in reversed(names):
            made.free(name, frames=BACK)
    found = situation(made.file())
    assert {each.in_a_turn for each in found.blocks} == {6}
    (advised,) = (each for each in suggest(found) if each.code == "checkpoint")
    assert "the 6 calls of layers from forward (model.py:20) in each" in advised.text
    assert advised.frees is not None
    assert advised.frees.most == found.peak

"""What one layer holds, and what all of them do."""

from __future__ import annotations

from snapreport.diagnosis.advice.alike_layers import find_layers, layers_sentence
from snapreport.diagnosis.advice.situation import Situation, look_at
from snapreport.figures.curves import find_curves
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
    return look_at(file, device, find_curves(device, reserves=True)["allocated"])


def test_twelve_layers_hold_twelve_times_what_one_does() -> None:
    found = situation(training(12, weight=10).file())
    assert found.peak == (10 + 20 + 12 * 4) * MIB
    assert layers_sentence(found, found.event) == (
        "The 12 layers that forward (model.py:20) calls held 48.00 MiB (61.5%) of what was"
        " allocated, 4.00 MiB each. "
    )


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

"""Changes to a small model whose peak after each can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapreport.diagnosis.advice.changes import find_changes
from snapreport.diagnosis.advice.edits import edited_peak
from snapreport.diagnosis.advice.planning import as_suggestion, suggest
from snapreport.diagnosis.advice.situation import (
    Change,
    Situation,
    latest_free_after,
    look_at,
)
from snapreport.model.history import History
from snapreport.model.roles import ACTIVATION
from tests.builders import MIB, frame, trace

MODULE = "/x/torch/nn/modules/module.py"
CALL = [frame("_call_impl", MODULE, 2), frame("_wrapped_call_impl", MODULE, 1)]
MAIN = frame("main", "train.py", 1)
MODEL = [frame("forward", "model.py", 20), *CALL, MAIN]
BLOCK = [frame("forward", "model.py", 5), *CALL, *MODEL]
BUILD = [frame("__init__", "/x/torch/nn/modules/linear.py", 9), MAIN]
BACK = [frame("MulBackward0", "??", 0), frame("backward", "/x/torch/_tensor.py", 3), MAIN]
STEP = [frame("step", "/x/torch/optim/adamw.py"), MAIN]
CLEAR = [frame("zero_grad", "/x/torch/optim/optimizer.py", 9), MAIN]


def training(layers: int = 4, turns: int = 3, clear_first: bool = True, weight: int = 2) -> Any:
    """Each layer keeps 3 + 1 MiB for backward, of which the last is what the next is given."""
    made = trace().alloc("weight", weight * MIB, frames=BUILD)
    for turn in range(turns):
        if turn and clear_first:
            made.free(f"grad{turn - 1}", frames=CLEAR)
        for layer in range(layers):
            inner, outer = [frame("inner", "model.py", 3), *BLOCK], BLOCK
            made.alloc(f"inner{turn}.{layer}", 3 * MIB, frames=inner)
            made.alloc(f"outer{turn}.{layer}", MIB, frames=outer)
        if turn and not clear_first:
            made.free(f"grad{turn - 1}", frames=CLEAR)
        for layer in reversed(range(layers)):
            made.free(f"outer{turn}.{layer}", frames=BACK)
            made.free(f"inner{turn}.{layer}", frames=BACK)
        made.alloc(f"grad{turn}", weight * MIB, frames=BACK)
        if not turn:
            for state in ("first", "second"):
                made.alloc(state, weight * MIB, frames=STEP)
        made.alloc(f"root{turn}", MIB, frames=STEP).free(f"root{turn}", frames=STEP)
    return made


def situation_of_file(file: History) -> Situation:
    device = file.devices[0]
    return look_at(file, device)


def changes_of(file: History) -> tuple[Situation, dict[str, Change]]:
    """Return the changes by code, with the number and what they are about."""
    device = file.devices[0]
    situation = look_at(file, device)
    found = {}
    for each in find_changes(situation):
        found[f"{each.code}{each.number or ''} {each.about}".strip()] = each
    return situation, found


def test_the_latest_free_is_that_of_what_was_made_later_in_the_same_pass() -> None:
    file = training().free("weight").alloc("late", MIB).file()
    situation = situation_of_file(file)
    rows, events = situation.history.allocations, situation.history.events
    kept = np.flatnonzero(situation.of(ACTIVATION) & (rows.free_requested_event < events))
    wanted = np.arange(-1, events + 1)
    expected = []
    for event in wanted.tolist():
        later = [row for row in kept if rows.alloc_event[row] > event]
        of = situation.next_backward[later[:1]]
        same = [row for row in kept if situation.next_backward[row] in of]
        # Before a pass only the event just before its first activation counts.
        is_in = later and event >= rows.alloc_event[same[0]] - 1
        freed = [rows.free_requested_event[row] for row in later if row in same]
        expected.append(max(freed) if is_in else -1)
    assert latest_free_after(situation, wanted).tolist() == expected
    assert len(set(expected)) > 3


def frees(situation: Situation, change: Change) -> tuple[int, int, int]:
    """Return in MiB what a change frees at least, as expected and at most."""
    least, expected, most = (
        (situation.peak - edited_peak(situation.history, situation.outline, edits)[0]) // MIB
        for edits in (change.least, change.expected, change.most)
    )
    return least, expected, most


def test_a_block_is_a_call_and_calls_are_counted() -> None:
    situation, _ = changes_of(training(layers=5).file())
    blocks = situation.blocks[0]
    assert blocks.in_a_turn == 5
    assert len(blocks) == 15
    assert situation.tables.stacks.frames.lines[blocks.caller] == 20


def test_checkpointing_keeps_what_each_block_is_given_and_one_block() -> None:
    situation, found = changes_of(training(12, weight=10).file())
    assert situation.peak == 78 * MIB  # weight 10, state 20, 12 x 4 of activations
    change = found["checkpoint"]
    assert change.blocks is not None
    assert change.blocks.in_a_turn == 12
    # 10 + 20 + 12 outputs, and 3 of the block that is made or made again: 45.
    assert frees(situation, change)[1] == 33


def test_half_a_batch_halves_activations_and_not_weights_or_state() -> None:
    situation, found = changes_of(training(12, weight=10).file())
    # At the most all of it grows with the square of the batch: a quarter is left.
    assert frees(situation, found["smaller-batch2"]) == (24, 24, 36)


def test_gradients_of_each_sample_halve_with_the_batch() -> None:
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    for turn in range(2):
        made.alloc(f"samples{turn}", 32 * MIB, frames=BACK)  # of 16 samples
        made.alloc(f"grad{turn}", 2 * MIB, frames=BACK)
        made.alloc(f"root{turn}", MIB, frames=STEP).free(f"root{turn}", frames=STEP)
        made.free(f"samples{turn}", frames=[MAIN]).free(f"grad{turn}", frames=CLEAR)
    situation, found = changes_of(made.file())
    assert situation.peak == 37 * MIB
    assert frees(situation, found["smaller-batch2"]) == (0, 16, 24)


def test_accumulating_keeps_gradients_through_the_forward_pass() -> None:
    situation, found = changes_of(training(12, weight=10).file())
    assert frees(situation, found["accumulate2"])[1] == 14  # 24, less 10 of gradients


def test_state_in_16_bits_is_half_the_state() -> None:
    situation, found = changes_of(training(12, weight=10).file())
    # At the worst a step makes four tensors of 4 MiB beside the 7 that are live: 23, not 22.
    assert frees(situation, found["low-bit-state"]) == (7, 10, 10)


def test_gradients_cleared_after_the_forward_pass_cost_their_size() -> None:
    situation, found = changes_of(training(12, clear_first=False, weight=10).file())
    assert frees(situation, found["free-earlier gradients"]) == (10, 10, 10)
    assert "free-earlier gradients" not in changes_of(training(12, weight=10).file())[1]


def test_inference_that_keeps_its_graph_is_told() -> None:
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    for turn in range(3):
        for layer in range(8):
            inner = [frame("inner", "model.py", 30 + layer), *BLOCK]
            made.alloc(f"{turn}.{layer}", MIB, frames=inner)
            made.alloc(f"{turn}.{layer} after", MIB, frames=BLOCK)
        for layer in range(8):
            made.free(f"{turn}.{layer}", frames=[MAIN])
            made.free(f"{turn}.{layer} after", frames=[MAIN])
    situation, found = changes_of(made.file())
    assert not situation.trains
    assert set(found) == {"smaller-batch2", "inference-mode"}
    # One call made all of it: when it has ended, all goes, but for the last that was made in it.
    assert frees(situation, found["inference-mode"]) == (1, 1, 16)


@pytest.mark.parametrize("used", [False, True])
def test_evaluation_that_keeps_its_graph_is_told_where_no_backward_pass_uses_it(used: bool) -> None:
    made = training(layers=2)
    evaluate = frame("evaluate", "train.py", 40)
    for turn in range(2):
        lines = [
            [frame("inner", "model.py", 30 + layer), *BLOCK[:-1], evaluate] for layer in range(9)
        ]
        for layer, frames in enumerate(lines):
            made.alloc(f"judged{turn}.{layer}", 4 * MIB, frames=frames)
        made.alloc(f"said{turn}", MIB, frames=[evaluate]).free(f"said{turn}", frames=[evaluate])
        for layer in range(9):
            made.free(f"judged{turn}.{layer}", frames=BACK if used and not turn else [MAIN])
    situation, found = changes_of(made.file())
    assert situation.trains
    assert situation.peak == 45 * MIB  # the weight, its gradient and its states beside 37
    assert ("inference-mode evaluation" in found) == (not used)
    if not used:
        # One call made all of it, and is at its peak itself. At the most training's is left, of 14.
        assert frees(situation, found["inference-mode evaluation"]) == (1, 1, 45 - 14)


@pytest.mark.parametrize("ends", ["still kept", "trained before"])
def test_inference_is_not_advised_where_a_backward_pass_may_come(ends: str) -> None:
    made = trace()
    if ends == "trained before":
        made.segment("old", 20 * MIB, (2 * MIB, 2 * MIB, "live"))
        made.segments[-1]["blocks"][0]["frames"] = BACK
    for layer in range(10):
        inner = [frame("inner", "model.py", 30 + layer), *BLOCK]
        made.alloc(f"{layer}", MIB, frames=inner)
    if ends == "trained before":
        for layer in range(10):
            made.free(f"{layer}", frames=[MAIN])
    _, found = changes_of(made.file())
    assert "inference-mode" not in found


def test_calls_whose_graphs_the_program_holds_are_counted_and_named() -> None:
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    for call in range(12):
        made.alloc(f"ids{call}", 512, frames=[MAIN])
        for layer in range(4):
            for line in range(4):
                inner = [frame("inner", "model.py", 30 + line), *BLOCK]
                made.alloc(f"{call}.{layer}.{line}", MIB, frames=inner)
            made.alloc(f"{call}.{layer} out", MIB, frames=BLOCK)
        head = [frame("forward", "model.py", 21), *CALL, MAIN]
        made.alloc(f"{call} said", MIB, frames=head)
    found = situation_of_file(made.file())
    told = {each.code: each for each in suggest(found)}
    assert set(told) == {"inference-mode", "smaller-batch"}
    assert told["inference-mode"].text.startswith(
        "Run the 12 calls from main (train.py:1) in inference mode: each keeps 21.00 MiB for"
    )
    frees_then = told["inference-mode"].frees
    assert frees_then is not None
    # Each call's result stays; at the least each layer's output as well, and the largest tensor.
    assert 11 * 20 * MIB <= frees_then.expected <= 12 * 20 * MIB
    assert 11 * 12 * MIB <= frees_then.least <= 12 * 16 * MIB


@pytest.mark.parametrize("failed", [False, True])
def test_evaluation_whose_outputs_are_held_is_told_by_what_no_backward_pass_used(
    failed: bool,
) -> None:
    made, evaluate = training(layers=2), frame("evaluate", "train.py", 40)
    for layer in range(9):
        inner = [frame("inner", "model.py", 30 + layer), *BLOCK[:-1], evaluate]
        made.alloc(f"judged.{layer}", 4 * MIB, frames=inner)
    # Held through another step, whose backward pass frees only its own.
    made.alloc("x", 4 * MIB, frames=BLOCK).alloc("work", MIB, frames=BACK)
    made.free("x", frames=BACK).free("work", frames=BACK)
    if not failed:  # a backward pass that failed midway had not come to the rest yet
        made.alloc("done", MIB, frames=STEP)
    for layer in range(9):
        made.free(f"judged.{layer}", frames=[MAIN])
    _, found = changes_of(made.file())
    assert ("inference-mode evaluation" in found) == (not failed)


def test_a_failure_in_the_first_forward_pass_may_be_of_training() -> None:
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    made.alloc("embedded", MIB, frames=[frame("forward", "model.py", 19), *CALL, MAIN])
    for layer in range(8):
        for line in range(5):
            made.alloc(f"{layer}.{line}", MIB, frames=[frame("inner", "model.py", line), *BLOCK])
    told = suggest(situation_of_file(made.file()))
    assert [each.code for each in told] == ["checkpoint", "smaller-batch", "inference-mode"]
    assert told[-1].text.startswith("Unless a backward pass is to follow,")


def test_nothing_is_said_of_a_recording_without_passes() -> None:
    _, found = changes_of(trace().alloc("a", MIB).free("a").file())
    assert found == {}


def accumulating(seen: bool) -> Any:
    """Add up the gradients of two passes before each step, which allocates or does not."""
    made = trace().alloc("weight", 10 * MIB, frames=BUILD)
    for turn in range(3):
        for part in range(2):
            made.alloc(f"kept{turn}{part}", 8 * MIB, frames=[frame("inner", "model.py"), *BLOCK])
            made.free(f"kept{turn}{part}", frames=BACK)
            if not part:
                made.alloc(f"grad{turn}", 10 * MIB, frames=BACK)
        if seen:
            made.alloc(f"root{turn}", MIB, frames=STEP).free(f"root{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR)
    return made


@pytest.mark.parametrize("seen", [True, False])
def test_gradients_that_are_added_up_are_not_to_be_cleared(seen: bool) -> None:
    assert "free-earlier gradients" not in changes_of(accumulating(seen).file())[1]


CLIP = [frame("clip_grad_norm_", "/x/torch/nn/utils/clip_grad.py"), MAIN]
FEW_BITS = [frame("step", "/x/bitsandbytes/optim/optimizer.py"), MAIN]


@pytest.mark.parametrize("frames", [STEP, CLIP, FEW_BITS])
def test_only_an_optimizer_with_a_fused_form_is_fused(frames: Any) -> None:
    made = training(layers=1)
    made.alloc("large", 30 * MIB, frames=frames).free("large", frames=frames)
    situation, found = changes_of(made.file())
    assert ("fused-optimizer" in found) == (frames is STEP)
    if frames is STEP:
        assert frees(situation, found["fused-optimizer"]) == (0, 28, 28)


def test_state_of_few_bits_is_not_made_smaller() -> None:
    made = trace().alloc("weight", 10 * MIB, frames=BUILD)
    for turn in range(2):
        made.alloc(f"grad{turn}", 10 * MIB, frames=BACK)
        if not turn:
            made.alloc("state", 10 * MIB, frames=FEW_BITS)
        made.free(f"grad{turn}", frames=CLEAR)
    assert "low-bit-state" not in changes_of(made.file())[1]


PARALLEL = [frame("forward", "/x/torch/nn/parallel/distributed.py"), MAIN]


def ranks(frames: Any, step: int = 0) -> Any:
    """State of 4 + 4 MiB for a weight of 4, and what a step may make for each parameter."""
    made = training(2, weight=4)
    made.alloc("in", MIB, frames=frames).free("in", frames=frames)
    if step:
        made.alloc("temporary", step * MIB, frames=STEP).free("temporary", frames=STEP)
    return made


def test_ranks_share_the_state_where_they_train_the_same_parameters() -> None:
    situation, found = changes_of(ranks(PARALLEL).file())
    # 4 of weight, 8 of state, 8 kept: with one rank having the only parameter, none or all goes.
    assert situation.peak == 20 * MIB
    assert frees(situation, found["shard-state2"])[1:] == (4, 8)
    assert found["shard-state2"].extra == 2 * (4 + 1) * MIB  # blocks may be 1 MiB larger
    for other in ([frame("x", "train.py"), MAIN], [SHARDED, *PARALLEL]):
        assert "shard-state2" not in changes_of(ranks(other).file())[1]


SHARDED = frame("step", "/x/torch/distributed/optim/zero_redundancy_optimizer.py")


def test_the_host_takes_the_state_and_what_updates_make() -> None:
    situation, found = changes_of(ranks(PARALLEL, step=30).file())
    # 4 of weight, 4 of gradient, 8 of state, and 30 in a step; then 8 kept beside the weight.
    assert situation.peak == 46 * MIB
    assert frees(situation, found["offload"])[1:] == (34, 34)
    # At the worst a step makes four tensors of 4 MiB: 4 + 4 + 16 beside the 30 that stay.
    assert frees(situation, found["offload"])[0] == -8


def test_what_is_saved_for_backward_goes_when_the_next_is_made_and_comes_back_one_by_one() -> None:
    situation, found = changes_of(training(12, weight=10).file())
    # 10 of weight, 20 of state, 12 x (3 + 1) kept: of those two tensors at a time, 3 and 1; when
    # all is gone, a gradient of 10 and a temporary of 1.
    assert situation.peak == 78 * MIB
    least, expected, most = frees(situation, found["offload-activations"])
    assert (expected, most) == (78 - 41, 78 - 41)
    # As with checkpoints that keep the larger one, too: nothing goes for sure.
    assert least == 0
    assert found["offload-activations"].extra == (3 + 1 + 1 + 2 * (10 + 1)) * MIB
    saved = [frame("unpack_from_cpu", "/x/torch/autograd/graph.py"), MAIN]
    again = training(12, weight=10).alloc("x", MIB, frames=saved)
    assert "offload-activations" not in changes_of(again.file())[1]


def test_a_program_on_the_cpu_has_no_other_host() -> None:
    file = ranks(PARALLEL, step=30).file()
    device = file.devices[0]
    situation = look_at(file, device)
    codes = {each.code for each in find_changes(replace(situation, to_host=False))}
    assert not codes & {"offload", "offload-activations"}


def test_attentions_weights_are_told_from_others_of_their_size() -> None:
    softmax = [frame("softmax", "/x/torch/nn/functional.py"), frame("attend", "model.py"), *BLOCK]
    other = [frame("mlp", "model.py"), *BLOCK]
    made = trace()
    for turn in range(2):
        made.alloc(f"weights{turn}", 8 * MIB, frames=softmax)
        made.alloc(f"mlp{turn}", 8 * MIB, frames=other)
        made.free(f"mlp{turn}", frames=BACK).free(f"weights{turn}", frames=BACK)
    situation, found = changes_of(made.file())
    assert frees(situation, found["attention-kernel"])[:2] == (8, 8)


def test_what_also_runs_backward_is_no_block() -> None:
    step = frame("step", "train.py", 7)
    made = trace()
    for turn in range(6):
        inner = [frame("inner", "model.py", 3), *BLOCK[:-1], step, MAIN]
        made.alloc(f"{turn}", 8 * MIB, frames=inner).free(
            f"{turn}", frames=[*BACK[:-1], step, MAIN]
        )
    file = made.file()
    situation, _ = changes_of(file)
    names = file.stacks.frames.names
    assert {names[blocks.caller] for blocks in situation.blocks}.isdisjoint({"main", "step"})


def looped(calls: int, head: bool) -> Any:
    """A program calls a model of six layers; each has two parts from lines of its own."""
    made = trace().alloc("weight", MIB, frames=BUILD)
    for turn in range(3):
        names = []
        for number in range(calls):
            for layer in range(6):
                for line in (30, 31):
                    norm = [frame("norm", "model.py", 9), frame("forward", "model.py", line)]
                    names.append(f"{turn}.{number}.{layer}.{line}")
                    made.alloc(names[-1], 2 * MIB, frames=[*norm, *CALL, *MODEL])
            if head:
                names.append(f"{turn}.{number} head")
                last = [frame("forward", "head.py", 2), *CALL, frame("forward", "model.py", 22)]
                made.alloc(names[-1], MIB, frames=[*last, *CALL, MAIN])
        for name in reversed(names):
            made.free(name, frames=BACK)
        made.alloc(f"grad{turn}", MIB, frames=BACK)
        made.alloc(f"root{turn}", MIB, frames=STEP).free(f"root{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR)
    return made


@pytest.mark.parametrize("head", [False, True])
def test_one_call_of_a_whole_model_is_not_taken_for_its_layers(head: bool) -> None:
    situation, found = changes_of(looped(1, head).file())
    blocks = found["checkpoint"].blocks
    assert blocks is not None
    assert situation.tables.stacks.frames.lines[blocks.caller] == 20
    assert int((blocks.meant & (blocks.turn == blocks.turn[0])).sum()) == 6


def test_calls_of_a_model_for_several_inputs_are_counted_and_their_layers_too() -> None:
    situation, _ = changes_of(looped(3, True).file())
    lines = situation.tables.stacks.frames.lines
    counts = {
        int(lines[each.caller]): int((each.meant & (each.turn == each.turn[0])).sum())
        for each in situation.blocks
    }
    assert counts == {1: 3, 20: 18}  # the two lines of a layer are one call


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("file", ["torch/optim/lbfgs.py", "newton.py"])
def test_no_batch_is_advised_where_steps_add_to_the_optimizers_state(file: str, steps: int) -> None:
    step = [frame("step", f"/x/{file}", 300), frame("step", "/x/torch/optim/optimizer.py"), MAIN]
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    for turn in range(steps):
        for layer in range(4):
            made.alloc(f"{turn}.{layer}", 4 * MIB, frames=[frame("inner", "model.py", 3), *BLOCK])
            made.alloc(f"{turn}.{layer} out", MIB, frames=BLOCK)
        for layer in reversed(range(4)):
            made.free(f"{turn}.{layer} out", frames=BACK).free(f"{turn}.{layer}", frames=BACK)
        made.alloc(f"grad{turn}", 2 * MIB, frames=BACK)
        made.alloc(f"direction{turn}", 2 * MIB, frames=step).free(f"grad{turn}", frames=CLEAR)
    for turn in range(steps):  # used in each step, and let go at the end
        made.free(f"direction{turn}", frames=[MAIN])
    _, found = changes_of(made.file())
    batches = {code for code in found if code.startswith(("smaller-batch", "accumulate"))}
    # At the peak of the last forward pass two steps' state cannot tell yet, by its growth alone.
    assert (not batches) == ("lbfgs" in file or steps > 3)


def test_bounds_allow_for_blocks_that_are_larger_than_their_requests_by_other_amounts() -> None:
    plain, paged = (
        situation_of_file(training(12, weight=10).settings(expandable_segments=paged).file())
        for paged in (False, True)
    )
    (exact, *_), (wide, *_) = (
        [each.frees for each in suggest(situation) if each.code == "smaller-batch"]
        for situation in (paged, plain)
    )
    assert exact is not None
    assert wide is not None
    assert exact.least == exact.expected == wide.expected == 24 * MIB
    # No block was larger than its request. With half the batch the twelve of 1.5 MiB for the layers
    # and the two for the optimizer's state may be by 1 MiB; the weight's is the same.
    assert wide.least == (24 - 12 - 2) * MIB
    assert wide.most == exact.most


def autocast(graph: bool) -> Any:
    """Run four layers under autocast, twice; with a graph each keeps its 1 MiB result, too."""
    linear = [frame("forward", "/x/torch/nn/modules/linear.py", 134), *BLOCK]
    cast = [frame("at::autocast::cached_cast(c10::ScalarType)", "??", 0), *linear]
    made = trace()
    for layer in range(4):
        made.alloc(f"weight{layer}", 16 * MIB, frames=BUILD)
    for turn in range(2):
        kept = []
        for layer in range(4):
            if not turn:
                made.alloc(f"copy{layer}", 8 * MIB, frames=cast)
            made.alloc(f"result{turn}.{layer}", MIB, frames=linear)
            made.alloc(f"wide{turn}.{layer}", 3 * MIB, frames=BLOCK).free(f"wide{turn}.{layer}")
            kept.append(f"result{turn}.{layer}")
            if not graph:
                made.free(kept.pop())
        if not turn:
            first = kept
    for place in [*first, *kept, *(f"copy{layer}" for layer in range(4))]:
        made.free(place)
    return made


def test_copies_of_weights_do_not_shrink_with_the_batch_and_need_not_be_kept() -> None:
    situation, found = changes_of(autocast(graph=False).file())
    assert situation.peak == (64 + 32 + 1 + 3) * MIB
    assert frees(situation, found["smaller-batch2"]) == (0, 2, 3)
    # The peak is then where one layer has its copy and its result: 64 + 8 + 1.
    cache = found["autocast-cache"]
    assert frees(situation, cache) == (27, 27, 32)
    assert cache.extra == (8 + 1) * MIB
    # All weights are there in full precision before the first call: 64.
    halved = found["low-precision-weights"]
    assert frees(situation, halved) == (36, 36, 66)
    assert halved.extra == (8 + 1) * MIB


def test_a_graph_keeps_copies_of_weights_even_without_a_cache() -> None:
    situation, found = changes_of(autocast(graph=True).file())
    assert situation.peak == (64 + 32 + 8 + 3) * MIB
    assert "autocast-cache" not in found
    assert frees(situation, found["smaller-batch2"])[1] == 5  # of 8 results and 3 MiB beside them


def partly(whole: bool) -> Any:
    """Layers that checkpoint one part, which keeps 1 MiB, and keep 3 more; or whole ones."""
    saves = frame("checkpoint", "/x/torch/utils/checkpoint.py", 512)
    made = trace().alloc("weight", 2 * MIB, frames=BUILD)
    for turn in range(3):
        for layer in range(6):
            outer = [frame("forward", "model.py", 5), *CALL, *([saves] if whole else []), *MODEL]
            part = [frame("part", "model.py", 7), saves, *outer]
            made.alloc(f"norm{turn}.{layer}", 3 * MIB, frames=outer)
            made.alloc(f"again{turn}.{layer}", 5 * MIB, frames=part)
            if whole:
                made.free(f"norm{turn}.{layer}", frames=outer)
            made.alloc(f"out{turn}.{layer}", MIB, frames=part)
            made.free(f"again{turn}.{layer}", frames=part)
        for layer in reversed(range(6)):
            again = [frame("part", "model.py", 7), saves, *BACK]
            made.alloc(f"redone{turn}.{layer}", 5 * MIB, frames=again)
            made.free(f"redone{turn}.{layer}", frames=BACK)
            if not whole:
                made.free(f"norm{turn}.{layer}", frames=BACK)
            made.free(f"out{turn}.{layer}", frames=BACK)
        made.alloc(f"grad{turn}", 2 * MIB, frames=BACK)
        made.alloc(f"root{turn}", MIB, frames=STEP).free(f"root{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR)
    return made


def test_layers_of_which_a_part_is_checkpointed_keep_less_as_a_whole() -> None:
    situation, found = changes_of(partly(whole=False).file())
    assert situation.peak == 31 * MIB  # weight 2, 6 x 4 kept, 5 computed again
    change = found["checkpoint whole"]
    # All but the 3 of the layer that is computed again go: 5 x 3.
    assert frees(situation, change)[1] == 15
    # What it keeps, and all of its checkpoint's, in blocks that may be larger.
    assert change.extra == (3 + 1 + 5 + 1 + 2) * MIB
    said = as_suggestion(situation, change)
    assert "each of the 6 layers called from forward (model.py:20) as a whole" in said.text


def test_layers_that_are_checkpointed_as_a_whole_are_left_alone() -> None:
    _, found = changes_of(partly(whole=True).file())
    assert not [each for each in found if each.startswith("checkpoint")]

"""Blocks from before the recording get roles by how many there are of each size, and where."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from snapreport.model.history import History
from snapreport.model.roles import ROLES
from snapreport.roles.lifetimes import find_roles
from tests.builders import KIB, TraceBuilder, frame, trace

MAIN = frame("main", "train.py", 1)
MODEL = [frame("forward", "model.py", 9), MAIN]
LOG = [frame("forward", "model.py", 9), frame("log", "train.py", 5)]
BACK = [frame("backward", "/x/torch/_tensor.py", 3), MAIN]
STEP = [frame("step", "/x/torch/optim/adamw.py"), MAIN]
CLEAR = [frame("zero_grad", "/x/torch/optim/optimizer.py", 9), MAIN]

WEIGHTS = (64, 24)
"""KiB of the two parameters that are trained."""


def turns(
    *, clears: bool = True, replaces: bool = False, leaks: int = 0, opens: bool = True
) -> TraceBuilder:
    """Two turns of training.

    Args:
        clears: each ends with the gradients freed.
        replaces: the first step frees two states of each parameter from before, and makes new ones.
        leaks: KiB that a forward pass keeps beside its graph in each turn.
        opens: the recording begins with a forward pass, and goes on after the last backward pass.
    """
    made = trace()
    for turn in range(2):
        if turn or opens:
            made.alloc(f"saved{turn}", 500 * KIB, frames=MODEL)
            if leaks:
                made.alloc(f"kept{turn}", leaks * KIB, frames=LOG)
        for size in WEIGHTS:
            made.alloc(f"gradient{turn}.{size}", size * KIB, frames=BACK)
        if turn or opens:
            made.free(f"saved{turn}", frames=BACK)
        if not opens:
            break
        for size in WEIGHTS:
            made.alloc(f"square{turn}.{size}", size * KIB, frames=STEP)
            made.free(f"square{turn}.{size}", frames=STEP)
            if replaces and not turn:
                for state in range(2):
                    made.free(f"old{state}.{size}", size * KIB, frames=STEP)
                    made.alloc(f"new{state}.{size}", size * KIB, frames=STEP)
        if not clears:
            break
        for size in WEIGHTS:
            made.free(f"gradient{turn}.{size}", frames=CLEAR)
    return made


def told(made: TraceBuilder, *before: int) -> list[str]:
    """Return the roles of blocks from before, of some KiB each, one behind the other."""
    made.segment("before", sum(before) * KIB, *((b * KIB, b * KIB, "live") for b in before))
    return roles_before(made.file(), made.address("before"))


def roles_before(file: History, address: int) -> list[str]:
    device = file.devices[0]
    rows, roles = device.allocations, find_roles(device, file)
    at = [i for i in range(len(rows)) if rows.alloc_event[i] < 0 and rows.addr[i] >= address]
    assert (roles.evidence[at] >= 0).all()
    return [ROLES[roles.role[i]] for i in sorted(at, key=lambda i: int(rows.addr[i]))]


def names(short: str) -> Sequence[str]:
    known = {
        "P": "parameter", "S": "optimizer state", "G": "gradient", "A": "activation",
        "F": "temporary of forward", "C": "communication buffer", "?": "unknown",
    }  # fmt: skip
    return [known[each] for each in short.split()]


@pytest.mark.parametrize(
    ("blocks", "roles"),
    [
        ((64, 24), "P P"),
        ((64, 24, 64, 24), "P P S S"),
        ((64, 24, 64, 64, 24, 24), "P P S S S S"),
        # A model and its average, both built before the first step.
        ((64, 24, 64, 24, 64, 64, 24, 24), "P P P P S S S S"),
        ((64, 24, 64, 24, 64, 24, 64, 64, 24, 24), "P P P P P P S S S S"),
        # Another model has one tensor in the size of a parameter.
        ((24, 64, 24, 64, 64, 24, 24), "P P P S S S S"),
    ],
)
def test_sets_in_the_sizes_of_parameters(blocks: Sequence[int], roles: str) -> None:
    assert told(turns(), *blocks) == names(roles)


def test_where_a_step_frees_the_states_what_is_kept_is_none() -> None:
    assert told(turns(replaces=True), 64, 24, 64, 24) == names("P P P P")


def test_where_no_gradient_is_ever_freed_one_set_more_may_be_gradients() -> None:
    blocks = (64, 24, 64, 24, 64, 64, 24, 24)
    assert told(turns(clears=False), *blocks) == names("P P G G S S S S")


def test_what_passes_keep_more_and_more_of_was_kept_before() -> None:
    assert told(turns(leaks=56), 64, 24, 56, 56) == names("P P F F")
    # In the size of a parameter there are as many states as of other sizes.
    assert told(turns(leaks=64), 64, 24, 24, 24, 64, 64, 64, 64) == names("P P S S S S F F")
    assert told(turns(), 64, 24, 56, 56) == names("P P ? ?")


def test_states_may_have_another_precision_than_gradients() -> None:
    assert told(turns(), 64, 24, 128, 128, 48, 48) == names("P P S S S S")
    assert told(turns(), 64, 24, 12, 12, 32, 32) == names("P P S S S S")
    # A quarter of the parameters' bytes is not enough.
    assert told(turns(), 64, 24, 12, 12) == names("P P ? ?")


def test_sizes_that_come_as_often_as_one_another_are_layers_that_are_not_trained() -> None:
    layer = (100, 5, 300, 100)
    assert told(turns(), 64, 24, *layer, *layer) == names("P P" + " P" * 8)
    assert told(turns(), 64, 24, *layer) == names("P P ? ? ? ?")


def test_what_lies_among_parameters_is_one() -> None:
    assert told(turns(), 64, 700, 24) == names("P P P")
    assert told(turns(), 700, 64, 24, 701) == names("? P P ?")


def test_while_a_backward_pass_runs_what_it_has_not_come_to_is_no_frozen_layer() -> None:
    layer = (100, 5, 300, 100)
    assert told(turns(opens=False), 64, 24, *layer, *layer) == names("P P" + " ?" * 8)


DDP = [frame("forward", "/x/torch/nn/parallel/distributed.py", 9), MAIN]
LARGE = (1500, 700, 40)
"""KiB of the parameters of a model that DDP wraps."""


def reduced(*, made: bool, temporary: bool) -> TraceBuilder:
    """Two turns of training on several ranks.

    Args:
        made: each backward pass leaves gradients beside DDP's buckets, which zero_grad frees.
        temporary: each step of the optimizer makes a tensor for each parameter.
    """
    trained = trace()
    for turn in range(2):
        trained.alloc(f"saved{turn}", 500 * KIB, frames=DDP)
        for size in LARGE:
            trained.alloc(f"gradient{turn}.{size}", size * KIB, frames=BACK)
            if not made:
                trained.free(f"gradient{turn}.{size}", frames=BACK)
        trained.free(f"saved{turn}", frames=BACK)
        for size in LARGE if temporary else ():
            trained.alloc(f"square{turn}.{size}", size * KIB, frames=STEP)
            trained.free(f"square{turn}.{size}", frames=STEP)
        for size in LARGE if made else ():
            trained.free(f"gradient{turn}.{size}", frames=CLEAR)
    return trained


@pytest.mark.parametrize(
    ("made", "temporary", "blocks", "roles"),
    [
        (True, True, (*LARGE, *LARGE, *LARGE, 1500, 740), "P P P S S S S S S C C"),
        (False, True, (*LARGE, *LARGE, *LARGE, 1500, 740), "P P P S S S S S S G G"),
        (False, False, (*LARGE, *LARGE, 1500, 740), "P P P S S S G G"),
        # Of two sets beside the parameters one may be of gradients that are copied into buckets.
        (False, False, (*LARGE, *LARGE, *LARGE, 2240), "P P P ? ? ? S S S C"),
        # Gradients that are set to zero in place, and Adam's states.
        (False, True, (*LARGE * 4, 2240), "P P P G G G S S S S S S C"),
        # What does not add up to the parameters is no bucket: here data and a frozen layer.
        (True, True, (*LARGE, 1400, 841), "P P P ? ?"),
        (True, True, (*LARGE, 2900, 1400, 840), "P P P ? C C"),
    ],
)
def test_what_adds_up_to_all_parameters_are_buckets(
    made: bool, temporary: bool, blocks: Sequence[int], roles: str
) -> None:
    assert told(reduced(made=made, temporary=temporary), *blocks) == names(roles)

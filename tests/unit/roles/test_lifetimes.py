"""Roles follow from what ran when memory was made and freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from snapreport.model.history import History
from snapreport.model.roles import ROLES
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER, find_passes
from snapreport.roles.stack_kinds import classify
from tests.builders import KIB, frame, trace

MAIN = frame("main", "train.py", 1)
BUILD = [frame("__init__", "/x/torch/nn/modules/linear.py", 9), MAIN]
LOAD = [frame("fetch", "/x/torch/utils/data/_utils/fetch.py", 9), MAIN]
MODEL = [
    frame("forward", "model.py", 9),
    frame("_call_impl", "/x/torch/nn/modules/module.py"),
    MAIN,
]
BACK = [frame("MulBackward0", "??", 0), frame("backward", "/x/torch/_tensor.py", 3), MAIN]
STEP = [
    frame("adamw", "/x/torch/optim/adamw.py", 9),
    frame("step", "/x/torch/optim/adamw.py"),
    MAIN,
]
CLEAR = [frame("zero_grad", "/x/torch/optim/optimizer.py", 9), MAIN]


def training(turns: int = 3, late: bool = False) -> Any:
    """Build a model of one parameter and train it with Adam; ``late``: from the second turn on."""
    made = trace()
    if not late:
        made.alloc("weight", 64 * KIB, frames=BUILD)
    for turn in range(turns):
        made.alloc(f"batch{turn}", 32 * KIB, frames=LOAD)
        made.alloc(f"scratch{turn}", 16 * KIB, frames=MODEL).free(f"scratch{turn}", frames=MODEL)
        made.alloc(f"saved{turn}", 128 * KIB, frames=MODEL)
        made.alloc(f"grad{turn}", 64 * KIB, frames=BACK)
        made.alloc(f"local{turn}", 8 * KIB, frames=BACK)
        made.free(f"saved{turn}", frames=BACK).free(f"local{turn}", frames=BACK)
        if not turn and not late:
            made.alloc("state", 64 * KIB, frames=STEP)
        made.alloc(f"square{turn}", 64 * KIB, frames=STEP).free(f"square{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR).free(f"batch{turn}", frames=[MAIN])
    if late:
        for place in ("weight", "first", "second"):
            made.segment(place, 2 * KIB * KIB, (64 * KIB, 64 * KIB, "live"))
    return made


def roles_of(file: History) -> dict[int, set[str]]:
    """Return the roles of each size in KiB."""
    device = file.devices[0]
    found = find_roles(device, file)
    roles: dict[int, set[str]] = {}
    for size, role in zip(device.allocations.size.tolist(), found.role.tolist(), strict=True):
        roles.setdefault(size // KIB, set()).add(ROLES[role])
    return roles


def test_a_training_step_has_every_role() -> None:
    roles = roles_of(training().file())
    assert roles[64] == {"parameter", "gradient", "optimizer state", "temporary of optimizer"}
    assert roles[32] == {"input"}
    assert roles[16] == {"temporary of forward"}
    assert roles[128] == {"activation"}
    assert roles[8] == {"temporary of backward"}


def test_gradients_are_told_in_every_turn() -> None:
    file = training(turns=4).file()
    device = file.devices[0]
    role = find_roles(device, file).role
    assert np.count_nonzero(role == ROLES.index("gradient")) == 4
    assert np.count_nonzero(role == ROLES.index("optimizer state")) == 1


def test_blocks_from_before_are_told_by_the_sizes_of_gradients() -> None:
    file = training(late=True).file()
    device = file.devices[0]
    found = find_roles(device, file)
    before = device.allocations.alloc_event < 0
    assert sorted(ROLES[role] for role in found.role[before].tolist()) == [
        "optimizer state", "optimizer state", "parameter",
    ]  # fmt: skip


def test_a_forward_pass_cut_short_holds_what_others_like_it_held() -> None:
    made = training(turns=2)
    made.alloc("batch", 32 * KIB, frames=LOAD).alloc("last", 128 * KIB, frames=MODEL)
    roles = roles_of(made.file())
    assert roles[128] == {"activation"}


def test_passes_come_in_the_order_of_a_step() -> None:
    file = training(turns=2).file()
    passes = find_passes(file.devices[0], file)
    assert passes.phase.tolist()[1:] == [FORWARD, BACKWARD, OPTIMIZER] * 2
    assert (passes.end >= passes.start).all()
    assert (np.diff(passes.start) > 0).all()


def test_a_forward_pass_inside_an_optimizers_closure_is_no_step() -> None:
    made = trace()
    closure = [frame("closure", "train.py", 3), *STEP]
    for turn in range(2):
        made.alloc(f"saved{turn}", 128 * KIB, frames=[*MODEL[:2], *closure])
        made.alloc(f"grad{turn}", 64 * KIB, frames=[BACK[0], BACK[1], *closure])
        made.free(f"saved{turn}", frames=[BACK[0], BACK[1], *closure])
        made.alloc(f"square{turn}", 32 * KIB, frames=STEP).free(f"square{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR)
    roles = roles_of(made.file())
    assert roles[128] == {"activation"}
    assert roles[64] == {"gradient"}
    assert roles[32] == {"temporary of optimizer"}


def test_what_the_file_states_is_believed() -> None:
    made = trace().alloc("a", KIB, frames=STEP, category="parameter")
    assert roles_of(made.file())[1] == {"parameter"}


def test_without_evidence_it_is_unknown() -> None:
    made = trace().alloc("a", KIB).alloc("b", 2 * KIB).free("b")
    assert roles_of(made.file()) == {1: {"unknown"}, 2: {"unknown"}}


def test_what_any_class_makes_is_less_surely_a_parameter_than_what_a_module_makes() -> None:
    made = training(turns=2)
    made.events.insert(0, made.events[0] | {"addr": made.address("own"), "size": 96 * KIB})
    made.events[0]["frames"] = [frame("__init__", "dataset.py", 4), MAIN]
    made.alloc("norm", 2 * KIB, frames=BUILD)
    file = made.file()
    found = find_roles(file.devices[0], file)
    sure = {
        size // KIB: found.seen[evidence].confidence
        for size, role, evidence in zip(
            file.devices[0].allocations.size.tolist(),
            found.role.tolist(),
            found.evidence.tolist(),
            strict=True,
        )
        if ROLES[role] == "parameter"
    }
    assert sorted(sure.items(), key=lambda item: item[1]) == [(96, 0.5), (2, 0.7), (64, 0.95)]


@pytest.mark.parametrize(("apart", "said"), [(True, "communication buffer"), (False, "gradient")])
def test_buckets_of_ddp_are_the_gradients_where_no_others_are_made(apart: bool, said: str) -> None:
    ddp = "/x/torch/nn/parallel/distributed.py"
    made = trace().alloc("weight", 64 * KIB, frames=BUILD)
    init = [frame("_ddp_init_helper", ddp), frame("__init__", ddp), MAIN]
    made.alloc("first", 96 * KIB, frames=init)
    for turn in range(3):
        if turn == 1:
            wraps = [frame("_pre_forward", ddp), *MODEL]
            made.alloc("rebuilt", 96 * KIB, frames=wraps).free("first", frames=wraps)
        made.alloc(f"saved{turn}", 128 * KIB, frames=MODEL)
        if apart:
            made.alloc(f"grad{turn}", 64 * KIB, frames=BACK)
        made.alloc(f"local{turn}", 8 * KIB, frames=BACK)
        made.free(f"saved{turn}", frames=BACK).free(f"local{turn}", frames=BACK)
        made.alloc(f"square{turn}", 32 * KIB, frames=STEP).free(f"square{turn}", frames=STEP)
        if apart:
            made.free(f"grad{turn}", frames=CLEAR)
    assert roles_of(made.file())[96] == {said}


def test_what_is_freed_while_activations_are_computed_again_is_none() -> None:
    again = [*MODEL, frame("recompute_fn", "/x/torch/utils/checkpoint.py", 9), *BACK]
    made = training(turns=1)
    made.alloc("saved", 128 * KIB, frames=MODEL)
    made.alloc("sum", 48 * KIB, frames=again).alloc("product", 56 * KIB, frames=again)
    made.free("sum", frames=again)
    made.alloc("grad", 64 * KIB, frames=BACK).free("product", frames=BACK).free(
        "saved", frames=BACK
    )
    made.free("grad", frames=CLEAR)
    roles = roles_of(made.file())
    assert roles[48] == {"temporary of backward"}
    assert roles[56] == {"activation"}


def test_a_growing_cache_is_one_up_to_its_last_token() -> None:
    made = trace().alloc("weight", 64 * KIB, frames=BUILD)
    for token in range(9):
        made.alloc(f"longer{token}", (8 + token) * KIB, frames=[frame("cat", "??"), *MODEL])
        made.alloc(f"scratch{token}", 32 * KIB, frames=MODEL).free(f"scratch{token}", frames=MODEL)
        if token >= 4:
            made.free(f"longer{token - 4}", frames=MODEL)
    for token in range(5, 9):
        made.free(f"longer{token}", frames=[MAIN])
    roles = roles_of(made.file())
    assert {each for size in range(8, 17) for each in roles[size]} == {"KV cache"}
    assert roles[32] == {"temporary of forward"}


def test_a_cache_is_known_by_its_name_and_gives_others_no_role() -> None:
    named = [frame("update", "/x/transformers/cache_utils.py", 9), *MODEL]
    made = trace().alloc("weight", 64 * KIB, frames=BUILD)
    made.alloc("scratch", 32 * KIB, frames=MODEL).free("scratch", frames=MODEL)
    made.alloc("keys", 24 * KIB, frames=named).alloc("values", 24 * KIB, frames=named)
    roles = roles_of(made.file())
    assert roles == {64: {"parameter"}, 32: {"temporary of forward"}, 24: {"KV cache"}}


def evaluating(lines: int, *, together: bool = True, like_training: bool = False) -> Any:
    """Train, and after each step run the model forward alone, through some lines of it.

    Args:
        lines: each keeps 24 KiB.
        together: all of it is freed at once; else each before the next is made.
        like_training: by the call stacks that training has, of which a backward pass frees one.
    """
    at = MAIN if like_training else frame("evaluate", "train.py", 30)
    made = training(turns=0)
    for turn in range(2):
        kept = []
        for line in range(lines):
            layer = [frame("forward", "model.py", 20 + line), *MODEL[1:2], at]
            made.alloc(f"kept{turn}.{line}", 24 * KIB, frames=layer)
            if not together:
                made.free(f"kept{turn}.{line}", frames=layer)
            else:
                kept.append(f"kept{turn}.{line}")
        for name in kept:
            made.free(name, frames=[MAIN])
        for line in range(lines):
            layer = [frame("forward", "model.py", 20 + line), *MODEL[1:2], MAIN]
            made.alloc(f"saved{turn}.{line}", 48 * KIB, frames=layer)
        made.alloc(f"grad{turn}", 64 * KIB, frames=BACK)
        for line in range(lines):
            made.free(f"saved{turn}.{line}", frames=BACK)
        made.alloc(f"square{turn}", 64 * KIB, frames=STEP).free(f"square{turn}", frames=STEP)
        made.free(f"grad{turn}", frames=CLEAR)
    return made


def test_what_evaluation_keeps_for_no_backward_pass_is_activation() -> None:
    assert roles_of(evaluating(9).file())[24] == {"activation"}


@pytest.mark.parametrize(
    "made",
    [
        evaluating(3),  # a few results that go together
        evaluating(9, together=False),
        evaluating(9, like_training=True),  # a step that was left out
    ],
)
def test_what_a_forward_pass_frees_otherwise_is_temporary(made: Any) -> None:
    assert roles_of(made.file())[24] == {"temporary of forward"}


@pytest.mark.parametrize(("lines", "role"), [(2, "KV cache"), (6, "activation"), (9, "activation")])
def test_many_lines_that_keep_what_they_make_are_a_graph_and_few_a_cache(
    lines: int, role: str
) -> None:
    made = trace()
    for layer in range(6):
        for line in range(lines):
            frames = [frame("forward", "model.py", 20 + line), *MODEL[1:]]
            made.alloc(f"{layer}.{line}", 24 * KIB, frames=frames)
    assert roles_of(made.file())[24] == {role}


def test_what_the_program_makes_and_frees_after_its_last_pass_is_temporary() -> None:
    made = training()
    made.alloc("judged", 24 * KIB, frames=MODEL).free("judged", frames=MODEL)
    made.alloc("mean", 40 * KIB, frames=[MAIN]).free("mean", frames=[MAIN])
    assert roles_of(made.file())[40] == {"temporary of forward"}


WRAPPER = [frame("wrapper", "/x/torch/optim/optimizer.py", 7), MAIN]
CLOSURE = frame("closure", "train.py", 20)
IN_ADAM = [frame("step", "/x/torch/optim/adam.py", 5), *WRAPPER]
DECORATED = frame("decorate_context", "/x/torch/utils/_contextlib.py", 9)
IN_LBFGS = [
    DECORATED,
    frame("_directional_evaluate", "/x/torch/optim/lbfgs.py", 6),
    frame("step", "/x/torch/optim/lbfgs.py", 5),
    DECORATED,
    *WRAPPER,
]
IN_OWN_STEP = [frame("step", "sharpness.py", 8), DECORATED, *WRAPPER]
SCHEDULED = [*IN_ADAM[:-1], frame("wrapper", "/x/torch/optim/lr_scheduler.py", 3), MAIN]
OWN_NAME = [frame("evaluate", "train.py", 20), *IN_ADAM]
"""The program's function has any name; PyTorch's own step calls it."""


def with_closure(caller: list[dict[str, Any]], step: list[dict[str, Any]]) -> Any:
    """Train as above, with forward and backward in a function that ``caller`` runs."""
    made = trace().alloc("weight", 64 * KIB, frames=[*BUILD[:1], MAIN])
    for turn in range(3):
        begins = len(made.events)
        forward = [*MODEL[:2], *caller]
        backward = [*BACK[:2], *caller]
        made.alloc(f"scratch{turn}", 16 * KIB, frames=forward).free(f"scratch{turn}")
        made.alloc(f"saved{turn}", 128 * KIB, frames=forward)
        made.alloc(f"loss{turn}", 24 * KIB, frames=caller)  # a line of the closure itself
        made.alloc(f"grad{turn}", 64 * KIB, frames=backward)
        made.free(f"loss{turn}").free(f"saved{turn}")
        if not turn:
            made.alloc("state", 64 * KIB, frames=step)
        made.alloc(f"square{turn}", 64 * KIB, frames=step).free(f"square{turn}", frames=step)
        made.free(f"grad{turn}", frames=CLEAR)
        for place, at in ((made.start, begins), (made.end, len(made.events) - 2)):
            if len(caller) > 2:
                place("Optimizer.step#Adam.step", made.events[at]["time_us"])
    return made


@pytest.mark.parametrize(
    ("caller", "step"),
    [
        ([CLOSURE, *IN_ADAM], STEP),
        (OWN_NAME, STEP),
        ([CLOSURE, *SCHEDULED], STEP),
        ([CLOSURE, *IN_LBFGS], STEP),
        (
            [CLOSURE, DECORATED, *IN_OWN_STEP],
            [frame("first_step", "sharpness.py", 4), *IN_OWN_STEP],
        ),
    ],
    ids=["adam", "any name", "scheduler", "lbfgs", "own optimizer"],
)
def test_a_closure_has_the_roles_and_categories_of_the_same_program_without_one(
    caller: list[dict[str, Any]], step: list[dict[str, Any]]
) -> None:
    files = [with_closure(caller, step).file(), with_closure([CLOSURE, MAIN], STEP).file()]
    roles, categories = [], []
    for file in files:
        device = file.devices[0]
        roles.append([ROLES[role] for role in find_roles(device, file).role.tolist()])
        place, found = classify(file, device)
        categories.append([found[i].name for i in place.tolist()])
    assert roles[0] == roles[1]
    assert categories[0] == categories[1]
    assert {"activation", "optimizer", "backward", "unknown"} <= set(categories[0])
    assert {"optimizer state", "temporary of optimizer"} <= set(roles[0])


LINEAR = [frame("forward", "/x/torch/nn/modules/linear.py", 134), *MODEL]
CAST = [frame("at::autocast::cached_cast(c10::ScalarType)", "??", 0), *LINEAR]
OPERATORS = [frame("aten::to", "??", 0), frame("aten::linear", "??", 0), *LINEAR]


def autocast(casts: list[dict[str, Any]], cached: bool = True, rows: int = 3) -> Any:
    """Run two layers of one width twice in a block; KiB: weight 64, bias 16, result ``rows``."""
    made = trace()
    for layer in range(2):
        made.alloc(f"weight{layer}", 64 * KIB, frames=BUILD)
        made.alloc(f"bias{layer}", 16 * KIB, frames=BUILD)
    for turn in range(2):
        for layer in range(2):
            at = f"{turn}.{layer}"
            if not turn or not cached:
                made.alloc(f"bias copy{at}", 8 * KIB, frames=casts)
                made.alloc(f"weight copy{at}", 32 * KIB, frames=casts)
            made.alloc(f"input{at}", rows * KIB, frames=casts)
            made.alloc(f"result{at}", rows * KIB, frames=LINEAR)
            if not cached:
                made.free(f"bias copy{at}").free(f"weight copy{at}")
            made.free(f"input{at}")
            made.alloc(f"norm{at}", 5 * KIB, frames=MODEL).free(f"result{at}").free(f"norm{at}")
    for layer in range(2) if cached else ():
        made.free(f"bias copy0.{layer}").free(f"weight copy0.{layer}")
    return made


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("casts", [CAST, OPERATORS, LINEAR], ids=["C++", "operators", "Python"])
def test_what_autocast_casts_of_weights_has_a_role_of_its_own(
    casts: list[dict[str, Any]], cached: bool
) -> None:
    roles = roles_of(autocast(casts, cached).file())
    assert roles[64] == roles[16] == {"parameter"}
    assert roles[32] == roles[8] == {"autocast weight copy"}
    assert roles[3] == {"temporary of forward"}


def test_an_input_as_large_as_the_copy_of_a_weight_is_cast_after_it() -> None:
    file = autocast(CAST, rows=32).file()
    device = file.devices[0]
    rows, role = device.allocations, find_roles(device, file).role
    copies = role == ROLES.index("autocast weight copy")
    assert np.count_nonzero(copies & (rows.size == 8 * KIB)) == 2
    first = rows.alloc_event[copies & (rows.size == 32 * KIB)][:2].tolist()
    biases = rows.alloc_event[copies & (rows.size == 8 * KIB)].tolist()
    assert first == [event + 1 for event in biases]


@pytest.mark.parametrize("turns", [1, 4])
def test_results_with_half_the_size_of_a_weight_are_no_copies(turns: int) -> None:
    made = trace().alloc("weight", 64 * KIB, frames=BUILD).alloc("bias", 16 * KIB, frames=BUILD)
    for turn in range(turns):
        for layer in range(3):  # one after the other, from the same line
            made.alloc(f"{turn}.{layer}", 32 * KIB, frames=LINEAR)
        made.alloc(f"small{turn}", 8 * KIB, frames=MODEL)
    assert "autocast weight copy" not in roles_of(made.file())[32]


def test_a_forked_process_runs_its_program_in_no_class() -> None:
    fork = [
        frame("run", "/lib/python3.12/multiprocessing/process.py", 108),
        frame("_launch", "/lib/python3.12/multiprocessing/popen_fork.py", 71),
        frame("__init__", "/lib/python3.12/multiprocessing/popen_fork.py", 19),
        MAIN,
    ]
    forked, plain = training(), training()
    for made, load in ((forked, [MAIN, *fork]), (plain, [MAIN])):
        for event in made.events:
            inner = [MAIN] if event["frames"] == LOAD else event["frames"]
            event["frames"] = [*inner[:-1], *load]
    assert roles_of(forked.file()) == roles_of(plain.file())
    assert roles_of(forked.file())[32] == {"input"}

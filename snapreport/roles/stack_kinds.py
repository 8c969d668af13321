"""What call stacks tell by themselves: their frames, why there are none, closures, categories."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.ground.native.columns import distinct
from snapreport.ground.safe_text import matched
from snapreport.model.diagnoses import StackKind
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.history import DeviceHistory, History
from snapreport.model.roles import Category, Rule
from snapreport.model.snapshot import FrameTable, StackTable, lowest_on_path
from snapreport.roles.frames import is_native_file

HAS_FRAMES, BEFORE, LOST, NOT_RECORDED, EMPTY = range(5)
"""Positions in MISSING_REASONS."""


@once_for_both
def missing_reason(history: DeviceHistory, stacks: StackTable) -> NDArray[np.int8]:
    """Say for each allocation why it has no frames, or HAS_FRAMES; int8, shape (n,).

    Each reason is a node of its own in the call tree.
    """
    rows = history.allocations
    # One entry more than stacks, for NO_STACK: index -1 picks the last.
    of_stack = np.where(stacks.stack_node < 0, EMPTY, HAS_FRAMES)
    reason = np.append(of_stack, NOT_RECORDED).astype(np.int8)[rows.stack]
    # A block live at the end keeps its stack even if the ring lost its alloc event. A block freed
    # before has lost both, so it is unknown whether the event was lost or never recorded.
    early, to_the_end = reason[rows.baseline], rows.free_event[rows.baseline] == history.events
    framed = early == HAS_FRAMES
    overflowed = (framed & to_the_end).any()
    early[~framed] = BEFORE
    if overflowed:
        early[~framed & ~to_the_end] = LOST
    return shared(reason)


def find_stack_kind(tables: History) -> StackKind:
    """Return which frames a file's stacks have, as one setting for all; ``none`` without frames.

    A profile's frames are only names, so they count as none.
    """
    if tables.layout == "profiler":
        return "none"
    native = _are_native(tables.stacks.frames)
    if not native:
        return "none"
    if native == {True, False}:
        return "both"
    return "native" if True in native else "python"


@once_for_each
def _are_native(frames: FrameTable) -> frozenset[bool]:
    return frozenset(is_native_file(name) for name in set(frames.filenames))


_STEPS, _AROUND, _BETWEEN, _WITHIN = (1 << bit for bit in range(4))
"""Bits of files: of optimizers; around the step of every optimizer, also of the user's own; between
a step and its closure; PyTorch's own."""
_FILES = (
    (_STEPS, expression(r"^.{0,400}torch[/\\]optim[/\\]")),
    (
        _AROUND,
        expression(r"^.{0,400}torch[/\\]optim[/\\](optimizer|lr_scheduler|swa_utils)\.py$"),
    ),
    (_BETWEEN, expression(r"^.{0,400}torch[/\\]utils[/\\]_contextlib\.py$")),
)
_TORCH = expression(r"(^|.{0,400}[/\\])torch[/\\]")
_CALLS_CLOSURES = ("step", "_directional_evaluate")
_CLOSURE = expression(r"(\w{1,80}_)?closure$")


@once_for_each
def parents_with_closures(stacks: StackTable) -> NDArray[np.int32]:
    """Return each node's parent, where a closure is called by what called ``optimizer.step``.

    ``optimizer.step(closure)`` runs a forward and a backward pass inside the step. With these
    parents its call stacks look as they would with the closure called before the step.

    Returns:
        int32, shape (n_nodes,); ``stacks.node_parent`` itself where no closure runs.
    """
    frames, parent = stacks.frames, stacks.node_parent
    of_file = {file: _file_bits(matched(file)) for file in set(frames.filenames)}
    bits = np.array([of_file[file] for file in frames.filenames], np.int8)
    if not (bits & _STEPS).any():
        return parent
    calls = np.array([name in _CALLS_CLOSURES for name in frames.names], np.bool_)
    named = np.array([bool(_CLOSURE.match(matched(name))) for name in frames.names], np.bool_)
    calls &= bits & (_STEPS | _AROUND) == _STEPS
    own = bits[stacks.node_frame]
    # A decorator, such as enable_grad, and the interpreter's frames may stand between the two.
    caller = lowest_on_path(parent, (own & _BETWEEN).astype(np.int8))[parent]
    begins = calls[stacks.node_frame[caller]] & (own & _WITHIN == 0)
    begins |= named[stacks.node_frame]
    begins &= (own & (_BETWEEN | _STEPS) == 0) & (parent >= 0)
    outermost = lowest_on_path(
        parent, np.where(own & _STEPS, stacks.node_depth, np.iinfo(np.int32).max)
    )
    begins &= own[outermost] & _STEPS != 0
    return shared(np.where(begins, parent[outermost], parent)) if begins.any() else parent


def _file_bits(filename: str) -> int:
    bits = _BETWEEN if is_native_file(filename) else 0
    bits |= _WITHIN if _TORCH.match(filename) else 0
    for bit, pattern in _FILES:
        bits |= bit if pattern.match(filename) else 0
    return bits


def _rule(category: str, function: str = "", file: str = "") -> Rule:
    patterns = (re.compile(pattern) if pattern else None for pattern in (function, file))
    return Rule(category, *patterns)


# The order matters: collectives run inside backward and optimizer code, recomputation inside
# backward, an optimizer's state is made in its first step, and a module's forward may be called
# from almost anywhere, so it comes late.
DEFAULT_RULES = (
    _rule("communication", r"^(all_gather|all_reduce|reduce_scatter|all_to_all|broadcast)"),
    _rule("communication", file=r"torch[/\\]distributed[/\\](distributed_c10d|nn)"),
    _rule("communication", file=r"[/\\]_fsdp_(collectives|param)\.py$"),
    _rule("communication", r"c10d::|ProcessGroup"),
    _rule("optimizer state", r"^(_init_group|init_group|_init_state|init_state)$"),
    _rule("optimizer", file=r"torch[/\\]optim[/\\]|bitsandbytes[/\\]optim"),
    _rule("activation", file=r"torch[/\\]utils[/\\]checkpoint\.py"),
    _rule("gradient", r"AccumulateGrad|accumulate_grad|accumulateGrad"),
    _rule("backward", r"Backward\w*::|torch::autograd::Engine"),
    _rule("backward", r"^\w+Backward\d+$"),  # as the profiler names autograd's nodes
    _rule("backward", file=r"torch[/\\]autograd[/\\](__init__|graph|function)\.py"),
    _rule("backward", r"^backward$", r"torch[/\\]_tensor\.py"),
    _rule("input", file=r"torch[/\\]utils[/\\]data[/\\]"),
    _rule("parameter", file=r"torch[/\\]nn[/\\](init|parameter)\.py|safetensors"),
    _rule("parameter", r"^(__init__|reset_parameters)$", r"torch[/\\]nn[/\\]modules[/\\]"),
    _rule("parameter", r"^(_apply|to_empty|load_state_dict|_load_from_state_dict)$"),
    _rule("activation", r"^(_call_impl|_wrapped_call_impl|forward)$"),
    _rule("activation", file=r"torch[/\\]nn[/\\](modules|functional)"),
    _rule("activation", file=r"torch[/\\]_(inductor|dynamo)[/\\]|torchinductor_"),
)


_STATED = "stated by the file"


def classify(
    file: History, history: DeviceHistory, rules: Sequence[Rule] | None = None
) -> tuple[NDArray[np.int32], tuple[Category, ...]]:
    """Sort every allocation of a device into a category: its kind of memory, by its call stack.

    Each category names the rule that put it there, so that the guess can be checked; what no rule
    matches is unknown.

    Args:
        file: the file's history.
        history: the device's history.
        rules: in order, the first match wins; None for what the file states and, where it states
            nothing, the built-in rules.

    Returns:
        int32, shape (n_allocations,): positions in the categories, which are in the order of the
        rules, unknown ones last. Categories without an allocation are left out.
    """
    rows = history.allocations
    chosen = DEFAULT_RULES if rules is None else tuple(rules)
    by_stack = _match_stacks(file.stacks, chosen)
    reason = missing_reason(history, file.stacks)
    framed = reason == HAS_FRAMES
    # Keys in order: what the file states, the rules, no rule, then each reason for no frames.
    n_texts, n_rules = len(file.strings), len(chosen)
    of_stack = np.append(n_texts + by_stack, -1)  # the last is for NO_STACK, -1
    key = np.where(framed, of_stack[rows.stack], n_texts + n_rules + reason.astype(np.int64))
    if rules is None:
        key = np.where(rows.category >= 0, rows.category, key)
    categories: list[Category] = []
    used, place = distinct(key)
    # Rules with the same category share it: the first of them that matched is named.
    names: dict[str, int] = {}
    number = np.zeros(len(used), np.int32)
    for k, value in enumerate(used.tolist()):
        category = _category(value, file.strings, chosen)
        if category.name not in names:
            names[category.name] = len(categories)
            categories.append(category)
        number[k] = names[category.name]
        first = categories[number[k]]
        if first.rule == _STATED and category.rule != _STATED:
            categories[number[k]] = Category(first.name, f"{_STATED}, or {category.rule}")
    return number[place], tuple(categories)


def _category(key: int, texts: list[str], rules: Sequence[Rule]) -> Category:
    if key < len(texts):
        return Category(texts[key], _STATED)
    if key < len(texts) + len(rules):
        rule = rules[key - len(texts)]
        return Category(rule.category, rule.text)
    reason = MISSING_REASONS[key - len(texts) - len(rules)]
    return Category(
        f"unknown ({reason})" if reason else "unknown", reason or "no rule matches its call stack"
    )


@once_for_both
def _match_stacks(stacks: StackTable, rules: Sequence[Rule]) -> NDArray[np.int64]:
    """Return the first rule matching a frame of each stack, ``len(rules)`` if none; (n_stacks,)."""
    frames = stacks.frames
    of_frame = np.empty(len(frames), np.int64)
    known: dict[tuple[str, str], int] = {}  # many lines are of one function
    of_file: dict[str, list[tuple[int, Rule]]] = {}  # and many functions are in one file
    for i, (name, file) in enumerate(zip(frames.names, frames.filenames, strict=True)):
        if file not in of_file:
            short = matched(file)
            of_file[file] = [(k, rule) for k, rule in enumerate(rules) if rule.fits_file(short)]
        if (name, file) not in known:
            names = matched(name), matched(file)
            fitting = (k for k, rule in of_file[file] if rule.fits_in_file(*names))
            known[name, file] = next(fitting, len(rules))
        of_frame[i] = known[name, file]
    of_node = of_frame[stacks.node_frame]
    # What a closure does is not the optimizer's; the user's own rules are about the whole stack.
    parent = parents_with_closures(stacks) if rules is DEFAULT_RULES else stacks.node_parent
    of_node = of_node[lowest_on_path(parent, of_node)]
    return shared(stacks.of_stacks(of_node, len(rules)))

"""Guess what kind of memory an allocation is from its call stack, by rules; the first match wins.

Each category names the rule that matched, so that the guess can be checked; what no rule matches is
unknown. Categories that a file itself states have precedence over built-in rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.missing_stacks import HAS_FRAMES, missing_reason
from snapreport.frames.stack_kinds import parents_with_closures
from snapreport.ground.memoize import once_for_both, shared
from snapreport.model.category_rules import Category, Rule
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.history import DeviceHistory, History
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.native.sorting import distinct

STATED = "stated by the file"
NO_RULE = "no rule matches its call stack"


def _rule(category: str, function: str = "", file: str = "") -> Rule:
    return Rule(
        category,
        re.compile(function) if function else None,
        re.compile(file) if file else None,
    )


# The order matters: collectives run inside backward and optimizer code, recomputation inside
# backward, an optimizer's state is made in its first step, and a module's forward may be called
# from almost anywhere, so it comes late.
DEFAULT_RULES = (
    _rule("communication", r"^(all_gather|all_reduce|reduce_scatter|all_to_all|broadcast)"),
    _rule("communication", file=r"torch[/\\]distributed[/\\](distributed_c10d|nn)"),
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


def classify(
    file: History, history: DeviceHistory, rules: Sequence[Rule] | None = None
) -> tuple[NDArray[np.int32], tuple[Category, ...]]:
    """Sort every allocation of a device into a category.

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
        if first.rule == STATED and category.rule != STATED:
            categories[number[k]] = Category(first.name, f"{STATED}, or {category.rule}")
    return number[place], tuple(categories)


def _category(key: int, texts: list[str], rules: Sequence[Rule]) -> Category:
    if key < len(texts):
        return Category(texts[key], STATED)
    if key < len(texts) + len(rules):
        rule = rules[key - len(texts)]
        return Category(rule.category, rule.text)
    reason = MISSING_REASONS[key - len(texts) - len(rules)]
    return Category(f"unknown ({reason})" if reason else "unknown", reason or NO_RULE)


@once_for_both
def _match_stacks(stacks: StackTable, rules: Sequence[Rule]) -> NDArray[np.int64]:
    """Return the first rule matching a frame of each stack, ``len(rules)`` if none; (n_stacks,)."""
    frames = stacks.frames
    of_frame = np.empty(len(frames), np.int64)
    known: dict[tuple[str, str], int] = {}  # many lines are of one function
    for i, frame in enumerate(zip(frames.names, frames.filenames, strict=True)):
        if frame not in known:
            fitting = (k for k, rule in enumerate(rules) if rule.fits(*frame))
            known[frame] = next(fitting, len(rules))
        of_frame[i] = known[frame]
    of_node = of_frame[stacks.node_frame]
    # What a closure does is not the optimizer's; the user's own rules are about the whole stack.
    parent = parents_with_closures(stacks) if rules is DEFAULT_RULES else stacks.node_parent
    of_node = of_node[lowest_on_path(parent, of_node)]
    return shared(stacks.of_stacks(of_node, len(rules)))

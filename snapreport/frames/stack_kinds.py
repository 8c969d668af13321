"""Find which frames call stacks have, and where an optimizer's step runs a closure."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import is_native_file
from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.safe_text import matched
from snapreport.model.history import History
from snapreport.model.stacks import FrameTable, StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.model.trust import StackKind

_TORCH = re.compile(r"(^|.{0,400}[/\\])torch[/\\]")
_OPTIMIZERS = re.compile(r".{0,400}torch[/\\]optim[/\\]")
_AROUND_STEP = re.compile(r".{0,400}torch[/\\]optim[/\\](optimizer|lr_scheduler|swa_utils)\.py$")
"""What PyTorch wraps around the step of every optimizer, also of the user's own."""
_DECORATORS = re.compile(r".{0,400}torch[/\\]utils[/\\]_contextlib\.py$")
_CALLS_CLOSURES = ("step", "_directional_evaluate")
_CLOSURE = re.compile(r"(\w{1,80}_)?closure$")


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


_STEPS, _AROUND, _BETWEEN, _WITHIN = (1 << bit for bit in range(4))
"""Bits of files: of optimizers; around every optimizer's step; between a step and its closure;
PyTorch's own."""


def _file_bits(filename: str) -> int:
    bits = 0
    if is_native_file(filename) or _DECORATORS.match(filename):
        bits |= _BETWEEN
    if _TORCH.match(filename):
        bits |= _WITHIN
    if _OPTIMIZERS.match(filename):
        bits |= _STEPS
    if _AROUND_STEP.match(filename):
        bits |= _AROUND
    return bits

"""Names of frames as call sites; C++ and compiled code have no names that a reader knows.

C++ is named by what it does (``native_names``).

Inductor puts frames of the lines it compiled around its own frame, and these are call sites like
any others. If it knew none, the line that called the compiled code is the call site, and its name
says so.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import classify_frames, is_compiled_file, most_telling_nodes
from snapreport.frames.native_names import native_words
from snapreport.ground.memoize import once_for_each
from snapreport.model.findings import LIBRARY, NODE, OUTSIDE
from snapreport.model.stacks import FrameTable, StackTable, short_name
from snapreport.model.tree_paths import lowest_on_path

COMPILED = "compiled code"
_KERNEL = re.compile(r"(?:triton|cpp|xpu|mps)_(?:[a-z]{1,8}_)?fused_(\w{1,400}?)_\d{1,9}$")


@once_for_each
def site_names(stacks: StackTable) -> list[str]:
    """Return the name of each frame as a call site, by frame id."""
    frames = stacks.frames
    compiled = _compiled_frames(frames)
    names = [function_of(frames, frame) for frame in range(len(frames))]
    for frame in np.flatnonzero(compiled).tolist():
        kernel = _KERNEL.match(names[frame][-500:])
        names[frame] = f"{COMPILED} for {kernel[1]}" if kernel else COMPILED
    if compiled.any():
        for frame in np.flatnonzero(_only_backward(stacks, compiled)).tolist():
            if names[frame] == COMPILED:
                names[frame] = f"{COMPILED}, backward pass"
        for frame in _callers(stacks, compiled).tolist():
            names[frame] = f"{COMPILED} called from {names[frame]}"
    return names


def function_of(frames: FrameTable, frame: int) -> str:
    """Return the function of a frame that is a call site; of C++, what the function does."""
    name = frames.names[frame]
    return native_words(name) if classify_frames(frames)[frame] >= NODE else short_name(name)


def _compiled_frames(frames: FrameTable) -> NDArray[np.bool_]:
    files = {name: is_compiled_file(name) for name in set(frames.filenames)}
    return np.array([files[name] for name in frames.filenames], np.bool_)


def _only_backward(stacks: StackTable, compiled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which compiled frames autograd alone calls; (n_frames,).

    Its threads have no frames of the program, so nothing else says what the code is for.
    """
    frames = stacks.frames
    kinds = classify_frames(frames)
    calls = np.array([name == "backward" for name in frames.names], np.bool_) & (kinds == LIBRARY)
    back = (calls | (kinds == NODE))[stacks.node_frame]
    inside = back[lowest_on_path(stacks.node_parent, (~back).astype(np.int8))]
    n = len(frames)
    found = np.bincount(stacks.node_frame[inside], minlength=n)
    only: NDArray[np.bool_] = (found > 0) & (found == np.bincount(stacks.node_frame, minlength=n))
    return compiled & only


def _callers(stacks: StackTable, compiled: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the frames outside of PyTorch that are call sites only of compiled code.

    A frame right around a compiled one is a line that was compiled, not one that called it.
    """
    kind = classify_frames(stacks.frames)[stacks.node_frame]
    parent = stacks.node_parent
    rank = np.where(compiled[stacks.node_frame], 0, 1)
    inner = lowest_on_path(parent, rank)  # the innermost compiled node of each path
    # Each node's nearest Python frame; the one above compiled code shows if its line is known.
    python = lowest_on_path(parent, np.where(kind <= LIBRARY, 0, 1))
    above = python[parent]
    known = (parent >= 0) & (kind[above] == OUTSIDE)
    ends = stacks.stack_node[stacks.stack_node >= 0]
    site, code = most_telling_nodes(stacks)[ends], inner[ends]
    called = (rank[code] == 0) & ~known[code] & (kind[site] == OUTSIDE)
    called &= stacks.node_depth[site] < stacks.node_depth[code]
    n = len(stacks.frames)
    of = stacks.node_frame[site]
    calls = np.bincount(of[called], minlength=n)
    return np.flatnonzero((calls > 0) & (calls == np.bincount(of, minlength=n)))

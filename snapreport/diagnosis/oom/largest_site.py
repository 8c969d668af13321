"""The call site without which the peak would be lowest, and the line of the program behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.situation import Situation
from snapreport.diagnosis.block_room import freed_by
from snapreport.diagnosis.oom.forward_lines import forward_sites
from snapreport.figures.callsites import label_sites, short_site, site_text
from snapreport.frames.frame_kinds import classify_frames, compiled_frames, is_own_file
from snapreport.frames.native_names import IN_CPP
from snapreport.frames.site_names import COMPILED_BACKWARD, is_hidden
from snapreport.ground.units import format_bytes, list_of
from snapreport.model.diagnoses import Suggestion
from snapreport.model.findings import MISSING_REASONS, NODE, DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import ACTIVATION
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import marks_on_path
from snapreport.model.what_if import WhatIf
from snapreport.native.sorting import is_among

_FEW = 2
"""Name the forward lines only if there are at most this many."""
_MUCH = 0.25
"""Compiled code is worth a suggestion if it holds this part of what is live."""
_WORTH = 0.05
"""A site whose removal lowers the peak by less than this part of it is not worth a suggestion."""


def begin_with(
    tables: History, device: DeviceFigures, by_site: Sequence[WhatIf]
) -> Iterator[Suggestion]:
    """Yield the call site to begin with, where one raises the peak enough.

    Args:
        by_site: the peak without each call site, the lowest first.
    """
    unknown = (*MISSING_REASONS, IN_CPP)
    known = [each for each in by_site if each.name not in unknown]
    if not known or known[0].falls < max(_WORTH * device.peak.allocated, 1):
        return
    best = known[0]
    stacks, path = tables.stacks, _path(tables, device, best.name)
    rows = device.history.allocations
    own = next((each for each in path if is_own_file(stacks.frames.filenames[each])), None)
    caller = "" if own is None else site_text(stacks, own)
    called = f", called from {short_site(caller)}" if caller not in ("", best.name) else ""
    if own is None:
        undone = _undone(stacks, path)
        places = [short_site(site_text(stacks, site)) for site in undone]
        called = f", whose forward is at {list_of(places, ' or ')}" if undone else ""
        own = undone[0] if len(undone) == 1 else None
    code = "" if own is None else stacks.frames.code(own)
    gone = _of_site(tables, device, best.name)
    most = (
        ", more than without those of any other call site"
        if len(known) > 1 and known[1].falls < best.falls
        else ""
    )
    yield Suggestion(
        "largest-site",
        f"Begin with {_article(best.name)}{short_site(best.name)}{called}:"
        f" without its allocations the peak would be {format_bytes(best.falls)} lower{most}."
        + (f" The line reads “{code}”." if code else ""),
        frees=freed_by(tables, device.history, gone, rows.alloc_event[gone]),
        sites=(best.name,),
    )


def look_into_compiled(
    tables: History, device: DeviceFigures, situation: Situation | None, event: int
) -> Iterator[Suggestion]:
    """Say how to see and lower what compiled code holds at an event, where that is much.

    Args:
        event: -1 for the start.
    """
    stacks, rows = tables.stacks, device.history.allocations
    live = np.flatnonzero(rows.live_at(event) & (rows.stack >= 0))
    compiled = compiled_frames(stacks.frames)
    if not compiled.any() or not len(live):
        return
    inside = marks_on_path(stacks.node_parent, compiled[stacks.node_frame].astype(np.int8)) != 0
    made = live[stacks.of_stacks(inside, none=False)[rows.stack[live]]]
    total = int(rows.block_size[live].sum())
    number, names = label_sites(device.history, stacks)
    hidden = np.array([is_hidden(name) for name in names], np.bool_)[number[made]]
    unseen = int(rows.block_size[made[hidden]].sum())
    if unseen >= _MUCH * total:
        yield Suggestion(
            "look-inside",
            f"Run a few steps once without the compiler: {format_bytes(unseen)} were made by"
            " compiled code, which hides the model's lines. A recording of such a run names them;"
            " its peak may be higher.",
            "TORCH_COMPILE_DISABLE=1 python train.py",
        )
    if situation is None or not situation.trains:
        return
    kept = int(rows.block_size[made[situation.of(ACTIVATION)[made]]].sum())
    if kept >= _MUCH * total:
        yield Suggestion(
            "activation-budget",
            "Let the compiler keep less for the backward pass, and compute more of it again:"
            f" {format_bytes(kept)} are kept by compiled code. 1 is the default, and 0 keeps only"
            " the inputs of what is compiled.",
            "torch._functorch.config.activation_memory_budget = 0.5  # before compiling",
        )


def _article(site: str) -> str:
    """Return what a sentence needs before the words for what a backward pass does."""
    of_backward = ("backward of ", "sum of ", "gradient ", COMPILED_BACKWARD)
    return "the " if site.startswith(of_backward) else ""


def _of_site(tables: History, device: DeviceFigures, site: str) -> NDArray[np.int64]:
    """Return the allocations of a call site."""
    number, names = label_sites(device.history, tables.stacks)
    numbers = [i for i, name in enumerate(names) if name == site]
    return np.flatnonzero(is_among(number, numbers))


def _path(tables: History, device: DeviceFigures, site: str) -> list[int]:
    """Return the frames of the call site's stack that holds most at the peak."""
    stacks, rows = tables.stacks, device.history.allocations
    mine = _of_site(tables, device, site)
    mine = mine[rows.live_at(device.peak.event)[mine]]
    mine = mine[rows.stack[mine] >= 0]
    if not len(mine):
        return []
    held = np.bincount(rows.stack[mine], weights=rows.block_size[mine])
    return list(stacks.path(int(held.argmax())))


def _undone(stacks: StackTable, path: list[int]) -> list[int]:
    """Return the forward call sites of the path's autograd node; none if there are many."""
    kinds = classify_frames(stacks.frames)
    node = next((frame for frame in path if kinds[frame] == NODE), None)
    found = [] if node is None else forward_sites(stacks, stacks.frames.names[node])
    return found if len(found) <= _FEW else []

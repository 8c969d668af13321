"""What held the memory at the peak, and what would lower it, where no request failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.planning import situation_of, suggest
from snapreport.diagnosis.advice.situation import Situation, layers_sentence
from snapreport.diagnosis.block_room import freed_by
from snapreport.diagnosis.finding_tables import HOLDERS, held_tables, top_table
from snapreport.figures.callsites import find_site_frames, label_sites, short_site, site_text
from snapreport.figures.what_if import Members, find_members, find_what_if
from snapreport.ground.later import Later, expression, later
from snapreport.ground.native.columns import is_among, unique
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import matched
from snapreport.ground.units import format_bytes, format_count, list_of, plural
from snapreport.model.answers import WhatIf
from snapreport.model.diagnoses import Figure, Finding, Suggestion, Table, View
from snapreport.model.findings import MISSING_REASONS, NODE, Amounts, DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import ACTIVATION
from snapreport.model.snapshot import StackTable, marks_on_path
from snapreport.roles.frames import (
    COMPILED_BACKWARD,
    IN_CPP,
    classify_frames,
    compiled_frames,
    is_hidden,
    is_own_file,
    plain_operator,
)
from snapreport.roles.passes import IN_BACKWARD, IN_OPTIMIZER, NO_GRAD, PYTHON, stack_marks
from snapreport.roles.steps import allocated_outline


def peak_finding(tables: History, device: DeviceFigures) -> Finding:
    """Say what held the memory at the allocated peak, and what would lower it.

    Without a history, the finding is about the state when the snapshot was written.
    """
    peak = device.peak
    size = format_bytes(peak.allocated)
    live = plural(peak.live, "allocation was", "allocations were")
    view = View(event=peak.event, curve="allocated")
    if not device.recorded:
        return Finding(
            "peak",
            "note",
            f"{size} allocated when the snapshot was written",
            f"{live} live. No history was recorded, so it is not known how high the peak was, nor"
            " whether a request for memory failed.",
            evidence=_figures(peak, peak.allocated_width),
            tables=held_tables(tables, device, peak.event, "Held"),
            view=view,
            bytes=peak.allocated,
        )
    where = "at the start" if peak.event < 0 else f"at event {format_count(peak.event)}"
    details = _Details(
        tables,
        device,
        later(lambda: situation_of(tables, device)),
        later(lambda: _without(device, find_members(tables, device.history, "site"))),
    )
    return Finding(
        "peak",
        "note",
        f"{size} allocated at the peak, {where}",
        later(
            lambda: (
                f"{live} live then. {details.layers()}{_no_failure(tables, device)}The tables show"
                " how far the peak would fall without each part: by less than the part held if"
                " another moment then becomes the peak."
            )
        ),
        evidence=_figures(peak, device.peaks["allocated"].width),
        tables=later(details.tables),
        suggestions=later(details.suggestions),
        view=view,
        bytes=peak.allocated,
    )


@dataclass(frozen=True, eq=False)
class _Details:
    """The long part of the finding about the peak, and most of the work for it."""

    file: History
    device: DeviceFigures
    situation: Later[Situation | None] = Later()
    by_site: Later[tuple[WhatIf, ...]] = Later()

    def layers(self) -> str:
        there = self.situation
        return layers_sentence(there, self.device.peak.event) if there is not None else ""

    def tables(self) -> tuple[Table, ...]:
        by_category = _without(self.device, _categories(self.device))
        return _what_if(self.by_site, "call site"), _what_if(by_category, "category")

    def suggestions(self) -> tuple[Suggestion, ...]:
        there, event = self.situation, self.device.peak.event
        return (
            *(suggest(there) if there is not None else ()),
            *look_into_compiled(self.file, self.device, there, event),
            *begin_with(self.file, self.device, self.by_site),
        )


def _without(device: DeviceFigures, members: Members) -> tuple[WhatIf, ...]:
    return find_what_if(device.history, members, allocated_outline(device.history))


def _no_failure(tables: History, device: DeviceFigures) -> str:
    """Say that no request failed, as far as that is known: profilers record no failures."""
    noted = tables.recorder
    if noted is not None and noted.cpu_failure is not None:
        return (
            "It was not a request for this device's memory that ended the program, but one for the"
            " CPU's, which is not in this recording. "
        )
    if device.history.device.kind == "cpu":
        return ""
    lost = any(each.code == "ring-overflowed" for each in device.warnings)
    where = "the part that was recorded" if lost else "this recording"
    return f"No request for memory failed on this device in {where}. "


def _figures(peak: Amounts, width: int) -> tuple[Figure, ...]:
    most = peak.allocated + width
    figures = [
        Figure("allocated", peak.allocated, meaning="in use by the program", most=most),
        Figure("requested", peak.requested, meaning="what the program asked for"),
        Figure("slack", peak.slack, meaning="what blocks hold beyond what was asked for"),
    ]
    if peak.reserved is not None:
        figures.append(Figure("reserved", peak.reserved, meaning="got from the driver by PyTorch"))
    if peak.inactive is not None:
        figures.append(
            Figure("inactive", peak.inactive, meaning="reserved, and free for later requests")
        )
    return tuple(figures)


def _what_if(found: Sequence[WhatIf], what: str) -> Table:
    rows = [each for each in found if each.falls]
    return top_table(
        f"The peak without a {what}",
        {"held": "bytes", "lower by": "bytes", "peak then": "bytes", "at event": "event",
         what: "text"},
        [(each.held, each.falls, each.peak_bytes, each.peak_event, each.name) for each in rows],
        HOLDERS,
    )  # fmt: skip


def _categories(device: DeviceFigures) -> Members:
    """Group allocations by the device's categories, which a user's rules may have defined."""
    number = device.category.astype(np.int64)
    return np.arange(len(number)), number, [category.name for category in device.categories]


# Where to begin: the call site without which the peak would be lowest, and the line behind it.


_FEW = 2
"""Name the forward lines only if there are at most this many."""
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


_NODE = expression(r"(?:^|::)(\w{1,80}?)Backward\d*(?:::|$)")
_OPERATOR = expression(r"(?:at::_ops::|VariableType::\(anonymous namespace\)::|^aten::)(\w{1,120})")


def forward_sites(stacks: StackTable, node: str) -> list[int]:
    """Return the call sites that call the operator of an autograd node in the forward pass.

    The engine runs backward in a thread without Python, so its stacks do not show which line of the
    program is being differentiated. But ``DivBackward0`` belongs to ``div``, and the stacks of the
    forward pass show which lines call ``div``.

    Only calls that allocate are known, not those that work in place or make a view.

    Args:
        stacks: of the file.
        node: such as ``torch::autograd::generated::DivBackward0::apply``.

    Returns:
        Frame ids, ascending.

    Source: PyTorch, tools/autograd/derivatives.yaml, whose nodes are named after their operators.
    """
    wanted = _NODE.search(matched(node).partition("(")[0])
    if wanted is None:
        return []
    operator = _plain(wanted[1])
    calls = np.array(
        [
            any(_plain(plain_operator(found)) == operator for found in _OPERATOR.findall(name))
            for name in map(matched, stacks.frames.names)
        ],
        np.int32,
    )
    if not calls.any():
        return []
    called = marks_on_path(stacks.node_parent, calls[stacks.node_frame])
    marks = stack_marks(stacks)[:-1]
    framed = (stacks.stack_node >= 0) & (marks & PYTHON != 0)
    framed &= marks & (IN_BACKWARD | IN_OPTIMIZER | NO_GRAD) == 0
    framed[framed] = called[stacks.stack_node[framed]] != 0
    return [int(each) for each in unique(find_site_frames(stacks)[framed].astype(np.int64))]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# What compiled code holds.


_MUCH = 0.25
"""Compiled code is worth a suggestion if it holds this part of what is live."""


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

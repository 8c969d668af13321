"""Compare two recordings at a moment of each, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.compare.diff_types import (
    EXACT,
    ONLY_BASE,
    ONLY_NEW,
    UNUSED,
    Change,
    Diff,
    DiffSide,
    Figure,
    Place,
    StageChange,
    find_accuracy,
    write_conclusion,
    write_notes,
)
from snapreport.diagnosis.compare.sites import (
    Site,
    SiteList,
    frame_sites,
    match_sites,
    number_places,
)
from snapreport.figures.callsites import find_site_frames
from snapreport.figures.curves import find_amounts, time_at
from snapreport.figures.grouping import label_allocations
from snapreport.ground.native.columns import sum_groups, unique
from snapreport.ground.records import dataclass
from snapreport.model.findings import MISSING_REASONS, CallTree, DeviceFigures, StageUse
from snapreport.model.history import History
from snapreport.model.roles import Rule
from snapreport.model.snapshot import UNKNOWN_LINE, FrameTable
from snapreport.roles.source_files import pair_files
from snapreport.roles.stack_kinds import HAS_FRAMES

Held = tuple[int, int]
"""Bytes and count."""
Labels = tuple[NDArray[np.int64], Sequence[Hashable]]
"""A number for each allocation, and what these numbers stand for."""


def find_diff(base: Side, new: Side, *, by: str, moment: str, rules: Sequence[Rule] | None) -> Diff:
    """Compare two recordings at a moment of each.

    The changes of the sites, of their parts, of the categories and of the groups each add up to the
    change of the curve. Memory without a call stack is named by the reason; for the reserved curve,
    what no allocation holds is a change of its own.

    Args:
        base: the earlier recording.
        new: the later recording, with the same curve.
        by: one of ``DIFF_GROUPINGS``.
        moment: how the two events were chosen, for the reader.
        rules: for categories; None for the built-in ones.
    """
    sides = (base, new)

    def grouped(by: str) -> tuple[Change, ...]:
        if by == "site":
            found = _compare_sites(*sides)
        elif by == "file":
            found = _compare_files(*sides)
        else:
            found = _compare_labels(sides, [side.labels(by, rules) for side in sides])
        return _sorted([*found, *_unused(*sides)])

    sites, categories = grouped("site"), grouped("category")
    groups = sites if by == "site" else categories if by == "category" else grouped(by)
    one, other, curve = base.summary(), new.summary(), base.curve
    parts = _sum_up(sites)
    accuracy = find_accuracy(one, other)
    return Diff(
        base=one,
        new=other,
        curve=curve,
        moment=moment,
        conclusion=write_conclusion(one, other, curve, moment, sites),
        notes=write_notes(one, other, curve),
        figures=tuple(_figures(one, other)),
        sites=sites,
        parts=parts,
        categories=categories,
        by=by,
        groups=groups,
        stages=_compare_stages(base.figures.stages, new.figures.stages),
        settings=_compare_settings(base.file, new.file),
        accuracy=accuracy,
        roles=grouped("role") if accuracy is not None else (),
    )


class Side:
    """What a device of one recording holds at a moment, by call site or group."""

    def __init__(self, file: History, figures: DeviceFigures, event: int, curve: str) -> None:
        """Take the device's figures, the moment's event (-1 for the start) and a curve."""
        self.file, self.figures = file, figures
        self.event, self.curve = event, curve
        rows = self.figures.history.allocations
        live = rows.live_at(self.event, "active" if curve == "reserved" else curve)
        self.live = np.flatnonzero(live)
        self.weight = rows.weights(curve)[self.live]
        self.bytes = int(self.figures.curves[curve][self.event + 1])
        self.number, self.sites = _list_sites(self.file, self.figures)

    def held(self, number: NDArray[np.int64], groups: int) -> list[tuple[int, int]]:
        """Return the live bytes and the live allocations of each group.

        Args:
            number: the group of every allocation of the device; int64, (n_allocations,).
            groups: how many groups there are.
        """
        held = sum_groups(number[self.live], self.weight, groups)
        count = np.bincount(number[self.live], minlength=groups)
        return list(zip(held.tolist(), count.tolist(), strict=True))

    def labels(self, by: str, rules: Sequence[Rule] | None) -> Labels:
        """Return the group of every allocation, and what these numbers stand for."""
        figures = self.figures
        if by == "category" and rules is None:  # already computed
            names = [category.name for category in figures.categories]
            return figures.category.astype(np.int64), names
        return label_allocations(self.file, figures.history, by, rules)

    def summary(self) -> DiffSide:
        """Return what a report says about this side."""
        figures = self.figures
        return DiffSide(
            file=self.file,
            figures=figures,
            event=self.event,
            time_us=time_at(figures.times, self.event),
            bytes=self.bytes,
            count=len(self.live),
            amounts=find_amounts(figures.history, figures.curves, figures.times, self.event),
        )


def _list_sites(file: History, figures: DeviceFigures) -> tuple[NDArray[np.int64], SiteList]:
    """Number each allocation by its site, or after the sites by why it has no stack."""
    rows, stacks = figures.history.allocations, file.stacks
    framed = figures.missing == HAS_FRAMES
    sites, site_frames = frame_sites(stacks), find_site_frames(stacks)
    of_stack = np.zeros(max(len(stacks), 1), np.int64)
    used: dict[Site, int] = {}
    for stack in unique(rows.stack[framed]).tolist():
        of_stack[stack] = used.setdefault(sites[site_frames[stack]], len(used))
    number = len(used) + figures.missing.astype(np.int64)
    number[framed] = of_stack[rows.stack[framed]]
    return number, SiteList(tuple(used), stacks)


def place_frames(diff: Diff) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the places in the code of all frames, as ``number_places`` does."""
    return number_places(
        *(_list_sites(side.file, side.figures)[1] for side in (diff.base, diff.new))
    )


# What differs: by call site, by group, in stages and settings.


def _compare_sites(base: Side, new: Side) -> list[Change]:
    held = [s.held(s.number, len(s.sites.sites) + len(MISSING_REASONS)) for s in (base, new)]
    changes = []
    for pair in match_sites(base.sites, new.sites):
        one, other = _total(held[0], pair.base), _total(held[1], pair.new)
        at_base = base.sites.sites[pair.base[0]] if pair.base else None
        at_new = new.sites.sites[pair.new[0]] if pair.new else None
        either = at_new or at_base
        assert either is not None
        changes.append(
            Change(
                name=either.function,
                kind="site",
                base_place=_place(at_base),
                new_place=_place(at_new),
                match=pair.match,
                base_bytes=one[0],
                new_bytes=other[0],
                base_count=one[1],
                new_count=other[1],
            )
        )
    for k, reason in enumerate(MISSING_REASONS):
        if k != HAS_FRAMES:
            one = held[0][len(base.sites.sites) + k]
            other = held[1][len(new.sites.sites) + k]
            changes.append(_change(reason, "no stack", one, other))
    return _in_use(changes)


def _place(site: Site | None) -> Place | None:
    if site is None:
        return None
    return Place(site.filename, None if site.line == UNKNOWN_LINE else site.line)


def _total(held: list[tuple[int, int]], places: Sequence[int]) -> tuple[int, int]:
    return sum(held[place][0] for place in places), sum(held[place][1] for place in places)


def _change(name: str, kind: str, base: Held, new: Held) -> Change:
    """Return the change of something matched by name; a side that holds nothing lacks it."""
    match = EXACT if base[1] and new[1] else ONLY_BASE if base[1] else ONLY_NEW
    return Change(name, kind, None, None, match, base[0], new[0], base[1], new[1])


def _in_use(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.base_count or change.new_count]


def _compare_files(base: Side, new: Side) -> list[Change]:
    """Compare by file, matched by ``pair_files`` and named as in NEW."""
    reasons: list[Hashable] = [("no stack", reason) for reason in MISSING_REASONS]
    names: dict[Hashable, str] = dict(zip(reasons, MISSING_REASONS, strict=True))
    labels: list[Labels] = []
    keys = pair_files(base.sites.filenames(), new.sites.filenames())
    for side, key in zip((base, new), keys, strict=True):
        files = [site.filename for site in side.sites.sites]
        names.update((key[file], file or "??") for file in files)
        labels.append((side.number, [*map(key.__getitem__, files), *reasons]))
    return _compare_labels((base, new), labels, names.__getitem__)


def _compare_labels(
    sides: tuple[Side, Side], labels: Sequence[Labels], name: Callable[[Hashable], str] = str
) -> list[Change]:
    """Compare groups with the same label; several numbers may have one label."""
    sums: dict[Hashable, list[int]] = {}
    for k, (side, (number, texts)) in enumerate(zip(sides, labels, strict=True)):
        for label, (held, count) in zip(texts, side.held(number, len(texts)), strict=True):
            total = sums.setdefault(label, [0, 0, 0, 0])
            total[2 * k] += held
            total[2 * k + 1] += count
    return _in_use(
        [
            _change(name(label), "group", (total[0], total[1]), (total[2], total[3]))
            for label, total in sums.items()
        ]
    )


def _unused(base: Side, new: Side) -> list[Change]:
    """Return the change of what a curve counts besides allocations: unused reserved memory."""
    rest = [side.bytes - int(side.weight.sum()) for side in (base, new)]
    if not any(rest):
        return []
    return [Change(UNUSED, "unused", None, None, EXACT, rest[0], rest[1], 0, 0)]


def _sum_up(sites: Sequence[Change]) -> tuple[Change, ...]:
    """Add up the sites in both, in only one, without a stack, and unused memory."""
    names = {
        EXACT: "call sites in both",
        ONLY_BASE: "call sites only in BASE",
        ONLY_NEW: "call sites only in NEW",
        "no stack": "without a call stack",
        "unused": UNUSED,
    }
    parts = []
    for key, name in names.items():
        of = [change for change in sites if _part(change) == key]
        if of:
            sums = (
                sum(getattr(change, field) for change in of)
                for field in ("base_bytes", "new_bytes", "base_count", "new_count")
            )
            match = key if key in (ONLY_BASE, ONLY_NEW) else EXACT
            parts.append(Change(name, of[0].kind, None, None, match, *sums))
    return tuple(parts)


def _part(change: Change) -> str:
    if change.kind != "site":
        return change.kind
    return change.match if change.match in (ONLY_BASE, ONLY_NEW) else EXACT


def _sorted(changes: list[Change]) -> tuple[Change, ...]:
    """Sort by size of the change, then by bytes, largest first, then by name."""
    return tuple(
        sorted(
            changes,
            key=lambda c: (-abs(c.change), -max(c.base_bytes, c.new_bytes), c.name, repr(c)),
        )
    )


def _figures(base: DiffSide, new: DiffSide) -> list[Figure]:
    """Return the curves' peaks, starts, averages and ends, and every amount at the moment."""
    one, other = base.figures, new.figures
    names = [name for name in ("allocated", "requested", "active", "reserved") if name in one.peaks]
    shared = [name for name in names if name in other.peaks]
    found = [
        Figure(name, "peak", one.peaks[name].bytes, other.peaks[name].bytes) for name in shared
    ]
    for when, field in (("start", "start"), ("average", "average"), ("end", "end")):
        for name in shared:
            values = [getattr(side.statistics[name], field) for side in (one, other)]
            found.append(Figure(name, when, *values))
    amounts = (*names, "slack", "inactive", "fragmentation")
    return found + [
        Figure(name, "moment", getattr(base.amounts, name), getattr(new.amounts, name))
        for name in amounts
    ]


def _compare_stages(
    base: tuple[StageUse, ...], new: tuple[StageUse, ...]
) -> tuple[StageChange, ...]:
    """Compare stages of the same name in their order; BASE's come first."""
    if not base or not new:
        return ()
    one, other = _numbered(base), _numbered(new)
    repeated = {name for name, number in (*one, *other) if number > 1}
    changes = []
    for key in (*one, *(key for key in other if key not in one)):
        at_base, at_new = one.get(key), other.get(key)
        either = at_base or at_new
        assert either is not None
        match = EXACT if at_base and at_new else ONLY_BASE if at_base else ONLY_NEW
        changes.append(
            StageChange(
                name=f"{key[0]}[{key[1]}]" if key[0] in repeated else key[0],
                depth=either.depth,
                match=match,
                base_peak=at_base.peak_bytes if at_base else None,
                new_peak=at_new.peak_bytes if at_new else None,
                base_change=at_base.change if at_base else None,
                new_change=at_new.change if at_new else None,
            )
        )
    return tuple(changes)


def _numbered(stages: tuple[StageUse, ...]) -> dict[tuple[str, int], StageUse]:
    counts: dict[str, int] = {}
    found = {}
    for stage in stages:
        counts[stage.name] = counts.get(stage.name, 0) + 1
        found[stage.name, counts[stage.name]] = stage
    return found


def _compare_settings(base: History, new: History) -> tuple[tuple[str, object, object], ...]:
    """Return the allocator settings that differ, if both files state settings."""
    one, other = base.settings, new.settings
    if not one or not other:
        return ()
    return tuple(
        (key, one.get(key), other.get(key))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    )


# The call trees of both, merged into one.


_BASE, _NEW = 0, 1


@dataclass(frozen=True, eq=False)
class ChangeTree:
    """Paths of both recordings, level by level, siblings with the largest change first.

    Paths are the same if their functions and files are; lines may have moved in an edit. A node's
    change is the sum of its children's and its own, and the root's is that of the curve.
    """

    parent: NDArray[np.int32]
    frame: NDArray[np.int32]
    """A row of the frames of ``side``; -1 for the root and for nodes without frames."""
    side: NDArray[np.int8]
    """Whose frame it is: 1 for the new recording, 0 for a path that only the base has."""
    label: dict[int, str]
    base: NDArray[np.int64]
    """Bytes in the base."""
    new: NDArray[np.int64]
    """Bytes in the new recording."""
    base_count: NDArray[np.int64]
    new_count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def change(self) -> NDArray[np.int64]:
        """NEW's bytes minus BASE's."""
        return self.new - self.base

    @property
    def bytes(self) -> NDArray[np.int64]:
        """The size of the change in either direction; siblings are ordered by it."""
        return np.abs(self.change)


def find_tree_change(
    base: CallTree, base_frames: FrameTable, new: CallTree, new_frames: FrameTable
) -> ChangeTree:
    """Merge one tree with the other.

    Args:
        base, new: trees of the same direction, both folded or neither.
        base_frames, new_frames: the frames of their files.
    """
    keys = pair_files(set(base_frames.filenames), set(new_frames.filenames))
    known: dict[tuple[int, object], int] = {}
    parent, frame, side = [-1], [-1], [_NEW]
    label = {0: new.label[0]}
    amounts: list[list[int]] = [[0, 0, 0, 0]]
    for which, tree, frames, files in (
        (_NEW, new, new_frames, keys[1]),
        (_BASE, base, base_frames, keys[0]),
    ):
        place = [0] * len(tree)
        parents, of = tree.parent.tolist(), tree.frame.tolist()
        held, count = tree.bytes.tolist(), tree.count.tolist()
        for node in range(len(tree)):
            if node:
                each = of[node]
                name: object = tree.label.get(node, "")
                if each >= 0:
                    name = frames.names[each], files[frames.filenames[each]]
                key = place[parents[node]], name
                there = known.get(key)
                if there is None:
                    there = known[key] = len(parent)
                    parent.append(key[0])
                    frame.append(each)
                    side.append(which)
                    amounts.append([0, 0, 0, 0])
                    if each < 0:
                        label[there] = tree.label[node]
                place[node] = there
            sums = amounts[place[node]]
            sums[which] += held[node]
            sums[2 + which] += count[node]
    return _in_order(np.array(parent), np.array(frame), np.array(side), label, np.array(amounts))


def _in_order(
    parent: NDArray[np.int64],
    frame: NDArray[np.int64],
    side: NDArray[np.int64],
    label: dict[int, str],
    amounts: NDArray[np.int64],
) -> ChangeTree:
    depth = np.zeros(len(parent), np.int64)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    change = np.abs(amounts[:, _NEW] - amounts[:, _BASE])
    order = np.lexsort((-amounts.max(axis=1), -change, parent, depth))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return ChangeTree(
        parent=np.where(parent[order] < 0, -1, place[parent[order]]).astype(np.int32),
        frame=frame[order].astype(np.int32),
        side=side[order].astype(np.int8),
        label={int(place[node]): text for node, text in label.items()},
        base=amounts[order, _BASE],
        new=amounts[order, _NEW],
        base_count=amounts[order, 2 + _BASE],
        new_count=amounts[order, 2 + _NEW],
    )

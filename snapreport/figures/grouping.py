"""Allocations grouped by what they have in common: a stack, a file, a role, a size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.figures.callsites import find_site_frames, label_sites, site_text
from snapreport.figures.questions import change_between, find_rows
from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.native.columns import distinct, medians, sum_groups, unique
from snapreport.ground.patterns import compile_filter
from snapreport.ground.units import format_bytes
from snapreport.model.answers import (
    NO_FORWARD,
    NONE,
    Group,
    GroupChange,
    LineUse,
)
from snapreport.model.asked import (
    GROUPINGS,
    KEYED,
    Question,
)
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.roles import ROLES, Rule
from snapreport.model.snapshot import (
    GRADIENT_OF,
    NO_ID,
    FrameTable,
    StackTable,
    lowest_on_path,
    pool_name,
)
from snapreport.names.short_paths import short_names
from snapreport.roles.frames import (
    classify_frames,
    compiled_frames,
    frame_words,
    function_of,
    site_names,
    stand_ins,
)
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.stack_kinds import HAS_FRAMES, classify, missing_reason

BEFORE_RECORDING = MISSING_REASONS[1]
OUTSIDE_STAGES = "outside stages"
MOST_KEYS = 8
"""Keys of metadata that are offered as groupings: the most frequent ones."""
_LAST = 100
Labels = tuple["NDArray[np.int64]", list[str]]
"""A number for each allocation, and a text for each number."""


def find_groups(
    file: History,
    history: DeviceHistory,
    asked: Question,
    by: str,
    rules: Sequence[Rule] | None = None,
) -> tuple[Group, ...]:
    """Return what is asked for, grouped, most bytes first; of what is live, the sum is the curve.

    Args:
        file: the tables of the file.
        history: the device.
        asked: its curve is ``requested``, ``allocated`` or ``active``.
        by: one of ``GROUPINGS``.
        rules: for ``category``, instead of the built-in ones.
    """
    rows = history.allocations
    chosen = find_rows(rows, asked)
    number, names = label_allocations(file, history, by, rules)
    found = group_up(rows, chosen, number[chosen], names, asked.curve, file.stacks)
    if by != "stack":
        return found
    stack = {names[k]: i for k, i in zip(number[chosen], rows.stack[chosen].tolist(), strict=True)}
    return tuple(replace(group, stack=stack[group.name]) for group in found)


def find_changes(
    file: History,
    history: DeviceHistory,
    span: tuple[int, int],
    by: str,
    curve: str = "allocated",
    rules: Sequence[Rule] | None = None,
) -> tuple[GroupChange, ...]:
    """Return what came and went between two events, grouped, the largest change first.

    The changes add up to that of the curve, to the byte.

    Args:
        file: the tables of the file.
        history: the device.
        span: the two events, in order; -1 for the start.
        by: one of ``GROUPINGS``.
        curve: ``requested``, ``allocated`` or ``active``.
        rules: for ``category``, instead of the built-in ones.
    """
    rows = history.allocations
    number, names = label_allocations(file, history, by, rules)
    columns: list[NDArray[np.int64]] = []
    for asked in change_between(*span, curve):
        chosen = find_rows(rows, asked)
        group = number[chosen]
        columns.append(sum_groups(group, rows.weights(curve)[chosen], len(names)))
        columns.append(np.bincount(group, minlength=len(names)))
    found = zip(names, *(column.tolist() for column in columns), strict=True)
    changes = [
        GroupChange(name, came - went, came, went, came_count, went_count)
        for name, came, came_count, went, went_count in found
        if came_count or went_count
    ]
    return tuple(sorted(changes, key=lambda each: (-abs(each.change), -each.came, each.name)))


def group_up(
    rows: Allocations,
    chosen: NDArray[np.int64],
    number: NDArray[np.integer],
    names: Sequence[str],
    curve: str,
    stacks: StackTable | None = None,
) -> tuple[Group, ...]:
    """Return the groups of some allocations, most bytes first; empty ones are left out.

    Args:
        rows: of the device.
        chosen: int64, shape (n,): which of them.
        number: integers, shape (n,): the group of each.
        names: of the groups.
        curve: whose bytes count.
        stacks: the tables of the file; without them, no part is of the backward pass.
    """
    held, requested = (
        sum_groups(number, of[chosen], len(names)) for of in (rows.weights(curve), rows.size)
    )
    backward = np.zeros(len(names), np.int64)
    if stacks is not None and len(label_forward(stacks)[1]) > 1:
        behind = label_forward(stacks)[0][rows.stack[chosen]] > 0
        backward = sum_groups(number, rows.weights(curve)[chosen] * behind, len(names))
    columns = (held, requested, np.bincount(number, minlength=len(names)), backward)
    found = zip(names, *(column.tolist() for column in columns), strict=True)
    groups = [
        Group(name, size, asked, count, backward=back)
        for name, size, asked, count, back in found
        if count
    ]
    return tuple(sorted(groups, key=lambda group: -group.bytes))


def label_allocations(
    file: History, history: DeviceHistory, by: str, rules: Sequence[Rule] | None = None
) -> Labels:
    """Give every allocation of a device its group.

    Returns:
        int64, shape (n_allocations,), and the texts that these numbers stand for.

    Raises:
        ValueError: ``by`` is not one of ``GROUPINGS``.
    """
    rows = history.allocations
    if by not in GROUPINGS and not by.startswith(KEYED):
        raise ValueError(f"by is {by!r}, not one of {', '.join(GROUPINGS)}, {KEYED}KEY")
    if by == "site":
        return _joined(*label_sites(history, file.stacks))
    if by in ("stack", "line", "file", "function", "module"):
        return _by_frames(file.stacks, history, by)
    if by == "category":
        number, categories = classify(file, history, rules)
        return number.astype(np.int64), [category.name for category in categories]
    if by == "role":
        return find_roles(history, file).role.astype(np.int64), list(ROLES)
    if by == "stage":
        return _by_stage(history)
    if by == "size":
        power = np.frexp(np.maximum(rows.size, 1).astype(np.float64))[1] - 1
        return _compact(power.astype(np.int64), _size_class)
    if by == "stream":
        return _compact(rows.stream, lambda stream: "default" if stream == 0 else hex(stream))
    if by == "pool":
        pools = [pool_name(pool) for pool in file.pools]
        return _compact(rows.pool, lambda row: pools[row] if row != NO_ID else "unknown")
    texts = file.strings
    if by == "forward":
        forward, lines = label_forward(file.stacks)
        return _compact(forward[rows.stack], lines.__getitem__)
    if by == "layer":
        return _by_layer(file.stacks, history)
    if by.startswith(KEYED):
        return _by_keys(rows, texts, [by.removeprefix(KEYED)])[0]
    column = rows.metadata if by == "metadata" else rows.compile_context
    return _compact(column, lambda row: texts[row] if row != NO_ID else NONE)


def _compact(values: NDArray[Any], name: Callable[[int], str]) -> Labels:
    used, number = distinct(values)
    return number.astype(np.int64), [name(value) for value in used.tolist()]


def _size_class(power: int) -> str:
    return f"{format_bytes(2**power)} to {format_bytes(2 ** (power + 1))}"


def _by_stage(history: DeviceHistory) -> Labels:
    """The innermost stage that each allocation was made in."""
    stages = history.stages
    inside = np.full(history.events + 1, -1, np.int64)
    for i in np.argsort(stages.depth, kind="stable").tolist():  # inner ones overwrite outer ones
        inside[max(int(stages.start_event[i]), 0) : max(int(stages.end_event[i]), 0)] = i
    born = history.allocations.alloc_event
    stage = np.where(born == START, -2, inside[np.maximum(born, 0)])
    names: dict[str, int] = {}
    used, place = distinct(stage)
    fixed = {-2: BEFORE_RECORDING, -1: OUTSIDE_STAGES}
    numbers = [names.setdefault(fixed.get(i) or stages.name[i], len(names)) for i in used.tolist()]
    return np.array(numbers, np.int64)[place], list(names)


def _by_frames(stacks: StackTable, history: DeviceHistory, by: str) -> Labels:
    """By the stack, or by what its call site is in; the reason where there are no frames."""
    rows, frames = history.allocations, stacks.frames
    reason = missing_reason(history, stacks)
    framed = reason == HAS_FRAMES
    names: dict[str, int] = {}
    stack_label = np.zeros(max(len(stacks), 1), np.int64)
    sites, words = find_site_frames(stacks), frame_words(stacks)
    compiled = compiled_frames(frames)
    lines = source_lines(stacks) if by == "line" else None
    # Whether paths are kept makes no difference to modules.
    short = short_names(set(frames.filenames)).names if by == "module" else {}
    for stack in unique(rows.stack[framed]).tolist():
        site = int(sites[stack])
        if by == "stack":
            text = " < ".join(_from_site(stacks, stack, site))
            text = f"{text} #{stack}" if text in names else text
        elif lines is not None:
            text = lines[site]
        elif compiled[site]:
            text = words[site]
        elif by == "function":
            text = function_of(frames, site)
        else:
            text = (
                frames.filenames[site] if by == "file" else module_of(short[frames.filenames[site]])
            )
        stack_label[stack] = names.setdefault(text or "unknown file", len(names))
    number = np.zeros(len(rows), np.int64)
    number[framed] = stack_label[rows.stack[framed]]
    for k in unique(reason[~framed]).tolist():
        number[reason == k] = names.setdefault(MISSING_REASONS[k], len(names))
    return number, list(names)


def _from_site(stacks: StackTable, stack: int, site: int) -> list[str]:
    """Return a stack's functions from its call site outward; the frames inside add nothing."""
    path, words, stands = list(stacks.path(stack)), frame_words(stacks), stand_ins(stacks)
    inside = next(k for k, frame in enumerate(path) if stands[frame] == site)
    return [words[frame] for frame in path[inside:]]


_ROOTS = expression(r"^(~\(?\d*\)?|(site|dist)-packages|python3[^/]*|ipykernel_\d+)/")


def module_of(filename: str) -> str:
    """Name the module that a file is, as an import would; else the file's own name.

    Args:
        filename: a short one, as from ``short_names()``.
    """
    text = _ROOTS.sub("", filename)
    if not text.endswith(".py") or re.match(r"[/\\]|[A-Za-z]:|\.", text):
        text = re.split(r"[/\\]", text)[-1]
    text = re.sub(r"\.py$", "", text)
    return re.sub(r"[/\\]", ".", re.sub(r"[/\\]__init__$", "", text))


# Forward lines and layers, and what metadata says.


@once_for_each
def label_forward(stacks: StackTable) -> Labels:
    """Give every stack the forward line behind it; the first name is for stacks without.

    The line is chosen as a call site is.

    Returns:
        int64, shape (n_stacks + 1,), the last for NO_STACK, -1; and the names.
    """
    forward = stacks.frames.of_forward()
    if not forward.any():
        return shared(np.zeros(len(stacks) + 1, np.int64)), [NO_FORWARD]
    ranks = np.where(forward, classify_frames(stacks.frames), _LAST)[stacks.node_frame]
    best = lowest_on_path(stacks.node_parent, ranks)
    frame = np.where(ranks[best] < _LAST, stacks.node_frame[best], -1)
    of_stacks = stacks.of_stacks(frame.astype(np.int64))
    used, number = distinct(np.append(of_stacks, -1))
    names = [site_text(stacks, each) for each in used.tolist() if each >= 0]
    names = [name.removeprefix(GRADIENT_OF) for name in names]
    return shared(number), [NO_FORWARD, *names]


def _by_layer(stacks: StackTable, history: DeviceHistory) -> Labels:
    """By the forward line behind a gradient, and else by the call site."""
    number, sites = label_sites(history, stacks)
    of_stack, lines = label_forward(stacks)
    forward = of_stack[history.allocations.stack]
    return _joined(np.where(forward > 0, len(sites) + forward, number), [*sites, *lines])


def _joined(number: NDArray[np.int64], names: Sequence[str]) -> Labels:
    """Make one group of those that share a name, and leave out those that nothing is in."""
    places: dict[str, int] = {}
    at = [places.setdefault(name, len(places)) for name in names]
    return _compact(np.array(at, np.int64)[number], list(places).__getitem__)


def own_labels(file: History, history: DeviceHistory) -> tuple[tuple[str, Labels], ...]:
    """Return the groupings that only some recordings have, by name; none that has one group.

    They are the layers and forward lines, where there are gradients with such lines, and the keys
    of metadata. NO_FORWARD and NONE are for what is in no group.
    """
    rows = history.allocations
    lines = ("layer", "forward") if label_forward(file.stacks)[0][rows.stack].any() else ()
    keys = metadata_keys(file, history)
    found = [(by, label_allocations(file, history, by)) for by in lines]
    for key, labels in zip(keys, _by_keys(rows, file.strings, keys), strict=True):
        found.append((KEYED + key, labels))
    return tuple((by, labels) for by, labels in found if len(labels[1]) > 1)


def metadata_keys(file: History, history: DeviceHistory) -> list[str]:
    """Return the keys of a device's metadata, those of the most allocations first."""
    used, count = np.unique(history.allocations.metadata, return_counts=True)
    keys: Counter[str] = Counter()
    for row, often in zip(used.tolist(), count.tolist(), strict=True):
        if row != NO_ID:
            keys.update(dict.fromkeys(metadata_fields(file.strings[row]), often))
    return [key for key, _ in sorted(keys.items(), key=lambda each: (-each[1], each[0]))][
        :MOST_KEYS
    ]


def metadata_fields(text: str) -> dict[str, str]:
    """Return what an allocation's metadata says as JSON, by key; later lines win.

    PyTorch writes a mapping as one line of JSON; other text has no keys.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("{"):
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            for key, value in fields.items():
                found[key] = value if isinstance(value, str) else _as_text(value)
    return found


def _as_text(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested deeper than it writes
        return "[…]" if isinstance(value, list) else "{…}"


def _by_keys(rows: Allocations, texts: Sequence[str], keys: Sequence[str]) -> list[Labels]:
    """Group by each of some keys of metadata; each text is parsed once for all of them."""
    used, place = distinct(rows.metadata)
    names: list[dict[str, int]] = [{} for _ in keys]
    number = np.empty((len(keys), len(used)), np.int64)
    for i, row in enumerate(used.tolist()):
        fields = metadata_fields(texts[row]) if row != NO_ID else {}
        for k, (key, known) in enumerate(zip(keys, names, strict=True)):
            number[k, i] = known.setdefault(fields.get(key, NONE), len(known))
    return [(number[k][place], list(known)) for k, known in enumerate(names)]


# Memory by source line, as a line-by-line memory tracer prints it.


NO_MATCH = "no matching frame"
"""The location of allocations that have frames, none of which matches."""
_NONE = -1


def find_lines(
    history: DeviceHistory,
    stacks: StackTable,
    asked: Question,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[LineUse, ...]:
    """Return every source line that has some of what is asked for, most bytes first.

    The bytes sum to those of all of it, such as the curve at a moment: allocations without frames,
    or without a matching frame, are on a separate line named after the reason.

    Args:
        history: the device.
        stacks: the tables of the file.
        asked: its curve is ``requested``, ``allocated`` or ``active``.
        include: patterns for files (``compile_pattern``); the innermost frame of a matching file
            is the allocation's line. Without any pattern it is the call site.
        exclude: patterns for files that never match, even if included.

    Raises:
        PatternError: a pattern is not valid.
    """
    rows = history.allocations
    weight = rows.weights(asked.curve)
    key = _keys(history, stacks, _line_frames(stacks, include, exclude))
    keys, group = distinct(key)
    chosen = find_rows(rows, asked)
    count = np.bincount(group[chosen], minlength=len(keys))
    held = sum_groups(group[chosen], weight[chosen], len(keys))
    total = sum_groups(group, weight, len(keys))
    middle = medians(weight[chosen], group[chosen], len(keys))
    smallest = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(smallest, group[chosen], weight[chosen])
    shown = np.flatnonzero(count)
    shown = shown[np.lexsort((keys[shown], -held[shown]))]
    below = np.cumsum(held[shown])
    return tuple(
        _line(
            stacks,
            int(keys[i]),
            (int(held[i]), int(running), int(middle[i]), int(smallest[i]), int(count[i])),
            int(total[i]),
            bool(include or exclude),
        )
        for i, running in zip(shown, below, strict=True)
    )


def _keys(
    history: DeviceHistory, stacks: StackTable, line_frame: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return each allocation's line: a frame id, or n_frames plus the reason for having none."""
    rows, n_frames = history.allocations, len(stacks.frames)
    reason = missing_reason(history, stacks)
    key = n_frames + reason.astype(np.int64)
    framed = reason == HAS_FRAMES  # their key until now, n_frames, means "no matching frame"
    found = line_frame[rows.stack[framed]].astype(np.int64)
    key[framed] = np.where(found == _NONE, n_frames, _first_of_line(stacks.frames)[found])
    return key


def _first_of_line(frames: FrameTable) -> NDArray[np.int64]:
    """Return the first frame with each frame's file and line; int64, (n_frames,).

    If the line is not known, the first with the same file and function. A line's own frame comes
    before that of its gradients.
    """
    first: dict[tuple[str, int | None, str], int] = {}
    keys = []
    for i, filename in enumerate(frames.filenames):
        line = frames.line(i)
        keys.append((filename, line, frames.names[i] if line is None else ""))
    for i in np.argsort(frames.of_forward(), kind="stable").tolist():
        first.setdefault(keys[i], i)
    return np.array([first[key] for key in keys], np.int64)


def _line_frames(
    stacks: StackTable, include: Sequence[str], exclude: Sequence[str]
) -> NDArray[np.int32]:
    """The frame of each stack's source line, -1 where none matches; int32, (n_stacks,)."""
    if not include and not exclude:
        return find_site_frames(stacks)
    matches = compile_filter(include, exclude)
    by_file = {name: matches(name) for name in set(stacks.frames.filenames)}
    fits = np.array([by_file[name] for name in stacks.frames.filenames], np.bool_)
    rank = np.where(fits, 0, 1)[stacks.node_frame]
    best = lowest_on_path(stacks.node_parent, rank)  # the innermost that fits
    line = np.where(rank[best] == 0, stacks.node_frame[best], _NONE)
    return stacks.of_stacks(line.astype(np.int32), _NONE)


def source_lines(stacks: StackTable) -> list[str]:
    """Return ``file:line`` of every frame; its file or function where no line is known.

    Compiled code has the name of its call site.
    """
    frames, names = stacks.frames, site_names(stacks)
    compiled = compiled_frames(frames).tolist()
    return [names[i] if compiled[i] else _location(frames, i) for i in range(len(frames))]


def _location(frames: FrameTable, frame: int) -> str:
    line, filename = frames.line(frame), frames.filenames[frame]
    if line is not None:
        return f"{filename}:{line}"
    return filename if filename.endswith(".py") else function_of(frames, frame)


def _line(
    stacks: StackTable, key: int, live: tuple[int, int, int, int, int], total: int, chosen: bool
) -> LineUse:
    """Put a line in a record; ``chosen`` lines, of files asked for, are named even if generated."""
    frames = stacks.frames
    if key >= len(frames):
        reason = MISSING_REASONS[key - len(frames)] or NO_MATCH
        return LineUse(reason, "", "", None, *live, total)
    if compiled_frames(frames)[key] and not chosen:
        return LineUse(site_names(stacks)[key], "", "", None, *live, total)
    name, location = function_of(frames, key), _location(frames, key)
    place, source = (location, name, frames.filenames[key], frames.line(key)), frames.code(key)
    return LineUse(*place, *live, total, source)

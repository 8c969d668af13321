"""Live allocations grouped by what they have in common: a stack, a file, a role, a size."""

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
from snapreport.figures.line_memory import source_lines
from snapreport.frames.categories import classify
from snapreport.frames.frame_kinds import classify_frames, compiled_frames
from snapreport.frames.missing_stacks import HAS_FRAMES, missing_reason
from snapreport.frames.site_names import frame_words, function_of, stand_ins
from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.units import format_bytes
from snapreport.model.answer_tables import GROUPINGS, KEYED, NO_FORWARD, NONE, Group
from snapreport.model.category_rules import Rule
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import NO_ID, pool_name
from snapreport.model.stacks import GRADIENT_OF, StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.names.short_paths import short_names
from snapreport.native.sorting import distinct, sum_groups, unique
from snapreport.roles.lifetimes import find_roles

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
    event: int,
    by: str,
    curve: str = "allocated",
    rules: Sequence[Rule] | None = None,
) -> tuple[Group, ...]:
    """Return what is live after an event, grouped, most bytes first; the sum is the curve there.

    Args:
        file: the tables of the file.
        history: the device.
        event: -1 for the start.
        by: one of ``GROUPINGS``.
        curve: ``requested``, ``allocated`` or ``active``.
        rules: for ``category``, instead of the built-in ones.
    """
    rows = history.allocations
    live = np.flatnonzero(rows.live_at(event, curve))
    number, names = label_allocations(file, history, by, rules)
    found = group_up(rows, live, number[live], names, curve, file.stacks)
    if by != "stack":
        return found
    stack = {names[k]: i for k, i in zip(number[live], rows.stack[live].tolist(), strict=True)}
    return tuple(replace(group, stack=stack[group.name]) for group in found)


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
    places: dict[str, int] = {}
    at = [places.setdefault(name, len(places)) for name in (*sites, *lines)]
    chosen = np.where(forward > 0, len(sites) + forward, number)
    return _compact(np.array(at, np.int64)[chosen], list(places).__getitem__)


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


_ROOTS = re.compile(r"^(~\(?\d*\)?|(site|dist)-packages|python3[^/]*|ipykernel_\d+)/")


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

"""Lines up two recordings of a program: a real one and a forecast.

Both are sequences of allocations. Two of them belong together if they have the same size and come
from the same operator. What one sequence has alone must be explained by the operator that made it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

_CALLED = re.compile(r"at::_ops::(\w+)::call.*")
_NODE = re.compile(r"(?:torch::autograd::generated::)?(\w*Backward\d+)(?:::apply.*)?")
_LIBRARY = ("/torch/", "/tests/forecast/", "/tests/laboratory/recording.py")
MAKERS = ("empty", "empty_memory_format", "empty_strided", "resize_")
"""Operators that make a tensor, and nothing else."""
_IN_ANY_ORDER = ("convolution_backward", "native_batch_norm_backward")
"""Operators whose results are made in an order that depends on the library that computes them."""
_AHEAD = 64
"""Allocations that are skipped at most, where nothing explains them, to find a match again."""


@dataclass(frozen=True)
class Row:
    """An allocation."""

    bytes: int
    operators: tuple[str, ...]
    """The operators that were running, innermost first, as ``mm``; overloads are left out."""
    node: str
    """The node of autograd's graph that was running, such as ``MmBackward0``; empty for none."""
    site: tuple[str, str]
    """File and function of the program that called, innermost; empty in autograd's thread."""
    line: int
    """The line, 0 if only that of the function is known."""
    inner: tuple[str, str]
    """Path and function, innermost, be it PyTorch's; empty for none."""
    freed: int | None
    """How many allocations had been made when it was freed; None if it never was."""
    number: int
    """How many had been made before it."""
    within: bool = False
    """Whether it was freed before an allocation outside of the outermost operator."""
    copied: bool = False
    """Whether the operator's result is a copy of it, made next."""

    @property
    def lasted(self) -> int | None:
        """How many allocations were made during its life, itself included; None if it remains."""
        return None if self.freed is None else self.freed - self.number


@dataclass
class LinedUp:
    """Two sequences beside one another."""

    real: Sequence[Row]
    made: Sequence[Row]
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """Rows that belong together."""
    explained: Counter[str] = field(default_factory=Counter)
    """Rows that one of them has alone, by what explains them."""
    unexplained: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Pairs whose call sites differ."""
    otherwise_freed: list[str] = field(default_factory=list)
    """Pairs that are freed at another moment."""

    @property
    def same(self) -> bool:
        """Whether nothing is left unexplained."""
        return not (self.unexplained or self.elsewhere or self.otherwise_freed)


def rows_of(snapshot: Mapping[str, Any], device: int | None = None) -> list[Row]:
    """Return the allocations of a device's trace; by default the longest trace."""
    traces = snapshot["device_traces"]
    trace = max(traces, key=len) if device is None else traces[device]
    begun: list[tuple[int, list[Any]]] = []
    freed: dict[int, int] = {}
    live: dict[int, int] = {}
    for event in trace:
        if event["action"] == "alloc":
            live[event["addr"]] = len(begun)
            begun.append((event["size"], event["frames"]))
        elif event["action"] == "free_requested" and event["addr"] in live:
            freed[live.pop(event["addr"])] = len(begun)
    known: dict[int, dict[str, Any]] = {}
    rows = []
    for place, (size, frames) in enumerate(begun):
        if id(frames) not in known:
            known[id(frames)] = _place(frames)
        rows.append(Row(size, freed=freed.get(place), number=place, **known[id(frames)]))
    found: list[Row] = []
    for row in rows:
        if found and found[-1].copied:
            found.append(row)  # the copy is the result
            continue
        within = _is_within(row, rows)
        found.append(replace(row, within=within, copied=within and _is_copied(row, rows)))
    return found


def _is_copied(row: Row, rows: Sequence[Row]) -> bool:
    after = rows[row.number + 1 : row.freed][:1]
    plain = "clone" not in row.operators
    return plain and any("clone" in each.operators and each.bytes == row.bytes for each in after)


def _is_within(row: Row, rows: Sequence[Row]) -> bool:
    if row.freed is None or not row.operators:
        return False
    outermost = row.operators[-1]
    return all(other.operators[-1:] == (outermost,) for other in rows[row.number : row.freed])


def _place(frames: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    operators, node, site, line, inner = [], "", ("", ""), 0, ("", "")
    for frame in frames:
        name, file = frame["name"], frame["filename"]
        if not file.endswith(".py"):
            if called := _CALLED.fullmatch(name):
                operators.append(called[1])
            elif name.startswith("aten::"):
                operators.append(name.removeprefix("aten::"))
            elif not node and (found := _NODE.fullmatch(name)):
                node = found[1]
            continue
        here = (PurePath(file).name, name)
        if inner == ("", "") and not file.endswith("/torch/utils/_device.py"):
            inner = (file, name)
        if not any(each in file for each in _LIBRARY):
            site, line = here, 0 if "line_is" in frame else frame["line"]
            break
    return {
        "operators": tuple(operators), "node": node, "site": site, "line": line, "inner": inner,
    }  # fmt: skip


Explains = Callable[[Row], str]
"""Says why one sequence has a row alone; empty if it should not."""


def _nothing(_: Row) -> str:
    return ""


def line_up(
    real: Sequence[Row],
    made: Sequence[Row],
    in_real: Explains = _nothing,
    in_made: Explains = _nothing,
    never_made: Explains = _nothing,
) -> LinedUp:
    """Line up a real recording and a forecast.

    Args:
        real: allocations of the recording.
        made: those of the forecast.
        in_real: explains what the recording may have alone.
        in_made: explains what the forecast may have alone.
        never_made: explains what the recording always has alone, be there an equal row or not.
    """
    lined = LinedUp(real, made)
    made = in_one_order(made)
    lined.explained.update(f"real: {why}" for row in real if (why := never_made(row)))
    real = in_one_order([row for row in real if not never_made(row)])
    i = j = 0
    while i < len(real) or j < len(made):
        if i < len(real) and j < len(made) and _belong(real[i], made[j]):
            lined.pairs.append((real[i].number, made[j].number))
            i, j = i + 1, j + 1
        elif i < len(real) and (why := in_real(real[i])):
            lined.explained[f"real: {why}"] += 1
            i += 1
        elif j < len(made) and (why := in_made(made[j])):
            lined.explained[f"forecast: {why}"] += 1
            j += 1
        else:
            skipped_i, skipped_j = _next_match(real, made, i, j)
            lined.unexplained += [f"real: {real[n]}" for n in range(i, skipped_i)]
            lined.unexplained += [f"forecast: {made[n]}" for n in range(j, skipped_j)]
            i, j = skipped_i, skipped_j
    _compare_pairs(lined)
    return lined


def in_one_order(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the largest first of those that one operator of ``_IN_ANY_ORDER`` makes."""
    found: list[Row] = []
    group: list[Row] = []
    for row in rows:
        unordered = any(each in _IN_ANY_ORDER for each in row.operators)
        if group and not (unordered and row.operators[-1] == group[-1].operators[-1]):
            found += sorted(group, key=lambda each: -each.bytes)
            group = []
        (group if unordered else found).append(row)
    return found + sorted(group, key=lambda each: -each.bytes)


def _belong(real: Row, made: Row) -> bool:
    if real.bytes != made.bytes:
        return False
    if not made.operators or not real.operators:
        return made.operators == real.operators
    if made.operators[0] == "resize_":
        return True  # of a result that was made empty: the CPU's operator has it filled
    if made.operators[0] in MAKERS:
        return real.operators[0] in (*MAKERS, "scalar_tensor")
    for each in real.operators:
        if _is_overload(made.operators[0], each):
            return True
        if each in ("_to_copy", "clone") and real.within:
            return False  # of an argument
    return False


def _is_overload(name: str, operator: str) -> bool:
    """Say whether a function such as ``add_Tensor`` is one of an operator's, such as ``add``."""
    return name == operator or name.startswith(f"{operator}_")


def _next_match(real: Sequence[Row], made: Sequence[Row], i: int, j: int) -> tuple[int, int]:
    """Return the nearest places from which three rows match."""
    for total in range(1, 2 * _AHEAD):
        for skipped in range(total + 1):
            at, beside = i + skipped, j + total - skipped
            ahead = [*zip(real[at : at + 3], made[beside : beside + 3], strict=False)]
            if ahead and all(_belong(*each) for each in ahead):
                return at, beside
    return len(real), len(made)


def _compare_pairs(lined: LinedUp) -> None:
    """Note the pairs of which call site or lifetime differ.

    When one is freed is counted in pairs, as the rest has no counterpart.
    """
    first = {i: n for n, (i, _) in enumerate(lined.pairs)}
    second = {j: n for n, (_, j) in enumerate(lined.pairs)}
    in_real = _counted(first, len(lined.real))
    in_made = _counted(second, len(lined.made))
    for n, (i, j) in enumerate(lined.pairs):
        one, other = lined.real[i], lined.made[j]
        where = f"{n} ({i}, {j}): {one.bytes} {one.operators[:2]} {one.node} {one.site} {one.line}"
        in_engine = other.site == ("", "")  # on a card it has a thread of its own
        if one.node != other.node or (not in_engine and one.site != other.site):
            lined.elsewhere.append(f"{where}, not {other.node} {other.site}")
        elif one.line and other.line and not in_engine and one.line != other.line:
            lined.elsewhere.append(f"{where}, not {other.line}")
        ends = (
            None if one.freed is None else in_real[one.freed],
            None if other.freed is None else in_made[other.freed],
        )
        if ends[0] != ends[1]:
            lined.otherwise_freed.append(f"{where}: freed at {ends[0]}, in the forecast {ends[1]}")


def _counted(pairs: Mapping[int, int], rows: int) -> list[int]:
    """Return for each number of rows how many of these are in pairs."""
    counted = [0]
    for row in range(rows):
        counted.append(counted[-1] + (row in pairs))
    return counted

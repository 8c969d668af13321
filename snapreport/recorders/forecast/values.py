"""Values that a forecast does not have: those that are known all the same, and those assumed.

Integers and truth values that come from data on the CPU, such as token ids and masks, are followed
beside their tensors while they are small. For every other value that the program asks for there is
a stated rule, and each use of one is counted by its place in the program.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from snapreport.model.snapshot import AssumedValue

_MOST_KNOWN = 1 << 16
"""Elements: of a larger tensor no values are followed."""
_MOST_KNOWN_REALS = 16
_KNOWN, _TRUTH = "_snapreport_known", "_snapreport_truth"
_COUNT = "_snapreport_count"
_KEEPING = frozenset((
    *("max", "amax", "min", "amin", "view", "_unsafe_view", "reshape", "select", "squeeze"),
    *("unsqueeze", "detach", "clone", "_to_copy", "expand", "slice", "permute", "alias", "add"),
))  # fmt: skip
"""Operations that leave a count what it is."""
_MOST_ALIKE = 1000
"""So often between two steps a place gets the same answer; then now and then another one: the
opposite, zero, or for floating-point numbers also a large one, so that no loop is endless."""
_A_LOT = 1e9


class Known:
    """The real values of a tensor without values; shared by everything that views its memory."""

    __slots__ = ("cell", "tensor")

    def __init__(self, tensor: Any, cell: list[bool]) -> None:
        self.tensor, self.cell = tensor, cell


@dataclass
class Values:
    """Answers for values, and notes which were assumed."""

    given: Mapping[str, float] = field(default_factory=dict)
    """What the user assumes, by kind or by place (``train.py:52``)."""
    assumed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _random: Any = field(default_factory=lambda: torch.Generator("cpu").manual_seed(0))
    _alike: dict[str, int] = field(default_factory=dict)
    _chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    def known(self, tensor: Any) -> Any:
        """Return a tensor's real values, None if they are not known."""
        found = getattr(tensor, _KNOWN, None)
        return None if found is None or not found.cell[0] else found.tensor

    def know(self, tensor: Any, values: Any) -> None:
        """Note a tensor's real values."""
        setattr(tensor, _KNOWN, Known(values, [True]))

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Compute an operation's result for real where its arguments are known and it is small."""
        if out is None:
            self._follow_written(func, args, kwargs)
            return
        if isinstance(out, list | tuple):
            self._follow_many(func, args, kwargs, out)
            return
        if not isinstance(out, torch.Tensor) or out.layout != torch.strided:
            return
        floating = out.dtype.is_floating_point or out.dtype.is_complex
        most = _MOST_KNOWN_REALS if floating else _MOST_KNOWN
        if floating and out.numel() > most:  # most results, which were never known
            if (found := getattr(out, _KNOWN, None)) is not None:
                found.cell[0] = False
            return
        tensors = [each for each in _flat((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not floating:
            self._follow_count(func, args, tensors, out)
        if out.dtype == torch.bool:
            self._follow_truth(func, args, tensors, out)
        written = any(each is out for each in tensors)
        name = func.overloadpacket.__name__
        whole = written and (name in _OVERWRITING or func._overloadname.endswith("out"))
        if whole and out.numel() <= most and self.known(out) is None and _is_all(out):
            self.know(out, torch.empty(out.shape, dtype=out.dtype))
        real = [self._value(each) for each in tensors] if out.numel() <= most else [None]
        if func.overloadpacket in _EMPTY or any(each is None for each in real):
            result = self._absorbed(func, tensors, out) if out.numel() <= most else None
            if written and (found := getattr(out, _KNOWN, None)) is not None:
                found.cell[0] = False
            if result is not None and (not written or _is_all(out)):
                self.know(out, result)
            return
        by_id = {id(each): value for each, value in zip(tensors, real, strict=True)}
        if _is_random(func):  # the program's own random numbers stay what they would be
            kwargs = {**kwargs, "generator": self._random}
        try:
            with torch.no_grad():
                result = func(*_replaced(args, by_id), **_replaced(_on_cpu(kwargs), by_id))
        except Exception:  # what it would be is then not known
            result = None
        if not isinstance(result, torch.Tensor) or result.shape != out.shape:
            if written and (found := getattr(out, _KNOWN, None)) is not None:
                found.cell[0] = False
        elif not written:
            setattr(out, _KNOWN, Known(result, self._cell(tensors, result)))

    def _follow_many(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Follow an operation with several results, such as ``sort`` and ``unbind``."""
        tensors = [each for each in _flat((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not tensors or any(each.numel() > _MOST_KNOWN for each in tensors):
            return
        real = [self._value(each) for each in tensors]
        if any(each is None for each in real) or func._schema.is_mutable:
            return
        by_id = {id(each): value for each, value in zip(tensors, real, strict=True)}
        try:
            with torch.no_grad():
                results = func(*_replaced(args, by_id), **_replaced(_on_cpu(kwargs), by_id))
        except Exception:  # what they would be is then not known
            return
        for each, result in zip(out, results, strict=True):
            if isinstance(each, torch.Tensor) and each.shape == result.shape:
                setattr(each, _KNOWN, Known(result, self._cell(tensors, result)))

    def _follow_written(self, func: Any, args: Any, kwargs: Any) -> None:
        """Follow an operation that returns nothing, such as ``_foreach_add_``: it writes."""
        arguments = zip(func._schema.arguments, args, strict=False)  # those of kwargs are settings
        written = [
            each
            for about, given in arguments
            if about.alias_info is not None and about.alias_info.is_write
            for each in _flat(given)
            if self.known(each) is not None
        ]
        if not written or func.overloadpacket.__name__ in _OF_UNKNOWN:
            return
        tensors = [each for each in _flat((args, kwargs)) if isinstance(each, torch.Tensor)]
        real = {id(each): self._value(each) for each in tensors}
        with contextlib.suppress(Exception), torch.no_grad():
            if not any(each is None for each in real.values()):
                func(*_replaced(args, real), **_replaced(kwargs, real))
                return
        for each in written:  # what they would be is then not known
            getattr(each, _KNOWN).cell[0] = False

    def _cell(self, tensors: list[Any], result: Any) -> list[bool]:
        """Return the validity that a result shares with the tensor that it views, or a new one."""
        for each in tensors:
            found = getattr(each, _KNOWN, None)
            if found is not None and _same_memory(found.tensor, result):
                cell: list[bool] = found.cell
                return cell
        return [True]

    def _follow_count(self, func: Any, args: Any, tensors: list[Any], out: Any) -> None:
        """Note of a tensor of integers that it counts, of how many at the most, what is true."""
        name = func.overloadpacket.__name__
        most = None
        if name in ("sum", "count_nonzero") and (name != "sum" or tensors[0].dtype == torch.bool):
            most = tensors[0].numel() // max(out.numel(), 1)
        elif len(tensors) == 1 and out.dtype != torch.bool:
            most = getattr(tensors[0], _COUNT, None)
            if most is not None and name == "add" and isinstance(args[1], int):
                most += args[1]
            elif name not in _KEEPING:
                most = None
        if most:
            setattr(out, _COUNT, most)

    def _follow_truth(self, func: Any, args: Any, tensors: list[Any], out: Any) -> None:
        """Note of a tensor of truth values whether they are likely all true, or all false."""
        name = func.overloadpacket.__name__
        of = [self._truth(each) for each in tensors]
        infinite = len(args) > 1 and args[1] in _INFINITE if len(tensors) == 1 else False
        itself = len(tensors) == 2 and tensors[0] is tensors[1]
        truth: bool | None = None  # of most it is not known
        if name == "all":
            truth = of[0] is not False
        elif name == "any":
            truth = of[0] is True
        elif name in ("logical_not", "bitwise_not"):
            # Of one number False is assumed, so its opposite is True.
            truth = not of[0] if of[0] is not None else out.numel() == 1 or None
        elif name in ("eq", "ne") and (itself or infinite):
            truth = (name == "eq") == itself
        elif name in _ANDS:
            truth = False if False in of else None if None in of else True
        elif name in _ORS:
            truth = True if True in of else None if None in of else False
        elif len(tensors) == 1 and tensors[0].dtype == torch.bool:
            truth = of[0]
        if truth is None:
            return
        setattr(out, _TRUTH, truth)

    def _truth(self, tensor: Any) -> bool | None:
        """Return True for all true, False for all false, None if it is not known."""
        value = self._value(tensor)
        if value is None or not value.numel():
            return getattr(tensor, _TRUTH, None)
        return True if value.all() else None if value.any() else False

    def _absorbed(self, func: Any, tensors: list[Any], out: Any) -> Any:
        """Return a result that follows from one of two arguments: nothing and x is nothing."""
        name = func.overloadpacket.__name__.rstrip("_")
        if out.dtype.is_floating_point or out.dtype.is_complex or len(tensors) != 2:
            return None
        if name in _ANDS and any(self._truth(each) is False for each in tensors):
            return torch.zeros(out.shape, dtype=out.dtype)
        if name in _ORS and out.dtype == torch.bool and any(map(self._truth, tensors)):
            return torch.ones(out.shape, dtype=out.dtype)
        return None

    def _value(self, tensor: Any) -> Any:
        if tensor.device.type == "cpu" and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            return tensor if tensor.numel() <= _MOST_KNOWN else None
        return self.known(tensor)

    def item(self, tensor: Any) -> bool | int | float:
        """Return the value of a tensor with one element."""
        known = self.known(tensor)
        if known is not None:
            value: bool | int | float = known.item()
            return value
        if tensor.dtype == torch.bool:
            return bool(self.assume("bool", bool(getattr(tensor, _TRUTH, False))))
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            inside = _in_file("/torch/amp/grad_scaler.py")
            return float(self.assume("float", 0.0)) if inside else float(self.assume("float", 0.5))
        most = getattr(tensor, _COUNT, None)
        return self.count("nonzero", most) if most else int(self.assume("int", 1))

    def count(self, kind: str, most: int) -> int:
        """Return how many of some elements there are."""
        place = _place()
        share = self.given.get(place, self.given.get(kind))
        if share is None:
            number = most
        else:
            number = round(share * most) if share <= 1 else min(int(share), most)
        self.assumed[kind, place, f"{number} of {most}"] += 1
        return number

    def assume(self, kind: str, value: float) -> float:
        """Return an assumed value, and count it."""
        place = _place()
        value = self.given.get(place, self.given.get(kind, value))
        self._alike[place] = asked = self._alike.get(place, 0) + 1
        if asked > _MOST_ALIKE:  # what a loop may wait for, in no order that it could follow
            others = {"bool": (not value,), "float": (0.0, _A_LOT)}.get(kind, (0,))
            value = self._chance.choice((value, *others))
        self.assumed[kind, place, str(value)] += 1
        return value

    def step(self) -> None:
        """Note that the program made a step, so it is in no loop that waits for a value."""
        self._alike.clear()

    def all_assumed(self) -> list[AssumedValue]:
        """Return what was assumed, the most frequent first."""
        return [AssumedValue(*key, count) for key, count in self.assumed.most_common()]


_ANDS = frozenset(["mul", "logical_and", "bitwise_and"])
_ORS = frozenset(["logical_or", "bitwise_or"])
_INFINITE = (float("inf"), float("-inf"))
_OF_UNKNOWN = frozenset(["_amp_foreach_non_finite_check_and_unscale_"])
"""Of values that are not known it is assumed that they are finite, as they were before."""
_aten = torch.ops.aten
_OVERWRITING = frozenset(["copy_", "fill_", "zero_", "random_"])
_EMPTY = frozenset(
    packet
    for name in ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")
    if (packet := getattr(_aten, name, None)) is not None
)


@lru_cache(4096)
def _is_random(func: Any) -> bool:
    return any(each.name == "generator" for each in func._schema.arguments)


def _is_all(tensor: Any) -> bool:
    """Say whether a tensor is all of its storage."""
    return bool(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize)


def _same_memory(one: Any, other: Any) -> bool:
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def _on_cpu(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: (torch.device("cpu") if name == "device" else v) for name, v in kwargs.items()}


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [each for part in value for each in _flat(part)]
    if isinstance(value, dict):
        return [each for part in value.values() for each in _flat(part)]
    return [value]


def _replaced(value: Any, by_id: Mapping[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return by_id[id(value)]
    if isinstance(value, list | tuple):
        return type(value)(_replaced(each, by_id) for each in value)
    if isinstance(value, dict):
        return {name: _replaced(each, by_id) for name, each in value.items()}
    return value


def _in_file(ending: str) -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(ending):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _place() -> str:
    """Return the innermost line of the program itself, as ``train.py:52``."""
    from snapreport.roles.frames import is_own_file

    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_own_file(file) and "/snapreport/recorders/" not in file:
            return f"{file.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"

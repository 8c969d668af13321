"""Large tensors on the CPU without values, such as a model before it is moved to the card.

Small ones and all data stay real. What a program makes in other ways, such as by reading a
checkpoint, is real too: a file that is mapped into memory is not read as long as nobody looks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device
from torch.utils._python_dispatch import return_and_correct_aliasing

from snapreport.recorders.forecast.running import (
    WRITTEN,
    check_devices,
    plan_of,
    tensors_of,
)
from snapreport.recorders.forecast.values import Values

NO_VALUES = "_snapreport_no_values"
"""An attribute of tensors on the CPU that were copied from a card."""
PINNED = "_snapreport_pinned"
"""An attribute of tensors that are said to be in pinned memory."""
_LARGE = 1 << 20
"""Bytes: a tensor of floating-point numbers that is made on the CPU and larger has no values."""


class Valueless(torch.Tensor):
    """A tensor on the CPU that has a shape, but no values; it stands for one on ``meta``."""

    _meta: torch.Tensor
    values: Values
    """Answers for values that do not exist; set as long as a forecast runs."""

    @staticmethod
    def __new__(cls: Any, data: torch.Tensor, requires_grad: bool = False, **_: Any) -> Any:
        """Return a parameter, where a program makes one of a parameter's type."""
        return torch.nn.Parameter(data, requires_grad)

    @classmethod
    def of(cls, meta: torch.Tensor, requires_grad: bool = False) -> Any:
        """Return a tensor without values, of the shape of one on ``meta``."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, meta.shape, strides=meta.stride(), storage_offset=meta.storage_offset(),
            dtype=meta.dtype, device="cpu", requires_grad=requires_grad,
        )  # fmt: skip
        made._meta = meta
        return made

    @property
    def data(self) -> Any:
        """A tensor of the same memory, without autograd's history."""
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        """Become another tensor, as ``Module.to()`` has it, and stay the same object."""
        if isinstance(self, torch.nn.Parameter):
            value = torch.nn.Parameter(value, self.requires_grad)
        had_gradient = getattr(self, "grad", None) is not None
        self.grad = None
        torch.utils.swap_tensors(self, value)
        if had_gradient:  # which Module.to() moves next
            self.grad = torch.empty_like(self)

    def __repr__(self, **_: Any) -> str:
        return f"Valueless(shape={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        on_card = device is not None and torch.device(device).type == "cuda"
        cards = [each for each in tensors_of((args, kwargs)) if each.device.type == "cuda"]
        first = args[0] if args else None
        if func is torch.ops.aten._local_scalar_dense.default:
            return cls.values.item(first)
        if func is torch.ops.aten.copy_.default and type(first) is not cls:
            return first
        if cards:
            check_devices(func, args)
        written = _written(func)
        if written is not None:  # nothing is computed
            return args[written] if isinstance(written, int) else kwargs[written]
        kept = {name: value for name, value in kwargs.items() if name != "pin_memory"}
        out = func(*_as_meta(args), **_as_meta(kept))
        if on_card or cards:
            where = torch.device(device) if on_card else cards[0].device
            return _mapped(out, lambda meta: _on_card(meta, where))
        if device is not None and torch.device(device).type == "meta":
            return out
        return return_and_correct_aliasing(func, args, kwargs, _mapped(out, cls.of))


@lru_cache(4096)
def _written(func: Any) -> int | str | None:
    """Return which argument of an operation is its only result, and keeps its shape."""
    plan = plan_of(func)
    alone = plan.kind == WRITTEN and not plan.resizes and len(plan.written) == 1
    return plan.written[0] if alone else None


def _on_card(meta: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype, device=device)


def _mapped(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, function) for each in value)
    return value


def _as_meta(value: Any) -> Any:
    if isinstance(value, Valueless):
        return value._meta
    if isinstance(value, torch.Tensor):
        if value.device.type == "meta" or (value.device.type == "cpu" and value.dim() == 0):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list | tuple):
        return type(value)(_as_meta(each) for each in value)
    if isinstance(value, dict):
        return {name: _as_meta(each) for name, each in value.items()}
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, torch.Generator):
        return None
    return value


_MAKERS = frozenset([
    torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.empty_strided,
    torch.normal, torch.eye, torch.empty_permuted, torch.Tensor,
])  # fmt: skip


class Makers(TorchFunctionMode):
    """Lets what makes a large tensor on the CPU make one without values."""

    def __init__(self) -> None:
        """Begin in this process; workers that it forks make real ones."""
        super().__init__()
        self._process = os.getpid()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _MAKERS and os.getpid() == self._process and "out" not in kwargs:
            device = kwargs.get("device") or _device.CURRENT_DEVICE
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            if (device is None or torch.device(device).type == "cpu") and dtype.is_floating_point:
                made = _without_values(func, args, kwargs)
                if made is not None:
                    if kwargs.get("pin_memory"):
                        setattr(made, PINNED, True)
                    return made
        made = func(*args, **kwargs)
        if kwargs.get("pin_memory") and isinstance(made, torch.Tensor):
            setattr(made, PINNED, True)
        return made


def _without_values(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return what a maker makes, without values; None if it is small."""
    left_out = ("device", "generator", "requires_grad", "pin_memory")
    kept = {name: value for name, value in kwargs.items() if name not in left_out}
    if any(isinstance(each, torch.Tensor) for each in args):
        return None
    try:
        meta = func(*args, **kept, device="meta")
    except (TypeError, RuntimeError):  # let the real one say what is wrong
        return None
    if meta.untyped_storage().nbytes() <= _LARGE:
        return None
    return Valueless.of(meta, requires_grad=bool(kwargs.get("requires_grad", False)))

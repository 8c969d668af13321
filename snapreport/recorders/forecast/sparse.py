"""Sparse tensors on the card: their indices and values are tensors as others, and have memory.

What PyTorch does with the description of a sparse tensor alone runs as on the CPU. For what
computes with one there are a few rules, and one line for each operation without a rule.
"""

from __future__ import annotations

from typing import Any

import torch

_aten = torch.ops.aten
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)

_DESCRIBING = frozenset([
    "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_with_dims", "_indices",
    "_values", "indices", "values", "_nnz", "sparse_dim", "dense_dim", "is_coalesced",
    "_coalesced_", "_dimI", "_dimV", "empty", "clone", "copy_sparse_to_sparse_", "copy_",
    "sparse_resize_", "sparse_resize_and_clear_", "zero_", "unsqueeze", "isnan", "neg", "neg_",
    "sqrt", "sqrt_", "abs", "pow",
])  # fmt: skip


def kernel(runner: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation on sparse tensors.

    Raises:
        NotImplementedError: there is no rule for it.
    """
    name = operator.overloadpacket.__name__
    if name in _DESCRIBING:
        return operator.redispatch(_CPU, *args, **kwargs)
    rule = _RULES.get(name)
    if rule is None:
        raise NotImplementedError(
            f"A forecast has no rule for {operator.name()} of sparse tensors."
        )
    return rule(*args)


def refuse(what: str) -> Any:
    """Return what answers for operations on tensors of a kind that a forecast does not know."""

    def run(operator: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"A forecast has no rule for {operator.name()} of {what}.")

    return run


def to_sparse(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Make a tensor sparse: its elements are assumed not to be 0."""
    tensor = args[0]
    layout = kwargs.get("layout", torch.sparse_coo)
    if func.overloadpacket.__name__ != "_to_sparse" or layout not in (None, torch.sparse_coo):
        raise NotImplementedError("A forecast knows sparse tensors as torch.sparse_coo alone.")
    where = tensor.nonzero().t()
    return _made(where, tensor.new_empty(where.shape[1]), tensor.shape)


def _made(indices: Any, values: Any, shape: Any) -> Any:
    made = _aten._sparse_coo_tensor_unsafe(indices, values, tuple(shape))
    return made._coalesced_(True)


def _coalesce(tensor: Any) -> Any:
    """Sum what is there twice; all indices are assumed to be different."""
    indices, values = tensor._indices(), tensor._values()
    return _made(torch.empty_like(indices), torch.empty_like(values), tensor.shape)


def _dense(tensor: Any, dtype: Any = None, *_: Any) -> Any:
    return torch.zeros(tensor.shape, dtype=dtype or tensor.dtype, device=tensor.device)


def _add(one: Any, other: Any, *_: Any) -> Any:
    if not one.is_sparse or not other.is_sparse:
        return torch.empty_like(other if one.is_sparse else one)
    parts = [(each._indices(), each._values()) for each in (one, other)]
    indices = torch.cat([each for each, _ in parts], 1)
    return _aten._sparse_coo_tensor_unsafe(indices, torch.cat([v for _, v in parts]), one.shape)


def _mask(tensor: Any, mask: Any, *_: Any) -> Any:
    return _made(mask._indices().clone(), torch.empty_like(mask._values()), mask.shape)


def _scaled(tensor: Any, *_: Any) -> Any:
    sparse = tensor if tensor.is_sparse else _[0]
    return _made(sparse._indices().clone(), torch.empty_like(sparse._values()), sparse.shape)


def _product(one: Any, other: Any, *_: Any) -> Any:
    if one.is_sparse and other.is_sparse:
        raise NotImplementedError("A forecast has no rule for products of two sparse tensors.")
    kind = torch.result_type(one, other)
    shape = (*one.shape[:-1], *other.shape[-1:])
    return torch.empty(shape, dtype=kind, device=one.device)


def _sum(tensor: Any, *rest: Any) -> Any:
    return tensor._values().sum() if not rest or rest[0] is None else _dense(tensor).sum(rest[0])


_RULES: dict[str, Any] = {
    "_coalesce": _coalesce,
    "_to_dense": _dense,
    "to_dense": _dense,
    "add": _add,
    "add_": lambda one, *_: one,
    "sub": _add,
    "sparse_mask": _mask,
    "mul": _scaled,
    "mul_": lambda one, *_: one,
    "div": _scaled,
    "div_": lambda one, *_: one,
    "mm": _product,
    "bmm": _product,
    "_sparse_mm": _product,
    "addmm": lambda bias, one, other, *_: _product(one, other),
    "_sparse_addmm": lambda bias, one, other, *_: _product(one, other),
    "sum": _sum,
    "norm": lambda tensor, *_: tensor._values().norm(),
    "linalg_vector_norm": lambda tensor, *_: tensor._values().norm(),
}
"""Sources: aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu and SparseCUDATensorMath.cu."""

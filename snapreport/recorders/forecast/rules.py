"""Operations whose results depend on values that do not exist, and calls that need no card.

Each rule gets the ``Runner``, the operation and its arguments, and returns the result, or
NotImplemented to have the operation run as usual.
"""

from __future__ import annotations

from typing import Any

import torch

from snapreport.recorders.forecast.running import contiguous_strides
from snapreport.recorders.forecast.sparse import to_sparse
from snapreport.recorders.forecast.valueless import NO_VALUES

_aten = torch.ops.aten


def put_in(runner: Any) -> None:
    """Let these rules answer for their operations."""
    rules = {
        "_local_scalar_dense": _item,
        "is_nonzero": _item,
        "equal": _equal,
        "nonzero": _nonzero,
        "masked_select": _masked_select,
        "_unique2": _unique,
        "unique_dim": _unique,
        "unique_consecutive": _unique,
        "bincount": _bincount,
        "repeat_interleave.Tensor": _repeats,
        "index.Tensor": _index,
        "index_put_": _index_put,
        "index_put": _index_put,
        "_index_put_impl_": _index_put,
        "_efficientzerotensor": _zeros_without_memory,
        "record_stream": _nothing,
        "_assert_async": _nothing,
        "_assert_async.msg": _nothing,
        "is_pinned": _no,
        "_to_sparse": to_sparse,
        **dict.fromkeys((f"_to_sparse_{kind}" for kind in ("csr", "csc", "bsr", "bsc")), to_sparse),
        "_to_sparse.sparse_dim": to_sparse,
        "_use_cudnn_ctc_loss": _no,
        "_use_cudnn_ctc_loss.Tensor": _no,
        "_use_miopen_ctc_loss": _no,
        "_use_miopen_ctc_loss.Tensor": _no,
        "_grouped_mm": _grouped,
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "copy_": _copy,
        "resize_": _resize,
        "set_.source_Tensor": _described,
        "set_.source_Storage": _described,
        "set_.source_Storage_storage_offset": _described,
        "convolution": _convolution,
        "convolution_backward": _convolution_backward,
        "_pin_memory": _same,
        "pin_memory": _same,
        "_cudnn_rnn": _recurrent,
        "_fused_rms_norm": _rms_norm,
        "_fused_rms_norm_backward": _rms_norm_backward,
        "_cudnn_rnn_flatten_weight": _flat_weights,
    }
    for name, rule in rules.items():
        packet, _, overload = name.partition(".")
        found = getattr(_aten, packet, None)
        operator = getattr(found, overload or "default", None)
        if operator is not None:
            runner.rule(operator, rule)


def _on_card(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _fake(args: Any) -> bool:
    return bool(args[0].device.type == "cuda")


def _item(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return runner.values.item(args[0]) if _fake(args) else NotImplemented


def _equal(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not any(_on_card(each) for each in args):
        return NotImplemented
    known = [runner.values.known(each) for each in args]
    if all(each is not None for each in known):
        return bool(torch.equal(known[0], known[1]))
    if args[0].shape != args[1].shape:
        return False
    if args[0].numel() == 1 and any(each is not None for each in known):
        one, other = (runner.values.item(each) for each in args)
        return bool(one == other)
    return bool(runner.values.assume("bool", True))


def _count_true(runner: Any, mask: Any) -> int:
    known = runner.values.known(mask)
    if known is not None:
        return int(known.count_nonzero())
    return int(runner.values.count("nonzero", mask.numel()))


def _new(runner: Any, operator: Any, like: Any, shape: Any, dtype: Any = None) -> Any:
    shape = tuple(int(n) for n in shape)
    device = int(like.device.index or 0)
    return runner.empty(shape, contiguous_strides(shape), dtype or like.dtype, device, operator)


def _nonzero(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not _fake(args):
        return NotImplemented
    return _where(runner, args[0])


def _where(runner: Any, mask: Any) -> Any:
    """Return where a tensor is not 0: a number for each dimension, one dimension after the other.

    Source: aten/src/ATen/native/cuda/Nonzero.cu, ``nonzero_cuda_out_impl``.
    """
    operator, count = _aten.nonzero.default, _count_true(runner, mask)
    shape, strides = (count, mask.dim()), (1, max(count, 1))
    like = torch.empty_strided(shape, strides, dtype=torch.int64, device="meta")
    with runner.around(operator, (mask,), {}, like):
        found = runner.like(like, int(mask.device.index or 0), operator)
    runner.values.follow(operator, (mask,), {}, found)
    return found


def _masked_select(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not any(_on_card(each) for each in args[:2]):
        return NotImplemented
    tensor, mask = args[:2]
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    numel = 1
    for n in shape:
        numel *= n
    count = _count_true(runner, mask) * (numel // max(mask.numel(), 1))
    found = _new(runner, func, tensor, (count,))
    runner.values.follow(func, args, kwargs, found)
    return found


def _unique(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not _fake(args):
        return NotImplemented
    tensor = args[0]
    name = func.overloadpacket.__name__
    if (known := runner.values.known(tensor)) is not None:
        real = func(known, *args[1:], **kwargs)
        found = tuple(_new(runner, func, tensor, each.shape, each.dtype) for each in real)
        for each, value in zip(found, real, strict=True):
            runner.values.know(each, value)
        return found
    if name == "unique_dim":
        dim = args[1]
        rows = runner.values.count("unique", tensor.shape[dim])
        shape = list(tensor.shape)
        shape[dim] = rows
        inverse_shape: Any = (tensor.shape[dim],)
    else:
        rows = runner.values.count("unique", tensor.numel())
        shape, inverse_shape = [rows], tensor.shape
    flags = {
        "_unique2": ("sorted", "return_inverse", "return_counts"),
        "unique_dim": ("dim", "sorted", "return_inverse", "return_counts"),
        "unique_consecutive": ("return_inverse", "return_counts"),
    }[name]
    given = dict(zip(flags, args[1:], strict=False)) | kwargs
    inverse = bool(given.get("return_inverse", False))
    counts = bool(given.get("return_counts", False))
    return (
        _new(runner, func, tensor, shape),
        _new(runner, func, tensor, inverse_shape if inverse else (0,), torch.int64),
        _new(runner, func, tensor, (rows,) if counts else (0,), torch.int64),
    )


def _bincount(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not _fake(args):
        return NotImplemented
    weights = kwargs.get("weights", args[1] if len(args) > 1 else None)
    least = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
    known = runner.values.known(args[0])
    if known is not None and known.numel():
        count = max(int(known.max()) + 1, least)
    else:
        count = int(runner.values.assume("bincount", max(least, 1)))
    kind = torch.int64 if weights is None else weights.dtype
    found = _new(runner, func, args[0], (count,), kind)
    runner.values.follow(func, args, kwargs, found)
    return found


def _repeats(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if not _fake(args):
        return NotImplemented
    size = kwargs.get("output_size")
    if size is None:
        known = runner.values.known(args[0])
        size = int(known.sum()) if known is not None else None
    if size is None:
        size = int(runner.values.assume("int", 1)) * args[0].numel()
    found = _new(runner, func, args[0], (size,), torch.int64)
    runner.values.follow(func, args, kwargs, found)
    return found


def _as_numbers(runner: Any, func: Any, indices: Any) -> list[Any] | None:
    """Return indices in which masks became numbers, as CUDA does it; None without masks."""
    masks = (torch.bool, torch.uint8)
    if not any(_on_card(each) and each.dtype in masks for each in indices):
        return None
    found: list[Any] = []
    for each in indices:
        if each is not None and each.dtype in masks:
            where = _where(runner, each)
            found += [where.select(1, axis) for axis in range(each.dim())]
        else:
            found.append(each)
    return found


def _index(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    numbers = _as_numbers(runner, func, args[1])
    return NotImplemented if numbers is None else runner.run(func, (args[0], numbers), kwargs)


def _index_put(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, indices, value = args[:3]
    in_place = func.overloadpacket.__name__.endswith("_")
    masks = [each for each in indices if each is not None]
    one_mask = len(masks) == 1 and masks[0].dtype == torch.bool
    if in_place and _on_card(tensor) and one_mask and value.numel() == 1:
        return tensor  # CUDA fills where the mask is true (canDispatchToMaskedFill)
    numbers = _as_numbers(runner, func, indices)
    if numbers is None:
        return NotImplemented
    return runner.run(func, (tensor, numbers, value, *args[3:]), kwargs)


def _zeros_without_memory(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Source: aten/src/ATen/native/cuda/TensorFactories.cu, ``_efficientzerotensor_cuda``."""
    kind = kwargs.get("dtype") or torch.get_default_dtype()
    return runner.unbooked(args[0], kind, runner.device_of(args, kwargs))


def _nothing(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return None


def _no(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return False


def _same(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return args[0]


def _empty(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    if kwargs.get("memory_format") not in (None, torch.contiguous_format):
        return NotImplemented
    shape = tuple(args[0])
    return runner.empty(
        shape, contiguous_strides(shape), kwargs.get("dtype") or torch.get_default_dtype(),
        runner.device_of(args, kwargs), func,
    )  # fmt: skip


def _empty_strided(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    return runner.empty(
        tuple(args[0]), tuple(args[1]), kwargs.get("dtype") or torch.get_default_dtype(),
        runner.device_of(args, kwargs), func,
    )  # fmt: skip


_SMALL = 1 << 20


def _copy(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Copy nothing, but take the temporary memory that a copy between devices needs.

    Source: aten/src/ATen/native/cuda/Copy.cu, ``copy_requires_temporaries``, ``copy_kernel_cuda``.
    """
    target, source = args[:2]
    one_card = target.device == source.device
    plain = target.dtype == source.dtype and target.is_contiguous() and source.is_contiguous()
    if not (one_card or plain or source.device.type == target.device.type):
        card = target if target.device.type == "cuda" else source
        needed = []
        if card is target and not target.is_contiguous():
            needed.append(target.nbytes)
        if card is source and (target.dtype != source.dtype or not source.is_contiguous()
                               or source.shape != target.shape):  # fmt: skip
            needed.append(target.nbytes)
        device = int(card.device.index or 0)
        taken = [runner.allocate(device, size, func) for size in needed if size]
        for booked in taken:
            runner.book.free(device, booked)
    if target.device.type == "cpu":
        known = runner.values.known(source)
        if known is not None:
            return _aten.copy_.default.redispatch(runner.cpu_keys, target, known)
        if target.nbytes <= _SMALL:
            target.zero_()
        setattr(target, NO_VALUES, True)
        return target
    runner.values.follow(func, args, kwargs, target)
    return target


def _resize(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, shape = args[0], tuple(int(n) for n in args[1])
    strides = contiguous_strides(shape)
    wanted = torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")
    storage = tensor.untyped_storage()
    begin = tensor.storage_offset()
    enough = wanted.untyped_storage().nbytes() + begin * tensor.itemsize <= storage.nbytes()
    if not enough:
        made = runner.empty(shape, strides, tensor.dtype, int(tensor.device.index or 0), func)
        storage, begin = made.untyped_storage(), 0
    _aten.set_.source_Storage_storage_offset.redispatch(
        runner.cpu_keys, tensor, storage, begin, shape, strides
    )
    return tensor


def _described(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Let the CPU's kernel change the description of a tensor; it touches no memory."""
    return func.redispatch(runner.cpu_keys, *args, **kwargs)


def _format_of(*tensors: Any) -> Any:
    """Return the memory format in which cuDNN computes a convolution.

    Source: aten/src/ATen/native/ConvUtils.h, ``cudnn_conv_suggest_memory_format``.
    """
    dims = tensors[0].dim()
    wanted = {4: torch.channels_last, 5: torch.channels_last_3d}.get(dims)
    if wanted is None or tensors[0].dtype == torch.float64:
        return torch.contiguous_format
    for tensor in tensors:
        if tensor.is_contiguous(memory_format=wanted) and not tensor.is_contiguous():
            return wanted
    return torch.contiguous_format


def _in_format(shape: Any, memory_format: Any) -> tuple[int, ...]:
    made = torch.empty(tuple(shape), device="meta", memory_format=memory_format)
    return tuple(made.stride())


def _convolution(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, weight = args[:2]
    shapes = runner.shapes(func, args, kwargs)
    memory_format = _format_of(tensor, weight)
    device = int(tensor.device.index or 0)
    strides = _in_format(shapes.shape, memory_format)
    with runner.around(func, args, kwargs, shapes):
        return runner.empty(shapes.shape, strides, shapes.dtype, device, func)


def _convolution_backward(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    gradient, tensor, weight, bias_sizes = args[:4]
    mask = args[-1]
    memory_format = _format_of(tensor, weight)
    device = int(tensor.device.index or 0)
    shape = tuple(bias_sizes or (weight.shape[0],))
    wanted = [*zip(mask[:2], (tensor, weight), strict=True)]
    like = [
        torch.empty_strided(each.shape, _in_format(each.shape, memory_format), dtype=each.dtype,
                            device="meta") if on else None
        for on, each in wanted
    ]  # fmt: skip
    with runner.around(func, args, kwargs, like):
        found = [None if each is None else runner.like(each, device, func) for each in like]
    found.append(runner.empty(shape, (1,), gradient.dtype, device, func) if mask[2] else None)
    return tuple(found)


def _recurrent(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Run a recurrent network, whose weights are copied into one piece unless they are in one.

    Source: aten/src/ATen/native/cudnn/RNN.cpp, ``_cudnn_rnn``: the piece is a result, too.
    """
    weights, flat = args[1], args[3]
    device = int(args[0].device.index or 0)
    if flat is None:
        size = sum(each.numel() for each in weights)
        flat = runner.empty((size,), (1,), weights[0].dtype, device, func)
        args = (*args[:3], flat, *args[4:])
    made = runner.run(func, (*args[:3], None, *args[4:]), kwargs)
    return (*made[:4], _aten.detach.default.redispatch(runner.cpu_keys, flat))


def _flat_weights(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Let all weights of a recurrent network lie in one new piece of memory.

    Source: aten/src/ATen/native/cudnn/RNN.cpp, ``copy_weights_to_flat_buf_views``.
    """
    weights = args[0]
    size = sum(each.numel() for each in weights)
    device = int(weights[0].device.index or 0)
    flat = runner.empty((size,), (1,), weights[0].dtype, device, func)
    storage, begin = flat.untyped_storage(), 0
    for each in weights:
        _aten.set_.source_Storage_storage_offset.redispatch(
            runner.cpu_keys, each, storage, begin, each.shape, contiguous_strides(each.shape)
        )
        begin += each.numel()
    return flat


_ACCUMULATED = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def _rms_norm(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu, ``_fused_rms_norm_cuda``."""
    tensor, normalized = args[0], len(args[1])
    kind = _ACCUMULATED.get(tensor.dtype, tensor.dtype)
    shape = tuple(tensor.shape[: tensor.dim() - normalized]) + (1,) * normalized
    like = [
        torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"),
        torch.empty(shape, dtype=kind, device="meta"),
    ]
    with runner.around(func, args, kwargs, like):
        device = int(tensor.device.index or 0)
        return tuple(runner.like(each, device, func) for each in like)


def _rms_norm_backward(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu, ``_fused_rms_norm_backward_cuda``."""
    tensor, weight, mask = args[1], args[4], args[5]
    like = [
        torch.empty(each.shape, dtype=each.dtype, device="meta") if on and each is not None
        else None
        for on, each in zip(mask, (tensor, weight), strict=True)
    ]  # fmt: skip
    device = int(tensor.device.index or 0)
    with runner.around(func, args, kwargs, like):
        return tuple(None if each is None else runner.like(each, device, func) for each in like)


def _grouped(runner: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Multiply groups of any type: the ``meta`` kernel knows bfloat16 alone.

    Source: aten/src/ATen/native/cuda/GroupedBlas.cpp, ``_grouped_mm_cuda``.
    """
    if args[0].dtype == torch.bfloat16 or args[0].dtype != args[1].dtype:
        return NotImplemented
    low = [
        torch.empty_strided(each.shape, each.stride(), dtype=torch.bfloat16, device="meta")
        for each in args[:2]
    ]
    named = {name: value for name, value in kwargs.items() if name != "out_dtype"}
    shape = runner.shapes(func, (*low, *args[2:4]), named)
    with runner.around(func, args, kwargs, shape):
        device = int(args[0].device.index or 0)
        kind = kwargs.get("out_dtype") or args[0].dtype
        return runner.empty(shape.shape, shape.stride(), kind, device, func)

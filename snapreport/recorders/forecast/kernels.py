"""What CUDA's kernels allocate inside an operator, where no dispatcher sees it.

``inside`` answers for one call: a list of what is allocated in addition to the results, empty where
nothing is, or None where this table does not know the operator. Only shapes, strides and dtypes are
looked at, so that tensors may be fake. PyTorch is not imported.

Every rule names its source. Those read in PyTorch's code are exact unless they say ``least`` and
``most``; what a closed library decides (cuDNN, CUB's tuning) is a range.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log, log2, prod
from typing import Any

from snapreport.ground.records import dataclass
from snapreport.recorders.forecast.reductions import Reduction, shared_buffers

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Processor:
    """What the memory inside kernels depends on beside the tensors.

    Attributes:
        capability: compute capability, (9, 0) for an H100.
        multiprocessors: streaming multiprocessors of the card.
        threads_per_multiprocessor: that it holds at most; 1536 on 8.6, 8.9 and 12.0, else 2048.
        torch: PyTorch's version, (2, 13).
        deterministic: ``torch.use_deterministic_algorithms(True)``.
    """

    capability: tuple[int, int] = (8, 0)
    multiprocessors: int = 108
    threads_per_multiprocessor: int = 2048
    torch: tuple[int, int] = (2, 13)
    deterministic: bool = False


@dataclass(frozen=True)
class Inside:
    """One allocation inside an operator.

    Attributes:
        bytes: as requested; the expected number where it is not exact.
        role: what it is for, in words.
        before: it comes before the operator's results, not after.
        outlives: so many further ones of the list are allocated before it is freed; None where it
            stays until the operator's end.
        least: never less than this; None where ``bytes`` is exact.
        most: never more than this; None where ``bytes`` is exact.
    """

    bytes: int
    role: str
    before: bool = False
    outlives: int | None = None
    least: int | None = None
    most: int | None = None

    @property
    def exact(self) -> bool:
        """Whether PyTorch's own code says this number."""
        return self.most is None


Rule = Callable[["Call"], Iterator[Inside]]


@dataclass(frozen=True)
class Call:
    """One call of an operator, for the rules."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    outputs: Sequence[Any]
    processor: Processor

    def get(self, index: int, name: str, default: Any = None) -> Any:
        """An argument by its position, or by its name."""
        if index < len(self.args):
            return self.args[index]
        return self.kwargs.get(name, default)


def inside(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    outputs: Sequence[Any],
    processor: Processor,
) -> list[Inside] | None:
    """Tell what a call allocates on the card beside its results.

    Args:
        name: the operator, ``aten::sum.dim_IntList`` (``OpOverload.name()``).
        args: as the operator got them.
        kwargs: as the operator got them.
        outputs: its tensors, in order; None where a result is None.
        processor: the card and PyTorch's version.

    Returns:
        What is allocated, in order; None where the operator is not known here.
    """
    base = name.partition(".")[0]
    rule = _RULES.get(name) or _RULES.get(base)
    if rule is None:
        # In-place and out variants run the kernel of the functional operator.
        bare = base.rstrip("_") if not base.endswith("__") else base
        rule = _RULES.get(bare)
        if rule is None:
            return [] if known_to_allocate_nothing(name) else None
    found = rule(Call(name, args, kwargs, outputs, processor))
    return [each for each in found if each.bytes or each.most]


def results_on_card(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], processor: Processor
) -> dict[int, Inside]:
    """Results whose memory on the card is other than the fake one's, by their position.

    Bytes of 0: it is on the CPU, or is not made at all.

    - Attention: a fake seed and offset of the generator are on the card. Flash's are there since
      2.7 (flash_api.cpp, mha_fwd: 16 and 8 bytes), cuDNN's always; those of the memory-efficient
      kernel only while a graph is captured (attention.cu, "Note [Seed and Offset Device]"). cuDNN
      makes log-sum-exps only where they are asked for (cudnn/MHA.cpp, run_cudnn_SDP_fprop).
    - ``binary_cross_entropy``: its result is the tensor of all losses, resized to the one number,
      which gives no memory back (cuda/Loss.cu, binary_cross_entropy_out_cuda: ``resize_as_``).
    - ``mse_loss``, ``smooth_l1_loss``: likewise (BinaryOps.cpp, ``TORCH_META_FUNC(mse_loss)``).
    - ``_cudnn_rnn``: the reserve is 0 bytes in torch/_meta_registrations.py.
    """
    base = name.partition(".")[0]
    call = Call(name, args, kwargs, (), processor)
    elsewhere = Inside(0, "not on the card")
    if base == "aten::_scaled_dot_product_flash_attention" and processor.torch < (2, 7):
        return {6: elsewhere, 7: elsewhere}
    if base == "aten::_scaled_dot_product_efficient_attention":
        return {2: elsewhere, 3: elsewhere}
    if base == "aten::_scaled_dot_product_cudnn_attention":
        return {} if call.get(4, "compute_log_sumexp") else {1: elsewhere}
    places = {"aten::binary_cross_entropy": 3, "aten::mse_loss": 2, "aten::smooth_l1_loss": 2}
    if base in places and call.get(places[base], "reduction", 1) != 0:
        return {0: Inside(max(_bytes(args[0]), _bytes(args[1])), "the loss of each element")}
    if base == "aten::_cudnn_rnn" and call.get(12, "train"):
        memory = _recurrent_memory(call)
        if memory is not None:
            size = memory.reserve
            return {3: Inside(size, "cuDNN's reserve", least=size // 2, most=2 * size)}
    return {}


def known_to_allocate_nothing(name: str) -> bool:
    """Whether the operator is elementwise, a view, a copy or a factory: its results are all."""
    base = name.partition(".")[0]
    if base in _NOTHING or base.startswith(("prim::", "profiler::")):
        return True
    bare = base.rstrip("_") if not base.endswith("__") else base
    return bare in _NOTHING or base.startswith("aten::_foreach_")


# Tensors, by their metadata.


def _tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "stride") and hasattr(value, "shape")


def _count(value: Any) -> int:
    return prod(int(size) for size in value.shape)


def _bytes(value: Any, element: int | None = None) -> int:
    return _count(value) * (_width(value.dtype) if element is None else element)


_WIDTHS = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip


def _kind(dtype: Any) -> str:
    """``bfloat16`` of ``torch.bfloat16``."""
    return str(dtype).rpartition(".")[2]


def _width(dtype: Any) -> int:
    return _WIDTHS.get(_kind(dtype), 1)  # float8 and bits are of one byte


def _low(dtype: Any) -> bool:
    return _kind(dtype) in ("float16", "bfloat16")


def _floating(dtype: Any) -> bool:
    return _kind(dtype).startswith(("float", "bfloat", "complex"))


def _accumulated(dtype: Any) -> int:
    """Bytes of ``acc_type<scalar_t, true>``: float for half precision, int64 for integers."""
    if _low(dtype):
        return 4
    return _width(dtype) if _floating(dtype) else 8


def _strides(value: Any) -> tuple[int, ...]:
    return tuple(int(step) for step in value.stride())


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in value.shape)


def _contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _is_contiguous(value: Any) -> bool:
    return 0 in _sizes(value) or _contiguous(_sizes(value), _strides(value))


def _is_dense(value: Any) -> bool:
    """Non-overlapping and dense, in whatever order of dimensions."""
    pairs = sorted(
        (stride, size)
        for size, stride in zip(_sizes(value), _strides(value), strict=True)
        if size != 1
    )
    step = 1
    for stride, size in pairs:
        if stride != step:
            return False
        step *= size
    return True


def _copied(value: Any, role: str, *, before: bool = False) -> Iterator[Inside]:
    """``value.contiguous()``, which is nothing where it is so already."""
    if _tensor(value) and not _is_contiguous(value):
        yield Inside(_bytes(value), role, before=before)


# cuBLAS.


CUBLAS = frozenset(
    f"aten::{name}"
    for name in (
        "mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addmv", "mv", "dot", "vdot",
        "addbmm", "_int_mm", "_scaled_mm", "_grouped_mm", "mm_dtype", "ger",
    )
)  # fmt: skip
"""Operators that ask for a cuBLAS handle, and with it for its workspace.

Source: aten/src/ATen/native/cuda/Blas.cpp; ``addr`` and ``outer`` are elementwise."""


def uses_cublas(name: str, outputs: Sequence[Any], args: Sequence[Any] = ()) -> bool:
    """Whether a call takes the cuBLAS handle, which one with an empty matrix or result does not."""
    if name.partition(".")[0].rstrip("_") not in CUBLAS:
        return False
    first = next((value for value in outputs if _tensor(value)), None)
    if first is None or not _count(first):
        return False
    return all(_count(value) for value in args if _tensor(value))


@dataclass(frozen=True)
class Workspace:
    """A workspace of cuBLAS or cuBLASLt.

    Attributes:
        bytes: its size.
        lasts: it is kept for each pair of handle and stream (a thread has a handle of its own, so
            backward's thread has a second one), not allocated anew in each call.
        shared: cuBLASLt takes cuBLAS's, so there is none of its own.
    """

    bytes: int
    lasts: bool = True
    shared: bool = False


def cublas_workspace(
    capability: tuple[int, int],
    torch: tuple[int, int] = (2, 13),
    environment: Mapping[str, str] | None = None,
) -> Workspace:
    """The workspace of cuBLAS, allocated when a handle is first used on a stream.

    Source: aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize. 32 MiB: 9.0 alone in
    2.6; 10 and 12 as well since pytorch#175344 (by its date 2.12). pytorch#194311 of August 2026
    allocates it in each call unless TORCH_CUBLAS_WORKSPACE_CACHE=1: after 2.13, so 2.14 is a guess.
    """
    environment = os.environ if environment is None else environment
    large = (9, 10, 11, 12) if torch >= (2, 12) else (9,)
    size = 32 * MIB if capability[0] in large else 4096 * 1024 * 2 + 16 * 1024 * 8
    pairs = re.findall(r":([0-9]+):([0-9]+)", environment.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if pairs:
        size = sum(int(kib) * KIB * int(count) for kib, count in pairs)
    return Workspace(size, lasts=_workspaces_last(torch, environment))


def cublaslt_workspace(
    capability: tuple[int, int],
    torch: tuple[int, int] = (2, 13),
    environment: Mapping[str, str] | None = None,
) -> Workspace:
    """The workspace of cuBLASLt, for ``addmm`` with a bias of one dimension, and scaled products.

    Source: aten/src/ATen/cuda/CUDABlas.cpp, _parseChosenWorkspaceSize and gemm_and_bias (1 MiB from
    the allocator in each call); CublasHandlePool.cpp, getCUDABlasLtWorkspace (pytorch#156495, by
    its date 2.9: kept for each handle and stream; seen so with 2.11 on an H200). The memory of
    cuBLAS where TORCH_CUBLASLT_UNIFIED_WORKSPACE=1 (pytorch#151163, 2.8), which is what unset means
    since pytorch#168175 and pytorch#175879 (by their dates 2.12).
    """
    environment = os.environ if environment is None else environment
    lasts = _workspaces_last(torch, environment)
    by_itself = "1" if torch >= (2, 12) else "0"
    unified = (
        torch >= (2, 8)
        and lasts
        and environment.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE", by_itself).lower()
        in ("1", "on", "true", "yes", "y")
    )
    whole = cublas_workspace(capability, torch, environment).bytes
    size = whole if unified else MIB
    with contextlib.suppress(KeyError, ValueError):
        size = int(environment["CUBLASLT_WORKSPACE_SIZE"]) * KIB
    if unified:
        return Workspace(min(size, whole), shared=True)
    return Workspace(size, lasts=lasts and torch >= (2, 9))


def _workspaces_last(torch: tuple[int, int], environment: Mapping[str, str]) -> bool:
    cached = environment.get("TORCH_CUBLAS_WORKSPACE_CACHE", "").lower()
    return torch < (2, 14) or cached in ("1", "on", "true", "yes", "y")


def takes_cublaslt(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether ``addmm`` leaves the bias to cuBLASLt, which may need a workspace of its own.

    Source: aten/src/ATen/native/cuda/Blas.cpp, addmm_out_cuda_impl (useLtInterface; CUDA 12.1 and
    later).
    """
    base = name.partition(".")[0]
    if base == "aten::_scaled_mm":
        return True
    if base not in ("aten::addmm", "aten::_addmm_activation") or len(args) < 3:
        return False
    bias, _, second = args[:3]
    if os.environ.get("DISABLE_ADDMM_CUDA_LT") == "1" or kwargs.get("beta", 1) != 1:
        return False
    rows, columns = _sizes(second)
    return (
        _sizes(bias) == (columns,)
        and _is_contiguous(bias)
        and _kind(bias.dtype) in ("float64", "float32", "float16", "bfloat16")
        and rows > 1
        and columns > 1
    )


def lasting_workspaces(
    name: str,
    outputs: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    processor: Processor,
) -> list[Workspace | None]:
    """Return the workspaces that a call's handle keeps: cuBLAS's and, if it takes one, cuBLASLt's.

    None stands for one that is not kept. Without a handle the list is empty.
    """
    if not uses_cublas(name, outputs, args):
        return []
    found = [cublas_workspace(processor.capability, processor.torch)]
    if takes_cublaslt(name, args, kwargs):
        found.append(cublaslt_workspace(processor.capability, processor.torch))
    return [each if each.lasts and not each.shared else None for each in found]


def _products(call: Call) -> Iterator[Inside]:
    """Matrices that BLAS cannot read as they lie are copied; workspaces that no handle keeps.

    Source: aten/src/ATen/native/cuda/Blas.cpp, prepare_matrix_for_cublas,
    prepare_batch_matrix_for_cublas.
    """
    base = call.name.partition(".")[0].rstrip("_")
    if not uses_cublas(call.name, call.outputs, call.args):
        return
    matrices = [value for value in call.args if _tensor(value)]
    if base in ("aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addbmm"):
        matrices = matrices[1:]
    for matrix in matrices:
        if len(_sizes(matrix)) in (2, 3) and not _readable_by_blas(matrix):
            yield Inside(_bytes(matrix), "a copy of a matrix that BLAS cannot read as it lies")
    if takes_cublaslt(call.name, call.args, call.kwargs):
        workspace = cublaslt_workspace(call.processor.capability, call.processor.torch)
        if not workspace.shared and not workspace.lasts:
            yield Inside(workspace.bytes, "cuBLASLt's workspace")
    whole = cublas_workspace(call.processor.capability, call.processor.torch)
    if not whole.lasts:
        yield Inside(whole.bytes, "cuBLAS's workspace")


def _readable_by_blas(matrix: Any) -> bool:
    sizes, strides = _sizes(matrix)[-2:], _strides(matrix)[-2:]
    if len(_sizes(matrix)) == 2 and _is_dense(matrix):
        return True
    if strides[0] == 1 and strides[1] >= max(1, sizes[0]):
        return True
    if strides[1] == 1 and strides[0] >= max(1, sizes[1]):
        return True
    return len(_sizes(matrix)) == 3 and _is_contiguous(matrix) and 0 not in strides


# Reductions.


def _reduction_dims(value: Any, dims: Any) -> frozenset[int]:
    number = len(_sizes(value))
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return frozenset(range(number))
    if isinstance(dims, int):
        dims = [dims]
    return frozenset(int(dim) % number if number else 0 for dim in dims)


def _reduced(
    call: Call,
    value: Any,
    dims: Any,
    accumulated: int,
    *,
    unrolled: int = 4,
    element: int | None = None,
    strides: tuple[int, ...] | None = None,
) -> Iterator[Inside]:
    """The buffers of one reduction of ``value``."""
    sizes = _sizes(value)
    low = _low(value.dtype) and element is None
    output = _width(call.outputs[0].dtype) if call.outputs and _tensor(call.outputs[0]) else 4
    reduction = Reduction(
        sizes,
        _strides(value) if strides is None else strides,
        _reduction_dims(value, dims) if sizes else frozenset(),
        _width(value.dtype) if element is None else element,
        accumulated,
        unrolled,
        int(value.storage_offset()) if strides is None else 0,
        output,
    )
    launches = shared_buffers(
        reduction, call.processor.multiprocessors, call.processor.threads_per_multiprocessor
    )
    if len(launches) > 1 and low and _low(call.outputs[0].dtype):
        yield Inside(_count(call.outputs[0]) * 4, "sums in float, over parts of 32-bit indices")
    several = len(launches) > 1
    for launch in launches:
        if launch.buffer:
            yield Inside(
                launch.buffer, "what a reduction's blocks share", outlives=1 if several else None
            )
            yield Inside(
                launch.semaphores, "a reduction's semaphores", outlives=0 if several else None
            )


def _sum(call: Call) -> Iterator[Inside]:
    """Sums, products and means; another dtype than the result's is a copy in that dtype first.

    Source: aten/src/ATen/native/ReduceOpsUtils.h, make_reduction_from_out_ty: of half precision
    summed into float there is no copy. Kernels: cuda/ReduceSumProdKernel.cu, ReduceMomentKernel.cu.
    """
    value = call.args[0]
    dims = call.get(1, "dim") if "dim" in call.name or "dim" in call.kwargs else None
    if call.name.startswith("aten::prod.dim_int"):
        dims = call.get(1, "dim")
    result = call.outputs[0].dtype
    if _kind(result) == _kind(value.dtype) or (_low(value.dtype) and _kind(result) == "float32"):
        yield from _reduced(call, value, dims, _accumulated(value.dtype))
        return
    yield Inside(_bytes(value, _width(result)), f"the input as {_kind(result)}")
    yield from _reduced(
        call,
        value,
        dims,
        _accumulated(result),
        element=_width(result),
        strides=_strides(value) if _is_dense(value) else None,
    )


def _norm(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/ReduceNormKernel.cu; LinearAlgebra.cpp."""
    value = call.args[0]
    dims = call.get(2, "dim")
    if all(_sizes(value)[dim] == 1 for dim in _reduction_dims(value, dims)):
        return
    yield from _reduced(call, value, dims, _accumulated(value.dtype))


def _extreme(call: Call) -> Iterator[Inside]:
    """``amax``, ``amin``, ``any``, ``all``, ``max`` of everything: what is carried is an element.

    Source: aten/src/ATen/native/cuda/ReduceMaxValuesKernel.cu, ReduceMinValuesKernel.cu,
    ReduceLogicKernel.cu, ReduceAMinMaxKernel.cu.
    """
    value = call.args[0]
    base = call.name.partition(".")[0]
    width = _width(value.dtype)
    if base in ("aten::any", "aten::all"):
        width = 1
    if base == "aten::aminmax":
        width *= 2
    dims = call.get(1, "dim") if not call.name.endswith(".all_out") else None
    if base in ("aten::max", "aten::min", "aten::any", "aten::all") and "dim" not in call.name:
        dims = None
    yield from _reduced(call, value, dims, width)


def _extreme_and_where(call: Call) -> Iterator[Inside]:
    """``max(dim)``, ``argmax``: an element and its index are carried, 16 bytes.

    Source: aten/src/ATen/native/cuda/ReduceArgMaxKernel.cu; ReduceMaxValuesKernel.cu,
    max_launch_kernel.
    """
    value = call.args[0]
    yield from _reduced(call, value, call.get(1, "dim"), 16)


def _variance(call: Call) -> Iterator[Inside]:
    """Welford's numbers: mean, sum of squares, two counts; 16 bytes in float, 32 in double.

    Source: aten/src/ATen/native/cuda/ReduceMomentKernel.cu, std_var_kernel_impl (unrolled by 2);
    SharedReduceOps.h, WelfordData with an int32 index.
    """
    value = call.args[0]
    dims = call.get(1, "dim")
    dims = None if isinstance(dims, bool) else dims
    width = 32 if _accumulated(value.dtype) == 8 else 16
    yield from _reduced(call, value, dims, width, unrolled=2)


def _nonzero_count(call: Call) -> Iterator[Inside]:
    """A mask, and the mask as int64 for its sum.

    Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, count_nonzero_cuda.
    """
    value = call.args[0]
    if _kind(value.dtype) != "bool":
        yield Inside(_count(value), "where the input is not 0", before=True)
    yield Inside(_count(value) * 8, "the mask as int64")


def _logsumexp(call: Call) -> Iterator[Inside]:
    """The largest values, and the input less them, of the input's size.

    Source: aten/src/ATen/native/ReduceOps.cpp, logsumexp_out_impl.
    """
    value, dims = call.args[0], call.get(1, "dim")
    kept = prod(
        size for dim, size in enumerate(_sizes(value)) if dim not in _reduction_dims(value, dims)
    )
    width = _width(value.dtype)
    yield Inside(kept * width, "the largest values", before=True)
    yield Inside(kept * width, "their magnitudes", before=True, outlives=0)
    yield Inside(_bytes(value), "the input less the largest values", before=True)


def _foreach_norm(call: Call) -> Iterator[Inside]:
    """One number for each 65,536 elements of the longest tensor, for each tensor.

    Source: aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda,
    foreach_tensor_max_cuda; MultiTensorApply.cuh, kChunkSize.
    """
    tensors = [value for value in call.args[0] if _tensor(value)]
    if not tensors:
        return
    chunks = max(-(-_count(value) // 65536) for value in tensors)
    result = next((value for value in call.outputs if _tensor(value)), tensors[0])
    width = _width(result.dtype)
    if call.name.startswith("aten::_foreach_norm") and _low(result.dtype):
        width = 4
    yield Inside(len(tensors) * chunks * width, "a number for each chunk of a tensor", before=True)


# Softmax, norms, losses, dropout.


def _softmax(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/SoftMax.cu, host_softmax."""
    yield from _copied(call.args[0], "a contiguous copy of the input")


def _safe_softmax(call: Call) -> Iterator[Inside]:
    """A softmax, and a mask of which scores are minus infinity.

    Source: aten/src/ATen/native/transformers/attention.cpp, _safe_softmax.
    """
    value = call.args[0]
    yield from _copied(value, "a contiguous copy of the input")
    yield Inside(_count(value), "which scores are minus infinity")
    dim = int(call.get(1, "dim", -1))
    yield Inside(_count(value) // max(_sizes(value)[dim], 1), "which rows are")
    yield Inside(_width(value.dtype), "a zero")


def _softmax_backward(call: Call) -> Iterator[Inside]:
    """The gradient times the output is a tensor of its own; log_softmax needs none.

    Source: aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out.
    """
    gradient, output = call.args[:2]
    if "log_softmax" in call.name:
        yield from _copied(gradient, "a contiguous copy of the gradient")
    else:
        yield Inside(_bytes(gradient), "the gradient times the output")
        if not (_is_dense(gradient) and _is_contiguous(gradient)):
            yield Inside(_bytes(gradient), "a contiguous copy of it")
    yield from _copied(output, "a contiguous copy of the output")


def _masked_softmax_backward(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/SoftMax.cu, masked_softmax_backward_cuda."""
    for value in call.args[:3]:
        yield from _copied(value, "a contiguous copy")


def _layer_norm(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu, layer_norm_cuda."""
    for index, name in ((0, "input"), (2, "weight"), (3, "bias")):
        yield from _copied(call.get(index, name), f"a contiguous copy of the {name}", before=True)


def _layer_norm_backward(call: Call) -> Iterator[Inside]:
    """Contiguous copies; since 2.7 partial sums where there are many rows and few columns.

    Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu, layer_norm_backward_cuda;
    LaunchGammaBetaBackwardCUDAKernel (pytorch#148605, 2.8; 2.6 has none).
    """
    gradient, value = call.args[0], call.args[1]
    rms = "rms_norm" in call.name
    shape = call.get(2, "normalized_shape")
    weight = call.get(4 if rms else 5, "weight")
    yield from _copied(value, "a contiguous copy of the input", before=True)
    yield from _copied(gradient, "a contiguous copy of the gradient")
    columns = prod(int(size) for size in shape)
    rows = _count(value) // max(columns, 1)
    few = columns // 32 < call.processor.multiprocessors // 2
    if call.processor.torch < (2, 8) or not _tensor(weight) or rows <= 64 * 1024 or not few:
        return
    parts = min(32 * 1024 // -(-columns // 32), -(-rows // 32))
    gradients = sum(_tensor(output) for output in call.outputs[1:])
    for _ in range(gradients):
        yield Inside(parts * columns * _width(weight.dtype), "partial gradients of the weight")


def _group_norm(call: Call) -> Iterator[Inside]:
    """Scale and shift of each channel, in float.

    Source: aten/src/ATen/native/cuda/group_norm_kernel.cu, GroupNormKernelImplInternal.
    """
    value, weight, bias, batch, channels, spatial = call.args[:6]
    if not (_tensor(weight) or _tensor(bias)) or spatial == 1:
        return
    size = batch * channels * _accumulated(value.dtype)
    yield Inside(size, "each channel's scale")
    yield Inside(size, "each channel's shift")


def _group_norm_backward(call: Call) -> Iterator[Inside]:
    """Source: cuda/group_norm_kernel.cu, GroupNormBackwardKernelImplInternal."""
    value, weight = call.args[1], call.args[4]
    batch, channels, spatial, groups = call.args[5:9]
    width = _accumulated(value.dtype)
    mask = call.get(9, "output_mask", (True, True, True))
    yield Inside(batch * channels * width, "sums of gradient times input")
    yield Inside(batch * channels * width, "sums of the gradient")
    if not mask[0]:
        return
    if spatial > 1 and _tensor(weight):
        yield Inside(batch * groups * width, "factors of each group")
        yield Inside(batch * groups * width, "factors of each group")
        yield Inside(batch * channels * width, "factors of each channel")
        return
    yield Inside(batch * groups * width, "factors of each group")
    yield Inside(batch * groups * width, "factors of each group")


def _batch_norm(call: Call) -> Iterator[Inside]:
    """The workspace of cuDNN, or the native kernels' staging: some numbers for each channel.

    Source: aten/src/ATen/native/cudnn/BatchNorm.cpp; cuda/Normalization.cuh,
    batch_norm_stats_channels_last_cuda_template. The size is cuDNN's own.
    """
    value = next((arg for arg in call.args if _tensor(arg)), None)
    if value is None or len(_sizes(value)) < 2:
        return
    channels = _sizes(value)[1]
    most = channels * 4 * 4 * 128 + 4 * channels
    yield Inside(0, "batch norm's workspace", least=0, most=most)


def _nll_loss(call: Call) -> Iterator[Inside]:
    """Source: cuda/Loss.cu, nll_loss_forward_out_cuda_template; cuda/NLLLoss2d.cu."""
    tensors = [value for value in call.args if _tensor(value)]
    for value in tensors:
        yield from _copied(value, "a contiguous copy")


def _binary_cross_entropy(call: Call) -> Iterator[Inside]:
    """The reduced loss, copied into the tensor of all losses: see ``results_on_card``.

    Source: aten/src/ATen/native/cuda/Loss.cu, binary_cross_entropy_out_cuda.
    """
    value = call.args[0]
    if call.get(3, "reduction", 1) != 0:
        yield Inside(_width(value.dtype), "the loss, reduced")
        yield from _reduced(call, value, None, _accumulated(value.dtype))


def _mean_of_losses(call: Call) -> Iterator[Inside]:
    """``mse_loss`` and its like: the loss of each element, then its mean.

    Source: aten/src/ATen/native/BinaryOps.cpp / Loss.cpp, mse_loss_out, smooth_l1_loss_out,
    huber_loss, which makes the losses before the mean.
    """
    value = call.args[0]
    if call.get(2, "reduction", 1) != 0:
        before = call.name.startswith("aten::huber_loss")
        yield Inside(_bytes(value), "the loss of each element", before=before)
        yield from _reduced(call, value, None, _accumulated(value.dtype))


# Embeddings and indices.


def _sorted_pairs(count: int, key: int, value: int, role: str, *, before: bool = False) -> Inside:
    """CUB's radix sort of pairs: a second copy of keys and values, and its counters.

    What one block sorts (some 2,300 pairs of 8 bytes) needs nothing, for which CUB asks one byte.
    Source: cub/device/dispatch/dispatch_radix_sort.cuh: SingleTilePolicy, and InvokeOnesweep
    (allocation_sizes): keys and values again, since PyTorch's inputs must not be overwritten; 256
    counters of 4 bytes for each tile, 256 of 8 for each pass. Tiles depend on CUB's tuning for the
    card (2,000 to 17,000 pairs), so this is a range.
    """
    if count <= 256 * max(19 * 4 // max(key, value, 4), 1):
        return Inside(1, role, before=before, outlives=0)
    copies = count * (key + value)
    counters = 8 * 256 * 8 + 4 * 256
    return Inside(
        copies + counters + count // 8000 * 1024,
        role,
        before=before,
        outlives=0,
        least=copies,
        most=copies + counters + -(-count // 2000) * 1024,
    )


def _scan(count: int, width: int, role: str) -> Inside:
    """CUB's scan: a descriptor for each tile of some thousand items.

    Source: cub/agent/single_pass_scan_operators.cuh, ScanTileState.
    """
    tiles = -(-count // 1920) + 32
    size = tiles * (8 if width <= 4 else 16) + 256
    return Inside(size, role, outlives=0, least=1, most=4 * size)


def _embedding_backward(call: Call) -> Iterator[Inside]:
    """Few indices need nothing; more are sorted, and summed in parts of ten rows.

    Source: aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda (3,072 indices);
    EmbeddingBackwardKernel.cu, embedding_backward_cuda_kernel (NROWS_PER_THREAD of 10).
    """
    gradient, indices, rows = call.args[:3]
    counted = bool(call.get(4, "scale_grad_by_freq", False))
    yield from _copied(indices, "a contiguous copy of the indices", before=True)
    yield from _copied(gradient, "a contiguous copy of the gradient", before=True)
    count = _count(indices)
    if count <= 3072 and not counted:
        return
    width = _width(indices.dtype)
    yield Inside(count * width, "sorted indices", before=True)
    yield Inside(count * width, "where they came from", before=True)
    yield Inside(count * width, "the indices' positions", before=True, outlives=1)
    yield _sorted_pairs(count, width, width, "CUB's sort of the indices", before=True)
    if counted:
        yield Inside(count * width, "how often each index comes", before=True)
    yield from _embedding_parts(count, int(rows), width, gradient)


def _embedding_parts(count: int, rows: int, width: int, gradient: Any) -> Iterator[Inside]:
    columns = _sizes(gradient)[-1]
    yield Inside(count * width, "where each row begins")
    yield Inside(8, "how many rows there are")
    yield Inside(count * width, "CUB's unique rows", outlives=0)
    yield _scan(count, width, "CUB's unique rows, its descriptors")
    segments = min(count, rows)
    yield Inside(segments * width, "parts of each row")
    yield Inside(segments * width, "where each row's parts begin")
    yield _scan(segments, width, "CUB's scan of the parts")
    yield Inside(8, "how many parts there are")
    parts = count // 10 + segments
    yield Inside(parts * width, "where each part begins")
    yield Inside(parts * columns * _accumulated(gradient.dtype), "partial sums of the rows")


def _index_put(call: Call) -> Iterator[Inside]:
    """Accumulating sorts the indices; without, only indices of another dtype are copied.

    Source: aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel, makeLinearIndex;
    TensorAdvancedIndexing.cpp, _index_put_impl_.
    """
    value, indices, source = call.args[:3]
    accumulate = bool(call.get(3, "accumulate", False))
    found = [index for index in indices if _tensor(index)]
    if not found or any(_kind(index.dtype) in ("bool", "uint8") for index in found):
        # A mask is turned into its indices by aten::nonzero, which is seen by itself.
        found = [index for index in found if _kind(index.dtype) not in ("bool", "uint8")]
    if not (accumulate or call.processor.deterministic):
        for index in found:
            if _kind(index.dtype) == "int32":
                yield Inside(_count(index) * 8, "the indices as int64")
        return
    if not found:
        return
    count = max(_count(index) for index in found)
    yield Inside(count * 8, "indices wrapped to be positive", outlives=1)
    yield Inside(count * 8, "indices as one number")
    for _ in found[1:]:
        yield Inside(count * 8, "indices wrapped to be positive", outlives=1)
        yield Inside(count * 8, "a further index times its stride", outlives=0)
    sliced = _count(value) // max(
        prod(_sizes(value)[dim] for dim, index in enumerate(indices) if _tensor(index)), 1
    )
    expanded = count * sliced
    if not _is_contiguous(source) or _count(source) < expanded:
        yield Inside(expanded * _width(source.dtype), "the values, expanded")
    yield Inside(count * 8, "sorted indices")
    yield Inside(count * 8, "where they came from")
    yield Inside(count * 8, "the indices' positions", outlives=1)
    yield _sorted_pairs(count, 8, 8, "CUB's sort of the indices")


def _index(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, make_info: int32 becomes int64."""
    for index in call.args[1]:
        if _tensor(index) and _kind(index.dtype) == "int32":
            yield Inside(_count(index) * 8, "the indices as int64", before=True)


def _masked_scatter(call: Call) -> Iterator[Inside]:
    """A running count of the mask, of 8 bytes an element.

    Source: aten/src/ATen/native/cuda/IndexKernel.cpp, masked_scatter__cuda.
    """
    value, mask = call.args[:2]
    if _sizes(mask) == _sizes(value):
        yield from _copied(mask, "a contiguous copy of the mask")
    elif _count(value):
        yield Inside(_count(value), "the mask, expanded")
    yield Inside(_count(value) * 8, "a running count of the mask")
    yield _scan(_count(value), 8, "CUB's scan of the mask")


def _nonzero(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/Nonzero.cu, nonzero_cuda_out_impl."""
    value = call.args[0]
    yield from _copied(value, "a contiguous copy of the input", before=True)
    yield Inside(4 * max(-(-_count(value) // 2**30), 1), "how many there are", before=True)
    scan = _scan(_count(value), 4, "CUB's selection")
    yield scan


def _sort(call: Call) -> Iterator[Inside]:
    """Up to 4,096 elements are sorted in place; longer ones by CUB.

    Source: aten/src/ATen/native/cuda/Sort.cpp, sort_cuda_kernel; Sort.h, should_use_small_sort;
    SortStable.cu, launch_stable_sort_kernel.
    """
    value = call.args[0]
    stable = "stable" in call.name
    dim = int(call.get(2, "dim", -1) if stable else call.get(1, "dim", -1)) if _sizes(value) else 0
    yield from _sorting(value, dim)


def _sorting(value: Any, dim: int) -> Iterator[Inside]:
    sizes = _sizes(value)
    if not sizes or not _count(value):
        return
    dim %= len(sizes)
    length = sizes[dim]
    if length <= 4096:
        yield Inside(length * 8, "positions along the dimension", outlives=0)
        return
    width, count = _width(value.dtype), _count(value)
    if not (_is_dense(value) and _strides(value)[dim] == 1):
        yield Inside(count * width, "the input with the dimension last")
        yield Inside(count * width, "its values, sorted")
        yield Inside(count * 8, "its indices, sorted")
    segments = count // length
    if segments == 1 or length >= 1_000_000:
        yield Inside(length * 8, "positions along the dimension")
        yield _sorted_pairs(length, width, 8, "CUB's sort")
    elif segments < 128:
        yield Inside(count * 8, "segments and positions")
        yield Inside(count * 8, "segments and positions, sorted")
        yield Inside(count * width, "keys, sorted")
        yield _sorted_pairs(count, width, 8, "CUB's sort")
    else:
        yield Inside(count * 8, "positions along the dimension")
        size = count * (width + 8)
        yield Inside(size, "CUB's segmented sort", outlives=0, least=size, most=size + 4 * MIB)


def _topk(call: Call) -> Iterator[Inside]:
    """Counters of the selection; then a sort of what was selected where it is long.

    Source: aten/src/ATen/native/cuda/TensorTopK.cpp, should_use_sort; TensorTopK.cu, mbtopk::launch
    and should_use_multiblock.
    """
    value, number = call.args[:2]
    dim = int(call.get(2, "dim", -1))
    if not _sizes(value) or not _count(value):
        return
    length = _sizes(value)[dim]
    slices = _count(value) // length
    if slices <= 10 and length >= 100_000:
        yield Inside(_bytes(value), "values, sorted")
        yield Inside(_count(value) * 8, "indices, sorted")
        yield from _sorting(value, dim)
        return
    blocks = slices * -(-length // 1024)
    size = slices * 24 + blocks * (256 * 2 + 8)
    yield Inside(0, "counters of the selection", least=0, most=size + 4096)
    if call.get(4, "sorted", True) and number > 4096:
        chosen = slices * number
        yield Inside(chosen * 8, "indices, sorted")
        yield Inside(chosen * _width(value.dtype), "values, sorted")
        yield _sorted_pairs(chosen, _width(value.dtype), 8, "CUB's sort")


def _cumulative(call: Call) -> Iterator[Inside]:
    """One row is scanned by CUB; several rows need nothing.

    Source: aten/src/ATen/native/cuda/ScanUtils.cuh, scan_dim; ScanKernels.cpp.
    """
    value = call.args[0]
    sizes = _sizes(value)
    if not sizes or not _count(value):
        return
    result = next((output for output in call.outputs if _tensor(output)), value)
    if _kind(result.dtype) != _kind(value.dtype):
        yield Inside(_bytes(value, _width(result.dtype)), f"the input as {_kind(result.dtype)}")
    else:
        yield from _copied(value, "a contiguous copy of the input")
    if sizes[int(call.get(1, "dim", 0))] == _count(value):
        yield _scan(_count(value), _width(result.dtype), "CUB's scan")


def _randperm(call: Call) -> Iterator[Inside]:
    """Positions, random keys twice, and CUB's sort of them.

    Source: aten/src/ATen/native/cuda/Randperm.cu, randperm_out_cuda.
    """
    number = int(call.args[0])
    if not number:
        return
    width = _width(call.outputs[0].dtype)
    bits = min(64, ceil(log2(number - (6 * number * number + 1) / (log(0.9) * 12))))
    key = 4 if bits <= 32 else 8
    yield Inside(number * width, "the positions")
    yield Inside(number * key, "random keys")
    yield Inside(number * key, "random keys, sorted")
    yield _sorted_pairs(number, key, width, "CUB's sort of the keys")


def _unique(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/cuda/UniqueCub.cu, Unique.cu: sorted input, indices, CUB."""
    value = call.args[0]
    count, width = _count(value), _width(value.dtype)
    most = count * (2 * width + 5 * 8) + MIB
    yield Inside(count * (2 * width + 8), "the input, sorted", before=True, least=0, most=most)


def _multinomial(call: Call) -> Iterator[Inside]:
    """Source: aten/src/ATen/native/Distributions.cpp; cuda/MultinomialKernel.cu."""
    value = call.args[0]
    yield Inside(2 * _bytes(value), "distributions and their sums", least=0, most=4 * _bytes(value))


# Attention.


def _flash_forward(call: Call) -> Iterator[Inside]:
    """Parts of the output where the keys are split over blocks: only without dropout, few heads.

    Source: transformers/cuda/flash_attn/flash_api.cpp, mha_fwd, set_params_splitkv,
    num_splits_heuristic. Since 2.7 (pytorch's note "BC breaking change to flash seed/offset") the
    state of the generator, 16 and 8 bytes, lies on the card and is a result.
    """
    query, key = call.args[:2]
    dropout = call.get(3, "dropout_p", 0.0)
    if dropout:
        if call.processor.torch >= (2, 7):
            yield Inside(16, "the generator's state", outlives=0)
        return
    batch, heads, rows, head = _sizes(query)
    splits = flash_splits(
        batch * heads * -(-rows // 64), call.processor.multiprocessors * 2, head, _sizes(key)[2]
    )
    if splits > 1:
        yield Inside(splits * batch * heads * rows * 4, "log-sum-exps of the parts")
        rounded = _head_rounded(head, call.processor)
        yield Inside(splits * batch * heads * rows * rounded * 4, "outputs of the parts")


def flash_splits(blocks: int, available: int, head: int, keys: int) -> int:
    """Over how many blocks flash attention splits the keys.

    Args:
        blocks: batch times heads times blocks of 64 queries.
        available: twice the card's multiprocessors.
        head: the head's dimension.
        keys: how many there are.
    """
    if blocks >= 0.8 * available:
        return 1
    width = 256 if head <= 64 else 128 if head <= 128 else 64
    key_blocks = -(-keys // width)
    most = min(128, available, key_blocks)

    def eligible(splits: int) -> bool:
        return splits == 1 or -(-key_blocks // splits) != -(-key_blocks // (splits - 1))

    efficiencies = []
    for splits in range(1, most + 1):
        waves = blocks * splits / available
        efficiencies.append(waves / ceil(waves) if eligible(splits) else 0.0)
    best = max(efficiencies, default=0.0)
    for splits in range(1, most + 1):
        if eligible(splits) and efficiencies[splits - 1] >= 0.85 * best:
            return splits
    return 1


def _head_rounded(head: int, processor: Processor) -> int:
    """2.6 rounds to 32; later (flash-attention 2.7) to 64 above 128. The version is a guess."""
    head = -(-head // 8) * 8
    to = 64 if head > 128 and processor.torch >= (2, 7) else 32
    return -(-head // to) * to


def _flash_backward(call: Call) -> Iterator[Inside]:
    """The gradient of the queries in float, and sums of each row.

    Source: transformers/cuda/attention_backward.cu, _flash_attention_backward (contiguous in batch,
    row, head); flash_attn/flash_api.cpp, mha_bwd.
    """
    gradient, query, key, _, output = call.args[:5]
    batch, heads, rows, head = _sizes(query)
    for value, role in ((gradient, "gradient"), (output, "output")):
        sizes, strides = _sizes(value), _strides(value)
        turned = [0, 2, 1, 3]
        if not _contiguous([sizes[dim] for dim in turned], [strides[dim] for dim in turned]):
            yield Inside(_bytes(value), f"a copy of the {role} by rows", before=True)
    rounded_rows = -(-rows // 128) * 128
    rounded_head = _head_rounded(head, call.processor)
    yield Inside(batch * heads * rounded_rows * 4, "sums of output times gradient")
    parts = 1
    if call.processor.deterministic:
        parts = -(-call.processor.multiprocessors // (batch * heads))
    size = parts * batch * rounded_rows * heads * rounded_head * 4
    yield Inside(size, "the queries' gradient in float")
    key_heads = _sizes(key)[1]
    if key_heads != heads:
        size = batch * _sizes(key)[2] * heads * head * _width(query.dtype)
        yield Inside(size, "gradients of the keys for each query head")
        yield Inside(size, "gradients of the values for each query head")


def _efficient_forward(call: Call) -> Iterator[Inside]:
    """The output in float where a head is wider than the registers hold: above 128.

    Source: transformers/cuda/attention.cu, _efficient_attention_forward (output_accum);
    mem_eff_attention/kernel_forward.h, kNeedsOutputAccumulatorBuffer.
    """
    query, _, value = call.args[:3]
    batch, heads, rows, _ = _sizes(query)
    head = _sizes(value)[-1]
    if _low(query.dtype) and head > 128:
        yield Inside(batch * rows * heads * head * 4, "the output in float")


def _efficient_backward(call: Call) -> Iterator[Inside]:
    """Sums of each row, and gradients in float in blocks.

    Source: transformers/cuda/attention_backward.cu, _efficient_attention_backward (delta,
    workspace); mem_eff_attention/kernel_backward.h, workspace_size. Block sizes depend on the card:
    a range.
    """
    gradient, query, key, value = call.args[:4]
    batch, heads, rows, head = _sizes(query)
    sizes, strides = _sizes(gradient), _strides(gradient)
    turned = [0, 2, 1, 3]
    if not _contiguous([sizes[dim] for dim in turned], [strides[dim] for dim in turned]):
        yield Inside(_bytes(gradient), "a copy of the gradient by rows", before=True)
    low = _low(query.dtype)
    if not low:
        yield Inside(_bytes(gradient), "gradient times output", outlives=0)
    yield Inside(batch * heads * rows * 4, "sums of output times gradient")
    block = 128 if head > 64 else 64
    columns = -(-head // block) * block
    queries = -(-rows // block) * (16 + block * columns * 4)
    keys = _sizes(key)[2]
    splits = -(-keys // block)
    wide = 2 * splits * block * columns * 4
    if low:
        size = batch * heads * queries
        yield Inside(
            size, "gradients in float", least=size // 4, most=size * 4 + batch * heads * wide
        )
    else:
        yield Inside(0, "gradients of split keys", least=0, most=batch * heads * (queries + wide))
    _ = value


def _cudnn_attention(call: Call) -> Iterator[Inside]:
    """The plan of cuDNN asks for a workspace; forward needs little, backward the queries' gradient.

    Source: aten/src/ATen/native/cudnn/MHA.cpp, run_cudnn_SDP_fprop and run_cudnn_SDP_bprop.
    """
    query = call.args[1] if "backward" in call.name else call.args[0]
    batch, heads, rows, head = _sizes(query)
    if "backward" not in call.name:
        yield Inside(0, "cuDNN's workspace", least=0, most=16 * MIB)
        return
    if _strides(call.args[0]) != _strides(call.args[4]):
        yield Inside(_bytes(call.args[0]), "a copy of the gradient that lies like the output")
    size = batch * heads * rows * (head + 1) * 4
    yield Inside(size, "cuDNN's workspace", least=0, most=2 * size + 16 * MIB)


# Convolutions and recurrent networks.


def _convolution(call: Call) -> Iterator[Inside]:
    """Copies into one memory format, and cuDNN's workspace, which its heuristics choose.

    The least is nothing; the most is what cuDNN's kernels ask for to lay input, weight and result
    out anew (NHWC), in float for half precision. With ``torch.backends.cudnn.benchmark`` the first
    call of each shape allocates the largest workspace of all plans that fits, which no bound holds.

    Source: aten/src/ATen/native/Convolution.cpp; cudnn/ConvShared.cpp; cudnn/Conv_v8.cpp,
    run_conv_plan (workspace), generate_and_filter_plans (benchmark).
    """
    tensors = [value for value in call.args if _tensor(value)]
    backward = "backward" in call.name
    value = tensors[1] if backward else tensors[0]
    weight = tensors[2] if backward else tensors[1]
    last = _channels_last(value) or _channels_last(weight)
    for tensor, role in ((tensors[0], "gradient" if backward else "input"), (weight, "weight")):
        fits = _channels_last(tensor) if last else _is_contiguous(tensor)
        if not fits:
            yield Inside(
                _bytes(tensor), f"the {role} in the convolution's memory format", before=True
            )
    result = next((output for output in call.outputs if _tensor(output)), value)
    widened = 2 if _low(value.dtype) else 1
    most = (_bytes(value) + _bytes(weight) + _bytes(result)) * widened + 32 * MIB
    yield Inside(0, "cuDNN's workspace", least=0, most=most, outlives=0 if backward else None)


def _channels_last(value: Any) -> bool:
    sizes, strides = _sizes(value), _strides(value)
    if len(sizes) not in (4, 5):
        return False
    order = [0, *range(2, len(sizes)), 1]
    return _contiguous([sizes[dim] for dim in order], [strides[dim] for dim in order]) and not (
        _is_contiguous(value)
    )


@dataclass(frozen=True)
class RecurrentMemory:
    """What cuDNN keeps of a recurrent network for backward, and needs meanwhile; both estimates."""

    reserve: int
    workspace: int


def cudnn_rnn_memory(
    mode: int, steps: int, batch: int, hidden: int, layers: int, directions: int, element: int
) -> RecurrentMemory:
    """Estimate cuDNN's reserve and workspace of ``_cudnn_rnn``, whose fake result has 0 bytes.

    Args:
        mode: cuDNN's: 0 and 1 are plain (relu, tanh), 2 is LSTM, 3 is GRU.
        steps: length of the sequences.
        batch: number of sequences.
        hidden: hidden size.
        layers: layers one above the other.
        directions: 2 if bidirectional.
        element: bytes of one element.

    A guess: cuDNN tells it only at run time (cudnnGetRNNTempSpaceSizes). Backward needs each
    gate's activation, the cell and the output of each step and layer.
    Source: aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_rnn.
    """
    kept, gates = {2: (6, 4), 3: (5, 3)}.get(mode, (1, 1))
    one = steps * batch * hidden * directions * element
    return RecurrentMemory(one * layers * kept, one * gates + layers * batch * hidden * gates * 4)


def _recurrent_memory(call: Call) -> RecurrentMemory | None:
    value = call.args[0]
    if call.name.partition(".")[0] == "aten::_cudnn_rnn":
        mode, hidden, layers, first, both = (call.args[index] for index in (6, 7, 9, 10, 13))
    else:
        mode, hidden, layers, first, both = (call.args[index] for index in (10, 11, 13, 14, 17))
    sizes = _sizes(value)
    if len(sizes) != 3:
        return None
    steps, batch = (sizes[1], sizes[0]) if first else sizes[:2]
    directions = 2 if both else 1
    return cudnn_rnn_memory(mode, steps, batch, hidden, layers, directions, _width(value.dtype))


def _recurrent(call: Call) -> Iterator[Inside]:
    """Workspace of cuDNN; what it keeps until backward is a result (``results_on_card``).

    With ``batch_first`` the input is turned, so that it is copied.
    """
    value = call.args[0]
    first = call.args[10 if call.name.partition(".")[0] == "aten::_cudnn_rnn" else 14]
    if first and len(_sizes(value)) == 3 and min(_sizes(value)[:2]) > 1:
        yield Inside(_bytes(value), "the input by steps", before=True)
    else:
        yield from _copied(value, "a contiguous copy of the input", before=True)
    memory = _recurrent_memory(call)
    if memory is not None:
        yield Inside(memory.workspace, "cuDNN's workspace", least=0, most=4 * memory.workspace)


_TILE = 16 * 128
"""Bytes that a block of threads copies at a time."""


def _split_copy(call: Call) -> Iterator[Inside]:
    """What FSDP takes its parameters apart with. Its addresses and sizes go to the card.

    Source: aten/src/ATen/native/cuda/TensorShape.cu, split_with_sizes_copy_out_cuda.
    """
    whole, sizes, dim = call.args[0], call.args[1], call.get(2, "dim", 0)
    parts = call.kwargs.get("out", ())
    if not all(_is_dense(each) and each.dtype == whole.dtype for each in (whole, *parts)):
        return
    shape = _sizes(whole)
    dim %= len(shape)
    step = _strides(whole)[dim] * _width(whole.dtype)
    chunks = prod(shape[:dim])
    processor = call.processor
    threads = processor.multiprocessors * processor.threads_per_multiprocessor
    most = threads // 128 * 2
    turns = -(-sum(-(-n * step // _TILE) for n in sizes) * chunks // most)
    each_block = min(ceil(turns**0.5), chunks)
    again = -(-turns // each_block) if each_block else 1
    blocks = sum(-(-n * step // (_TILE * again)) for n in sizes)
    yield Inside(8 * (4 * len(sizes) + 1 + blocks), "addresses and sizes")


def _chunk_cat(call: Call) -> Iterator[Inside]:
    """What FSDP puts gradients together with; as above.

    Source: aten/src/ATen/native/cuda/TensorShape.cu, get_chunk_cat_metadata.
    """
    tensors, dim, chunks = call.args[:3]
    out = call.kwargs.get("out")
    first = tensors[0]
    kinds = (_kind(first.dtype), _kind(first.dtype if out is None else out.dtype))
    if not all(_is_dense(each) for each in tensors) or (
        kinds[0] != kinds[1] and kinds != ("bfloat16", "float32")
    ):
        size = sum(_bytes(each) for each in tensors)
        yield Inside(size, "padded chunks", least=0, most=2 * size)
        return
    width = _width(first.dtype if out is None else out.dtype)
    dim %= len(_sizes(first))
    blocks = 0
    for each in tensors:
        shape = _sizes(each)
        blocks += -(-(-(-shape[dim] // chunks) * prod(shape[dim + 1 :]) * width) // _TILE)
    numbers = 6 * len(tensors) + 2 + blocks
    yield Inside(8 * numbers, "addresses and sizes", before=True, outlives=0)


def _rules() -> dict[str, Rule]:
    table: dict[Rule, str] = {
        _products: " ".join(name.removeprefix("aten::") for name in CUBLAS),
        _sum: "sum mean prod nansum",
        _norm: "linalg_vector_norm norm",
        _extreme: "amax amin any all max min aminmax",
        _extreme_and_where: "max.dim min.dim argmax argmin",
        _variance: "var std var_mean std_mean",
        _nonzero_count: "count_nonzero",
        _logsumexp: "logsumexp",
        _foreach_norm: "_foreach_norm _foreach_max",
        _softmax: "_softmax _log_softmax",
        _safe_softmax: "_safe_softmax",
        _softmax_backward: "_softmax_backward_data _log_softmax_backward_data",
        _masked_softmax_backward: "_masked_softmax_backward",
        _layer_norm: "native_layer_norm _fused_rms_norm",
        _layer_norm_backward: "native_layer_norm_backward _fused_rms_norm_backward",
        _group_norm: "native_group_norm",
        _group_norm_backward: "native_group_norm_backward",
        _batch_norm: "native_batch_norm native_batch_norm_backward cudnn_batch_norm"
        " cudnn_batch_norm_backward _native_batch_norm_legit _batch_norm_with_update"
        " batch_norm_backward _native_batch_norm_legit_no_training",
        _nll_loss: "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward",
        _binary_cross_entropy: "binary_cross_entropy",
        _mean_of_losses: "mse_loss smooth_l1_loss huber_loss",
        _embedding_backward: "embedding_dense_backward",
        _index_put: "index_put _index_put_impl _unsafe_index_put",
        _index: "index _unsafe_index",
        _masked_scatter: "masked_scatter",
        _nonzero: "nonzero",
        _sort: "sort argsort",
        _topk: "topk",
        _cumulative: "cumsum cumprod logcumsumexp",
        _randperm: "randperm",
        _unique: "_unique _unique2 unique_dim unique_consecutive",
        _multinomial: "multinomial",
        _flash_forward: "_scaled_dot_product_flash_attention",
        _flash_backward: "_scaled_dot_product_flash_attention_backward",
        _efficient_forward: "_scaled_dot_product_efficient_attention",
        _efficient_backward: "_scaled_dot_product_efficient_attention_backward",
        _cudnn_attention: "_scaled_dot_product_cudnn_attention"
        " _scaled_dot_product_cudnn_attention_backward",
        _convolution: "convolution _convolution convolution_backward cudnn_convolution"
        " cudnn_convolution_transpose convolution_overrideable",
        _recurrent: "_cudnn_rnn _cudnn_rnn_backward",
        _split_copy: "split_with_sizes_copy",
        _chunk_cat: "_chunk_cat",
    }
    return {f"aten::{name}": rule for rule, names in table.items() for name in names.split()}


_RULES = _rules()


_NAMES = """
abs absolute acos acosh add addcdiv addcmul addr alias alias_copy arange as_strided
as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool2d_backward
bernoulli binary_cross_entropy_backward bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor bucketize cat cauchy ceil celu clamp clamp_max clamp_min clone
col2im complex conj _conj _conj_physical constant_pad_nd copy copysign cos cosh deg2rad detach
diagonal diagonal_copy diagonal_scatter digamma div dropout elu elu_backward embedding empty
empty_like empty_permuted empty_strided eq erf erfc erfinv exp exp2 expand expm1 exponential eye
fill flip floor floor_divide fmax fmin fmod frac full full_like gather ge gelu gelu_backward
geometric glu glu_backward gt hardshrink hardsigmoid hardsigmoid_backward hardswish
hardswish_backward hardtanh hardtanh_backward heaviside huber_loss_backward hypot i0 im2col
imag index_add index_copy index_fill index_select isfinite isinf isnan isneginf isposinf le
leaky_relu leaky_relu_backward lerp lgamma lift lift_fresh linspace log log10 log1p log2
log_normal log_sigmoid_forward log_sigmoid_backward logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor logit logit_backward lt masked_fill max_pool2d_with_indices
max_pool2d_with_indices_backward max_pool3d_with_indices maximum minimum mish mish_backward
mse_loss_backward mul nan_to_num narrow native_dropout native_dropout_backward ne neg new_empty
new_empty_strided new_full new_ones new_zeros nextafter normal normal_functional ones ones_like
permute pixel_shuffle pixel_unshuffle polar polygamma pow put rad2deg rand rand_like randint
randint_like randn randn_like random real reciprocal reflection_pad1d reflection_pad2d relu
remainder renorm repeat replication_pad2d resize resize_as roll round rsqrt rsub scalar_tensor
scatter scatter_add scatter_reduce select select_backward select_scatter set sgn sigmoid
sigmoid_backward sign signbit silu silu_backward sin sinc sinh slice slice_backward
slice_scatter smooth_l1_loss_backward soft_margin_loss_backward softplus softplus_backward
softshrink split split_with_sizes sqrt square squeeze stack sub t take tan tanh tanh_backward
threshold threshold_backward transpose tril triu trunc unbind unfold unfold_backward uniform
unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_bilinear2d_backward
upsample_nearest1d upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d view
view_as_complex view_as_real where xlogy zero zeros zeros_like __and__ __or__ __xor__
__lshift__ __rshift__ _to_copy _unsafe_view _reshape_alias _local_scalar_dense
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward adaptive_max_pool2d
adaptive_max_pool2d_backward _amp_foreach_non_finite_check_and_unscale _amp_update_scale
_fused_adam _fused_adamw _fused_sgd _fused_adagrad _fused_dropout _thnn_fused_lstm_cell
_thnn_fused_gru_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward
_pin_memory is_pinned _has_compatible_shallow_copy_type _assert_async
_scaled_dot_product_attention_math _neg_view _fw_primal detach_copy view_copy
_weight_norm_interface _weight_norm_interface_backward native_channel_shuffle
record_stream is_same_size sym_size sym_stride sym_numel sym_storage_offset dim size stride
grid_sampler_2d grid_sampler_2d_backward
"""

_NOTHING = frozenset(f"aten::{name}" for name in _NAMES.split())
"""Whose CUDA kernels allocate their results and nothing else, with tensors as programs have them:
elementwise kernels (Loops.cuh), views, factories, copies on the card, gathers and scatters
(ScatterGatherKernel.cu, Indexing.cu), fused and foreach optimizers (MultiTensorApply.cuh hands
addresses over as kernel arguments)."""

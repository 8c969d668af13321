"""The buffers of a reduction that several thread blocks share: ATen's own arithmetic, once more.

A sum over few outputs is split over many blocks, which leave their part in global memory. How many
depends on shape, strides and the card, so this repeats ``setReduceConfig`` on the dimensions as
``TensorIterator`` sorts and joins them.

Source: PyTorch, aten/src/ATen/native/cuda/Reduce.cuh (ReduceConfig, setReduceConfig,
get_output_vec_size, gpu_reduce_kernel); aten/src/ATen/TensorIterator.cpp (reorder_dimensions,
coalesce_dimensions, can_use_32bit_indexing). The same in 2.6 and 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from snapreport.ground.records import dataclass

_WARP = 32
_MAX_THREADS = 512
_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class Reduction:
    """What is reduced, and how the kernel is instantiated.

    Attributes:
        sizes: of the input, one a dimension.
        strides: of the input, in elements.
        dims: that are reduced, none negative; all of them is a full reduction.
        element_bytes: of one input element.
        accumulated_bytes: of what is carried along: 4 for half precision summed in float.
        unrolled: the template's ``vt0``: 2 for variances, 4 otherwise.
        offset: of the input in its storage, in elements: it decides alignment.
        output_bytes: of one output element; 0 if that matters to no buffer.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dims: frozenset[int]
    element_bytes: int
    accumulated_bytes: int
    unrolled: int = 4
    offset: int = 0
    output_bytes: int = 0


@dataclass(frozen=True)
class Shared:
    """The two buffers of a reduction over several blocks; both 0 if one block does it."""

    buffer: int
    semaphores: int


def shared_buffers(
    reduction: Reduction, multiprocessors: int, threads_per_multiprocessor: int
) -> list[Shared]:
    """Give the buffers of every launch, first launch first: several where indices pass 32 bits."""
    if prod(reduction.sizes) == 0:
        return []
    dims = _iterated(reduction)
    return [
        _of_launch(reduction, part, multiprocessors, threads_per_multiprocessor)
        for part in _within_32_bits(dims, reduction)
    ]


@dataclass(frozen=True)
class _Dim:
    size: int
    stride: int
    output_stride: int  # 0 where reduced


def _iterated(reduction: Reduction) -> list[_Dim]:
    """The dimensions in iteration order: reduced ones first, then by stride, neighbours joined."""
    outputs = _output_strides(reduction)
    dims = [
        _Dim(size, stride, output)
        for size, stride, output in zip(reduction.sizes, reduction.strides, outputs, strict=True)
    ]
    dims.reverse()
    for index in range(1, len(dims)):
        moved = index
        for other in range(index - 1, -1, -1):
            order = _order(dims[other], dims[moved])
            if order > 0:
                dims[other], dims[moved] = dims[moved], dims[other]
                moved = other
            elif order < 0:
                break
    return _joined(dims)


def _output_strides(reduction: Reduction) -> list[int]:
    """Strides of the contiguous output, seen with the input's dimensions: 0 where reduced."""
    strides: list[int] = []
    step = 1
    for index in range(len(reduction.sizes) - 1, -1, -1):
        if index in reduction.dims:
            strides.append(0)
        else:
            strides.append(step)
            step *= reduction.sizes[index]
    strides.reverse()
    return strides


def _order(first: _Dim, second: _Dim) -> int:
    """1 if ``first`` has to come after ``second``, -1 if before, 0 if it does not matter."""
    if (first.output_stride == 0) != (second.output_stride == 0):
        return 1 if second.output_stride == 0 else -1
    for one, other in (
        (first.output_stride, second.output_stride),
        (first.stride, second.stride),
    ):
        if one == 0 or other == 0:
            continue
        if one != other:
            return -1 if one < other else 1
        if first.size > second.size:
            return 1
    return 0


def _joined(dims: list[_Dim]) -> list[_Dim]:
    """Join neighbours that one stride walks through."""
    if not dims:
        return []
    joined = [dims[0]]
    for dim in dims[1:]:
        last = joined[-1]
        alike = (
            last.size == 1
            or dim.size == 1
            or (
                last.size * last.stride == dim.stride
                and last.size * last.output_stride == dim.output_stride
            )
        )
        if not alike:
            joined.append(dim)
        elif last.size == 1:
            joined[-1] = _Dim(dim.size, dim.stride, dim.output_stride)
        else:
            joined[-1] = _Dim(last.size * dim.size, last.stride, last.output_stride)
    return joined


def _within_32_bits(dims: list[_Dim], reduction: Reduction) -> list[list[_Dim]]:
    """Halve the largest dimension until 32-bit indices reach everything."""
    reach = 1 + sum((dim.size - 1) * dim.stride for dim in dims) * reduction.element_bytes
    written = 1 + sum((dim.size - 1) * dim.output_stride for dim in dims) * reduction.output_bytes
    if prod(dim.size for dim in dims) <= _INT_MAX and max(reach, written) <= _INT_MAX:
        return [dims]
    widest = max(
        reversed(range(len(dims))),
        key=lambda index: (
            (dims[index].size - 1)
            * max(
                dims[index].stride * reduction.element_bytes,
                dims[index].output_stride * reduction.output_bytes,
            )
        ),
    )
    parts = []
    half = dims[widest].size // 2
    for size in (half, dims[widest].size - half):
        part = list(dims)
        part[widest] = _Dim(size, dims[widest].stride, dims[widest].output_stride)
        parts += _within_32_bits(part, reduction)
    return parts


def _of_launch(
    reduction: Reduction, dims: list[_Dim], multiprocessors: int, threads_per_multiprocessor: int
) -> Shared:
    """``setReduceConfig``, then ``global_memory_size`` and ``semaphore_size``."""
    if not dims:  # one number
        return Shared(0, 0)
    reduced = sum(dim.output_stride == 0 for dim in dims)
    outputs = prod(dim.size for dim in dims if dim.output_stride != 0)
    inputs = prod(dim.size for dim in dims) // outputs
    fastest = reduced == len(dims) or dims[0].stride < dims[reduced].stride
    width, height = (inputs, outputs) if fastest else (outputs, inputs)
    stride = dims[0].stride if fastest else dims[reduced].stride
    vector = 1
    if stride == 1:
        if fastest and width >= 128 and reduced == 1:
            width //= reduction.unrolled
        elif not fastest:
            vector = _output_vector(reduction, dims, reduced)
            width //= vector
    most = _MAX_THREADS // vector
    width_2 = _power_of_two(width) if width < most else most
    height_2 = _power_of_two(height) if height < most else most
    block_width = min(width_2, _WARP)
    block_height = min(height_2, most // block_width)
    block_width = min(width_2, most // block_height)
    step_input, step_output = (block_width, 1) if fastest else (1, block_width)
    per_thread = -(-inputs // step_input)
    if per_thread < min(block_height * 16, 256):
        return Shared(0, 0)  # each warp has an output of its own
    step_input *= block_height
    per_thread = -(-inputs // step_input)
    grid = -(-(outputs // vector) // step_output)
    target = multiprocessors * (threads_per_multiprocessor // (block_width * block_height))
    if per_thread < 256 or grid > target:
        return Shared(0, 0)
    blocks = max(min(-(-target // grid), -(-per_thread // 16)), -(-per_thread // 256))
    if blocks <= 1:
        return Shared(0, 0)
    buffer = reduction.accumulated_bytes * outputs * blocks
    if not fastest:
        buffer *= block_width * vector
    return Shared(buffer, 4 * grid)


def _output_vector(reduction: Reduction, dims: Sequence[_Dim], reduced: int) -> int:
    """How many outputs a thread writes at once: 4, 2 or 1 by alignment."""
    vector = 4
    others = [dim.stride for index, dim in enumerate(dims) if index != reduced]
    for number in (reduction.offset, dims[reduced].size, *others):
        while number % vector:
            vector //= 2
    return vector


def _power_of_two(number: int) -> int:
    """The largest power of two that is not above ``number``; 1 for 0."""
    return 1 << max(number.bit_length() - 1, 0)

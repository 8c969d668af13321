"""Which kernel CUDA takes for ``scaled_dot_product_attention``, and that call with fake tensors.

A build for the CPU alone has no rule for CUDA: ``_fused_sdp_choice_stub`` has no kernel for it, and
``at::scaled_dot_product_attention`` falls back to the mathematical one, which holds all scores. So
``choose_attention`` repeats CUDA's rules, and ``scaled_dot_product_attention`` calls the operator
of the kernel that they choose; its fake results and its node of autograd come with PyTorch.

Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (select_sdp_backend, priority_order and
the checks), sdp_utils_cpp.h and attention.cpp (scaled_dot_product_attention), from 2.6 on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from math import sqrt
from typing import Any

from snapreport.ground.records import dataclass
from snapreport.recorders.forecast.kernels import Processor


class Backend(IntEnum):
    """PyTorch's numbers. Source: aten/src/ATen/SDPBackend.h."""

    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3


OPERATORS = {
    Backend.MATH: "aten::_scaled_dot_product_attention_math",
    Backend.FLASH: "aten::_scaled_dot_product_flash_attention",
    Backend.EFFICIENT: "aten::_scaled_dot_product_efficient_attention",
    Backend.CUDNN: "aten::_scaled_dot_product_cudnn_attention",
}

_ORDER = (Backend.FLASH, Backend.EFFICIENT, Backend.MATH, Backend.CUDNN)
_CUDNN_ORDER = (Backend.CUDNN, Backend.FLASH, Backend.EFFICIENT, Backend.MATH)

_CUDNN = {(2, 6): 90100, (2, 7): 90501, (2, 8): 91002, (2, 9): 91002, (2, 10): 91002}


def cudnn_of_wheel(torch: tuple[int, int]) -> int:
    """The version of cuDNN that PyTorch's wheel from PyPI asks for.

    Source: requirements of the wheels: 2.8.0 and 2.9.1 9.10.2, 2.11.0 9.19.0, 2.13.0 9.20.0; those
    of 2.12 and after 2.13 are guesses.
    """
    if torch >= (2, 12):
        return 92000
    return _CUDNN.get(torch, 91900 if torch >= (2, 11) else 90100)


@dataclass(frozen=True)
class Settings:
    """What the program has set.

    Attributes:
        enabled: backends that are (``torch.backends.cuda.flash_sdp_enabled()`` and so on).
        order: of priority where the program has set one (``sdpa_kernel(set_priority=True)``).
        deterministic: ``use_deterministic_algorithms(True)`` that not only warns.
        cudnn: version of cuDNN; None for that of the wheel.
    """

    enabled: frozenset[Backend] = frozenset(Backend)
    order: tuple[Backend, ...] | None = None
    deterministic: bool = False
    cudnn: int | None = None


@dataclass(frozen=True)
class Choice:
    """The kernel that runs, and why those before it in order do not.

    Attributes:
        backend: None where CUDA would say that no kernel is available.
        refused: each backend tried before, with the reason.
    """

    backend: Backend | None
    refused: dict[Backend, str] = field(default_factory=dict)

    @property
    def operator(self) -> str | None:
        """The operator that runs, ``aten::_scaled_dot_product_flash_attention``."""
        return None if self.backend is None else OPERATORS[self.backend]


@dataclass(frozen=True)
class _Asked:
    query: Any
    key: Any
    value: Any
    mask: Any
    dropout: float
    causal: bool
    grouped: bool
    needs_grad: bool
    processor: Processor
    settings: Settings

    @property
    def cudnn(self) -> int:
        version = self.settings.cudnn
        return cudnn_of_wheel(self.processor.torch) if version is None else version


def choose_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
    grouped: bool = False,
    needs_grad: bool = False,
    processor: Processor,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
) -> Choice:
    """Choose as CUDA does.

    Args:
        query: tensors, or anything with their shape, strides and dtype.
        key: as query.
        value: as query.
        mask: ``attn_mask``.
        dropout: ``dropout_p``.
        causal: ``is_causal``.
        grouped: ``enable_gqa``.
        needs_grad: grad mode is on, and one of query, key and value requires a gradient.
        processor: the card and PyTorch's version.
        settings: what the program has set; PyTorch's defaults without.
        environment: variables; those of the process without.
    """
    settings = settings or Settings()
    asked = _Asked(
        query, key, value, mask, dropout, causal, grouped, needs_grad, processor, settings
    )
    refused: dict[Backend, str] = {}
    for backend in settings.order or _order(
        asked, os.environ if environment is None else environment
    ):
        if backend not in settings.enabled:
            refused[backend] = "it is switched off"
            continue
        reason = next(filter(None, (check(asked) for check in _CHECKS[backend])), None)
        if reason is None:
            return Choice(backend, refused)
        refused[backend] = reason
    return Choice(None, refused)


def _order(asked: _Asked, environment: Mapping[str, str]) -> tuple[Backend, ...]:
    """Flash first; cuDNN first on 9.0 and 10.0 in 2.9, and from 2.10 on where cuDNN is 9.15.1.

    Source: check_prefer_cudnn_attention: pytorch#162073 (2.9: from cuDNN 9.9) and pytorch#169849
    (2.10: after 9.15.0; the wheel of 2.10 has an older one). Newer ones: 9.x and 10.x with CUDA 13.
    """
    torch, (major, minor) = asked.processor.torch, asked.processor.capability
    if torch < (2, 9) or major not in (9, 10):
        return _ORDER
    if torch < (2, 10):
        preferred = asked.cudnn >= 90900 and not minor
    else:
        off = environment.get("TORCH_CUDNN_SDPA_DEPRIORITIZED", "").lower()
        wanted = off not in ("1", "on", "true", "yes", "y")
        preferred = wanted and asked.cudnn > 91500 and minor in (0, 3)
    return _CUDNN_ORDER if preferred else _ORDER


# Each check says why not, or None.

_Check = Callable[[_Asked], "str | None"]


def _kind(value: Any) -> str:
    return str(value.dtype).rpartition(".")[2]


def _four_dimensions(asked: _Asked) -> str | None:
    numbers = [len(value.shape) for value in (asked.query, asked.key, asked.value)]
    return None if numbers == [4, 4, 4] else "query, key and value need 4 dimensions"


def _no_mask(asked: _Asked) -> str | None:
    return None if asked.mask is None else "a mask is given"


def _flash_head(asked: _Asked) -> str | None:
    heads = {value.shape[-1] for value in (asked.query, asked.key, asked.value)}
    if len(heads) > 1:
        return "heads of query, key and value differ in size"
    return None if heads.pop() <= 256 else "heads are larger than 256"


def _efficient_head(asked: _Asked) -> str | None:
    major = asked.processor.capability[0]
    half = _kind(asked.query) in ("float16", "bfloat16")
    aligned = 4 if major >= 8 else 1
    if major >= 8 or (major >= 7 and half):
        aligned = max(aligned, 128 // (16 if half else 32))
    head, wide = asked.query.shape[-1], asked.value.shape[-1]
    if head != asked.key.shape[-1] or not head or not wide or head % aligned or wide % aligned:
        return f"heads are not multiples of {aligned}"
    return None


def _from_8_0(asked: _Asked) -> str | None:
    return None if asked.processor.capability >= (8, 0) else "the card is older than 8.0"


def _wide_heads_train(asked: _Asked) -> str | None:
    """Backward of wide heads lacks shared memory on 8.6 to 8.9 (and 12.x, in newer ones)."""
    capability = asked.processor.capability
    small = (8, 6) <= capability <= (8, 9)
    small |= asked.processor.torch >= (2, 8) and (12, 0) <= capability <= (12, 1)
    head = asked.query.shape[-1]
    if asked.needs_grad and small and head > 192 and (head <= 224 or asked.dropout > 0):
        return "heads above 192 cannot be trained on this card"
    return None


def _causal_is_square(asked: _Asked) -> str | None:
    if asked.causal and asked.query.shape[-2] != asked.key.shape[-2]:
        return "causal, with fewer or more queries than keys"
    return None


def _half_precision(asked: _Asked) -> str | None:
    allowed = ("float16", "bfloat16") if asked.processor.capability[0] >= 8 else ("float16",)
    return _one_dtype(asked, allowed)


def _efficient_dtype(asked: _Asked) -> str | None:
    allowed = ("float16", "float32", "bfloat16")
    return _one_dtype(asked, allowed if asked.processor.capability[0] >= 8 else allowed[:2])


def _one_dtype(asked: _Asked, allowed: Sequence[str]) -> str | None:
    kinds = {_kind(value) for value in (asked.query, asked.key, asked.value)}
    if len(kinds) == 1 and kinds <= set(allowed):
        return None
    return f"dtypes are {', '.join(sorted(kinds))}, not {' or '.join(allowed)}"


def _heads_match(asked: _Asked, *, grouped: bool) -> str | None:
    query, key, value = (tensor.shape for tensor in (asked.query, asked.key, asked.value))
    if not query[0] == key[0] == value[0]:
        return "batches differ"
    if asked.grouped and grouped:
        if key[-3] != value[-3] or not key[-3] or query[-3] % key[-3]:
            return "heads of queries are no multiple of those of keys"
        return None
    return None if query[-3] == key[-3] == value[-3] else "heads differ in number"


def _grouped_heads(asked: _Asked) -> str | None:
    return _heads_match(asked, grouped=True)


def _equal_heads(asked: _Asked) -> str | None:
    """The memory-efficient kernel knows no groups (it does in versions after 2.13)."""
    return _heads_match(asked, grouped=asked.processor.torch > (2, 13))


def _some_rows(asked: _Asked) -> str | None:
    return None if asked.query.shape[-2] and asked.key.shape[-2] else "there are no rows"


def _last_stride(asked: _Asked) -> str | None:
    return _last_strides(asked, single=True)


def _last_stride_always(asked: _Asked) -> str | None:
    return _last_strides(asked, single=False)


def _last_strides(asked: _Asked, *, single: bool) -> str | None:
    tensors = (asked.query, asked.key, asked.value)
    fits = all(tensor.stride()[-1] == 1 for tensor in tensors)
    fits |= single and asked.query.shape[-1] == 1
    if asked.mask is not None:
        fits &= asked.mask.stride()[-1] == 1
    return None if fits else "the last dimension has gaps"


def _mask_fits(asked: _Asked) -> str | None:
    mask = asked.mask
    if mask is None:
        return None
    if getattr(mask, "requires_grad", False):
        return "the mask needs a gradient"
    wanted = (*asked.query.shape[:-1], asked.key.shape[-2])
    number = len(mask.shape)
    pairs = zip(reversed(mask.shape), reversed(wanted), strict=False)
    if number in (2, 4) and all(size in (1, want) for size, want in pairs):
        return None
    return "the mask has another shape"


def _cudnn_can(asked: _Asked) -> str | None:
    """Shapes and versions. Source: check_cudnn_tensor_shapes, can_use_cudnn_attention."""
    version, capability = asked.cudnn, asked.processor.capability
    if version < 90000:
        return "cuDNN is older than 9.0"
    if asked.dropout > 0 and 91100 < version < 91400:
        return "this cuDNN has no dropout"
    if asked.processor.torch >= (2, 13) and asked.dropout * 16 != int(asked.dropout * 16):
        return "dropout is no multiple of 1/16"
    if asked.settings.deterministic:
        return "it is not deterministic"
    head, wide = asked.query.shape[-1], asked.value.shape[-1]
    most = 128
    hopper = capability == (9, 0) or capability[0] == 10
    if hopper and version >= 91100 and (head, wide) == (192, 128):
        most = 192
    if hopper and version > 92200 and asked.processor.torch > (2, 13):
        most = 256
    if head > most or wide > most:
        return f"heads are larger than {most}"
    if head % 8 or wide % 8:
        return "heads are not multiples of 8"
    if asked.key.shape[-2] == 1 or (asked.dropout and asked.query.shape[-2] == 1):
        return "there is one row"
    return None


_CHECKS: dict[Backend, tuple[_Check, ...]] = {
    Backend.MATH: (),
    Backend.FLASH: (
        _four_dimensions,
        _no_mask,
        _flash_head,
        _from_8_0,
        _wide_heads_train,
        _causal_is_square,
        _half_precision,
        _grouped_heads,
        _some_rows,
        _last_stride,
    ),
    Backend.EFFICIENT: (
        _four_dimensions,
        _efficient_head,
        _some_rows,
        _last_stride_always,
        _equal_heads,
        _efficient_dtype,
    ),
    Backend.CUDNN: (
        _four_dimensions,
        _some_rows,
        _last_stride,
        _grouped_heads,
        _cudnn_can,
        _half_precision,
        _mask_fits,
        _from_8_0,
    ),
}


def settings_now() -> Settings:
    """Read what the program has set, in PyTorch."""
    import torch

    get = torch._C
    enabled = {
        backend
        for backend, name in (
            (Backend.MATH, "math"),
            (Backend.FLASH, "flash"),
            (Backend.EFFICIENT, "mem_efficient"),
            (Backend.CUDNN, "cudnn"),
        )
        if getattr(get, f"_get_{name}_sdp_enabled")()
    }
    known = {int(backend) for backend in Backend}
    order = [number for number in get._get_sdp_priority_order() if number in known]
    strict = torch.are_deterministic_algorithms_enabled()
    strict = strict and not torch.is_deterministic_algorithms_warn_only_enabled()
    return Settings(
        frozenset(enabled),
        None if order == [int(backend) for backend in _ORDER] else tuple(map(Backend, order)),
        strict,
    )


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    processor: Processor,
    told: Callable[[Choice], None] | None = None,
) -> Any:
    """Call the operator that CUDA would call, as ``at::scaled_dot_product_attention`` does.

    Args:
        processor: the card and PyTorch's version.
        told: is given the choice, for a report.
    """
    import torch

    aten = torch.ops.aten
    needs_grad = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (query, key, value)
    )
    choice = choose_attention(
        query,
        key,
        value,
        attn_mask,
        dropout=dropout_p,
        causal=is_causal,
        grouped=enable_gqa,
        needs_grad=needs_grad,
        processor=processor,
        settings=settings_now(),
    )
    if told is not None:
        told(choice)
    if choice.backend is None:
        raise RuntimeError("No available kernel. Aborting execution.")  # PyTorch's words
    mask = _additive(attn_mask, query)
    if choice.backend is Backend.FLASH:
        head = query.shape[-1]
        padded = [_padded(tensor) for tensor in (query, key, value)]
        factor = 1 / sqrt(head) if scale is None else scale
        result = aten._scaled_dot_product_flash_attention(
            *padded, dropout_p, is_causal, scale=factor
        )[0]
        return result if result.shape[-1] == head else result[..., :head]
    if choice.backend is Backend.CUDNN:
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, needs_grad, dropout_p, is_causal, False, scale=scale
        )[0]
    if choice.backend is Backend.EFFICIENT:
        if mask is not None:
            mask = _aligned_mask(mask, query, key)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, needs_grad, dropout_p, is_causal, scale=scale
        )[0]
    return _mathematical(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)


def _additive(mask: Any, query: Any) -> Any:
    """A mask of booleans as 0 and minus infinity. Source: convert_boolean_attn_mask."""
    import torch

    if mask is None or mask.dtype is not torch.bool:
        return mask
    lowest = torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=mask.device)
    return torch.where(mask, 0.0, lowest)


def _padded(tensor: Any) -> Any:
    """The head padded to a multiple of 8. Source: pad_last_dim."""
    import torch

    over = tensor.shape[-1] % 8
    return torch.nn.functional.pad(tensor, (0, 8 - over)) if over else tensor


def _aligned_mask(mask: Any, query: Any, key: Any) -> Any:
    """Rows of a multiple of 8, then expanded. Source: preprocess_mask, pad_bias."""
    import torch

    strides = mask.stride()
    if strides[-1] != 1 or any(stride % 8 for stride in strides[:-1]):
        last = mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, 8 - last % 8))[..., :last]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _mathematical(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    dropout: float,
    causal: bool,
    scale: float | None,
    grouped: bool,
) -> Any:
    """Source: attention.cpp, _scaled_dot_product_attention_math; the mask is added in place."""
    import torch

    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16) and not (
        torch._C._get_math_sdp_allow_fp16_bf16_reduction()
    ):
        query, key, value = (tensor.to(torch.float32) for tensor in (query, key, value))
    negative = scale is not None and scale < 0
    factor = sqrt(abs(scale) if scale is not None else 1 / sqrt(query.shape[-1]))
    query = query * (-factor if negative else factor)
    if causal:
        ones = torch.ones(
            query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device
        ).tril()
        mask = _additive(ones, query)
    if grouped and query.shape[-3] != key.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = torch.matmul(query, key.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    scores = torch.ops.aten._safe_softmax(scores, -1)
    if dropout > 0:
        scores = torch.dropout(scores, dropout, True)
    dropped = scores.to(dtype)  # the second result, which comes first and goes on return
    result = torch.matmul(scores, value).to(dtype)
    del dropped
    return result

"""Which kernel CUDA chooses, case by case from sdp_utils.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import pytest

from snapreport.recorders.forecast.attention import (
    Backend,
    Settings,
    choose_attention,
    cudnn_of_wheel,
)
from snapreport.recorders.forecast.kernels import Processor


@dataclass
class Tensor:
    """A tensor's metadata, in rows."""

    shape: tuple[int, ...] = (2, 8, 128, 64)
    dtype: str = "torch.bfloat16"
    requires_grad: bool = False

    def stride(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))


A100, RTX_4090, H100, T4 = (
    Processor((8, 0)),
    Processor((8, 9)),
    Processor((9, 0)),
    Processor((7, 5)),
)


def chosen(
    query: Tensor | None = None,
    key: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    processor: Processor = A100,
    dropout: float = 0.0,
    causal: bool = False,
    grouped: bool = False,
    needs_grad: bool = True,
    settings: Settings | None = None,
) -> Backend | None:
    query = query or Tensor()
    key = key or query
    return choose_attention(
        query,
        key,
        key,
        mask,
        dropout=dropout,
        causal=causal,
        grouped=grouped,
        needs_grad=needs_grad,
        processor=processor,
        settings=settings,
        environment={},
    ).backend


def test_half_precision_without_a_mask_is_flash() -> None:
    assert chosen(causal=True) is Backend.FLASH
    assert chosen(Tensor(dtype="torch.float16"), dropout=0.1) is Backend.FLASH


def test_a_mask_or_float_is_memory_efficient() -> None:
    assert chosen(mask=Tensor((128, 128), "torch.bool")) is Backend.EFFICIENT
    assert chosen(Tensor(dtype="torch.float32")) is Backend.EFFICIENT
    assert chosen(Tensor(dtype="torch.float64")) is Backend.MATH


def test_causal_with_fewer_queries_than_keys_is_not_flash() -> None:
    assert chosen(Tensor((2, 8, 64, 64)), Tensor(), causal=True) is Backend.EFFICIENT


def test_hopper_prefers_cudnn_since_2_11() -> None:
    assert chosen(processor=H100) is Backend.CUDNN
    assert chosen(processor=Processor((10, 0))) is Backend.CUDNN
    for version, backend in (
        ((2, 8), Backend.FLASH),
        ((2, 9), Backend.CUDNN),
        ((2, 10), Backend.FLASH),
        ((2, 11), Backend.CUDNN),
    ):
        assert chosen(processor=Processor((9, 0), torch=version)) is backend
    assert chosen(Tensor((2, 8, 128, 256)), processor=H100) is Backend.FLASH
    assert chosen(processor=H100, settings=Settings(deterministic=True)) is Backend.FLASH


def test_turing_has_no_flash_and_no_bfloat16() -> None:
    assert chosen(processor=T4) is Backend.MATH
    assert chosen(Tensor(dtype="torch.float16"), processor=T4) is Backend.EFFICIENT


def test_wide_heads_cannot_be_trained_on_small_cards() -> None:
    wide = Tensor((2, 8, 128, 200))
    assert chosen(wide) is Backend.FLASH
    assert chosen(wide, processor=RTX_4090) is Backend.EFFICIENT
    assert chosen(wide, processor=RTX_4090, needs_grad=False) is Backend.FLASH
    widest = Tensor((2, 8, 128, 256))
    assert chosen(widest, processor=RTX_4090) is Backend.FLASH
    assert chosen(widest, processor=RTX_4090, dropout=0.1) is Backend.EFFICIENT
    assert chosen(Tensor((2, 8, 128, 264))) is Backend.EFFICIENT


def test_groups_of_heads_are_flashs_alone() -> None:
    keys = Tensor((2, 2, 128, 64))
    assert chosen(key=keys, grouped=True) is Backend.FLASH
    assert chosen(key=keys, grouped=True, mask=Tensor((128, 128), "torch.bool")) is Backend.MATH
    odd = Tensor((2, 3, 128, 64))
    assert chosen(key=odd, grouped=True) is Backend.MATH


def test_heads_that_are_no_multiple_of_8_are_padded_for_flash_only() -> None:
    odd = Tensor((2, 8, 128, 60))
    assert chosen(odd) is Backend.FLASH
    assert chosen(odd, mask=Tensor((128, 128), "torch.bool")) is Backend.MATH


def test_what_is_switched_off_is_passed_over_and_said() -> None:
    only = Settings(frozenset({Backend.EFFICIENT, Backend.MATH}))
    found = choose_attention(
        Tensor(), Tensor(), Tensor(), processor=A100, settings=only, environment={}
    )
    assert found.backend is Backend.EFFICIENT
    assert found.operator == "aten::_scaled_dot_product_efficient_attention"
    assert found.refused == {Backend.FLASH: "it is switched off"}
    flash = Settings(frozenset({Backend.FLASH}))
    assert chosen(Tensor(dtype="torch.float32"), settings=flash) is None


def test_a_programs_own_order_counts() -> None:
    order = Settings(order=(Backend.EFFICIENT, Backend.FLASH))
    assert chosen(settings=order) is Backend.EFFICIENT


def test_cudnn_is_known_by_pytorchs_version() -> None:
    assert cudnn_of_wheel((2, 9)) == 91002
    assert cudnn_of_wheel((2, 13)) == 92000


def test_the_mathematical_way_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from snapreport.recorders.forecast.attention import _mathematical

    torch.manual_seed(0)
    query, key = torch.randn(2, 4, 8, 16), torch.randn(2, 2, 8, 16)
    mask = torch.randn(8, 8)
    for given, causal in ((None, True), (mask, False)):
        ours = _mathematical(query, key, key, given, 0.0, causal, None, True)
        theirs = torch.nn.functional.scaled_dot_product_attention(
            query, key, key, given, is_causal=causal, enable_gqa=True
        )
        assert torch.allclose(ours, theirs, atol=1e-5)

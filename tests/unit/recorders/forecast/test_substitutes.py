"""What can be held of CUDA's ways without a device that claims to be there."""

from __future__ import annotations

from typing import Any

import pytest

from snapreport.recorders.forecast.kernels import Processor
from snapreport.recorders.forecast.substitutes import Substitutes, _linear, _recurrent_backward

torch = pytest.importorskip("torch")


def test_gradients_of_a_recurrent_networks_weights_are_parts_of_one_tensor() -> None:
    weights = [torch.zeros(4, 2), torch.zeros(4, 3), torch.zeros(4)]
    value, state = torch.zeros(5, 2, 2), torch.zeros(1, 2, 3)
    made = _recurrent_backward(value, weights, 3, weights[0], state, None)
    assert [each.shape for each in made[3]] == [weight.shape for weight in weights]
    assert len({each.untyped_storage()._cdata for each in made[3]}) == 1
    assert made[3][0].untyped_storage().nbytes() == (8 + 12 + 4) * 4
    assert (made[0].shape, made[1].shape, made[2]) == (value.shape, state.shape, None)


def test_linear_of_an_input_with_gaps_is_what_pytorch_says() -> None:
    value = torch.randn(4, 3, 2).transpose(0, 1)
    weight, bias = torch.randn(5, 2), torch.randn(5)
    expected = torch.nn.functional.linear(value, weight, bias)
    assert torch.allclose(_linear(value, weight, bias), expected)


def test_substitutes_are_for_cuda_alone_and_can_be_taken_back() -> None:
    query = torch.randn(1, 2, 4, 8)
    attention: Any = torch.nn.functional.scaled_dot_product_attention
    before = attention(query, query, query)
    substitutes = Substitutes(Processor())
    try:
        assert torch.equal(attention(query, query, query), before)
    finally:
        substitutes.remove()

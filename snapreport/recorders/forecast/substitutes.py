"""Composite functions of ATen that go another way in a build for the CPU than in one for CUDA.

They are decided in C++ above the kernels, so they are replaced where the dispatcher comes by: for
tensors on CUDA, with autograd and without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapreport.recorders.forecast.attention import Choice, scaled_dot_product_attention
from snapreport.recorders.forecast.kernels import Processor


class Substitutes:
    """CUDA's ways, registered until ``remove``.

    - ``scaled_dot_product_attention``: the kernel that CUDA chooses.
    - ``linear`` of an input with gaps, with bias: the bias is added in place (Linear.cpp).
    - ``lstm``, ``gru`` and plain networks: ``_cudnn_rnn`` for all steps and layers (RNN.cpp), where
      the CPU has an operator for each step. Weights are taken to lie in one piece, as after
      ``flatten_parameters``; gradients of the weights do (cudnn/RNN.cpp, get_parameters).
    """

    def __init__(self, processor: Processor, told: Callable[[Choice], None] | None = None) -> None:
        """Register them.

        Args:
            processor: the card and PyTorch's version.
            told: is given each choice of a kernel for attention.
        """
        import torch

        def attention(*args: Any, **kwargs: Any) -> Any:
            return scaled_dot_product_attention(*args, **kwargs, processor=processor, told=told)

        self._library = torch.library.Library("aten", "IMPL")
        for key in ("AutogradCUDA", "CUDA"):  # CUDA alone in inference mode
            self._library.impl("scaled_dot_product_attention", attention, key)
            self._library.impl("linear", _linear, key)
            for mode, name in enumerate(("rnn_relu", "rnn_tanh", "lstm", "gru")):
                self._library.impl(f"{name}.input", _recurrent(mode), key)
                self._library.impl(f"{name}.data", _recurrent_packed(mode), key)
        self._library.impl("_cudnn_rnn_backward", _recurrent_backward, "Meta")

    def remove(self) -> None:
        """Take them back."""
        self._library._destroy()


def _linear(value: Any, weight: Any, bias: Any = None) -> Any:
    """Source: aten/src/ATen/native/Linear.cpp, linear: only its last way differs."""
    import torch

    key = torch._C.DispatchKey.CompositeImplicitAutograd
    if bias is None or value.dim() == 2 or (value.is_contiguous() and bias.dim() == 1):
        return torch.ops.aten.linear.default._op_dk(key, value, weight, bias)
    return torch.matmul(value, weight.t()).add_(bias)


_LSTM = 2
"""cuDNN's number (CUDNN_LSTM)."""


def _recurrent(mode: int) -> Callable[..., Any]:
    """``lstm.input`` and its like. Source: aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_impl."""

    def run(
        value: Any,
        hidden: Any,
        weights: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
        batch_first: bool,
    ) -> Any:
        settings: tuple[Any, ...] = (layers, batch_first, dropout, train, both, [])
        return _cudnn(mode, value, hidden, weights, has_biases, settings)

    return run


def _recurrent_packed(mode: int) -> Callable[..., Any]:
    """``lstm.data`` and its like, of a packed sequence."""

    def run(
        value: Any,
        batch_sizes: Any,
        hidden: Any,
        weights: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
    ) -> Any:
        settings: tuple[Any, ...] = (layers, False, dropout, train, both, batch_sizes.tolist())
        return _cudnn(mode, value, hidden, weights, has_biases, settings)

    return run


def _cudnn(
    mode: int, value: Any, hidden: Any, weights: Any, has_biases: bool, settings: tuple[Any, ...]
) -> Any:
    import torch

    state, cell = hidden if mode == _LSTM else (hidden, None)
    size, projected = state.shape[2], 0
    if cell is not None and cell.shape[2] != size:
        size, projected = cell.shape[2], size
    number = (4 if has_biases else 2) + bool(projected)
    storages = {each.untyped_storage().data_ptr() for each in weights}
    flat = weights[0].detach().view(-1) if len(storages) == 1 else None
    made = torch.ops.aten._cudnn_rnn(
        value,
        list(weights),
        number,
        flat,
        state,
        cell,
        mode,
        size,
        projected,
        *settings,
        None,
    )
    return made[:3] if mode == _LSTM else made[:2]


def _recurrent_backward(value: Any, weights: Any, *rest: Any) -> Any:
    """The results of ``_cudnn_rnn_backward``: the weights' gradients are parts of one tensor."""
    _, _, state, cell = rest[:4]
    whole = value.new_empty(sum(weight.numel() for weight in weights))
    gradients, at = [], 0
    for weight in weights:
        gradients.append(whole[at : at + weight.numel()].view(weight.shape))
        at += weight.numel()
    of_cell = None if cell is None else cell.new_empty(cell.shape)
    return value.new_empty(value.shape), state.new_empty(state.shape), of_cell, gradients

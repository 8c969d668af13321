"""A recurrent network that carries its state from one piece of a long text to the next."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.laboratory.programs.base import Training


class Recurrent(nn.Module):
    """An LSTM whose cells are written out, so that each moment keeps something."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, 96)
        self.cells = nn.ModuleList([nn.LSTMCell(96, 160), nn.LSTMCell(160, 160)])
        self.head = nn.Linear(160, 256)

    def forward(self, ids: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        out = []
        for x in self.tokens(ids).unbind(1):
            for place, cell in enumerate(self.cells):
                state[place] = cell(x, state[place])
                x = state[place][0]
            out.append(x)
        return self.head(torch.stack(out, 1)), state


class CarriedState(Training):
    """Truncated backpropagation through time."""

    name = "recurrent"
    variants = (
        "smaller-batch:2", "foreach-off", "fused-optimizer", "sgd-for-adam", "low-bit-state",
    )  # fmt: skip
    batch = 32
    length = 32

    def make_model(self) -> Any:
        return Recurrent()

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        ids = torch.randint(256, (size, self.length + 1))
        return ids[:, :-1], ids[:, 1:]

    def build(self) -> None:
        super().build()
        size = self.batch // self.number("smaller-batch")
        self.state = [(torch.zeros(size, 160), torch.zeros(size, 160)) for _ in range(2)]
        self.watch.note("KV cache", *(t for pair in self.state for t in pair))

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        ids, targets = batch
        logits, state = self.model(ids, list(self.state))
        self.state = [(h.detach(), c.detach()) for h, c in state]
        self.watch.note("KV cache", *(t for pair in self.state for t in pair))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


PROGRAMS = (CarriedState,)

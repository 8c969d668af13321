"""Language models: plain, with naive attention, a large vocabulary, experts, or LoRA."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.laboratory.programs.base import Training


class Attention(nn.Module):
    """Causal attention of several heads, by PyTorch's kernel or with all its weights in memory."""

    def __init__(self, width: int, heads: int, naive: bool) -> None:
        super().__init__()
        self.heads, self.naive = heads, naive
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        if self.naive:
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
            y = weights @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Experts(nn.Module):
    """A feed-forward part of which each token uses the best of several."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(feed_forward(width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weight, chosen = self.router(tokens).softmax(-1).max(-1)
        out = torch.zeros_like(tokens)
        for place, expert in enumerate(self.experts):
            rows = (chosen == place).nonzero().squeeze(-1)
            out = out.index_add(0, rows, expert(tokens[rows]) * weight[rows].unsqueeze(-1))
        return out.view_as(x)


def feed_forward(width: int) -> nn.Module:
    """Return the usual two layers."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, heads: int, naive: bool, experts: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, naive)
        self.mlp = Experts(width, experts) if experts else feed_forward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """A small GPT."""

    def __init__(
        self,
        layers: int = 6,
        width: int = 128,
        heads: int = 4,
        vocabulary: int = 512,
        length: int = 128,
        naive: bool = False,
        experts: int = 0,
    ) -> None:
        super().__init__()
        self.checkpointed = False
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, naive, experts) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what the head is given."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            if self.checkpointed:
                x = checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.norm(x)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(ids))


class LanguageTraining(Training):
    """Train a small GPT on random tokens."""

    length = 128
    vocabulary = 512
    shape: dict[str, Any] = {}  # noqa: RUF012

    def make_model(self) -> Any:
        model = LanguageModel(vocabulary=self.vocabulary, length=self.length, **self.shape)
        model.checkpointed = self.on("checkpoint")
        return model

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        ids = torch.randint(self.vocabulary, (size, self.length + 1))
        return ids[:, :-1], ids[:, 1:]

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        ids, targets = batch
        chunks = self.number("chunked-loss")
        if chunks > 1:
            return self.chunked_loss(self.model.hidden(ids), targets, chunks)
        logits = self.model(ids)
        return functional.cross_entropy(logits.view(-1, self.vocabulary), targets.reshape(-1))

    def chunked_loss(self, x: torch.Tensor, targets: torch.Tensor, chunks: int) -> torch.Tensor:
        """Compute the loss of some tokens at a time, and again in the backward pass."""

        def one(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(self.model.head(x), targets, reduction="sum")

        tokens = x.view(-1, x.shape[-1])
        total = torch.zeros(())
        for part, target in zip(
            tokens.chunk(chunks), targets.reshape(-1).chunk(chunks), strict=True
        ):
            total = total + checkpoint.checkpoint(one, part, target, use_reentrant=False)
        return total / len(tokens)


class TransformerTraining(LanguageTraining):
    """The plain case."""

    name = "transformer"
    variants = (
        "checkpoint", "smaller-batch:2", "accumulate:2", "accumulate:4", "bf16-activations",
        "foreach-off", "fused-optimizer", "low-bit-state", "sgd-for-adam", "chunked-loss:4",
        "chunked-loss:8",
    )  # fmt: skip


class NaiveAttention(LanguageTraining):
    """Attention whose weights are all in memory, longer than wide."""

    name = "naive-attention"
    variants = (
        "attention-kernel", "checkpoint", "smaller-batch:2", "bf16-activations", "accumulate:2",
        "low-bit-state",
    )  # fmt: skip
    length = 256
    batch = 2

    def make_model(self) -> Any:
        self.shape = {"layers": 4, "width": 64, "naive": not self.on("attention-kernel")}
        return super().make_model()


class LargeVocabulary(LanguageTraining):
    """Logits and what the loss makes of them are most of the peak; the last ones are kept."""

    name = "large-vocabulary"
    variants = (
        "chunked-loss:4", "chunked-loss:8", "smaller-batch:2", "accumulate:2", "bf16-activations",
        "sgd-for-adam", "low-bit-state", "free-earlier",
    )  # fmt: skip
    vocabulary = 8192
    batch = 4
    length = 64
    shape = {"layers": 2, "width": 64}  # noqa: RUF012

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        if self.on("chunked-loss"):
            return super().loss(*batch)
        ids, targets = batch
        logits = self.model(ids)
        if not self.on("free-earlier"):
            self.last = logits  # to look at when something goes wrong
        return functional.cross_entropy(logits.view(-1, self.vocabulary), targets.reshape(-1))


class MixtureOfExperts(LanguageTraining):
    """Sizes that depend on which tokens an expert gets."""

    name = "experts"
    variants = (
        "checkpoint", "smaller-batch:2", "foreach-off", "fused-optimizer", "low-bit-state",
        "sgd-for-adam",
    )  # fmt: skip
    batch = 4
    shape = {"layers": 3, "width": 96, "experts": 4}  # noqa: RUF012


class Accumulation(LanguageTraining):
    """Several passes for one step, with gradients that stay."""

    name = "accumulation"
    variants = ("smaller-batch:2", "checkpoint", "foreach-off", "fused-optimizer", "low-bit-state")
    batch = 4

    def step(self, i: int) -> None:
        for _ in range(4):
            for batch in self.batches():
                with self.autocast():
                    loss = self.loss(*batch) / 4
                loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class LowRank(nn.Module):
    """A frozen linear layer with a small product beside it that learns."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + (x @ self.down.t()) @ self.up.t()


class Lora(LanguageTraining):
    """A frozen model with low-rank parts that learn."""

    name = "lora"
    variants = (
        "checkpoint",
        "smaller-batch:2",
        "bf16-activations",
        "accumulate:2",
        "chunked-loss:8",
    )
    batch = 4

    def make_model(self) -> Any:
        model = super().make_model().requires_grad_(False)
        for block in model.blocks:
            block.attention.qkv = LowRank(block.attention.qkv, 8)
            block.attention.proj = LowRank(block.attention.proj, 8)
        return model

    def make_optimizer(self, parameters: Any) -> Any:
        return super().make_optimizer([each for each in parameters if each.requires_grad])


PROGRAMS = (
    TransformerTraining, NaiveAttention, LargeVocabulary, MixtureOfExperts, Accumulation, Lora,
)  # fmt: skip

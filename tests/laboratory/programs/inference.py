"""Models that are run and not trained: with and without gradients, and token by token."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.laboratory.programs.base import Program
from tests.laboratory.programs.language import LanguageModel


class GradLeftOn(Program):
    """Inference that keeps everything for a backward pass that never comes."""

    name = "inference-with-grad"
    variants: tuple[str, ...] = ("inference-mode", "smaller-batch:2")
    batch = 8

    def build(self) -> None:
        torch.manual_seed(0)
        self.model = LanguageModel(layers=6, width=128)
        self.modules = [self.model]

    def mode(self) -> Any:
        return torch.inference_mode() if self.on("inference-mode") else nullcontext()

    def step(self, i: int) -> None:
        with self.mode():
            ids = torch.randint(512, (self.batch // self.number("smaller-batch"), 128))
            self.watch.note("input", ids)
            logits = self.model(ids)
            self.best = logits.argmax(-1)


class NoGrad(GradLeftOn):
    """Inference as it should be, by a decorator's elder brother."""

    name = "inference-no-grad"
    variants = ("smaller-batch:2",)

    def mode(self) -> Any:
        return torch.no_grad()


class InferenceMode(GradLeftOn):
    """Inference as it should be."""

    name = "inference-mode"
    variants = ("smaller-batch:2",)

    def mode(self) -> Any:
        return torch.inference_mode()


class Cached(nn.Module):
    """Attention over what a cache holds of earlier tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        keys, values = cache.add(k, v)
        y = functional.scaled_dot_product_attention(q, keys, values, is_causal=length > 1)
        return x + self.proj(y.transpose(1, 2).reshape(batch, length, width))


class GrowingCache:
    """A cache that is made anew for each token, one longer."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.held: tuple[torch.Tensor, torch.Tensor] | None = None

    def add(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.held is not None:
            k, v = torch.cat([self.held[0], k], 2), torch.cat([self.held[1], v], 2)
        else:
            k, v = k.contiguous(), v.contiguous()
        self.held = k, v
        self.program.watch.note("KV cache", k, v)
        return self.held


class FixedCache:
    """A cache with room for all tokens from the beginning."""

    def __init__(self, program: Program, batch: int, length: int, width: int, heads: int) -> None:
        shape = (batch, heads, length, width // heads)
        self.k, self.v = torch.zeros(shape), torch.zeros(shape)
        self.length = 0
        program.watch.note("KV cache", self.k, self.v)

    def add(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        at, self.length = self.length, self.length + k.shape[2]
        self.k[:, :, at : self.length] = k
        self.v[:, :, at : self.length] = v
        return self.k[:, :, : self.length], self.v[:, :, : self.length]


class Generation(Program):
    """Each step answers one batch of prompts, token by token."""

    name = "generation-growing-cache"
    variants: tuple[str, ...] = ("smaller-batch:2", "preallocated-cache")
    batch, width, heads, prompt, new = 16, 128, 4, 16, 80
    fixed = False

    def build(self) -> None:
        torch.manual_seed(0)
        self.tokens = nn.Embedding(512, self.width)
        self.layers = nn.ModuleList(Cached(self.width, self.heads) for _ in range(3))
        self.head = nn.Linear(self.width, 512, bias=False)
        self.modules = [self.tokens, self.layers, self.head]

    @torch.no_grad()
    def step(self, i: int) -> None:
        batch = self.batch // self.number("smaller-batch")
        ids = torch.randint(512, (batch, self.prompt))
        self.watch.note("input", ids)
        caches: list[Any] = [GrowingCache(self) for _ in self.layers]
        if self.fixed or self.on("preallocated-cache"):
            length = self.prompt + self.new
            caches = [FixedCache(self, batch, length, self.width, self.heads) for _ in self.layers]
        for _ in range(self.new):
            x = self.tokens(ids)
            for layer, cache in zip(self.layers, caches, strict=True):
                x = layer(x, cache)
            ids = self.head(x[:, -1:]).argmax(-1)


class FixedGeneration(Generation):
    """Likewise, with a cache that does not grow."""

    name = "generation-fixed-cache"
    variants = ("smaller-batch:2",)
    fixed = True


PROGRAMS = (GradLeftOn, NoGrad, InferenceMode, Generation, FixedGeneration)

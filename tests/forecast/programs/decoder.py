"""A decoder-only language model in plain operations, trained for some steps; records one of them.

Its parts follow the description that goes with recordings of such programs on real cards: RMSNorm,
attention written out with a mask by ``where``, rotary embedding on pairs in fp32, SwiGLU, a loss
from log-softmax and gather.
"""

from __future__ import annotations

import argparse
import contextlib
import math

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        std = math.sqrt(2 / (d_in + d_out))
        weight = nn.init.trunc_normal_(torch.empty(d_out, d_in), std=std, a=-3 * std, b=3 * std)
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bsi,oi->bso", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            nn.init.trunc_normal_(torch.empty(vocabulary, d_model), std=1.0, a=-3, b=3)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.weight[tokens, :]


class RMSNorm(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kind = x.dtype
        x = x.to(torch.float32)
        rms = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        x = x * rms
        return (self.weight * x).to(kind)


class Rotary(nn.Module):
    def __init__(self, context: int, dim: int, theta: float = 10_000.0) -> None:
        super().__init__()
        frequencies = theta ** -(torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(context), frequencies)
        table = torch.stack((torch.cos(angles), torch.sin(angles)))
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        first, second = x.reshape(*x.shape[:-1], half, 2).movedim(-1, 0)
        cos, sin = self.table[:, : x.shape[-2], :]
        one = cos * first - sin * second
        two = sin * first + cos * second
        pairs = torch.cat([one.unsqueeze(-1), two.unsqueeze(-1)], dim=-1)
        return pairs.reshape(x.shape).contiguous()


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    x = x - torch.max(x, dim=dim, keepdim=True)[0]
    exponentials = torch.exp(x)
    return exponentials / torch.sum(exponentials, dim=dim, keepdim=True)


def log_softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    highest = torch.max(x, dim=dim, keepdim=True)[0]
    x = x - highest
    return x - torch.log(torch.sum(torch.exp(x), dim=dim, keepdim=True))


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    negative = -log_softmax(logits)
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class Attention(nn.Module):
    def __init__(self, d_model: int, heads: int, rotary: Rotary) -> None:
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.q, self.k, self.v, self.out = (Linear(d_model, d_model) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, d_model = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (
            each.view(batch, length, self.heads, d_model // self.heads).transpose(1, 2)
            for each in (q, k, v)
        )
        q = self.rotary(q)
        k = self.rotary(k)
        steps = torch.arange(length, device=x.device)
        mask = steps.view(1, 1, length, 1) >= steps.view(1, 1, 1, length)
        mixed = attend(q, k, v, mask)
        mixed = mixed.transpose(1, 2).reshape(batch, length, d_model).contiguous()
        return self.out(mixed)


def silu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = (
            Linear(d_model, d_ff), Linear(d_ff, d_model), Linear(d_model, d_ff),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, d_model: int, heads: int, d_ff: int, rotary: Rotary) -> None:
        super().__init__()
        self.attention = Attention(d_model, heads, rotary)
        self.feed_forward = SwiGLU(d_model, d_ff)
        self.norm1, self.norm2 = RMSNorm(d_model), RMSNorm(d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_attention = self.attention(self.norm1(x))
        attended = x + x_attention
        x_fed = self.feed_forward(self.norm2(attended))
        return attended + x_fed


class Decoder(nn.Module):
    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__()
        rotary = Rotary(given.context, given.d_model // given.heads)
        self.embedding = Embedding(given.vocabulary, given.d_model)
        self.blocks = nn.ModuleList(
            Block(given.d_model, given.heads, given.d_ff, rotary) for _ in range(given.layers)
        )
        self.norm = RMSNorm(given.d_model)
        self.head = Linear(given.d_model, given.vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = x = self.embedding(tokens)  # held until the end, as inference needed on a card
        for block in self.blocks:
            x = block(x)
        del embedded
        return self.head(self.norm(x))


class HandAdamW(torch.optim.Optimizer):
    """AdamW, one parameter at a time."""

    def __init__(self, params: object) -> None:
        super().__init__(params, {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "decay": 0.01})

    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state, alpha = p.grad.data, self.state[p], group["lr"]
                beta1, beta2 = group["betas"]
                t = state.get("t", 1)
                p.data -= alpha * group["decay"] * p.data
                before_m = state.get("m", torch.zeros_like(grad))
                before_v = state.get("v", torch.zeros_like(grad))
                m = beta1 * before_m + (1 - beta1) * grad
                v = beta2 * before_v + (1 - beta2) * grad**2
                rate = alpha * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.data -= rate * m / (torch.sqrt(v) + group["eps"])
                state["t"], state["m"], state["v"] = t + 1, m, v


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (
        ("d-model", 1024), ("layers", 24), ("heads", 16), ("d-ff", 4096), ("context", 512),
        ("batch", 4), ("vocabulary", 10_000), ("warm-up", 5), ("kept-batches", 0),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--optimizer", choices=["hand", "torch"], default="hand")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", default=None)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = Decoder(given).to(given.device)
    kind = HandAdamW if given.optimizer == "hand" else torch.optim.AdamW
    optimizer = None if given.inference else kind(model.parameters())
    shape = (given.batch, given.context)
    batches = [
        torch.randint(0, given.vocabulary, size, device=given.device)
        for size in [(given.kept_batches, *shape)] * 2 + [shape, shape]
    ]
    precision = (
        torch.autocast(given.device, dtype=torch.bfloat16) if given.bf16
        else contextlib.nullcontext()
    )  # fmt: skip

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        with precision:
            return model(tokens)

    for count in range(given.warm_up + 1):
        if count == given.warm_up:
            if given.device == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            if given.output:
                torch.cuda.memory._record_memory_history(max_entries=1_000_000)
        last = count == given.warm_up
        kept = not last and count < given.kept_batches
        tokens, targets = (each[count] for each in batches[:2]) if kept else batches[2:]
        if optimizer is None:
            with torch.inference_mode():
                logits = forward(tokens)
            del logits
            continue
        logits = forward(tokens)
        with precision:
            loss = cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        if count + 1 < given.warm_up + 1:
            optimizer.zero_grad(set_to_none=True)
            del logits, loss
    if given.device == "cuda":
        print("peak", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    if given.output:
        torch.cuda.memory._dump_snapshot(given.output)
        torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    main()

"""A language model like Llama, with fully sharded parameters, trained by many processes.

By default it is the one with 70 billion parameters. It is built on ``meta``, sharded, and only then
given memory; each block is computed again in backward.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return wide.type_as(x) * self.weight


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.dim = width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(width, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (each(x).view(batch, length, -1, self.dim) for each in (self.q, self.k, self.v))
        q, k = rotate(q, turns), rotate(k, turns)
        mixed = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True,
            enable_gqa=True,
        )  # fmt: skip
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), turns)
        fed = self.norm2(x)
        return x + self.down(functional.silu(self.gate(fed)) * self.up(fed))


class Llama(nn.Module):
    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__()
        self.embedding = nn.Embedding(given.vocabulary, given.width)
        self.blocks = nn.ModuleList(
            checkpoint_wrapper(Block(given.width, given.heads, given.kv_heads, given.hidden))
            for _ in range(given.layers)
        )
        self.norm = RMSNorm(given.width)
        self.head = nn.Linear(given.width, given.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, turns)
        return self.head(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (
        ("width", 8192), ("layers", 80), ("heads", 64), ("kv-heads", 8), ("hidden", 28672),
        ("vocabulary", 128256), ("context", 4096), ("batch", 1), ("steps", 4),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--clip", action="store_true")
    given = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("shards",))
    with torch.device("meta"):
        model = Llama(given)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    dim = given.width // given.heads
    speeds = 500_000 ** -(torch.arange(0, dim, 2, device=device) / dim)
    angles = torch.outer(torch.arange(given.context, device=device), speeds)
    turns = torch.polar(torch.ones_like(angles), angles)
    shape = (given.batch, given.context + 1)
    for _ in range(given.steps):
        tokens = torch.randint(0, given.vocabulary, shape, device=device)
        logits = model(tokens[:, :-1], turns)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        del logits
        loss.backward()
        if given.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() == 0:
        print("peak", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

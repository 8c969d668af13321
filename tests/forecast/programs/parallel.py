"""A small language model trained by many processes: DDP, FSDP, tensor parallel or a pipeline.

With ``--device cpu`` it runs for real, with Gloo under ``torchrun``.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = (each.transpose(1, 2) for each in qkv.unbind(2))
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        mixed = (scores @ v).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def ddp(model: nn.Module, given: argparse.Namespace, device: torch.device) -> nn.Module:
    ids = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(
        model.to(device), device_ids=ids, gradient_as_bucket_view=given.views
    )


def fsdp2(model: Model, given: argparse.Namespace, device: torch.device) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if given.bf16 else None
    options = {"mesh": mesh, **({"mp_policy": policy} if policy else {})}
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    model.to_empty(device=device)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


def fsdp1(model: nn.Module, given: argparse.Namespace, device: torch.device) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return FullyShardedDataParallel(
        model.to(device), device_id=device if device.type == "cuda" else None,
        auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True,
    )  # fmt: skip


def tp(model: Model, given: argparse.Namespace, device: torch.device) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model.to(device)
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def pipeline(given: argparse.Namespace, device: torch.device) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, size = dist.get_rank(), dist.get_world_size()
    width, heads = given.width, given.heads
    parts: list[nn.Module] = [nn.Embedding(given.vocabulary, width)] if rank == 0 else []
    parts += [Block(width, heads) for _ in range(given.layers // size)]
    if rank == size - 1:
        parts.append(nn.Linear(width, given.vocabulary, bias=False))
    module = nn.Sequential(*parts).to(device)
    stage = PipelineStage(module, rank, size, device)
    schedule = ScheduleGPipe(stage, given.batch, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(module.parameters())
    shape = (given.batch, given.context)
    for _ in range(given.steps):
        tokens = torch.randint(0, given.vocabulary, shape, device=device)
        targets = torch.randint(0, given.vocabulary, shape, device=device)
        if rank == 0:
            schedule.step(tokens)
        elif rank == size - 1:
            schedule.step(target=targets, losses=[])
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["ddp", "fsdp2", "fsdp1", "tp", "pipeline", "objects"])
    for name, value in (
        ("width", 256), ("layers", 4), ("heads", 4), ("context", 64), ("batch", 4),
        ("vocabulary", 1000), ("steps", 4),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    else:
        device = torch.device(given.device)
    dist.init_process_group("nccl" if given.device == "cuda" else "gloo")
    if given.how == "objects":
        objects(device)
    elif given.how == "pipeline":
        pipeline(given, device)
    else:
        train(given, device)
    dist.barrier()
    dist.destroy_process_group()


def objects(device: torch.device) -> None:
    """Use the collectives that carry Python's objects and small numbers."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found: list[object] = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert all(isinstance(each, dict) for each in found), found
    sent: list[object] = [{"seed": 3}]
    dist.broadcast_object_list(sent, src=0)
    assert sent == [{"seed": 3}], sent
    count = torch.tensor([2], device=device)
    dist.all_reduce(count)
    assert count.item() == 2 * size, count.item()
    group = dist.new_group(list(range(size)))
    assert dist.get_world_size(group) == size
    dist.barrier(group)
    parts = [torch.empty(1000, device=device) for _ in range(size)]
    dist.all_gather(parts, torch.ones(1000, device=device))
    whole = torch.empty(1000, device=device)
    dist.reduce_scatter(whole, parts)
    print("objects agree")


def train(given: argparse.Namespace, device: torch.device) -> None:
    where = "meta" if given.how == "fsdp2" else "cpu"
    with torch.device(where):
        model = Model(given.vocabulary, given.width, given.layers, given.heads)
    model = {"ddp": ddp, "fsdp2": fsdp2, "fsdp1": fsdp1, "tp": tp}[given.how](model, given, device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=given.how != "tp")
    shape = (given.batch, given.context)
    for _ in range(given.steps):
        tokens = torch.randint(0, given.vocabulary, shape, device=device)
        targets = torch.randint(0, given.vocabulary, shape, device=device)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

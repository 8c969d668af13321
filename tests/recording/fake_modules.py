"""Modules and optimizers whose tensors lie at given addresses."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class FakeTensor:
    def __init__(
        self, address: int, size: int, device: str = "cuda", index: int | None = 0
    ) -> None:
        self.device = SimpleNamespace(type=device, index=index)
        self.grad: FakeTensor | None = None
        self._storage = SimpleNamespace(data_ptr=lambda: address, nbytes=lambda: size)

    def untyped_storage(self) -> Any:
        return self._storage


class MetaTensor(FakeTensor):
    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of a fake tensor")


class Shard(FakeTensor):
    """A distributed tensor, which stands for a part that is here."""

    def __init__(self, part: FakeTensor) -> None:
        super().__init__(0, 0)
        self._local_tensor = part


class FakeModule:
    def __init__(self, parameters: dict[str, FakeTensor], buffers: dict[str, FakeTensor]) -> None:
        self.parameters, self.buffers = parameters, buffers

    def named_parameters(self) -> Iterator[tuple[str, FakeTensor]]:
        yield from self.parameters.items()

    def named_buffers(self) -> Iterator[tuple[str, FakeTensor]]:
        yield from self.buffers.items()


class FakeAdam:
    def __init__(self, state: dict[FakeTensor, dict[str, Any]]) -> None:
        self.state = state
        self.param_groups = [{"params": list(state)}]

"""One rank of many, on one machine: process groups without other processes.

``torch.distributed`` stays as it is: its groups, meshes and collectives, DDP's C++ and FSDP's
Python. Under it PyTorch's own ``FakeProcessGroup`` stands for NCCL and Gloo: it sends nothing, and
fills results with what this rank has, as if all others had the same. What NCCL's group takes from
PyTorch's allocator is booked here; the buffers that NCCL gets from the driver are not.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from snapreport.ground.records import dataclass
from snapreport.recorders.forecast.running import OVERRIDING, Runner


@dataclass(frozen=True)
class Rank:
    """The process that is forecast, among those of its run."""

    number: int = 0
    of: int = 1
    on_machine: int = 1
    """How many processes each machine has, each with a card of its own."""

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what ``torchrun`` would set; what tells runs apart stays if it is there."""
        machine, local = divmod(self.number, self.on_machine)
        numbers = {
            "RANK": self.number, "WORLD_SIZE": self.of, "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": self.on_machine, "GROUP_RANK": machine,
            "GROUP_WORLD_SIZE": -(-self.of // self.on_machine), "ROLE_RANK": self.number,
            "ROLE_WORLD_SIZE": self.of, "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
        }  # fmt: skip
        shared = {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": run_id(),
        }  # fmt: skip
        found = {name: environ.get(name, value) for name, value in shared.items()}
        return {**{name: str(value) for name, value in numbers.items()}, **found}


def run_id() -> str:
    """Return an id that the ranks of one forecast share, and no other forecast has."""
    return f"forecast-{os.getpid()}-{time.time_ns()}"


class Groups:
    """What a program finds of ``torch.distributed`` in a forecast."""

    def __init__(self, runner: Runner, rank: Rank | None) -> None:
        """Prepare.

        Args:
            runner: books what the groups allocate.
            rank: the process that is forecast; None for what the environment says.
        """
        self._runner, self._rank = runner, rank
        self.used = False
        """Whether the program made a group."""
        self._made: dict[str, list[Any]] = {"nccl": [], "gloo": []}
        self._adds = False
        self._object = b""
        """The last object of this rank that went into a collective, as a pickle."""
        self._post = Post(os.environ.get(FOLDER))

    def notes(self) -> list[str]:
        """Return sentences on what a forecast of one rank leaves out."""
        of = self._rank.of if self._rank else int(os.environ.get("WORLD_SIZE", 1))
        if not self.used or of == 1:
            return []
        note = (
            f"Of {of} ranks this is one: the others are assumed to have the values that it has, and"
            " NCCL's own buffers, which come from the driver and not from PyTorch's allocator, are"
            " not included."
        )
        return [note]

    @contextmanager
    def there(self) -> Iterator[None]:
        """Let the program in the body be one rank of many."""
        if not torch.distributed.is_available():
            yield
            return
        with ExitStack() as undo:
            if self._rank is not None:
                before = dict(os.environ)
                os.environ.update(self._rank.environment(before))
                undo.callback(_restore_environment, before)
            self._put_in(undo)
            undo.enter_context(self._kernels())
            undo.callback(_leave_groups)
            yield

    def _put_in(self, undo: ExitStack) -> None:
        """Replace what would look for other processes."""
        from torch import distributed
        from torch._C import _distributed_c10d as c
        from torch.distributed import distributed_c10d

        def put(name: str, value: Any, *owners: Any) -> None:
            for owner in owners:
                if name in vars(owner):
                    undo.callback(setattr, owner, name, vars(owner)[name])
                else:
                    undo.callback(delattr, owner, name)
                setattr(owner, name, value)

        both = (distributed, distributed_c10d)
        put("ProcessGroupNCCL", self._backend("nccl"), *both)
        put("ProcessGroupGloo", self._backend("gloo"), *both)
        put("_NCCL_AVAILABLE", True, distributed_c10d)
        put("_GLOO_AVAILABLE", True, distributed_c10d)
        put("default_pg_nccl_timeout", timedelta(minutes=10), distributed_c10d)
        put("rendezvous", _rendezvous, distributed_c10d)
        put("_store_based_barrier", _nothing, distributed_c10d)
        put("monitored_barrier", _nothing, *both)
        put("TCPStore", _store, *both)
        put("FileStore", _store, *both)
        put("_object_to_tensor", self._noting(distributed_c10d._object_to_tensor), distributed_c10d)
        put("_tensor_to_object", self._noted(distributed_c10d._tensor_to_object), distributed_c10d)
        put("broadcast_object_list", self._broadcast(distributed.broadcast_object_list), *both)
        put("scatter_object_list", self._scatter(distributed.scatter_object_list), *both)
        put("all_reduce", self._adding(distributed.all_reduce), *both)
        put("send_object_list", self._send, *both)
        put("recv_object_list", self._receive, *both)
        put("_start_coalescing", _nothing, c.ProcessGroup)  # older fake groups cannot
        put("_end_coalescing", lambda *_: _done([]), c.ProcessGroup)
        # DDP measures its times by CUDA's events from its first iteration on; it never counts one.
        put("prepare_for_forward", _nothing, c.Reducer)
        for name in ("_set_sequence_number_for_group", "_set_default_timeout", "_shutdown",
                     "perform_nocolor_split", "_group_start", "_group_end"):  # fmt: skip
            put(name, _nothing, c.FakeProcessGroup)
        put("_nccl_version", lambda: (2 << 32) | (27 << 16) | 3, torch._C)
        put("_nccl_version_suffix", lambda: b"", torch._C)

    def _backend(self, name: str) -> Any:
        """Return what stands for a class of process groups."""
        from torch._C._distributed_c10d import FakeProcessGroup

        made = self._made[name]

        class Kind(type):
            """Whose instances are the groups made under this name."""

            def __instancecheck__(cls, other: object) -> bool:
                return any(each is other for each in made)

        class Backend(metaclass=Kind):
            """Makes groups that send nothing."""

            Options = Options

            def __new__(cls, _store: Any, rank: int, size: int, *_: Any, **__: Any) -> Any:
                self.used = True
                fake: Any = FakeProcessGroup
                group = getattr(fake, "_create_internal", fake)(rank, size)
                made.append(group)
                return group

        Backend.__name__ = Backend.__qualname__ = f"ProcessGroup{_CLASSES[name]}"
        Backend.__module__ = "torch.distributed.distributed_c10d"
        return Backend

    # Objects: others have what this rank has, or what they left in the folder if they are forecast.

    def _noting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def to_tensor(found: Any, *args: Any, **kwargs: Any) -> Any:
            self._object = pickle.dumps(found)
            return plain(found, *args, **kwargs)

        return to_tensor

    def _noted(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def to_object(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if tensor.device.type == "cuda":  # which has no values
                return pickle.loads(self._object)  # noqa: S301  (this process made it)
            return plain(tensor, *args, **kwargs)

        return to_object

    def _broadcast(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def broadcast(
            objects: Any, src: int | None = None, group: Any = None, *args: Any, **kwargs: Any
        ) -> None:
            source = _source(src, kwargs.get("group_src"), group)
            name = f"broadcast-{_name(group)}"
            if torch.distributed.get_rank() == source:
                self._post.send(name, source, list(objects))
                plain(objects, src, group, *args, **kwargs)
            else:
                objects[:] = self._post.receive(name, source, list(objects))

        return broadcast

    def _scatter(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def scatter(
            found: Any, objects: Any = None, src: int | None = None, group: Any = None,
            *args: Any, **kwargs: Any,
        ) -> None:  # fmt: skip
            source = _source(src, kwargs.get("group_src"), group)
            name = f"scatter-{_name(group)}"
            if torch.distributed.get_rank() == source:
                self._post.send(name, source, list(objects))
                plain(found, objects, src, group, *args, **kwargs)
            else:
                sent = self._post.receive(name, source, None)
                if sent is not None:
                    found[0] = sent[torch.distributed.get_rank(group)]

        return scatter

    def _send(
        self, objects: Any, dst: int | None = None, group: Any = None, *_: Any, **kwargs: Any
    ) -> None:
        target, own = _source(dst, kwargs.get("group_dst"), group), torch.distributed.get_rank()
        self._post.send(f"to-{target}", own, list(objects))

    def _receive(
        self, objects: Any, src: int | None = None, group: Any = None, *_: Any, **kwargs: Any
    ) -> int:
        """Receive objects from a rank that is forecast, too.

        Raises:
            RuntimeError: it is not.
        """
        source, own = _source(src, kwargs.get("group_src"), group), torch.distributed.get_rank()
        derived = _gradients_of_stage()
        if derived is not None:
            objects[:] = [derived]
            return source
        found = self._post.receive(f"to-{own}", source, None)
        if found is None:
            raise RuntimeError(
                f"Rank {own} receives objects from rank {source}, which is not forecast; add"
                f" --rank {source}, or tell the program what it would receive (a PipelineStage"
                " takes input_args and output_args)."
            )
        objects[:] = found
        return source

    # The collectives of which more is known than that they send nothing.

    @contextmanager
    def _kernels(self) -> Iterator[None]:
        library = torch.library.Library("c10d", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that they replace others is what is wanted
            self._register(library)
        try:
            yield
        finally:
            library._destroy()

    def _register(self, library: Any) -> None:
        for name, kernel in (
            ("allgather_", self._all_gather), ("reduce_scatter_", self._reduce_scatter),
            ("allreduce_", self._all_reduce), ("barrier", self._wait_for_all),
        ):  # fmt: skip
            for key in ("CUDA", "CPU") if name == "allreduce_" else ("CUDA",):
                library.impl(name, functools.partial(kernel, key), key, **OVERRIDING)

    def _flat(self, tensors: Any) -> Any:
        """Return one tensor for several of the same size, None if they are not.

        Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ``newLikeFlat``.
        """
        first = tensors[0]
        if any(each.shape != first.shape for each in tensors):
            return None
        return first.new_empty((len(tensors), *first.shape))

    def _all_gather(
        self, key: str, outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any
    ) -> Any:
        flat = self._flat(outputs[0])
        work = _group(group, key).allgather(outputs, inputs)
        del flat
        return outputs, work.boxed()

    def _reduce_scatter(
        self, key: str, outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any
    ) -> Any:
        flat = self._flat(inputs[0])
        work = _group(group, key).reduce_scatter(outputs, inputs)
        del flat
        return outputs, work.boxed()

    def _all_reduce(self, key: str, tensors: Any, group: Any, *_: Any, **__: Any) -> Any:
        found = _group(group, key)
        if self._adds:
            with torch._C._AutoDispatchBelowAutograd():
                for each in tensors:
                    if key == "CPU" or self._runner.values.known(each) is not None:
                        each.mul_(found.size())
        return tensors, _done(tensors).boxed()

    def _adding(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``all_reduce`` that adds up known values as if all ranks had the same."""

        @functools.wraps(plain)
        def all_reduce(tensor: Any, op: Any = None, *args: Any, **kwargs: Any) -> Any:
            add = torch.distributed.ReduceOp.SUM
            self._adds = op is None or op == add
            try:
                return plain(tensor, add if op is None else op, *args, **kwargs)
            finally:
                self._adds = False

        return all_reduce

    def _wait_for_all(self, key: str, tensor: Any, group: Any, *_: Any, **__: Any) -> Any:
        """Source: ProcessGroupNCCL::barrier: it adds up one element."""
        torch.zeros(1, device=tensor.device)
        return _group(group, key).barrier().boxed()


FOLDER = "SNAPREPORT_FORECAST_RANKS"
"""The variable with a folder through which the ranks that are forecast send objects; its files
``rank0``, ``rank1`` ... say which these are."""
_WAIT_S = 120


class Post:
    """Objects between the ranks that are forecast, as files."""

    def __init__(self, folder: str | None) -> None:
        """Take a folder; None if only one rank is forecast."""
        self._folder = None if folder is None else Path(folder)
        self._count: Counter[tuple[str, int]] = Counter()

    def send(self, name: str, source: int, objects: list[Any]) -> None:
        """Leave objects for the ranks that ask for them by the same name and source."""
        if self._folder is None:
            return
        path = self._next(name, source)
        beside = path.with_suffix(".part")
        beside.write_bytes(pickle.dumps(objects))
        beside.replace(path)

    def receive(self, name: str, source: int, otherwise: list[Any] | None) -> list[Any] | None:
        """Return what another rank sent; something else if it is not forecast or never sends."""
        if self._folder is None or not (self._folder / f"rank{source}").exists():
            return otherwise
        path, end = self._next(name, source), time.monotonic() + _WAIT_S
        while not path.exists():
            if time.monotonic() > end:
                return otherwise
            time.sleep(0.05)
        found: list[Any] = pickle.loads(path.read_bytes())  # noqa: S301  (a process of ours made it)
        return found

    def _next(self, name: str, source: int) -> Path:
        assert self._folder is not None
        self._count[name, source] += 1
        plain = re.sub(r"\W", "_", name)
        return self._folder / f"{plain}-{source}-{self._count[name, source]}.pickle"


def _source(global_rank: int | None, group_rank: int | None, group: Any) -> int:
    if group_rank is not None:
        return int(torch.distributed.get_global_rank(group, group_rank))
    return int(global_rank or 0)


def _name(group: Any) -> str:
    return str((group or torch.distributed.group.WORLD).group_name)


def _gradients_of_stage() -> Any:
    """Return what a stage of a pipeline is told of its outputs' gradients, which are like these.

    None if something else is received.

    Source: torch/distributed/pipelining/stage.py, ``_recv_meta``.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_name != "_recv_meta":
        return None
    stage, known = frame.f_locals["self"], frame.f_globals
    if frame.f_locals["src_stage"] < stage.stage_index or "_StageBackwardMeta" not in known:
        return None
    return known["_StageBackwardMeta"](
        backward_metas=known["_derive_grad_metas"](stage._stage_meta.outputs)
    )


_CLASSES = {"nccl": "NCCL", "gloo": "Gloo"}


class Options:
    """Stands for ``ProcessGroupNCCL.Options``; takes any setting, and none changes anything."""

    def __init__(self, is_high_priority_stream: bool = False, *_: Any, **__: Any) -> None:
        """Take the only one that is an argument."""
        self.is_high_priority_stream = is_high_priority_stream
        self.config = SimpleNamespace()
        self._timeout: Any = None


def _done(tensors: Any) -> Any:
    """Return work that is done, whose future has the tensors, as DDP asks of it."""
    from torch._C import _distributed_c10d as c

    devices = {each.device for each in tensors if each.device.type == "cuda"}
    future = torch.futures.Future[Any](devices=[*devices])
    future.set_result(list(tensors))
    return c._create_work_from_future(future)  # type: ignore[attr-defined]


def _group(boxed: Any, key: str) -> Any:
    from torch._C._distributed_c10d import ProcessGroup

    return ProcessGroup.unbox(boxed)._get_backend(torch.device(key.lower()))


def _store(*_: Any, **__: Any) -> Any:
    return torch.distributed.HashStore()


def _rendezvous(
    _url: str, rank: int = -1, world_size: int = -1, **_: Any
) -> Iterator[tuple[Any, int, int]]:
    """Meet nobody: the number of this process is known.

    Raises:
        ValueError: neither the program nor the environment says it.
    """
    if rank < 0 or world_size < 0:
        try:
            rank = int(os.environ["RANK"]) if rank < 0 else rank
            world_size = int(os.environ["WORLD_SIZE"]) if world_size < 0 else world_size
        except KeyError as missing:
            raise ValueError(
                f"The environment variable {missing} is not set; give a forecast --ranks, as"
                " torchrun would set it."
            ) from None
    yield _store(), rank, world_size


def _restore_environment(before: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _leave_groups() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: there is nobody to wait for."""

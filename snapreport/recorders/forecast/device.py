"""The CUDA device that is not there: what a program finds when it asks PyTorch for its cards.

PyTorch's own Python functions stay as they are where they only call into its C part: there, what a
build without CUDA lacks is put in. What they cannot do without a driver is replaced. Everything is
taken back at the end.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pickle
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor

from snapreport.ground.native.pretend import Pretended
from snapreport.ground.records import dataclass
from snapreport.recorders.forecast.book import Book
from snapreport.recorders.forecast.running import Runner
from snapreport.recorders.forecast.saving import Saving, imported
from snapreport.recorders.forecast.valueless import PINNED, Makers, Valueless

_C = torch._C


_FORECAST_MARK = b"\x8c\x08recorder\x94\x8c\x08forecast"
"""Bytes of a pickle that says that it is a forecast."""


@dataclass(frozen=True)
class Properties:
    """What ``torch.cuda.get_device_properties()`` returns."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 232448
    shared_memory_per_multiprocessor: int = 233472
    L2_cache_size: int = 52428800
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    gcnArchName: str = ""  # noqa: N815  (PyTorch's name)
    uuid: str = "00000000-0000-0000-0000-000000000000"


class Device:
    """The cards of one forecast, as PyTorch's functions see them."""

    def __init__(
        self, pretended: Pretended, properties: Properties, count: int, book: Book, runner: Runner,
        dumped: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:  # fmt: skip
        """Take the cards.

        Args:
            pretended: the guard and the hooks.
            properties: of every card.
            count: how many there are.
            book: the allocations.
            runner: makes tensors.
            dumped: completes a snapshot that the program itself takes.
        """
        self._pretended, self.properties, self._count = pretended, properties, count
        self._book, self._runner, self._dumped = book, runner, dumped
        self._undo = ExitStack()
        self._next_stream = 0
        self.history: list[int] | None = None
        """Where each device's history begins that the program switched on; None: it is off."""
        self.history_was_on = False
        self._eager = False
        self.notes: list[str] = []
        """Sentences on what was left out."""

    def stream_id(self, device: int) -> int:
        """Return the id of a device's current stream in this thread."""
        return int(self._pretended.stream(device))

    @contextmanager
    def there(self) -> Iterator[None]:
        """Let the program find the cards, during the body."""
        # It looks through PyTorch's functions when it is imported, as by the first optimizer, and
        # must find PyTorch's own.
        with contextlib.suppress(Exception):
            importlib.import_module("torch._dynamo")
        with ExitStack() as undo:
            undo.enter_context(self._pretended.there(self._count))
            self._undo = undo
            self._put_in_c()
            self._put_in_cuda()
            self._put_in_tensors()
            self._put_in_libraries()
            undo.enter_context(Saving().there(self._put))
            flex = {"torch._higher_order_ops.flex_attention": self._put_in_flex}
            undo.enter_context(imported(flex))
            undo.enter_context(Makers())
            yield

    def _put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the end."""
        missing = object()
        before = owner.__dict__.get(name, missing) if hasattr(owner, "__dict__") else missing
        setattr(owner, name, value)
        if before is missing:
            self._undo.callback(_take_away, owner, name)
        else:
            self._undo.callback(setattr, owner, name, before)

    # What PyTorch's Python functions call.

    def _put_in_c(self) -> None:
        device, book = self._pretended.device, self._book

        def set_device(index: int) -> None:
            if not 0 <= index < self._count:
                raise (
                    torch.AcceleratorError("CUDA error: invalid device ordinal")
                    if hasattr(torch, "AcceleratorError")
                    else RuntimeError("CUDA error: invalid device ordinal")
                )
            self._pretended.set_device(index)

        def exchange(index: int) -> int:
            before = int(device())
            if index >= 0:
                self._pretended.set_device(index)
            return before

        def memory_info(index: int) -> tuple[int, int]:
            book.settle()
            return book.left(index), book.capacity

        shares = [1.0] * self._count

        def set_share(share: float, index: int) -> None:
            shares[index] = share
            book.limit_to(index, share)

        def record_history(enabled: Any = "all", *_: Any, **__: Any) -> None:
            on = enabled not in (None, False)
            self.history = book.begin_history() if on else None
            self.history_was_on = self.history_was_on or on

        def snapshot(*_: Any, **__: Any) -> dict[str, Any]:
            starts = self.history or [len(each.events) for each in book.devices]
            return self._dumped(book.snapshot(starts))

        nothing = _nothing
        functions: dict[str, Any] = {
            "_cuda_getDeviceCount": lambda: self._count,
            "_cuda_init": nothing,
            "_cuda_isInBadFork": lambda: False,
            "_cuda_setDevice": set_device,
            "_cuda_getDevice": lambda: int(device()),
            "_cuda_exchangeDevice": exchange,
            "_cuda_maybeExchangeDevice": exchange,
            "_cuda_synchronize": nothing,
            "_cuda_ipc_collect": nothing,
            "_cuda_sleep": nothing,
            "_cuda_emptyCache": lambda *_: book.empty_cache(),
            "_cuda_memoryStats": book.statistics,
            "_cuda_resetPeakMemoryStats": book.reset_peaks,
            "_cuda_resetAccumulatedMemoryStats": nothing,
            "_cuda_hostMemoryStats": dict,
            "_cuda_getAllocatorBackend": lambda: "native",
            "_cuda_isHistoryEnabled": lambda: self.history is not None,
            "_cuda_record_memory_history": record_history,
            "_cuda_record_memory_history_legacy": record_history,
            "_cuda_memorySnapshot": snapshot,
            "_cuda_attach_out_of_memory_observer": book.failed.append,
            "_cuda_canDeviceAccessPeer": lambda *_: True,
            "_cuda_hasPrimaryContext": lambda index: True,
            "_cuda_getArchFlags": lambda: " ".join(
                f"sm_{n}" for n in ("70", "75", "80", "86", "90", "100", "120")
            ),
            "_cuda_setMemoryFraction": set_share,
            "_cuda_getMemoryFraction": lambda index: shares[index],
            "_cuda_set_sync_debug_mode": nothing,
            "_cuda_get_sync_debug_mode": lambda: 0,
            "_cuda_setMemoryMetadata": nothing,
            "_cuda_getMemoryMetadata": lambda: "",
            "_cuda_getCompiledVersion": lambda: 12080,
            "_cuda_isCurrentStreamCapturing": lambda: False,
            "_cuda_clearCublasWorkspaces": self._runner.clear_workspaces,
            "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
            "_cuda_getCurrentBlasHandle": lambda: 1,
            "_cuda_getCurrentRawStream": self.stream_id,
            "_accelerator_getAccelerator": lambda: torch.device("cuda"),
            "_accelerator_isAllocatorInitialized": lambda: True,
            "_accelerator_emptyCache": lambda *_: book.empty_cache(),
            "_accelerator_getDeviceStats": book.statistics,
            "_accelerator_resetPeakStats": book.reset_peaks,
            "_accelerator_resetAccumulatedStats": nothing,
            "_accelerator_getMemoryInfo": memory_info,
        }
        for name, function in functions.items():
            if not name.startswith("_accelerator") or hasattr(_C, name):
                self._put(_C, name, function)
        self._memory_info = memory_info

    # What needs a driver.

    def _put_in_cuda(self) -> None:
        cuda, put = torch.cuda, self._put
        properties = self.properties

        def get_properties(device: Any = None) -> Any:
            return properties

        put(cuda, "_cudart", types.SimpleNamespace(
            cudaMemGetInfo=lambda index: self._memory_info(index),
            cudaProfilerStart=_nothing, cudaProfilerStop=_nothing,
            cudaDeviceSynchronize=_nothing, cudaHostRegister=lambda *_: 0,
            cudaHostUnregister=lambda *_: 0, cudaGetErrorString=str,
            cudaError=types.SimpleNamespace(success=0),
        ))  # fmt: skip
        put(cuda, "_initialized", True)
        put(cuda, "_queued_calls", [])
        put(cuda, "_lazy_init", _nothing)
        put(cuda, "is_available", lambda: True)
        put(cuda, "_is_compiled", lambda: True)
        put(cuda, "device_count", lambda: self._count)
        put(cuda, "is_initialized", lambda: True)
        put(cuda, "get_device_properties", get_properties)
        put(cuda, "_get_device_properties", get_properties)
        put(cuda, "get_device_capability", lambda device=None: (properties.major, properties.minor))
        put(cuda, "get_device_name", lambda device=None: properties.name)
        put(cuda, "is_bf16_supported", lambda including_emulation=True: properties.major >= 8
            or including_emulation)  # fmt: skip
        put(cuda, "is_tf32_supported", lambda: properties.major >= 8)
        put(cuda, "synchronize", _nothing)
        put(cuda, "mem_get_info", lambda device=None: self._memory_info(self._index(device)))
        put(cuda.memory, "mem_get_info", cuda.mem_get_info)
        for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage"):
            if hasattr(cuda, name):
                put(cuda, name, lambda device=None: 0)
        if hasattr(cuda, "_exchange_device"):
            put(cuda, "_exchange_device", lambda index: _C._cuda_exchangeDevice(index))
            put(cuda, "_maybe_exchange_device", lambda index: _C._cuda_exchangeDevice(index))
        self._put_random()
        self._put_streams()
        self._put_in_profiler()
        for name in ("is_built",):
            put(torch.backends.cuda, name, lambda: True)
        put(torch.backends.cudnn, "is_available", lambda: True)
        put(torch.backends.cudnn, "version", lambda: 90100)
        put(torch.backends.cudnn, "is_acceptable", _is_acceptable)
        modes = types.SimpleNamespace(rnn_relu=0, rnn_tanh=1, lstm=2, gru=3)
        recurrent = importlib.import_module("torch.backends.cudnn.rnn")
        recurrent = getattr(recurrent, "m", recurrent)  # which newer ones wrap
        put(recurrent, "_cudnn", types.SimpleNamespace(RNNMode=modes))
        nvtx = types.SimpleNamespace(
            rangePushA=lambda *_: 0, rangePop=lambda: 0, markA=_nothing,
            rangeStartA=lambda *_: 0, rangeEnd=_nothing, deviceRangeStart=_nothing,
            deviceRangeEnd=_nothing,
        )  # fmt: skip
        put(cuda.nvtx, "_nvtx", nvtx)
        put(fake_tensor, "init_gpu_context", _nothing)
        put(torch.backends.mha, "get_fastpath_enabled", self._slow_path)
        put(cuda.memory, "_record_memory_history", _record_history)
        put(cuda.memory, "_snapshot", lambda *args, **kwargs: _C._cuda_memorySnapshot())
        put(cuda.memory, "_dump_snapshot", self._dump)
        if not hasattr(_C, "_cuda_CUDAAllocator"):
            put(cuda.memory, "caching_allocator_alloc", lambda *_, **__: 0)
            put(cuda.memory, "caching_allocator_delete", _nothing)

    def _put_in_profiler(self) -> None:
        """Let the profiler record what happens on the CPU; it finds no kernels on a card."""
        put, profiler = self._put, torch.autograd.profiler
        with_cuda = {*profiler._supported_activities(), torch.profiler.ProfilerActivity.CUDA}
        put(profiler, "_supported_activities", lambda: set(with_cuda))
        put(torch.profiler, "supported_activities", lambda: set(with_cuda))
        put(profiler.emit_nvtx, "__enter__", lambda span: span)
        put(profiler.emit_nvtx, "__exit__", _nothing_method)

    def _put_in_flex(self, module: Any) -> None:
        """Let flexible attention allocate what its compiled kernels do, never all scores.

        Source: torch/_inductor/kernel/flex/flex_attention.py.
        """
        key = _C.DispatchKey.CompositeExplicitAutograd

        def forward(query: Any, key: Any, value: Any, *_: Any) -> Any:
            rows = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
            shape = (*query.shape[:-1], value.shape[-1])
            return _ordered_as(query, shape), rows, rows.detach()

        def backward(query: Any, key: Any, value: Any, out: Any, *rest: Any) -> Any:
            delta = torch.empty(out.shape[:-1], dtype=torch.float32, device=out.device)
            found = tuple(torch.empty_like(each) for each in (query, key, value))
            captured = tuple(
                torch.empty_like(each)
                if isinstance(each, torch.Tensor) and each.requires_grad else None
                for each in rest[-2]
            )  # fmt: skip
            del delta
            return (*found, captured)

        for operator, function in (
            (module.flex_attention, forward), (module.flex_attention_backward, backward),
        ):  # fmt: skip
            plain = operator.py_kernels[key]

            def back(operator: Any = operator, plain: Any = plain) -> None:
                operator.py_kernels[key] = plain
                operator._dispatch_cache.clear()

            operator.py_kernels[key] = function
            operator._dispatch_cache.clear()
            self._undo.callback(back)

    def _put_in_libraries(self) -> None:
        """Let operations that have a fake implementation use that, instead of their kernel."""
        library, opdef = torch.library.Library, torch._library.custom_ops.CustomOpDef
        plain_fake, plain_custom, plain_impl = (
            library._register_fake, opdef.register_fake, library.impl,
        )  # fmt: skip
        runner = self._runner

        def register_fake(self: Any, op_name: str, fn: Any, *args: Any, **kwargs: Any) -> None:
            deeper = {**kwargs, "_stacklevel": kwargs.get("_stacklevel", 1) + 1}
            plain_fake(self, op_name, fn, *args, **deeper)
            if "CustomOpDef." not in getattr(fn, "__qualname__", ""):
                runner.use_fake(f"{self.ns}::{op_name}")

        def register_custom(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = plain_custom(self, *args, **kwargs)
            runner.use_fake(self._qualname)
            return found

        def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> Any:
            name = op_name if isinstance(op_name, str) else op_name._schema.name
            full = name if "::" in name else f"{self.ns}::{name}"
            if dispatch_key == "CUDA" and full in runner.fakes:
                return None
            return plain_impl(self, op_name, fn, dispatch_key, **kwargs)

        self._put(library, "_register_fake", register_fake)
        self._put(opdef, "register_fake", register_custom)
        self._put(library, "impl", impl)
        for known in torch._library.custom_ops.OPDEFS.values():
            if known._abstract_fn is not None:
                runner.use_fake(known._qualname)

    def _dump(self, filename: Any = "dump_snapshot.pickle", *_: Any, **__: Any) -> None:
        """Write the program's own snapshot: a forecast, which replaces no recording of a card."""
        path = Path(filename)
        if path.exists() and _FORECAST_MARK not in path.read_bytes():
            path = path.with_suffix(f".forecast{path.suffix}")
            self.note(f"The program's own snapshot is in {path.name}: its name was in use.")
        path.write_bytes(pickle.dumps(_C._cuda_memorySnapshot(), 4))

    def _slow_path(self) -> bool:
        """Say that encoders have no fast path in inference: its kernels are not known."""
        if not torch.is_grad_enabled():
            self.note(
                "torch.nn's attention and encoders ran their usual way; in inference a card may"
                " take PyTorch's fast path, which needs less memory."
            )
        return False

    def _compiled(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``torch.compile``, whose results run eagerly."""

        @functools.wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not self._eager:
                self._eager = True
                torch.compiler.set_stance("force_eager")
                self._undo.callback(torch.compiler.set_stance, "default")
                self.note(
                    "What torch.compile() was to compile ran eagerly; compiled, it may need less"
                    " memory."
                )
            return plain(*args, **kwargs)

        return run

    def note(self, sentence: str) -> None:
        """Note once what was left out."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _index(self, device: Any) -> int:
        if device is None:
            return int(self._pretended.device())
        if isinstance(device, int):
            return device
        index = torch.device(device).index
        return int(self._pretended.device()) if index is None else int(index)

    def _put_random(self) -> None:
        cuda, put = torch.cuda, self._put
        state = torch.zeros(16, dtype=torch.uint8)  # the seed and the offset
        for name in ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
                     "set_rng_state_all"):  # fmt: skip
            for module in (cuda, cuda.random):
                put(module, name, _nothing)
        for module in (cuda, cuda.random):
            put(module, "get_rng_state", lambda device="cuda": state.clone())
            put(module, "get_rng_state_all", lambda: [state.clone() for _ in range(self._count)])
            put(module, "initial_seed", lambda: 0)
        generators = [Generator(torch.device("cuda", n)) for n in range(self._count)]
        put(cuda, "default_generators", tuple(generators))
        put(torch, "Generator", Generator)

    # Streams, events and graphs

    def _put_streams(self) -> None:
        cuda, put, pretended = torch.cuda, self._put, self._pretended
        outer = self

        class Stream:
            """A CUDA stream: memory that is taken while it is current belongs to it."""

            def __init__(self, device: Any = None, priority: int = 0, **known: Any) -> None:
                self.device_index = known.get("device_index", outer._index(device))
                self.device = torch.device("cuda", self.device_index)
                self.device_type = 1
                if "stream_id" in known:
                    self.stream_id = known["stream_id"]
                else:
                    outer._next_stream += 1
                    self.stream_id = outer._next_stream
                self.priority = priority

            @property
            def cuda_stream(self) -> int:
                return int(self.stream_id)

            _as_parameter_ = cuda_stream

            def query(self) -> bool:
                return True

            def is_capturing(self) -> bool:
                return False

            def synchronize(self) -> None:
                pass

            wait_event = wait_stream = _nothing_method

            def record_event(self, event: Any = None) -> Any:
                return event if event is not None else Event()

            def __eq__(self, other: object) -> bool:
                same = getattr(other, "stream_id", None) == self.stream_id
                return bool(same and getattr(other, "device_index", None) == self.device_index)

            def __hash__(self) -> int:
                return hash((self.stream_id, self.device_index))

            def __enter__(self) -> Any:
                self._before = current(self.device_index)
                set_stream(self)
                return self

            def __exit__(self, *_: object) -> None:
                set_stream(self._before)

        class Event:
            """A CUDA event: it has always happened."""

            def __init__(self, *_: Any, **__: Any) -> None:
                self.device = torch.device("cuda", outer._index(None))

            record = wait = synchronize = _nothing_method

            def query(self) -> bool:
                return True

            def elapsed_time(self, end: Any) -> float:
                return 1.0

        def current(device: Any = None) -> Any:
            index = outer._index(device)
            return Stream(device_index=index, stream_id=int(pretended.stream(index)))

        def default(device: Any = None) -> Any:
            return Stream(device_index=outer._index(device), stream_id=0)

        def set_stream(stream: Any) -> None:
            if stream is not None:
                pretended.set_stream(stream.device_index, stream.stream_id)

        class StreamContext:
            """Makes a stream the current one."""

            def __init__(self, stream: Any) -> None:
                self.stream = stream

            def __enter__(self) -> None:
                if self.stream is not None:
                    self._before = current(self.stream.device_index)
                    set_stream(self.stream)

            def __exit__(self, *_: object) -> None:
                if self.stream is not None:
                    set_stream(self._before)

        class Graph:
            """A CUDA graph: its capture is a plain run, and a replay allocates nothing."""

            def __init__(self, *_: Any, **__: Any) -> None:
                pass

            capture_begin = capture_end = replay = reset = enable_debug_mode = _nothing_method
            debug_dump = instantiate = _nothing_method

            def pool(self) -> tuple[int, int]:
                return (0, 1)

        @contextmanager
        def graph(cuda_graph: Any, pool: Any = None, stream: Any = None, *_: Any, **__: Any
                  ) -> Iterator[None]:  # fmt: skip
            with StreamContext(stream):
                yield

        @contextmanager
        def use_pool(*_: Any, **__: Any) -> Iterator[None]:
            yield

        for module in (cuda, cuda.streams):
            put(module, "Stream", Stream)
            put(module, "Event", Event)
            put(module, "ExternalStream", Stream)
        put(cuda, "current_stream", current)
        put(cuda, "default_stream", default)
        put(cuda, "set_stream", set_stream)
        put(cuda, "stream", StreamContext)
        put(cuda, "StreamContext", StreamContext)
        for module in (cuda, cuda.graphs):
            put(module, "CUDAGraph", Graph)
            put(module, "graph", graph)
            put(module, "graph_pool_handle", lambda: (0, 1))
            put(module, "is_current_stream_capturing", lambda: False)
            put(module, "make_graphed_callables", lambda callables, *_, **__: callables)
        if hasattr(cuda, "MemPool"):
            put(cuda, "MemPool", type("MemPool", (), {"__init__": _nothing_method, "id": (0, 1)}))
            put(cuda, "use_mem_pool", use_pool)
        for function in (_broadcast, _broadcast_coalesced, _scatter, _gather):
            put(_C, function.__name__, function)
        for name, dtype in _LEGACY.items():
            put(cuda, name, _Legacy(name, (), {"dtype": dtype, "__module__": "torch.cuda"}))
        put(torch.Tensor, "type", _typed(torch.Tensor.type))
        put(torch.compiler, "cudagraph_mark_step_begin", _nothing)
        for name in ("_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled"):
            if not hasattr(_C, name):  # which the compiler imports where there is CUDA
                put(_C, name, _nothing)
        nccl = importlib.import_module("torch.cuda.nccl")
        put(nccl, "is_available", lambda tensors: len({each.device for each in tensors}) > 1)
        for name in ("reduce", "all_reduce", "broadcast", "all_gather", "reduce_scatter"):
            put(nccl, name, _nothing)
        put(torch, "compile", self._compiled(torch.compile))
        put(torch, "Stream", Stream)
        put(torch, "Event", Event)
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            put(accelerator, "is_available", lambda: True)
            put(accelerator, "device_count", lambda: self._count)
            put(
                accelerator,
                "current_accelerator",
                lambda check_available=False: torch.device("cuda"),
            )
            for name in ("current_device_index", "current_device_idx"):
                put(accelerator, name, lambda: int(pretended.device()))
            for name in ("set_device_index", "set_device_idx"):
                put(accelerator, name, lambda device: pretended.set_device(outer._index(device)))
            put(accelerator, "current_stream", current)
            put(accelerator, "set_stream", set_stream)
            put(accelerator, "synchronize", _nothing)

    # Tensors without values, where PyTorch expects others.

    def _put_in_tensors(self) -> None:
        put, runner = self._put, self._runner
        storage_class = torch.UntypedStorage
        plain_resize = storage_class.resize_

        def resize(storage: Any, size: int) -> Any:
            if storage.device.type != "cuda":
                return plain_resize(storage, size)
            runner.resized(storage, size)
            return storage

        def clone(storage: Any) -> Any:
            if storage.device.type != "cuda":
                return plain_clone(storage)
            return moved(storage, storage.device)

        def moved(storage: Any, device: Any) -> Any:
            made = torch.empty(storage.nbytes(), dtype=torch.uint8, device=device)
            if isinstance(made, Valueless):  # on the CPU, where a storage is real
                return torch.UntypedStorage(storage.nbytes())
            return made.untyped_storage()

        def to(storage: Any, *, device: Any, non_blocking: bool = False) -> Any:
            where = torch.device(device)
            if "cuda" not in (where.type, storage.device.type):
                return plain_to(storage, device=device, non_blocking=non_blocking)
            return storage if storage.device == where else moved(storage, where)

        def to_card(storage: Any, device: Any = None, non_blocking: bool = False) -> Any:
            return to(storage, device=torch.device("cuda", self._index(device)))

        def to_cpu(storage: Any) -> Any:
            return plain_cpu(storage) if storage.device.type != "cuda" else moved(storage, "cpu")

        plain_clone, plain_to, plain_cpu = storage_class.clone, storage_class.to, storage_class.cpu
        put(storage_class, "clone", clone)
        put(storage_class, "to", to)
        put(storage_class, "cuda", to_card)
        put(storage_class, "cpu", to_cpu)
        put(storage_class, "resize_", resize)
        put(torch.Tensor, "is_pinned", _is_pinned)
        put(torch.Tensor, "pin_memory", _pin)
        put(torch.Tensor, "record_stream", _nothing_method)
        put(Valueless, "values", runner.values)
        record = torch.autograd.profiler.record_function
        enter, leave = record.__enter__, record.__exit__

        def entered(span: Any) -> Any:
            self._book.annotate(int(self._pretended.device()), span.name, start=True)
            return enter(span)

        def left(span: Any, *error: Any) -> Any:
            self._book.annotate(int(self._pretended.device()), span.name, start=False)
            return leave(span, *error)

        put(record, "__enter__", entered)
        put(record, "__exit__", left)


_LEGACY = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16, "LongTensor": torch.int64, "IntTensor": torch.int32,
    "ShortTensor": torch.int16, "CharTensor": torch.int8, "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}  # fmt: skip


class _Legacy(type):
    """A type of tensors as PyTorch had them once, ``torch.cuda.FloatTensor``."""

    dtype: torch.dtype

    def __call__(cls, *args: Any, **_: Any) -> Any:
        """Make a tensor of these sizes, or of this data."""
        if len(args) == 1 and not isinstance(args[0], int):
            return torch.as_tensor(args[0]).to(torch.device("cuda"), cls.dtype)
        return torch.empty(args or (0,), dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, found: object) -> bool:
        tensor: Any = found if isinstance(found, torch.Tensor) else None
        return tensor is not None and bool(tensor.is_cuda and tensor.dtype == cls.dtype)


def _typed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Tensor.type()``, which also takes types of a card."""

    @functools.wraps(plain)
    def run(tensor: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            dtype = getattr(torch.cuda, dtype.rpartition(".")[2], dtype)
        if isinstance(dtype, _Legacy):
            return tensor.to(torch.device("cuda"), dtype.dtype, non_blocking=non_blocking)
        if dtype is None:
            return plain(tensor)
        return plain(tensor, dtype, non_blocking, **kwargs)

    return run


def _ordered_as(tensor: Any, shape: Any) -> Any:
    """Make a tensor whose dimensions lie in memory in the order of another's."""
    order = sorted(range(len(shape)), key=lambda n: -tensor.stride(n))
    made = torch.empty([shape[n] for n in order], dtype=tensor.dtype, device=tensor.device)
    return made.permute([order.index(n) for n in range(len(shape))])


def _broadcast(tensor: Any, devices: list[int]) -> list[Any]:
    """Return copies on devices; as ``torch::cuda::broadcast``, also those below."""
    return [
        tensor if torch.device("cuda", n) == tensor.device else tensor.to(f"cuda:{n}")
        for n in devices
    ]


def _broadcast_coalesced(tensors: Any, devices: list[int], buffer_size: int) -> list[list[Any]]:
    made: list[list[Any]] = [list(tensors)] + [[None] * len(tensors) for _ in devices[1:]]
    buckets: dict[torch.dtype, list[int]] = {}

    def send(places: list[int]) -> None:
        flat = torch.cat([tensors[n].detach().reshape(-1) for n in places])
        for device, own in zip(devices[1:], made[1:], strict=True):
            parts = flat.to(f"cuda:{device}").split([tensors[n].numel() for n in places])
            for n, part in zip(places, parts, strict=True):
                own[n] = part.view(tensors[n].shape)

    for n, tensor in enumerate(tensors):
        bucket = buckets.setdefault(tensor.dtype, [])
        if bucket and sum(tensors[k].nbytes for k in bucket) + tensor.nbytes > buffer_size:
            send(bucket)
            bucket = buckets[tensor.dtype] = []
        bucket.append(n)
    for bucket in buckets.values():
        send(bucket)
    return made


def _scatter(
    tensor: Any, devices: list[int], chunk_sizes: Any = None, dim: int = 0, streams: Any = None
) -> tuple[Any, ...]:
    parts = tensor.split(chunk_sizes, dim) if chunk_sizes else tensor.chunk(len(devices), dim)
    return tuple(
        part.to(f"cuda:{n}", non_blocking=True) for part, n in zip(parts, devices, strict=False)
    )


def _gather(tensors: Any, dim: int, destination: int | None) -> Any:
    where = "cpu" if destination == -1 else f"cuda:{destination or 0}"
    shape = list(tensors[0].shape)
    shape[dim] = sum(each.shape[dim] for each in tensors)
    made = torch.empty(shape, dtype=tensors[0].dtype, device=where)
    for part, tensor in zip(
        made.split([each.shape[dim] for each in tensors], dim), tensors, strict=True
    ):
        part.copy_(tensor, non_blocking=True)
    return made


_PlainGenerator: Any = _C.Generator


class _AnyGenerator(type(_PlainGenerator)):  # type: ignore[misc]
    """Takes PyTorch's own generators for ours."""

    def __instancecheck__(cls, found: object) -> bool:
        return isinstance(found, _PlainGenerator)


class Generator(_PlainGenerator, metaclass=_AnyGenerator):
    """A generator of random numbers; those of a card have no values, so one of the CPU does."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Make one that is said to be on a device."""
        made = super().__new__(cls, "cpu")
        wanted = torch.device(device)
        if wanted.type == "cuda" and wanted.index is None:
            wanted = torch.device("cuda", torch.cuda.current_device())
        made._where = wanted
        return made

    @property
    def device(self) -> torch.device:
        """Where it says it is."""
        where: torch.device = self._where
        return where


def _record_history(
    enabled: Any = "all", context: Any = "all", stacks: str = "all", max_entries: int = 0,
    *_: Any, **__: Any,
) -> None:  # fmt: skip
    """Begin the program's own history, or end it; its other arguments change nothing."""
    _C._cuda_record_memory_history(enabled)


def _is_acceptable(tensor: Any) -> bool:
    """Say whether cuDNN takes a tensor; as ``torch.backends.cudnn.is_acceptable()``."""
    known = (torch.half, torch.float, torch.double, torch.bfloat16)
    return bool(
        torch.backends.cudnn.enabled and tensor.device.type == "cuda" and tensor.dtype in known
    )


def _is_pinned(tensor: Any, device: Any = None) -> bool:
    """Say whether a tensor was to be pinned: there is no pinned memory, and it is not needed."""
    return getattr(tensor, PINNED, False) is True


def _pin(tensor: Any, device: Any = None) -> Any:
    """Return a copy that is said to be pinned."""
    if tensor.device.type != "cpu":
        raise RuntimeError(
            f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned"
        )  # PyTorch's words
    if _is_pinned(tensor):
        return tensor
    made = tensor.clone()
    setattr(made, PINNED, True)
    return made


def _take_away(owner: Any, name: str) -> None:
    if name in vars(owner):
        delattr(owner, name)


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: there is no driver to do it."""


def _nothing_method(self: Any, *_: Any, **__: Any) -> None:
    """Do nothing."""

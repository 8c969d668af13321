"""Runs every operation on the card that is not there: its results have shapes, but no values.

The tensors are plain tensors of CUDA's kind whose memory does not exist. PyTorch has no kernels for
them here, so each operation comes to ``Runner.kernel``, below autograd and autocast. It works out
the results' shapes with PyTorch's own ``meta`` kernels, books their memory, and makes them.
So everything above the kernels, such as autograd's C++, goes on as on a real card.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import torch

from snapreport.ground.native.pretend import Pretended
from snapreport.ground.records import dataclass
from snapreport.model.snapshot import UNKNOWN_KERNELS
from snapreport.recorders.forecast import sparse
from snapreport.recorders.forecast.book import Book, Booked, Failed
from snapreport.recorders.forecast.kernels import (
    Inside,
    Processor,
    Workspace,
    inside,
    lasting_workspaces,
    results_on_card,
)
from snapreport.recorders.forecast.values import Values

_LOG = logging.getLogger(__name__)
_C = torch._C
_aten = torch.ops.aten
CPU_KEYS = _C.DispatchKeySet(_C.DispatchKey.CPU)
_META = torch.device("meta")

_KINDS: dict[torch.dtype, tuple[int, int]] = {
    torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16),
    torch.int64: (0, 64), torch.int32: (0, 32), torch.int16: (0, 16), torch.int8: (0, 8),
    torch.uint8: (1, 8), torch.bool: (6, 8), torch.complex64: (5, 64), torch.complex128: (5, 128),
}  # fmt: skip
"""DLPack's code and bits. Other types are made of bytes, and viewed."""

OVERRIDING: dict[str, Any] = (
    {"allow_override": True}
    if "allow_override" in inspect.signature(torch.library.Library.impl).parameters
    else {}  # PyTorch 2.6, where it is always allowed
)

_OTHER_RESULTS = frozenset(
    packet
    for name in (
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention", "binary_cross_entropy", "_cudnn_rnn",
        "mse_loss", "smooth_l1_loss",
    )
    if (packet := getattr(torch.ops.aten, name, None)) is not None
)  # fmt: skip
"""Of which ``results_on_card`` says something."""

_ids = count()
"""Numbers of tensors; never the same again in a later forecast."""
NEW, WRITTEN, VIEW = range(3)
_RESIZE = _aten.resize_.default

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Plan:
    """How an operation runs."""

    kind: int
    written: tuple[int | str, ...] = ()
    """Of ``WRITTEN``: the arguments that are the results."""
    resizes: bool = False
    """Whether the results may have to grow first, as of ``out=``."""


class _Handle:
    """A library's handle, as long as the thread that has it lives."""

    def __init__(self, free: list[int], numbers: Iterator[int]) -> None:
        self._free = free
        try:
            self.number = free.pop()
        except IndexError:
            self.number = next(numbers)

    def __del__(self) -> None:
        self._free.append(self.number)


class Runner:
    """The kernels of the card."""

    def __init__(
        self, pretended: Pretended, book: Book, values: Values, processor: Processor
    ) -> None:
        """Take what all kernels use.

        Args:
            pretended: makes tensors.
            book: where allocations are noted.
            values: answers for values that do not exist.
            processor: the card and PyTorch's version.
        """
        self.pretended, self.book, self.values = pretended, book, values
        self.processor = processor
        book.stacks.engine = _engine
        self._plans: dict[Any, Plan] = {}
        self._rules: dict[Any, Rule] = {}
        self._live: dict[int, tuple[int, Booked | None]] = {}
        """By id: device, and its allocation if it has one."""
        self._of_storage: dict[int, int] = {}
        """Ids of storages that were resized, by PyTorch's address of the storage itself."""
        self._resized: dict[int, int] = {}
        """The same, by id."""
        self._of_address: dict[tuple[int, int], int] = {}
        self._shapes: dict[Any, Any] = {}
        self._insides: dict[Any, Any] = {}
        self._of_thread = threading.local()
        self._free_handles: list[int] = []
        self._handle_numbers = count()
        self._handles: dict[tuple[int, int, int, int], Booked] = {}
        self.fakes: dict[str, Any] = {}
        """Operations of the program that have a fake implementation, and our libraries for them."""
        self.unknown: Counter[str] = Counter()
        """Operations of which it is not known what their kernels take, and how often they ran."""

    @contextmanager
    def there(self) -> Iterator[None]:
        """Put the kernels in, during the body."""
        libraries = [torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")]
        libraries[0].fallback(self.kernel, "CUDA")
        libraries[0].fallback(_bound(sparse.kernel, self), "SparseCUDA")
        for key, what in (
            ("SparseCsrCUDA", "sparse tensors other than COO"),
            ("NestedTensorCUDA", "nested tensors without layout=torch.jagged"),
            ("QuantizedCUDA", "quantized tensors"),
        ):
            libraries[0].fallback(sparse.refuse(what), key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some replace others is what is wanted
            self._register(libraries[1])
        self.pretended.on_free(self._freed)
        try:
            yield
        finally:
            self.pretended.on_free(None)
            for library in (*libraries, *self.fakes.values()):
                library._destroy()
            self.fakes.clear()

    def _register(self, library: Any) -> None:
        for name in _own_kernels():
            operator = _operator(name)
            if operator is not None:
                library.impl(name, _bound(self.kernel, operator), "CUDA", **OVERRIDING)
        for name in _C._dispatch_get_registrations_for_dispatch_key("SparseCPU"):
            operator = _operator(name)
            if operator is not None:
                run = functools.partial(sparse.kernel, self, operator)
                library.impl(name, run, "SparseCUDA", **OVERRIDING)

    def use_fake(self, name: str) -> None:
        """Run an operation of the program by its fake implementation, ``mylib::op``."""
        if name in self.fakes or name.startswith("aten::"):
            return
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        operator = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        library = torch.library.Library(space, "FRAGMENT")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl(rest, _bound(self.kernel, operator), "CUDA", **OVERRIDING)
        self.fakes[name] = library

    def rule(self, operator: Any, function: Rule) -> None:
        """Let a function answer for an operation; it gets this, the operation and its arguments."""
        self._rules[operator] = function

    def kernel(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an operation."""
        rule = self._rules.get(operator)
        if rule is not None:
            found = rule(self, operator, args, kwargs)
            if found is not NotImplemented:
                return found
        return self.run(operator, args, kwargs)

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation without a rule."""
        plan = self._plans.get(operator)
        if plan is None:
            plan = self._plans[operator] = plan_of(operator)
        if plan.kind == VIEW:
            out = operator.redispatch(CPU_KEYS, *args, **kwargs)
        elif plan.kind == WRITTEN and not plan.resizes:
            found = [kwargs[at] if isinstance(at, str) else args[at] for at in plan.written]
            out = found[0] if len(found) == 1 else tuple(found) if found else None
            with self.around(operator, args, kwargs, found):
                pass
        else:
            shapes = self.shapes(operator, args, kwargs)
            with self.around(operator, args, kwargs, shapes):
                if plan.kind == WRITTEN:
                    out = self._into(plan, args, kwargs, shapes)
                else:
                    out = self._results(operator, args, kwargs, shapes)
        self.values.follow(operator, args, kwargs, out)
        return out

    @contextmanager
    def around(self, operator: Any, args: Any, kwargs: Any, results: Any) -> Iterator[None]:
        """Book what an operation's kernel takes for itself, around its results in the body."""
        inside, cublas = self.inside_of(operator, args, kwargs, results)
        if not inside and not cublas:
            yield
            return
        device = self.device_of(args, kwargs)
        held: list[tuple[int | None, Booked]] = []
        first = [each for each in inside if each.before]
        for each in first:
            self._take(held, device, each, operator)
        yield
        if cublas:  # a structured kernel makes its result before it asks for a handle
            self._ready_cublas(device, operator, cublas)
        for each in inside:
            if not each.before:
                self._take(held, device, each, operator)
        for _, booked in held:
            self.book.free(device, booked)

    def _take(
        self, held: list[tuple[int | None, Booked]], device: int, each: Inside, operator: Any
    ) -> None:
        ended = [booked for left, booked in held if left == 0]
        held[:] = [(None if left is None else left - 1, b) for left, b in held if left != 0]
        for booked in ended:
            self.book.free(device, booked)
        if each.bytes:
            unsure = 0 if each.least is None else each.bytes - each.least
            held.append((each.outlives, self.allocate(device, each.bytes, operator, unsure)))
        if each.most is not None:
            self.book.could_be(device, each.role, each.most - each.bytes)

    def inside_of(
        self, operator: Any, args: Any, kwargs: Any, results: Any
    ) -> tuple[list[Inside], list[Workspace | None]]:
        """Return what an operation's kernel takes for itself, and the workspaces of its handle.

        If the former is not known, it is counted.
        """
        try:
            key = (operator, _key(args), _key(kwargs))
            known = self._insides.get(key)
        except TypeError:
            key, known = None, None
        if known is None:
            check_devices(operator, args)
            name = operator.name()
            outputs = [results] if isinstance(results, torch.Tensor) else list(results or ())
            try:
                found = inside(name, args, kwargs, outputs, self.processor)
            except Exception:  # a call that the table does not expect ends no program
                _LOG.exception("what %s takes is not known", name)
                found = None
            cublas = lasting_workspaces(name, outputs, args, kwargs, self.processor)
            known = (found, cublas)
            if key is not None and len(self._insides) < _MOST_SHAPES:
                self._insides[key] = known
        found, cublas = known
        if found is None:
            self.unknown[operator.name()] += 1
            bound = sum(each.untyped_storage().nbytes() for each in tensors_of((args, results)))
            self.book.could_be(self.device_of(args, kwargs), UNKNOWN_KERNELS, bound)
            return [], cublas
        return found, cublas

    def _ready_cublas(
        self, device: int, operator: Any, workspaces: Sequence[Workspace | None]
    ) -> None:
        """Book the workspaces that a thread uses for the first time on a stream."""
        number, stream = self._handle(), int(self.pretended.stream(device))
        for which, workspace in enumerate(workspaces):
            handle = (number, device, stream, which)
            if workspace is not None and handle not in self._handles:
                booked = self.allocate(device, workspace.bytes, operator, inside=_HANDLES[which])
                self._handles[handle] = booked

    def _handle(self) -> int:
        """Return the number of this thread's handle; that of a thread that has ended is used again.

        Source: aten/src/ATen/cuda/detail/DeviceThreadHandles.h, ``DeviceThreadHandlePool``.
        """
        held = getattr(self._of_thread, "handle", None)
        if held is None:
            held = self._of_thread.handle = _Handle(self._free_handles, self._handle_numbers)
        return int(held.number)

    def clear_workspaces(self) -> None:
        """Free the workspaces of cuBLAS."""
        for (_, device, _, _), booked in self._handles.items():
            self.book.free(device, booked)
        self._handles.clear()

    # Shapes

    def shapes(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return an operation's results on PyTorch's ``meta`` device."""
        key = (operator, _key(args), _key(kwargs))
        try:
            known = self._shapes.get(key)
        except TypeError:  # an argument that cannot be a key
            return self._shapes_of(operator, args, kwargs)
        if known is None:
            known = self._shapes_of(operator, args, kwargs)
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[key] = known
        return known

    def _shapes_of(self, operator: Any, args: Any, kwargs: Any) -> Any:
        try:
            return operator(*_as_meta(args), **_as_meta(kwargs))
        except NotImplementedError:
            return self._computed(operator, args, kwargs)
        except (RuntimeError, ValueError, IndexError, TypeError):
            converted = numbers_as_tensors(operator, args)
            if converted is not None:
                return operator(*_as_meta(converted), **_as_meta(kwargs))
            # Some meta kernels take less than a card does, and their words are others.
            if _bytes_in(args, kwargs) > _MOST_COMPUTED:
                raise
        return self._computed(operator, args, kwargs)

    def _computed(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Return results of an operation that has no ``meta`` kernel: those of zeros on the CPU."""
        size = _bytes_in(args, kwargs)
        if size > _MOST_COMPUTED:
            raise NotImplementedError(
                f"A forecast does not know the results of {operator.name()}, for which PyTorch has"
                f" no meta kernel, and {size:,} bytes are too many to compute it on the CPU."
            )
        try:
            return _mapped(operator(*_as_zeros(args), **_as_zeros(kwargs)))
        except NotImplementedError:
            if operator.namespace == "aten":
                raise
            name = operator.name()
            raise NotImplementedError(
                f"A forecast does not know the results of {name}. Write what they are like, such as"
                f' torch.library.register_fake("{name}")(lambda x: torch.empty_like(x)).'
            ) from None

    # Tensors

    def empty(
        self, shape: Any, strides: Any, dtype: torch.dtype, device: int, operator: Any
    ) -> Any:
        """Book and make a tensor without values."""
        shape, strides = tuple(shape), tuple(strides)
        size = _bytes_of(shape, strides, dtype.itemsize)
        id_, address = -1, 0
        if size:
            booked = self.allocate(device, size, operator)
            id_, address = next(_ids), booked.address
            self._live[id_] = (device, booked)
            self._of_address[device, address] = id_
        kind = _KINDS.get(dtype)
        made = self.pretended.capsule(
            address, device, kind or (1, 8), id_,
            shape if kind else (size,), strides if kind else (1,),
        )  # fmt: skip
        tensor = _C._from_dlpack(made)
        if kind is None:
            whole = _aten.view.dtype.redispatch(CPU_KEYS, tensor, dtype)
            return _aten.as_strided.default.redispatch(CPU_KEYS, whole, shape, strides, 0)
        return tensor

    def unbooked(self, shape: Any, dtype: torch.dtype, device: int) -> Any:
        """Make a tensor that takes no memory on the card, either."""
        shape = tuple(shape)
        made = self.pretended.capsule(
            1 << 40, device, _KINDS[dtype], -1, shape, contiguous_strides(shape)
        )
        return _C._from_dlpack(made)

    def like(self, meta: Any, device: int, operator: Any) -> Any:
        """Book and make a tensor with the shape of one on ``meta``."""
        return self.empty(meta.shape, meta.stride(), meta.dtype, device, operator)

    def allocate(
        self, device: int, size: int, operator: Any, unsure: int = 0, inside: tuple[str, ...] = ()
    ) -> Booked:
        """Book memory on a device's current stream; some of it may not be taken.

        Args:
            device: its number.
            size: in bytes.
            operator: what asks for it.
            unsure: bytes that a real run may not ask for.
            inside: C++ functions inside the operator that a real run has on the stack.

        Raises:
            torch.OutOfMemoryError: the card is full.
        """
        try:
            stream = int(self.pretended.stream(device))
            called = (*inside, _called(operator))
            return self.book.allocate(device, size, stream, called, unsure)
        except IndexError:  # in PyTorch's words
            kind = getattr(torch, "AcceleratorError", RuntimeError)
            message = "CUDA error: invalid device ordinal"
        except Failed as failure:
            kind, message = torch.OutOfMemoryError, str(failure)
        raise kind(message)  # here, so that it has no other that keeps the program's tensors

    def resized(self, storage: Any, size: int) -> None:
        """Give a storage another size, as FSDP frees its parameters; its address changes, too."""
        place = int(storage._cdata)
        id_ = self._of_storage.get(place)
        if id_ is None:
            id_ = self._of_address.get((storage.device.index or 0, storage.data_ptr()))
        if id_ is None or storage.nbytes() == size:
            return
        device, booked = self._live[id_]
        # As PyTorch does it, the new memory is there before the old is freed (resize_bytes_cuda).
        taken = self.allocate(device, size, _RESIZE) if size else None
        if booked is not None:
            self._forget_address(id_, device, booked.address)
            self.book.free(device, booked)
        if taken is not None:
            self._of_address[device, taken.address] = id_
        self._of_storage[place] = id_
        self._resized[id_] = place
        self._live[id_] = (device, taken)
        self.pretended.set_storage(storage, taken.address if taken else 0, size)

    def _forget_address(self, id_: int, device: int, address: int) -> None:
        if self._of_address.get((device, address)) == id_:
            del self._of_address[device, address]

    def _freed(self, id_: int) -> None:
        if id_ not in self._live:  # a tensor that has outlived an earlier forecast
            return
        device, booked = self._live.pop(id_)
        place = self._resized.pop(id_, None)
        if place is not None:
            del self._of_storage[place]
        if booked is not None:
            self._forget_address(id_, device, booked.address)
            self.book.free(device, booked)

    def _results(self, operator: Any, args: Any, kwargs: Any, shapes: Any) -> Any:
        """Make an operation's results, also those whose memory is another than ``meta`` says."""
        device = self.device_of(args, kwargs)
        if operator.overloadpacket not in _OTHER_RESULTS:
            return self._made(shapes, device, operator)
        other = results_on_card(operator.name(), args, kwargs, self.processor)
        if isinstance(shapes, torch.Tensor):
            return self._other(other[0], shapes, device, operator) if other else self._made(
                shapes, device, operator
            )  # fmt: skip
        return tuple(
            self._other(other[n], each, device, operator) if n in other
            else self._made(each, device, operator)
            for n, each in enumerate(shapes)
        )  # fmt: skip

    def _other(self, wanted: Inside, meta: Any, device: int, operator: Any) -> Any:
        """Make a result of other bytes than its shape has; of none, it is on the CPU."""
        if not wanted.bytes:
            return torch.empty(meta.shape, dtype=meta.dtype, device="cpu")
        if wanted.most is not None:
            self.book.could_be(device, wanted.role, wanted.most - wanted.bytes)
        count = wanted.bytes // meta.itemsize
        whole = self.empty((count,), (1,), meta.dtype, device, operator)
        if meta.numel() == 0:  # its real length is not known on ``meta``
            return whole
        return _aten.as_strided.default.redispatch(CPU_KEYS, whole, meta.shape, meta.stride(), 0)

    def _made(self, shapes: Any, device: int, operator: Any) -> Any:
        """Make an operation's results; those on ``meta`` on the device."""
        if isinstance(shapes, torch.Tensor):
            if shapes.device.type == "cpu":
                return shapes
            return self.like(shapes, device, operator)
        if isinstance(shapes, list | tuple):
            made = [self._made(each, device, operator) for each in shapes]
            return made if isinstance(shapes, list) else tuple(made)
        return shapes

    def _into(self, plan: Plan, args: Any, kwargs: Any, shapes: Any) -> Any:
        """Return the tensors that an operation writes into, resized if need be."""
        found = [kwargs[at] if isinstance(at, str) else args[at] for at in plan.written]
        wanted = [shapes] if isinstance(shapes, torch.Tensor) else list(shapes or ())
        for tensor, shape in zip(found, wanted, strict=False):
            if isinstance(tensor, torch.Tensor) and tensor.shape != shape.shape:
                tensor.resize_(shape.shape)
        return found[0] if len(found) == 1 else tuple(found)

    cpu_keys = CPU_KEYS
    """For kernels that work with the descriptions of tensors alone, such as views."""

    def device_of(self, args: Any, kwargs: Any) -> int:
        """Return the number of the device that an operation runs on."""
        device = kwargs.get("device")
        if device is not None:
            index = torch.device(device).index
            return int(self.pretended.device()) if index is None else int(index)
        for tensor in tensors_of((args, kwargs)):
            if tensor.device.type == "cuda":
                return int(tensor.device.index)
        return int(self.pretended.device())


def _bound(kernel: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        return kernel(operator, *args, **kwargs)

    return run


_STUBBED = (
    "aten::copy_",
    "aten::convolution", "aten::convolution_backward",
    "aten::addr", "aten::addr.out", "aten::all.dims_out", "aten::any.dims_out",
    "aten::native_group_norm", "aten::native_layer_norm", "aten::_chunk_cat",
    "aten::_chunk_cat.out", "aten::_fused_rms_norm", "aten::_fused_rms_norm_backward",
    "aten::_grouped_mm", "aten::linalg__powsum", "aten::split_with_sizes_copy.out",
)  # fmt: skip
"""Operations that CUDA has kernels of its own for, beside one for all devices.

Source: aten/src/ATen/native/native_functions.yaml.
"""


def _own_kernels() -> list[str]:
    """Return the operations that get a kernel of ours by name.

    Those that a CUDA build has kernels for; those that a build without CUDA composes of an empty
    result and a kernel that writes into it, which on CUDA are one; and some that end in a stub.
    """
    listed = _C._dispatch_get_registrations_for_dispatch_key
    lists = {
        name for name in listed("CompositeExplicitAutograd") if name.startswith("aten::_foreach_")
    }
    composed = listed("CompositeExplicitAutogradNonFunctional")
    return sorted({*composed, *listed("CUDA"), *lists, *_STUBBED})


def _operator(name: str) -> Any:
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), packet, None)
    return getattr(found, overload or "default", None) if space == "aten" else None


def plan_of(operator: Any) -> Plan:
    """Return how an operation runs, from its schema."""
    schema = operator._schema
    infos = [each.alias_info for each in schema.returns]
    if torch.Tag.inplace_view in operator.tags:  # such as transpose_
        return Plan(VIEW)
    if infos and all(info is not None and not info.is_write for info in infos):
        return Plan(VIEW)
    places: dict[frozenset[str], int | str] = {}
    for place, argument in enumerate(schema.arguments):
        info = argument.alias_info
        if info is not None and info.is_write:
            places[frozenset(info.before_set)] = argument.name if argument.kwarg_only else place
    out = bool(places) and any(isinstance(at, str) for at in places.values())
    if infos and all(info is not None and info.is_write for info in infos):
        written = tuple(places[frozenset(info.before_set)] for info in infos)
        return Plan(WRITTEN, written, resizes=out)
    if places and not infos:  # such as _foreach_add_
        return Plan(WRITTEN)
    return Plan(NEW)


def _bytes_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes of a storage; as ``computeStorageNbytes`` in ATen/EmptyTensor.cpp."""
    if 0 in shape:
        return 0
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return (last + 1) * itemsize


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


_MOST_SHAPES = 100_000
_MOST_COMPUTED = 1 << 28


def _key(value: Any) -> Any:
    """Return what an operation's results depend on, of an argument, as a key."""
    if isinstance(value, torch.Tensor):
        return (value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, list | tuple):
        return tuple(_key(each) for each in value)
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    return (type(value), value)


def _as_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type == "meta" or (value.device.type == "cpu" and value.dim() == 0):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, list | tuple):
        return type(value)(_as_meta(each) for each in value)
    if isinstance(value, dict):
        return {name: _as_meta(each) for name, each in value.items()}
    if isinstance(value, torch.device):
        return _META
    return value


def check_devices(operator: Any, args: Any) -> None:
    """Say in PyTorch's words that tensors are on several devices, where a card would.

    Raises:
        RuntimeError: they are.
    """
    name = operator.overloadpacket.__name__
    if operator.namespace != "aten" or name in _ANYWHERE or name.startswith(_ANYWHERE_ALL):
        return
    found = {each.device for each in tensors_of(args) if each.dim() or each.device.type == "cuda"}
    if len(found) > 1:
        one, other = sorted(map(str, found), reverse=True)[:2]
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices,"
            f" {one} and {other}! (in {operator.name()})"
        )


_ANYWHERE = frozenset([
    "copy_", "_to_copy", "index", "index_put", "index_put_", "set_", "record_stream", "_copy_from",
    "repeat_interleave", "embedding_renorm_", "_has_same_storage_numel",
])  # fmt: skip
_ANYWHERE_ALL = (
    "_index_put", "_unsafe_index", "_foreach", "_fused", "_amp", "resize", "_ctc_loss", "_cudnn",
    "_pack", "_pad", "_scaled_dot", "_efficient", "_flash", "_nested",
)  # fmt: skip
"""Operations that take tensors of several devices, and how some more begin."""


def _bytes_in(args: Any, kwargs: Any) -> int:
    return sum(each.numel() * each.itemsize for each in tensors_of((args, kwargs)))


def _as_zeros(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu":
            return value
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
        return made.zero_()
    if isinstance(value, list | tuple):
        return type(value)(_as_zeros(each) for each in value)
    if isinstance(value, dict):
        return {name: _as_zeros(each) for name, each in value.items()}
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value


def _mapped(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each) for each in value)
    return value


def numbers_as_tensors(operator: Any, args: Any) -> tuple[Any, ...] | None:
    """Return arguments in which numbers are tensors where an operation wants some; None without.

    The dispatcher gives Python numbers for tensors that were made of numbers, which not every
    operation takes back. They get a type that does not change that of the result.
    """
    places = [
        n for n, (argument, value) in enumerate(zip(operator._schema.arguments, args, strict=False))
        if isinstance(value, bool | int | float | complex)
        and isinstance(argument.type, _C.TensorType | _C.OptionalType)
        and "Tensor" in str(argument.type)
    ]  # fmt: skip
    if not places:
        return None
    kinds = [each.dtype for each in tensors_of(args)]
    found = list(args)
    for n in places:
        alike = torch.tensor(args[n])
        same = [kind for kind in kinds if _rank(kind) >= _rank(alike.dtype)]
        found[n] = alike.to(same[0]) if same else alike
    return tuple(found)


def _rank(kind: torch.dtype) -> int:
    return 3 if kind.is_complex else 2 if kind.is_floating_point else int(kind != torch.bool)


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors in an operation's arguments or results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_of(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_of(each)


def _called(operator: Any) -> str:
    """Return the C++ function that a real run has on the stack when it allocates."""
    called = _CALLED.get(operator)
    if called is None:
        name = operator.name().partition("::")[2].replace(".", "_")
        called = _CALLED[operator] = f"at::_ops::{name}::call"
    return called


def _engine() -> tuple[str, ...]:
    """Return the C++ functions of autograd that this thread is in, innermost first."""
    node = _C._current_autograd_node()
    if node is None:
        known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        outside = known is None or isinstance(known, threading._DummyThread)
        return _ENGINE if outside else ()  # no thread of Python's: it is autograd's
    name = node.name()
    found = _NODES.get(name)
    if found is None:
        if re.search(r"Backward\d+$", name):
            apply = f"torch::autograd::generated::{name}::apply"
        elif name.startswith("torch::autograd::"):
            apply = f"{name}::apply"
        else:  # of a torch.autograd.Function
            apply = "torch::autograd::PyNode::apply"
        found = _NODES[name] = (apply, *_ENGINE)
    return found


_ENGINE = ("torch::autograd::Engine::evaluate_function", "torch::autograd::Engine::thread_main")
_HANDLES = (("at::cuda::getCurrentCUDABlasHandle",), ("at::cuda::getCUDABlasLtWorkspace",))
_CALLED: dict[Any, str] = {}
_NODES: dict[str, tuple[str, ...]] = {}

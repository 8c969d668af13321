"""What a finished torch.profiler run saw of memory, read from its event tree.

PyTorch offers that tree to nobody but its own tools (``_ProfilerResult`` and ``_ProfilerEvent``),
and only this module knows it. It gives what the public list of events lacks: addresses, and for
each Python function the line at which it called the next.

Source: PyTorch, torch/csrc/profiler/collection.h (Result, ExtraFields) and
torch/profiler/_memory_profiler.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.ground.gc_pause import collector_off
from snapreport.recorders.source_paths import whole_path

Frame = dict[str, Any]
DeviceKey = tuple[str, int]
"""Kind and ordinal, as ``("cpu", 0)``."""

FUNCTION_START = "where the function begins; the profiler does not tell the line that ran"
"""What a frame says under ``line_is`` where its line is not the one at work."""

_GONE = "(code that is gone)"


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """Memory that was got or given back."""

    time_ns: int
    """Nanoseconds since 1970."""
    device: DeviceKey
    address: int
    size: int
    """Bytes, below zero for a free."""
    allocated: int
    """Bytes that the allocator counted as allocated afterwards."""
    frames: list[Frame]
    """Innermost first; one list for all events with this stack."""


@dataclass(frozen=True, slots=True)
class NamedRange:
    """The range of a ``record_function``."""

    name: str
    start_ns: int
    end_ns: int | None
    """None for a range that was still open when the profiler stopped."""


@dataclass(frozen=True, slots=True)
class SeenTensor:
    """A tensor that a module or an optimizer held at some moment."""

    time_ns: int
    device: DeviceKey
    address: int
    size: int
    kind: str
    """``parameter``, ``gradient`` or ``optimizer state``."""
    name: str


@dataclass
class Recorded:
    """All that one run of the profiler saw; each list is in the order of time."""

    memory: list[MemoryEvent] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)
    tensors: list[SeenTensor] = field(default_factory=list)


class _Node:
    """One frame of a call stack, below those that called it; each stack exists once."""

    __slots__ = ("_below", "_frames", "frame", "outer")

    def __init__(self, frame: Frame | None, outer: _Node | None) -> None:
        self.frame = frame
        self.outer = outer
        self._below: dict[int, _Node] = {}
        self._frames: list[Frame] | None = None

    def call(self, frame: Frame) -> _Node:
        known = self._below.get(id(frame))
        if known is None:
            known = self._below[id(frame)] = _Node(frame, self)
        return known

    def frames(self) -> list[Frame]:
        if self._frames is None:
            self._frames = []
            node: _Node | None = self
            while node is not None and node.frame is not None:
                self._frames.append(node.frame)
                node = node.outer
        return self._frames


class _Place:
    """Where in the program an event's children are.

    Most events, Python's own calls above all, have no memory in them: their stack is only put
    together when it is asked for.
    """

    __slots__ = ("event", "function", "node", "outer")

    def __init__(self, outer: _Place | None, event: Any, node: _Node | None = None) -> None:
        self.outer = outer
        self.event = event
        self.node = node
        self.function: tuple[str, str, int] | None = None
        """Name, file and first line of the Python function at work, whose frame is not in
        ``node`` yet: its line shows when it calls something."""


class EventTreeReader:
    """Reads event trees; frames and stacks stay known from one to the next."""

    def __init__(self) -> None:
        self._root = _Node(None, None)
        self._frames: dict[tuple[str, str, int, bool], Frame] = {}
        self._files: dict[str, str] = {}

    def read(self, profile: Any) -> Recorded:
        """Read a finished profile.

        Args:
            profile: a ``torch.profiler.profile`` or ``torch.autograd.profiler.profile``.

        Raises:
            RecordingError: it is none, is still running, has no memory in it, or comes from a
                PyTorch whose profiler has another form.
        """
        results = _results(profile)
        self._files = {}  # more modules may have been loaded
        recorded = Recorded()
        try:
            with collector_off():  # it would visit every event again and again
                self._walk(results.experimental_event_tree(), recorded)
        except (AttributeError, TypeError) as error:
            raise RecordingError(
                "This PyTorch's profiler keeps its events in a form that snapreport does not know"
                f" ({error}); it is known to work with torch 2.13."
            ) from error
        # The tree is a thread's after the other's; the sort keeps the order of equal times.
        recorded.memory.sort(key=lambda event: event.time_ns)
        recorded.ranges.sort(key=lambda named: named.start_ns)
        recorded.tensors.sort(key=lambda tensor: tensor.time_ns)
        return recorded

    def _walk(self, roots: list[Any], into: Recorded) -> None:
        seen: set[tuple[Any, ...]] = set()
        start = _Place(None, None, self._root)
        todo = [(event, start) for event in reversed(roots)]
        while todo:  # not by recursion: a deep program would end it
            event, place = todo.pop()
            fields = event.typed[1]
            kind = type(fields).__name__
            if kind == "_ExtraFields_Allocation":
                into.memory.append(self._memory(event, fields, place))
                continue
            # No call, so no frame: what a range holds is where it would be without it.
            inside = place
            if kind == "_ExtraFields_TorchOp":
                name = event.name
                if not name.startswith("aten::") and _scope(fields) == "USER_SCOPE":
                    into.ranges.append(_range(event, name, place))
                else:
                    if name == "torch::autograd::AccumulateGrad":
                        into.tensors += _accumulated(event)
                    inside = _Place(place, event)
            elif kind == "_ExtraFields_PyCall":
                if fields.module is not None or fields.optimizer is not None:
                    into.tensors += _new_tensors(event.start_time_ns, fields, seen)
                inside = _Place(place, event)
            elif kind == "_ExtraFields_PyCCall":
                inside = _Place(place, event)
            children = event.children
            if children:
                children.reverse()
                todo += [(child, inside) for child in children]

    def _settle(self, place: _Place) -> _Node:
        """Put together the stack of a place, without the function at work."""
        waiting = []
        while place.node is None:
            waiting.append(place)
            assert place.outer is not None
            place = place.outer
        node = place.node
        for inner in reversed(waiting):
            assert inner.outer is not None
            fields = inner.event.typed[1]
            kind = type(fields).__name__
            if kind == "_ExtraFields_TorchOp":
                name = inner.event.name.removeprefix("autograd::engine::evaluate_function: ")
                node = self._calling(inner.outer, None)
                frame = self._frame(name, "??", 0, exact=True)
                # An operator that only hands on to its own implementation is one frame.
                node = node if node.frame is frame else node.call(frame)
            else:
                node = self._calling(inner.outer, fields.caller)
                if kind == "_ExtraFields_PyCall":
                    inner.function = _function(fields.callsite)
            inner.node = node
        return node

    def _memory(self, event: Any, fields: Any, place: _Place) -> MemoryEvent:
        device = fields.device
        return MemoryEvent(
            time_ns=event.start_time_ns,
            device=(device.type, device.index or 0),
            address=fields.ptr,
            size=fields.alloc_size,
            allocated=fields.total_allocated,
            frames=self._calling(place, None).frames(),
        )

    def _calling(self, place: _Place, caller: Any) -> _Node:
        """Return the stack at a place with the function at work, at the line that calls.

        Args:
            place: where the call is made.
            caller: the profiler's record of the calling function, None for a call that is none
                of Python's: an operator written as ``a + b``, or memory itself.
        """
        node = self._settle(place)
        if place.function is None:
            return node
        name, filename, line = place.function
        exact = False
        if caller is not None:
            calling = _function(caller)
            if calling[:2] == (name, filename):
                line, exact = calling[2], True
        return node.call(self._frame(name, filename, line, exact=exact))

    def _frame(self, name: str, filename: str, line: int, *, exact: bool) -> Frame:
        key = (name, filename, line, exact)
        known = self._frames.get(key)
        if known is None:
            if filename not in self._files:
                self._files[filename] = whole_path(filename)
            path = self._files[filename]
            known = self._frames[key] = {"name": name, "filename": path, "line": line}
            if not exact:
                known["line_is"] = FUNCTION_START
        return known


def _results(profile: Any) -> Any:
    inner = getattr(profile, "profiler", profile)  # torch.profiler's holds torch.autograd's
    if not hasattr(profile, "profiler") and not hasattr(profile, "kineto_results"):
        raise RecordingError(
            f"A {type(profile).__name__} is not a profile; pass what torch.profiler.profile() gave"
        )
    results = getattr(inner, "kineto_results", None)
    if results is None:
        raise RecordingError(
            "The profile holds nothing yet; take it after its with block, or after stop()."
        )
    if not getattr(profile, "profile_memory", True):
        raise RecordingError(
            "The profile has no memory in it; record it with"
            " torch.profiler.profile(profile_memory=True, with_stack=True)."
        )
    return results


def _function(state: Any) -> tuple[str, str, int]:
    # The profiler keeps no more than the addresses of a code object's names. Where the code is
    # gone by now, as what exec() or a script's own end leave behind, something else lies there.
    try:
        name, filename = state.function_name, state.file_name
    except UnicodeDecodeError:
        return _GONE, "", state.line_number
    if not (name.isprintable() and filename.isprintable()):
        return _GONE, "", state.line_number
    return name, filename, state.line_number


def _scope(fields: Any) -> str:
    return str(getattr(fields.scope, "name", ""))


def _range(event: Any, name: str, place: _Place) -> NamedRange:
    # The profiler ends what is open with the Python call that opened it (__enter__).
    end = event.end_time_ns
    opened_by = place.event.end_time_ns if place.event is not None else None
    closed = end > event.start_time_ns and end != opened_by
    return NamedRange(name, event.start_time_ns, end if closed else None)


def _new_tensors(time_ns: int, fields: Any, seen: set[tuple[Any, ...]]) -> Iterator[SeenTensor]:
    """Yield the tensors of the module or optimizer that a call is of, at its first call.

    The profiler looks at a module once and repeats what it saw then at every later call.
    """
    found: list[tuple[str, str, Any]] = []
    module, optimizer = fields.module, fields.optimizer
    if module is not None:
        prefix = module.cls_name
        for name, parameter, gradient in module.parameters:
            found.append(("parameter", f"{prefix}.{name}", parameter))
            found.append(("gradient", f"{prefix}.{name}", gradient))
    if optimizer is not None:
        for parameter, gradient, state in optimizer.parameters:
            found += [("parameter", "", parameter), ("gradient", "", gradient)]
            found += [("optimizer state", name, tensor) for name, tensor in state]
    for kind, name, tensor in found:
        row = _tensor(time_ns, kind, name, tensor)
        if row is not None:
            key = (row.device, row.address, row.size, kind, name)
            if key not in seen:
                seen.add(key)
                yield row


def _accumulated(event: Any) -> Iterator[SeenTensor]:
    """Yield the gradient that an AccumulateGrad node keeps, where shapes were recorded."""
    children = event.children
    if children and children[0].name in ("aten::detach", "aten::add_"):
        inputs = children[0].typed[1].inputs
        row = _tensor(event.start_time_ns, "gradient", "", inputs[0] if inputs else None)
        if row is not None:
            yield row


def _tensor(time_ns: int, kind: str, name: str, tensor: Any) -> SeenTensor | None:
    """Return what is known of a tensor; None for one without a storage of its own."""
    address = getattr(tensor, "storage_data_ptr", None)
    if not address or not str(tensor.layout).endswith("strided"):
        return None
    sizes = tensor.sizes
    if 0 in sizes:
        return None
    reach = sum((n - 1) * stride for n, stride in zip(sizes, tensor.strides, strict=True))
    device = (tensor.device.type, tensor.device.index or 0)
    return SeenTensor(time_ns, device, address, (1 + reach) * tensor.dtype.itemsize, kind, name)

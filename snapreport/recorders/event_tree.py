"""Reads what a finished torch.profiler run saw of memory from its event tree.

That tree is private to PyTorch's own tools (``_ProfilerResult`` and ``_ProfilerEvent``), and only
this module relies on it. It has what the public list of events lacks: addresses, and the line at
which each Python function called the next.

Source: PyTorch, torch/csrc/profiler/collection.h (Result, ExtraFields) and
torch/profiler/_memory_profiler.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.ground.processes.gc_pause import collector_off
from snapreport.recorders.source_paths import full_path

Frame = dict[str, Any]
DeviceKey = tuple[str, int]
"""Kind and ordinal, such as ``("cpu", 0)``."""

FUNCTION_START = "where the function begins; the profiler does not record the line that ran"
"""A frame's ``line_is`` if its line is not the one that ran."""

_GONE = "(code no longer in memory)"


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation or a free."""

    time_ns: int
    """Nanoseconds since 1970."""
    device: DeviceKey
    address: int
    size: int
    """Bytes, negative for a free."""
    allocated: int
    """Bytes that were allocated afterwards, by the allocator's count."""
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
    """All that one run of the profiler saw, each list in order of time."""

    memory: list[MemoryEvent] = field(default_factory=list)
    ranges: list[NamedRange] = field(default_factory=list)
    tensors: list[SeenTensor] = field(default_factory=list)


class _Node:
    """A frame of a call stack and, as ``outer``, its caller; each stack exists once."""

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
    """The place in the program of an event's children.

    Most events, above all Python calls, contain no memory event: their stack is only built when
    it is needed.
    """

    __slots__ = ("event", "function", "node", "outer")

    def __init__(self, outer: _Place | None, event: Any, node: _Node | None = None) -> None:
        self.outer = outer
        self.event = event
        self.node = node
        self.function: tuple[str, str, int] | None = None
        """Name, file and first line of the running Python function, whose frame is not in
        ``node`` yet: its line is known only when it calls something."""


class EventTreeReader:
    """Reads event trees, which then share frames and stacks."""

    def __init__(self) -> None:
        self._root = _Node(None, None)
        self._frames: dict[tuple[str, str, int, bool], Frame] = {}
        self._files: dict[str, str] = {}

    def read(self, profile: Any) -> Recorded:
        """Read a finished profile.

        Args:
            profile: a ``torch.profiler.profile`` or ``torch.autograd.profiler.profile``.

        Raises:
            RecordingError: it is not a profile, is still running, has no memory events, or comes
                from a PyTorch whose event tree has another form.
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
                f" ({error}); torch 2.13 is known to work."
            ) from error
        # The tree goes thread by thread; the sort keeps the order of events at the same time.
        recorded.memory.sort(key=lambda event: event.time_ns)
        recorded.ranges.sort(key=lambda named: named.start_ns)
        recorded.tensors.sort(key=lambda tensor: tensor.time_ns)
        return recorded

    def _walk(self, roots: list[Any], into: Recorded) -> None:
        seen: set[tuple[Any, ...]] = set()
        start = _Place(None, None, self._root)
        todo = [(event, start) for event in reversed(roots)]
        while todo:  # a deep call stack would exceed the recursion limit
            event, place = todo.pop()
            fields = event.typed[1]
            kind = type(fields).__name__
            if kind == "_ExtraFields_Allocation":
                into.memory.append(self._memory(event, fields, place))
                continue
            # A range is not a call and adds no frame: its children have its own place.
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

    def _build_stack(self, place: _Place) -> _Node:
        """Build the stack of a place, without the running function."""
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
                # An operator that only dispatches to its own implementation is one frame.
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
        """Return the stack at a place, with the running function at the line that calls.

        Args:
            place: where the call is made.
            caller: the profiler's record of the calling function, None for a call that is not
                one of Python's: an operator written as ``a + b``, or a memory event.
        """
        node = self._build_stack(place)
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
                self._files[filename] = full_path(filename)
            path = self._files[filename]
            known = self._frames[key] = {"name": name, "filename": path, "line": line}
            if not exact:
                known["line_is"] = FUNCTION_START
        return known


def _results(profile: Any) -> Any:
    inner = getattr(profile, "profiler", profile)  # torch.profiler's profile wraps torch.autograd's
    if not hasattr(profile, "profiler") and not hasattr(profile, "kineto_results"):
        raise RecordingError(
            f"A {type(profile).__name__} is not a profile; pass what torch.profiler.profile()"
            " returned."
        )
    results = getattr(inner, "kineto_results", None)
    if results is None:
        raise RecordingError(
            "The profile has recorded nothing yet; pass it after its with block, or after stop()."
        )
    if not getattr(profile, "profile_memory", True):
        raise RecordingError(
            "The profile has no memory events; record it with"
            " torch.profiler.profile(profile_memory=True, with_stack=True)."
        )
    return results


def _function(state: Any) -> tuple[str, str, int]:
    # The profiler keeps only the addresses of a code object's names. If the code is gone by now,
    # as after exec() or at the end of a script, something else lies there.
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
    # The profiler ends an open range with the Python call that opened it (__enter__).
    end = event.end_time_ns
    opened_by = place.event.end_time_ns if place.event is not None else None
    closed = end > event.start_time_ns and end != opened_by
    return NamedRange(name, event.start_time_ns, end if closed else None)


def _new_tensors(time_ns: int, fields: Any, seen: set[tuple[Any, ...]]) -> Iterator[SeenTensor]:
    """Yield the tensors of the module or optimizer that is called, at its first call.

    The profiler inspects a module once, and repeats what it saw at every later call.
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

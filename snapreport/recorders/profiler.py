"""Turns what a finished torch.profiler run saw of memory into a snapshot in PyTorch's own shape.

PyTorch has a similar conversion (``torch.cuda._memory_viz._profile_to_snapshot``), without times,
lines, stages and the stacks of frees. As there, the CPU's trace follows the GPUs'.

The profiler does not report what was live when it began, nor, on the CPU, when that memory is
freed. It does report the parameters and optimizer states in use while it runs: we take those to be
live from the start until other memory overlaps their addresses.

Its event tree is private to PyTorch's own tools (``_ProfilerResult`` and ``_ProfilerEvent``), and
only this module relies on it. It has what the public list of events lacks: addresses, and the line
at which each Python function called the next.

Source: PyTorch, torch/csrc/profiler/collection.h (Result, ExtraFields) and
torch/profiler/_memory_profiler.py.
"""

from __future__ import annotations

import os
import site
import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from snapreport.ground.errors import RecordingError
from snapreport.ground.processes import collector_off
from snapreport.ground.records import dataclass

_Frame = dict[str, Any]
_DeviceKey = tuple[str, int]
"""Kind and ordinal, such as ``("cpu", 0)``."""

FUNCTION_START = "where the function begins; the profiler does not record the line that ran"
"""A frame's ``line_is`` if its line is not the one that ran."""


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation or a free."""

    time_ns: int
    """Nanoseconds since 1970."""
    device: _DeviceKey
    address: int
    size: int
    """Bytes, negative for a free."""
    allocated: int
    """Bytes that were allocated afterwards, by the allocator's count."""
    frames: list[_Frame]
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
    device: _DeviceKey
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

    def __init__(self, frame: _Frame | None, outer: _Node | None) -> None:
        self.frame = frame
        self.outer = outer
        self._below: dict[int, _Node] = {}
        self._frames: list[_Frame] | None = None

    def call(self, frame: _Frame) -> _Node:
        known = self._below.get(id(frame))
        if known is None:
            known = self._below[id(frame)] = _Node(frame, self)
        return known

    def frames(self) -> list[_Frame]:
        if self._frames is None:
            self._frames = []
            node: _Node | None = self
            while node is not None and node.frame is not None:
                self._frames.append(node.frame)
                node = node.outer
        return self._frames


@dataclass(eq=False, slots=True)
class _Place:
    """The place in the program of an event's children.

    Most events, above all Python calls, contain no memory event: their stack is only built when
    it is needed.
    """

    outer: _Place | None
    event: Any
    node: _Node | None = None
    function: tuple[str, str, int] | None = None
    """Name, file and first line of the running Python function, whose frame is not in ``node`` yet:
    its line is known only when it calls something."""


class EventTreeReader:
    """Reads event trees, which then share frames and stacks."""

    def __init__(self) -> None:
        self._root = _Node(None, None)
        self._frames: dict[tuple[str, str, int, bool], _Frame] = {}
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
                if (
                    not name.startswith("aten::")
                    and str(getattr(fields.scope, "name", "")) == "USER_SCOPE"
                ):
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

    def _frame(self, name: str, filename: str, line: int, *, exact: bool) -> _Frame:
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


_GONE = "(code no longer in memory)"


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


# The full path of a source file.


def full_path(filename: str) -> str:
    """Return a file's full path in this process, or the name as it is if no file is found.

    The profiler keeps only the end of a path: of the folders of ``sys.path`` that hold the file,
    the one that sorts last is cut off. Without their folders two files may have the same name, and
    the standard library looks like the user's code. If several folders have such a file, such as
    two checkouts of which one is installed, it is the file that is loaded, else the one that an
    import would find.

    Source: PyTorch, torch/profiler/python_tracer.py, ``_prefix_regex``.
    """
    if not filename or filename.startswith("<") or Path(filename).is_absolute():
        return filename
    found = [path for path in _candidates(filename) if Path(path).is_file()]
    if len(found) > 1:
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        loaded = {
            os.path.realpath(file)
            for file in files
            if isinstance(file, str) and file.endswith(filename)
        }
        found = [path for path in found if os.path.realpath(path) in loaded] or found
    return found[0] if found else filename


def _candidates(filename: str) -> Iterator[str]:
    """Yield the paths that PyTorch shortens to this name, in the order of imports."""
    folders = _folders()
    cut_order = sorted(folders, reverse=True)
    for folder in folders:
        path = os.path.join(folder, filename)
        cut = next(each for each in cut_order if path.startswith(each.rstrip(os.sep) + os.sep))
        if cut == folder:
            yield path


def _folders() -> list[str]:
    """Return the folders that may have been cut off, each once, in the order of imports."""
    entries = [*sys.path, *site.getsitepackages(), site.getuserbase(), site.getusersitepackages()]
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch:
        entries.append(str(Path(torch).parent.parent))
    return list(dict.fromkeys(str(Path(entry).absolute()) for entry in entries))


# The snapshot.


def profile_to_snapshot(profile: Any) -> dict[str, Any]:
    """Convert a finished profile.

    Args:
        profile: of ``torch.profiler.profile(profile_memory=True, with_stack=True)``; with
            ``record_shapes=True`` too, gradients are identified exactly in every step.

    Raises:
        RecordingError: it is not a profile, not finished, or has no memory in it.
    """
    return to_snapshot([EventTreeReader().read(profile)])


def to_snapshot(parts: Sequence[Recorded]) -> dict[str, Any]:
    """Merge what one or more runs of the profiler recorded, in order, into one snapshot."""
    devices: dict[_DeviceKey, _Device] = {}
    for part in parts:
        by_device: dict[_DeviceKey, tuple[list[MemoryEvent], list[SeenTensor]]] = {}
        for event in part.memory:
            by_device.setdefault(event.device, ([], []))[0].append(event)
        for tensor in part.tensors:
            by_device.setdefault(tensor.device, ([], []))[1].append(tensor)
        for key, (events, tensors) in by_device.items():
            if key[0] in ("cpu", "cuda"):
                devices.setdefault(key, _Device()).replay(events, tensors)
    last_gpu = max((ordinal for kind, ordinal in devices if kind == "cuda"), default=-1)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(last_gpu + 2)]
    segments: list[dict[str, Any]] = []
    storages: list[dict[str, Any]] = []
    for (kind, ordinal), device in sorted(devices.items()):
        place = ordinal if kind == "cuda" else last_gpu + 1
        traces[place] = device.trace()
        segments += device.segments(place)
        storages += device.storages(f"{kind}:{ordinal}")
    shown = [place for place, trace in enumerate(traces) if trace] or [last_gpu + 1]
    return {
        "segments": segments,
        "device_traces": traces,
        "external_annotations": _markers((r for part in parts for r in part.ranges), shown),
        # By this name readers know that there was no caching allocator.
        "snapreport": {"recorder": "torch.profiler", "storages": storages},
    }


@dataclass
class _Block:
    """Memory from its alloc to its free."""

    address: int
    size: int
    frames: list[_Frame]
    kind: str = ""
    name: str = ""

    @property
    def end(self) -> int:
        return self.address + self.size


class _Live:
    """The live blocks of a device, none of which overlap."""

    def __init__(self) -> None:
        self._addresses: list[int] = []
        self._blocks: dict[int, _Block] = {}

    def __iter__(self) -> Iterator[_Block]:
        return iter([self._blocks[address] for address in self._addresses])

    def add(self, block: _Block) -> list[_Block]:
        """Add a block; return the blocks it overlaps, whose frees the profiler did not report."""
        gone = []
        place = bisect_left(self._addresses, block.address)
        if place and self._blocks[self._addresses[place - 1]].end > block.address:
            place -= 1
        while place < len(self._addresses) and self._addresses[place] < block.end:
            gone.append(self._blocks.pop(self._addresses.pop(place)))
        insort(self._addresses, block.address)
        self._blocks[block.address] = block
        return gone

    def remove(self, address: int) -> _Block | None:
        block = self._blocks.pop(address, None)
        if block is not None:
            del self._addresses[bisect_left(self._addresses, address)]
        return block

    def around(self, address: int) -> _Block | None:
        """Return the block that contains an address."""
        place = bisect_left(self._addresses, address + 1)
        block = self._blocks[self._addresses[place - 1]] if place else None
        return block if block is not None and address < block.end else None


class _Device:
    """One device's events, put together from what the profiler saw of it."""

    def __init__(self) -> None:
        self._events: list[MemoryEvent] = []
        self._blocks: list[_Block] = []
        """Each event's block; a new one for a free whose allocation was not reported."""
        self._lost: dict[int, list[_Block]] = defaultdict(list)
        """Blocks found to be gone at an event, by its index."""
        self._live = _Live()
        self._unreported: list[tuple[int, SeenTensor]] = []
        """Tensors whose allocation was not reported, each with the number of events before it."""

    def replay(self, events: list[MemoryEvent], tensors: list[SeenTensor]) -> None:
        """Add the events of one run of the profiler and the tensors that it saw between them."""
        self.__dict__.pop("_baseline", None)
        waiting = tensors[::-1]
        for event in events:
            while waiting and waiting[-1].time_ns <= event.time_ns:
                self._note_tensor(waiting.pop())
            self._add_event(event)
        while waiting:
            self._note_tensor(waiting.pop())

    def _add_event(self, event: MemoryEvent) -> None:
        block: _Block | None
        if event.size < 0:
            block = self._live.remove(event.address)
            if block is None:
                block = _Block(event.address, -event.size, event.frames)
        else:
            block = _Block(event.address, event.size, event.frames)
            gone = self._live.add(block)
            if gone:
                self._lost[len(self._events)] += gone
        self._events.append(event)
        self._blocks.append(block)

    def _note_tensor(self, tensor: SeenTensor) -> None:
        block = self._live.around(tensor.address)
        if block is None:
            self._unreported.append((len(self._events), tensor))
        elif not block.kind or (block.kind == tensor.kind and not block.name):
            block.kind, block.name = tensor.kind, tensor.name

    @cached_property
    def _baseline(self) -> tuple[list[_Block], dict[int, list[_Block]]]:
        """Return the blocks live from start to end, and those live only at the start.

        The latter are keyed by the event that overlaps them. A tensor is left out if earlier
        events lie in its memory: it was allocated later, at an unknown time. So are gradients,
        which the next zero_grad() may free unreported.
        """
        address = np.array([block.address for block in self._blocks], np.int64)
        end = address + np.array([block.size for block in self._blocks], np.int64)
        is_free = np.array([event.size < 0 for event in self._events], np.bool_)
        blocks = _Live()
        gone: dict[int, list[_Block]] = defaultdict(list)
        ended: set[int] = set()
        for met, tensor in self._unreported:
            if tensor.kind == "gradient":
                continue
            block = _Block(tensor.address, tensor.size, [], tensor.kind, tensor.name)
            if block.address in ended or blocks.around(block.address) is not None:
                continue
            in_it = (address < block.end) & (end > block.address)
            first = int(in_it.argmax()) if in_it.any() else len(in_it)
            if first < met:
                continue
            if first == len(in_it):
                blocks.add(block)
            elif not is_free[first]:
                gone[first].append(block)
                ended.add(block.address)
        return list(blocks), gone

    def trace(self) -> list[dict[str, Any]]:
        """Return the events in PyTorch's shape, with unreported frees where memory is reused."""
        _, gone = self._baseline
        trace: list[dict[str, Any]] = []
        for index, (event, block) in enumerate(zip(self._events, self._blocks, strict=True)):
            time_us = event.time_ns // 1000
            for lost in (*self._lost.get(index, ()), *gone.get(index, ())):
                trace += _frees(lost.address, lost.size, time_us, [])
            if event.size < 0:
                trace += _frees(block.address, block.size, time_us, event.frames)
                continue
            row = _event("alloc", block.address, block.size, time_us, event.frames)
            if block.kind:
                row["category"] = block.kind
            trace.append(row)
        return trace

    def segments(self, place: int) -> list[dict[str, Any]]:
        """Return the segments that the events and blocks lie in, with what is live at the end."""
        _, gone = self._baseline
        live = self._live_at_end()
        every = [*self._blocks, *live, *(block for blocks in gone.values() for block in blocks)]
        segments: list[dict[str, Any]] = []
        for first, end in _pieces(every):
            blocks: list[dict[str, Any]] = []
            at = first
            for block in (b for b in live if first <= b.address < end):
                if at < block.address:
                    blocks.append(_slice(at, block.address - at))
                blocks.append(_slice(block.address, block.size, block))
                at = block.end
            if at < end:
                blocks.append(_slice(at, end - at))
            # As in PyTorch's own conversion there is no segment_type: nothing reserved this.
            segments.append(
                {
                    "device": place,
                    "address": first,
                    "total_size": end - first,
                    "stream": 0,
                    "blocks": blocks,
                }
            )
        return segments

    def storages(self, device: str) -> list[dict[str, Any]]:
        """Return the parameters, gradients and optimizer states that are live at the end."""
        return [
            {
                "device": device,
                "address": block.address,
                "size": block.size,
                "kind": block.kind,
                "name": block.name,
            }
            for block in self._live_at_end()
            if block.kind
        ]

    def _live_at_end(self) -> list[_Block]:
        return sorted([*self._live, *self._baseline[0]], key=lambda block: block.address)


def _pieces(blocks: list[_Block]) -> list[tuple[int, int]]:
    """Return the start and end of each range of addresses that blocks lie in."""
    pieces: list[tuple[int, int]] = []
    for address, end in sorted((block.address, block.end) for block in blocks):
        # What is far apart are two pieces of memory: the heap, and what lies far from it.
        if pieces and address - pieces[-1][1] < 1 << 26:
            pieces[-1] = (pieces[-1][0], max(pieces[-1][1], end))
        else:
            pieces.append((address, end))
    return pieces


def _slice(address: int, size: int, live: _Block | None = None) -> dict[str, Any]:
    """Return a block in PyTorch's shape: inactive where none is live."""
    return {
        "address": address,
        "size": size,
        "requested_size": size if live else 0,
        "state": "active_allocated" if live else "inactive",
        "frames": live.frames if live else [],
    }


def _event(
    action: str, address: int, size: int, time_us: int, frames: list[_Frame]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": frames,
    }


def _frees(address: int, size: int, time_us: int, frames: list[_Frame]) -> list[dict[str, Any]]:
    return [
        _event(action, address, size, time_us, frames)
        for action in ("free_requested", "free_completed")
    ]


def _markers(ranges: Iterable[NamedRange], places: list[int]) -> list[dict[str, Any]]:
    """Return the START and END of each range for each device, ordered so that they pair."""
    markers: list[tuple[int, int, dict[str, Any]]] = []
    for named in ranges:
        # At the same time, ends come before starts, but a range of no length starts first.
        start, end = named.start_ns, named.end_ns
        markers.append((start, 1, {"name": named.name, "stage": "START"}))
        if end is not None:
            markers.append((end, 2 if end == start else 0, {"name": named.name, "stage": "END"}))
    markers.sort(key=lambda marker: marker[:2])
    return [
        {**marker, "device": place, "time_us": time_ns // 1000}
        for time_ns, _, marker in markers
        for place in places
    ]

"""The book of a forecast: each allocation that a program makes, as PyTorch's history would have it.

Each device has a model of the caching allocator, which says at once where an allocation lies and
whether there is room for it.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

from snapreport.figures.allocator.live import LiveAllocator, NoRoomError
from snapreport.figures.allocator.replaying import Addresses
from snapreport.ground.cards import LEAST_CONTEXT
from snapreport.ground.native.allocator_replay import ANYWHERE, DESCENDING
from snapreport.ground.units import format_bytes
from snapreport.history.allocator_settings import AllocatorSettings

_Frames = list[dict[str, Any]]

_OWN = str(Path(__file__).parent)
_MACHINERY = (
    "/torch/utils/_python_dispatch.py", "/torch/_subclasses/", "/torch/_ops.py",
    "/torch/_library/", "/torch/utils/_pytree.py", "/torch/utils/_stats.py",
    "/torch/_compile.py", "/torch/_prims_common/", "/contextlib.py",
)  # fmt: skip
"""Files through which only a forecast's calls go, innermost."""


_RUNS_ENGINE = "_engine_run_backward"
"""The function in torch/autograd/graph.py that calls autograd's engine."""

_ELSEWHERE = (
    Addresses(DESCENDING), *(Addresses(ANYWHERE, seed) for seed in range(1, 7)),
)  # fmt: skip
"""Other orders of segments than upwards. Which one a driver takes differs between machines, and
decides which of two equally large free blocks serves a request. Of a real run whose allocations
are all forecast, three places of twelve gave its peak; from six on, their range had it."""


class Stacks:
    """Call stacks in PyTorch's form; each frame and each stack exists once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[CodeType, int], dict[str, Any]] = {}
        self._named: dict[str, dict[str, Any]] = {}
        self._stacks: dict[tuple[Any, ...], _Frames] = {}
        self._skipped: dict[CodeType, bool] = {}
        self.engine: Callable[[], tuple[str, ...]] = tuple
        """Returns the names of autograd's C++ functions that this thread is in, innermost first."""

    def here(self, inner: tuple[str, ...] = ()) -> _Frames:
        """Return the stack of the running Python code, without ours and PyTorch's dispatching.

        Args:
            inner: names of C++ functions that a real run would have inside of it. Those of
                autograd stand outside of the Python code that they call, such as hooks, and inside
                of the code that called autograd.
        """
        frame: FrameType | None = sys._getframe(1)
        skipped = self._skipped
        while frame is not None:
            code = frame.f_code
            if code not in skipped:
                skipped[code] = _is_machinery(code.co_filename)
            if not skipped[code]:
                break
            frame = frame.f_back
        within = frame is None or frame.f_code.co_name == _RUNS_ENGINE
        engine = self.engine()
        inner, outer = (inner + engine, ()) if within else (inner, engine)
        path: list[Any] = [(inner, outer)]
        while frame is not None:
            path.append(frame.f_code)
            path.append(frame.f_lineno)
            frame = frame.f_back
        key = tuple(path)
        found = self._stacks.get(key)
        if found is None:
            found = [self._function(name) for name in inner]
            pairs = zip(key[1::2], key[2::2], strict=True)
            found += [self._frame(code, line) for code, line in pairs if not self._is_own(code)]
            found += [self._function(name) for name in outer]
            self._stacks[key] = found
        return found

    @staticmethod
    def _is_own(code: CodeType) -> bool:
        return code.co_filename.startswith(_OWN)

    def _frame(self, code: CodeType, line: int) -> dict[str, Any]:
        key = (code, line)
        if key not in self._frames:
            self._frames[key] = {
                "name": code.co_name, "filename": code.co_filename, "line": line or 0,
            }  # fmt: skip
        return self._frames[key]

    def _function(self, name: str) -> dict[str, Any]:
        return self._named.setdefault(name, {"name": name, "filename": "??", "line": 0})


def _is_machinery(file: str) -> bool:
    return file.startswith(_OWN) or any(part in file for part in _MACHINERY)


@dataclass
class Booked:
    """An allocation that is live."""

    row: int
    bytes: int
    stream: int
    address: int
    stack: _Frames
    unsure: int = 0


@dataclass
class DeviceBook:
    """What was recorded of one device."""

    allocator: LiveAllocator
    events: list[tuple[str, int, int, int, int, _Frames]] = field(default_factory=list)
    """Action, address, bytes, stream, microseconds since 1970, call stack."""
    live: dict[int, Booked] = field(default_factory=dict)
    """By the allocator's row."""
    first_failure: int | None = None
    """Bytes of the first request that failed."""
    segment_stacks: dict[int, _Frames] = field(default_factory=dict)
    others: list[LiveAllocator] = field(default_factory=list)
    """The same model where the driver puts segments elsewhere."""
    other_rows: dict[int, list[int]] = field(default_factory=dict)
    peak_allocated: int = 0
    """The most that was in use since the beginning, or since a history began."""
    unsure: int = 0
    """Bytes of live allocations that a real run may not make."""
    unsure_at_peak: int = 0
    highest: dict[str, int] = field(default_factory=dict)
    """By the reason why there may be more: the most that could have been allocated at once."""
    requested: int = 0
    peak_requested: int = 0
    n_failures: int = 0

    def spread(self) -> tuple[int, int]:
        """Return by how much the peak is lower, and higher, at the most, with other addresses."""
        peaks = [each.peak_allocated for each in self.others]
        own = self.peak_allocated
        return max([own - each for each in peaks] + [0]), max([each - own for each in peaks] + [0])

    def place_elsewhere(self, row: int, size: int, stream: int) -> None:
        """Let the other models serve a request, too; one that fails there is given up."""
        rows = []
        for each in tuple(self.others):
            try:
                rows.append(each.allocate(size, stream))
            except NoRoomError:
                place = self.others.index(each)
                del self.others[place]
                for known in self.other_rows.values():
                    del known[place]
        self.other_rows[row] = rows

    def free_elsewhere(self, row: int) -> None:
        """Let the other models free it."""
        rows = self.other_rows.pop(row)
        for each, other in zip(self.others, rows, strict=True):
            each.free(other)


class Failed(Exception):  # noqa: N818  (it is what happened, not a mistake)
    """A request failed, as it would on the card."""

    def __init__(self, device: int, size: int, book: DeviceBook, whole: Book) -> None:
        self.device, self.size, capacity = device, size, whole.capacity
        self.free = whole.left(device)
        self.allocated, self.reserved = book.allocator.allocated, book.allocator.reserved
        super().__init__(
            f"CUDA out of memory. Tried to allocate {format_bytes(size)}. GPU {device} has a total"
            f" capacity of {format_bytes(capacity)} of which {format_bytes(self.free)} is free."
            f" Of the allocated memory {format_bytes(self.allocated)} is allocated by PyTorch, and"
            f" {format_bytes(self.reserved - self.allocated)} is reserved by PyTorch but"
            " unallocated. (This is a forecast; no card was used.)"
        )


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _alone(method: Callable[Concatenate[Book, _P], _R]) -> Callable[Concatenate[Book, _P], _R]:
    """Let one thread at a time run a method of a book."""

    @functools.wraps(method)
    def run(book: Book, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with book._lock:
            return method(book, *args, **kwargs)

    return run


class Book:
    """All devices' allocations, in the order in which the program asks for them."""

    def __init__(self, settings: AllocatorSettings, capacity: int, devices: int = 1) -> None:
        self.settings, self.capacity = settings, capacity
        self.room = max(capacity - LEAST_CONTEXT, 0)
        """What CUDA's own context leaves of the card, at the most."""
        self.stacks = Stacks()
        self.devices = [
            DeviceBook(
                LiveAllocator(settings, self.room),
                others=[LiveAllocator(settings, self.room, each) for each in _ELSEWHERE],
            )
            for _ in range(devices)
        ]
        self.annotations: list[dict[str, Any]] = []
        self._lock = threading.RLock()
        """Held while something is booked. It is not needed to note that something is freed, which
        the collector may do at any moment."""
        self._freed: deque[tuple[int, Booked, _Frames, int]] = deque()
        self.failed: list[Callable[[int, int, int, int], None]] = []
        """Called with device, request, total and free bytes before a failure is raised."""

    @_alone
    def allocate(
        self,
        device: int,
        size: int,
        stream: int = 0,
        inner: tuple[str, ...] = (),
        unsure: int = 0,
    ) -> Booked:
        """Book an allocation.

        Args:
            device: its number.
            size: requested bytes, at least 1.
            stream: its id.
            inner: names of C++ functions that a real run would have on the stack.
            unsure: bytes of it that a real run may not ask for.

        Raises:
            Failed: the card is full.
        """
        self.settle()
        book, stack, now = self.devices[device], self.stacks.here(inner), _now()
        try:
            row = book.allocator.allocate(size, stream)
        except NoRoomError:
            self._note_segments(book, stream, now, stack)
            failure = Failed(device, size, book, self)
            book.events.append(("oom", failure.free, size, stream, now, stack))
            book.n_failures += 1
            if book.first_failure is None:
                book.first_failure = size
            for observer in tuple(self.failed):
                observer(device, size, self.capacity, failure.free)
            try:
                raise failure from None
            finally:
                del failure  # or its traceback, and with it the program's tensors, would stay
        self._note_segments(book, stream, now, stack)
        booked = Booked(row, size, stream, book.allocator.address(row), stack, unsure)
        book.unsure += unsure
        book.requested += size
        book.peak_requested = max(book.peak_requested, book.requested)
        if book.others:
            book.place_elsewhere(row, size, stream)
        if book.allocator.allocated > book.peak_allocated:
            book.peak_allocated = book.allocator.allocated
            book.unsure_at_peak = book.unsure
        book.events.append(("alloc", booked.address, size, stream, now, stack))
        book.live[row] = booked
        return booked

    def free(self, device: int, booked: Booked) -> None:
        """Note that an allocation is freed; it may be called at any moment, also by the collector.

        It is booked before the next thing is.
        """
        self._freed.append((device, booked, self.stacks.here(), _now()))

    @_alone
    def settle(self) -> None:
        """Book what was freed."""
        while self._freed:
            device, booked, stack, now = self._freed.popleft()
            book = self.devices[device]
            for action in ("free_requested", "free_completed"):
                book.events.append(
                    (action, booked.address, booked.bytes, booked.stream, now, stack)
                )
            del book.live[booked.row]
            book.unsure -= booked.unsure
            book.requested -= booked.bytes
            book.allocator.free(booked.row)
            if book.others:
                book.free_elsewhere(booked.row)

    @_alone
    def left(self, device: int) -> int:
        """Return the bytes of a card that are free for segments."""
        return max(self.room - self.devices[device].allocator.reserved, 0)

    def begin_history(self) -> list[int]:
        """Return the number of the next event of each device; peaks count from here on."""
        self.settle()
        for book in self.devices:
            for each in book.others:
                each.reset_peaks()
            book.peak_allocated = book.allocator.allocated
            book.unsure_at_peak = book.unsure
            book.highest.clear()
        return [len(book.events) for book in self.devices]

    @_alone
    def could_be(self, device: int, why: str, more: int) -> None:
        """Note that at this moment there may be more in use than is booked."""
        self.settle()
        book = self.devices[device]
        most = book.allocator.allocated + more
        book.highest[why] = max(book.highest.get(why, 0), most)

    @_alone
    def empty_cache(self) -> None:
        """Give back what no live allocation needs, on every device."""
        self.settle()
        stack, now = self.stacks.here(), _now()
        for book in self.devices:
            for each in (book.allocator, *book.others):
                each.empty_cache()
            self._note_segments(book, 0, now, stack)

    @_alone
    def limit_to(self, device: int, share: float) -> None:
        """Let the process have a share of a card."""
        book = self.devices[device]
        for each in (book.allocator, *book.others):
            each.limit_to(int(share * self.capacity))

    @_alone
    def reset_peaks(self, device: int) -> None:
        """Let the peaks that the program asks for begin anew."""
        self.settle()
        book = self.devices[device]
        book.allocator.reset_peaks()
        book.peak_requested = book.requested

    @_alone
    def statistics(self, device: int) -> dict[str, Any]:
        """Return what ``torch.cuda.memory_stats()`` flattens.

        What is in use now is as PyTorch counts it, in both pools. Of peaks, those of all bytes
        are; the others are at least what is in use now.
        """
        self.settle()
        book = self.devices[device]
        allocator = book.allocator
        now = {name: dict.fromkeys(_POOLS, 0) for name in _STATISTICS}
        for segment in allocator.segments():
            for pool in ("all", f"{segment.segment_type}_pool"):
                now["segment"][pool] += 1
                now["reserved_bytes"][pool] += segment.total_size
                for block in segment.blocks:
                    live = block.row is not None
                    booked = book.live.get(block.row) if block.row is not None else None
                    split = not live and len(segment.blocks) > 1
                    for number, size in (
                        *([("allocation", "allocated_bytes"), ("active", "active_bytes")] * live),
                        *([("inactive_split", "inactive_split_bytes")] * split),
                    ):
                        now[number][pool] += 1
                        now[size][pool] += block.size
                    now["requested_bytes"][pool] += booked.bytes if booked else 0
        peaks = {
            "allocated_bytes": allocator.peak_allocated, "active_bytes": allocator.peak_allocated,
            "reserved_bytes": allocator.peak_reserved, "requested_bytes": book.peak_requested,
        }  # fmt: skip
        found: dict[str, Any] = {
            name: {
                pool: _counts(value, peaks.get(name, value) if pool == "all" else value)
                for pool, value in pools.items()
            }
            for name, pools in now.items()
        }
        return found | {
            "oversize_allocations": _counts(0, 0), "oversize_segments": _counts(0, 0),
            "num_alloc_retries": allocator.retries, "num_ooms": book.n_failures,
            "num_sync_all_streams": 0, "num_device_alloc": now["segment"]["all"],
            "num_device_free": 0, "max_split_size": -1,
        }  # fmt: skip

    @_alone
    def annotate(self, device: int, name: str, start: bool) -> None:
        """Note where a named span starts or ends."""
        self.settle()
        self.annotations.append({
            "stage": "START" if start else "END", "name": name, "device": device, "time_us": _now(),
        })  # fmt: skip

    @_alone
    def allocated(self, device: int) -> int:
        """Return the bytes of all blocks in use now."""
        self.settle()
        return self.devices[device].allocator.allocated

    def _note_segments(self, book: DeviceBook, stream: int, now: int, stack: _Frames) -> None:
        for action, address, size in book.allocator.new_segment_events():
            book.events.append((action, address, size, stream, now, stack))
            book.segment_stacks[address] = stack

    @_alone
    def snapshot(self, begun: list[int] | None = None) -> dict[str, Any]:
        """Return everything in the shape of PyTorch's snapshots.

        Args:
            begun: for each device the number of the first event to include; None for all.
        """
        self.settle()
        starts = begun or [0] * len(self.devices)
        pairs = list(zip(self.devices, starts, strict=True))
        return {
            "segments": [each for n, (book, _) in enumerate(pairs) for each in _segments(n, book)],
            "device_traces": [list(_trace(book, first)) for book, first in pairs],
            "allocator_settings": recorded_form(self.settings),
            "external_annotations": [dict(each) for each in self.annotations],
        }


_POOLS = ("all", "large_pool", "small_pool")
_STATISTICS = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip


def _counts(now: int, peak: int) -> dict[str, int]:
    return {"current": now, "peak": peak, "allocated": peak, "freed": peak - now}


def _trace(book: DeviceBook, first: int) -> Iterator[dict[str, Any]]:
    for action, address, size, stream, now, stack in book.events[first:]:
        where = "device_free" if action == "oom" else "addr"
        yield {
            "action": action, where: address, "size": size, "stream": stream,
            "time_us": now, "frames": stack,
        }  # fmt: skip


def _segments(device: int, book: DeviceBook) -> Iterator[dict[str, Any]]:
    for segment in book.allocator.segments():
        blocks = []
        for block in segment.blocks:
            booked = None if block.row is None else book.live.get(block.row)
            blocks.append({
                "address": block.address,
                "size": block.size,
                "requested_size": booked.bytes if booked else 0,
                "state": block.state,
                "frames": booked.stack if booked else [],
            })  # fmt: skip
        allocated = [each for each in blocks if each["state"] == "active_allocated"]
        yield {
            "device": device,
            "address": segment.address,
            "total_size": segment.total_size,
            "allocated_size": sum(each["size"] for each in allocated),
            "active_size": sum(each["size"] for each in allocated),
            "requested_size": sum(each["requested_size"] for each in allocated),
            "stream": segment.stream,
            "segment_type": segment.segment_type,
            "segment_pool_id": (0, 0),
            "is_expandable": segment.is_expandable,
            "frames": book.segment_stacks.get(segment.address, []),
            "blocks": blocks,
        }


def recorded_form(settings: AllocatorSettings) -> dict[str, Any]:
    """Return settings in the form that a snapshot has them in."""
    text = str(settings)
    return {
        "PYTORCH_CUDA_ALLOC_CONF": "" if text == "default" else text,
        "max_split_size": -1 if settings.max_split_size >= 1 << 62 else settings.max_split_size,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {},
    }


def _now() -> int:
    return time.time_ns() // 1000

"""What a snapshot file holds, as columns: the reader's output and the builder's input.

Its device traces and segments refer to frames and call stacks, each distinct one once. It may have
what snapreport noted while it recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, field, replace
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import CleanTexts, Shown, visible
from snapreport.ground.units import words

NO_TIME = -1
"""The event carries no ``time_us`` (PyTorch 2.1 and older, profiler-derived files)."""

NO_ID = -1
"""No row of the table that the column points into."""


@dataclass(frozen=True)
class Source:
    """The file that a history came from."""

    name: str
    size: int
    """Bytes on disk."""
    sha256: str
    """Hexadecimal digest of the file as it lies on disk."""


OTHER_CARDS = ("npu", "mlu", "musa", "gcu", "hpu", "xla", "xpu")
"""Kinds of cards whose backends write the same format with allocators of their own."""
CARDS = ("cuda", *OTHER_CARDS)
DEVICE_KINDS = (*CARDS, "host", "cpu")
"""Everything that ``DeviceId.kind`` can be."""


@dataclass(frozen=True, order=True)
class DeviceId:
    """One memory space with its own addresses: a GPU, pinned host memory, or a profiler's CPU."""

    kind: str
    """One of ``CARDS``, ``host`` (pinned) or ``cpu`` (profiler)."""
    ordinal: int

    @property
    def on_card(self) -> bool:
        """Whether it is a card's own memory."""
        return self.kind not in ("host", "cpu")

    def __str__(self) -> str:
        return f"{self.kind}:{self.ordinal}"


def pool_name(pool: tuple[int, int]) -> str:
    """Return a pool's two numbers, and what makes pools with such numbers."""
    first, second = pool
    made_by = ""
    if first and not second:
        made_by = " (CUDA graph)"
    elif second and not first:
        made_by = " (MemPool or graph_pool_handle)"
    return f"{first},{second}{made_by}"


@dataclass(frozen=True, eq=False)
class Trace:
    """One device's trace events in recorded order; every array has shape (n_events,)."""

    device: DeviceId
    actions: tuple[str, ...]
    """The distinct action names; ``action`` points in here."""
    action: NDArray[np.int16]
    addr: NDArray[np.int64]
    """Start address; for ``oom`` the free bytes on the device, where PyTorch keeps them too."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    """Microseconds since the Unix epoch, or NO_TIME."""
    stack: NDArray[np.int32]
    """Stack ids; NO_STACK where the event has no ``frames`` key. In a backward pass the frames of
    ``forward_frames`` stand outside of its own (GRADIENT_OF)."""
    pool: NDArray[np.int32]
    """Pool ids (rows of ``RawSnapshot.pools``), or NO_ID where the event does not say."""
    category: NDArray[np.int32]
    """String ids, or NO_ID, as the next three columns."""
    compile_context: NDArray[np.int32]
    metadata: NDArray[np.int32]
    internal: NDArray[np.int32]
    """What in the allocator made the event (``internal_metadata``); NO_ID for the program's own."""

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, eq=False)
class Segments:
    """One device's segments and blocks when the snapshot was taken, in address order."""

    address: NDArray[np.int64]
    """int64, shape (n_segments,), as the next seven columns."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Pool ids; NO_ID in files from before PyTorch 2.1."""
    large: NDArray[np.bool_]
    """``segment_type == 'large'``."""
    expandable: NDArray[np.bool_]
    stack: NDArray[np.int32]
    stated: NDArray[np.int64]
    """int64, (n_segments, 3): the file's own sizes, by STATED, or -1."""

    block_segment: NDArray[np.int32]
    """Rows of the segment arrays; int32, shape (n_blocks,), as the remaining columns."""
    block_address: NDArray[np.int64]
    block_size: NDArray[np.int64]
    block_requested: NDArray[np.int64]
    """Requested bytes; of an inactive block stale garbage in the file and 0 here."""
    block_state: NDArray[np.int8]
    """Positions in BLOCK_STATES."""
    block_stack: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.address)


BLOCK_STATES = ("active_allocated", "active_pending_free", "inactive")
ACTIVE, PENDING, INACTIVE = range(3)
STATED = ("allocated_size", "active_size", "requested_size")
"""What a file states of a segment, by the file's own names."""


@dataclass(frozen=True)
class Annotation:
    """One START or END marker of a named span."""

    device: DeviceId
    name: str
    start: bool
    time_us: int


@dataclass(frozen=True, eq=False)
class RawSnapshot:
    """A whole snapshot file as columns, before anything is concluded from it."""

    source: Source
    layout: str
    """``trace``, ``segments`` (a bare list), ``no-segments``, ``torch-2.0`` or ``profiler``."""
    stacks: StackTable
    strings: list[str]
    """Categories, compile contexts and metadata; the trace columns point in here."""
    pools: list[tuple[int, int]]
    traces: tuple[Trace, ...]
    """One per device that the file names, with or without events."""
    segments: dict[DeviceId, Segments]
    annotations: tuple[Annotation, ...]
    settings: dict[str, Any]
    """``allocator_settings`` as read; empty where the file has none."""
    oddities: dict[str, int]
    """Unknown keys and values met while reading, with how often: kept for the warnings."""
    recorder: RecorderInfo | None = None
    """What snapreport noted if it made the recording."""
    length: int = 0
    """Bytes that it was read from, unpacked."""


# Frames and call stacks, each distinct one once, as a prefix tree from the outermost frame.

_Value = TypeVar("_Value", bound=np.generic)

UNKNOWN_LINE = -1
"""PyTorch writes 2**64 - 1 where the unwinder knows no line; no column of ours holds that."""

NO_STACK = -1
"""The event or block has no stack at all; an empty stack is a stack of its own, of depth 0."""

SOURCE = "source"
"""The field of a frame that has the text of its line of code, where the recorder noted it."""
TRACE = "fx_original_trace"
"""The field of a frame in a traced graph's generated file that has the traceback of the line that
it was made from. That line, of the model, is what the frame shows."""
GENERATED = "generated"
"""The field that has such a frame's own function, file and line."""
LONGEST_CODE = 160
"""Letters of a line of code that are kept and shown: a file may be a stranger's."""

GRADIENT_OF = "gradient of "
"""How the name of a frame begins that did not run itself: backward computed its gradient.

PyTorch notes the forward call stack behind a backward allocation (``forward_frames``). Its frames
stand outside of those of the backward pass, so gradients are counted by the forward's lines.
"""

_LEAST_OF_LINE = 3
"""Characters of a frame in a stack's text besides its file and name: two colons and a number."""

_ARGUMENTS = expression(r"\((?!anonymous namespace\)|\)\().*$", re.DOTALL)


def short_name(name: str) -> str:
    """Return a C++ function's name without its arguments; a Python function's as it is."""
    if "::" not in name:
        return name
    cut = _ARGUMENTS.sub("", name)
    return cut.removeprefix("torch::autograd::generated::") or name


@dataclass(frozen=True, eq=False)
class FrameTable(Shown):
    """Every distinct frame; a frame id is a position in these lists."""

    names: list[str]
    filenames: list[str]
    lines: NDArray[np.int64]
    """int64, shape (n_frames,); UNKNOWN_LINE where the file has none."""
    extra: dict[int, dict[str, str]] = field(default_factory=dict)
    """Other fields of the frames that have them, by frame id: of FX (``fx_node_op`` and so on), and
    what our recorder adds (``line_is``, SOURCE)."""

    def __len__(self) -> int:
        return len(self.names)

    def of_forward(self) -> NDArray[np.bool_]:
        """Return which frames are of the forward pass behind a backward one; (n_frames,)."""
        return np.array([name.startswith(GRADIENT_OF) for name in self.names], np.bool_)

    def line(self, frame: int) -> int | None:
        """Return a frame's line, None where unknown: C++ frames mostly have line 0."""
        line = int(self.lines[frame])
        return None if line in (UNKNOWN_LINE, 0) else line

    def code(self, frame: int) -> str:
        """Return the text of a frame's line, in one line and cut if long; ``""`` if unknown."""
        text = self.extra.get(frame, {}).get(SOURCE, "")
        return short_line(text) if text else ""


def short_line(text: str) -> str:
    """Return a line of code without the space around it, cut where it is long."""
    text = visible(text[: 4 * LONGEST_CODE].strip())
    return text if len(text) <= LONGEST_CODE else f"{text[: LONGEST_CODE - 1]}…"


@dataclass(frozen=True, eq=False)
class StackTable(Shown):
    """Every distinct call stack as a node of a prefix tree (outermost frame first).

    A node's parent always has a smaller id, so one backward pass adds children into parents.
    """

    frames: FrameTable
    node_parent: NDArray[np.int32]
    """int32, shape (n_nodes,); -1 for an outermost frame."""
    node_frame: NDArray[np.int32]
    """int32, shape (n_nodes,), frame ids."""
    node_depth: NDArray[np.int32]
    """int32, shape (n_nodes,); 1 for an outermost frame."""
    stack_node: NDArray[np.int32]
    """int32, shape (n_stacks,); the node of the innermost frame, -1 for the empty stack."""

    def __len__(self) -> int:
        return len(self.stack_node)

    def of_stacks(self, of_node: NDArray[_Value], none: int = -1) -> NDArray[_Value]:
        """Return what the innermost node of each stack has, ``none`` for the empty stack.

        Args:
            of_node: shape (n_nodes,).
            none: a value of the same type.
        """
        return np.append(of_node, of_node.dtype.type(none))[self.stack_node]  # -1 picks the last

    def characters(self) -> int:
        """Return the length of all stacks written out in full, a line for each frame."""
        texts = zip(self.frames.names, self.frames.filenames, strict=True)
        own = np.array([len(name) + len(file) for name, file in texts], np.int64)
        parent = self.node_parent.astype(np.int64)
        line = own[self.node_frame] + _LEAST_OF_LINE
        total = np.concatenate(([0], np.cumsum(line)))
        # Mostly a node follows its parent: from the outermost frame to it are a few such runs.
        begins = parent != np.arange(len(parent)) - 1
        run = np.cumsum(begins | (parent < 0)) - 1
        first = np.flatnonzero(np.diff(run, prepend=-1))
        above: list[int] = []  # what each run has before its first node, less the total there
        known = zip(total[first].tolist(), parent[first].tolist(), strict=True)
        for (before, node), place in zip(known, run[parent[first]].tolist(), strict=True):
            below = int(total[node + 1]) + above[place] if node >= 0 else 0
            above.append(below - before)
        down = total[1:] + np.array(above, np.int64)[run]
        used = down[self.stack_node[self.stack_node >= 0]]
        return int(own.sum()) + int(used.sum(dtype=np.float64))

    def path(self, stack_id: int) -> Iterator[int]:
        """Return the frame ids of one stack, innermost first; none for NO_STACK."""
        return self.path_from(int(self.stack_node[stack_id]) if stack_id >= 0 else -1)

    def path_from(self, node: int) -> Iterator[int]:
        """Yield the frame ids from a node outward; nothing for -1."""
        frame, parent = self.node_frame.item, self.node_parent.item
        while node >= 0:
            yield frame(node)
            node = parent(node)


def ancestors(parent: NDArray[np.integer[Any]]) -> Iterator[NDArray[np.intp]]:
    """Yield each node's ancestor one level above it, then 2, 4, 8 levels, while any has one.

    So all paths of a prefix tree are followed at once, however deep it is. From level to level it
    would take as many turns as the deepest stack has frames, and from node to node as many as there
    are nodes.

    Args:
        parent: shape (n,), -1 for the outermost.

    Returns:
        shape (n + 1,); n stands for none, and is its own.
    """
    n = len(parent)
    above = np.append(np.where(parent < 0, n, parent), n).astype(np.intp)
    while (above != n).any():
        yield above
        above = above[above]


def lowest_on_path(
    parent: NDArray[np.integer[Any]], rank: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    """Return for each node the node of lowest rank among itself and its ancestors.

    Of several with that rank it is the innermost.

    Args:
        parent: shape (n,), -1 for the outermost.
        rank: shape (n,).

    Returns:
        shape (n,), nodes.
    """
    n = len(parent)
    best = np.arange(n + 1)
    lowest = np.append(rank, np.iinfo(rank.dtype).max)
    for above in ancestors(parent):
        better = np.flatnonzero(lowest[above] < lowest)
        from_above = above[better]
        best[better], lowest[better] = best[from_above], lowest[from_above]
    return best[:n]


def with_ancestors(
    parent: NDArray[np.integer[Any]], nodes: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    """Return some nodes and all their ancestors, ascending and distinct.

    Args:
        parent: shape (n,), -1 for the outermost.
        nodes: any of them, in any order.
    """
    wanted = np.zeros(len(parent) + 1, np.bool_)
    wanted[nodes] = True
    for above in ancestors(parent):
        wanted[above[np.flatnonzero(wanted)]] = True
    return np.flatnonzero(wanted[:-1])


def add_up_paths(parent: NDArray[np.integer[Any]], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each node's amount plus those of all nodes below it.

    Args:
        parent: shape (n,), -1 for the outermost.
        amounts: int64, shape (n,).

    Returns:
        int64, shape (n,).
    """
    total = np.append(amounts, 0)
    for above in ancestors(parent):
        # What is there so far is of a node and fewer levels below it than the ancestor is above.
        np.add.at(total, above, total.copy())
    return total[:-1]


def marks_on_path(
    parent: NDArray[np.integer[Any]], marks: NDArray[np.integer[Any]]
) -> NDArray[np.integer[Any]]:
    """Return for each node all bits that it or an ancestor has.

    Args:
        parent: shape (n,), -1 for the outermost.
        marks: shape (n,), bits.
    """
    found = np.append(marks, marks.dtype.type(0))
    for above in ancestors(parent):
        found |= found[above]
    return found[:-1]


# What snapreport noted while it recorded: the key ``snapreport`` of a snapshot that it wrote.

_LONGEST = 4096
_MOST_WORDS = 1000
_MOST_NUMBERS = 1000
_MOST_DEVICES = 256
_LONGEST_OF_ROW = 512
_MOST_FORECAST = 1000
_MOST_NOTES = 16
_TEXTS = ("made_by", "recorder", "torch", "cuda", "driver", "python")
_NUMBERS = ("started_us", "ended_us", "local_rank", "node")
_OF_DEVICE = ("capacity", "free_before", "free_after", "total_before", "total_after")

_Plain = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """What ended the program's code, or the request for memory that failed."""

    type: str
    message: str
    step: int | None = None
    """How many steps the program's loop had made, where it counted them."""
    cpu_request: int | None = None
    """Bytes of the request for the CPU's memory that failed, 0 where they are not known; None
    where something else failed."""
    place: str | None = None
    """The program's line that it came from, as ``main (train.py:28)``."""


PLACEMENT = "where the driver puts segments"
"""The reason that makes a forecast's peak lower or higher without any other request."""
UNKNOWN_KERNELS = "kernels whose own memory is not known"
MAY_TAKE_LESS = "kernels that may take less"
FORECAST_PARTS = (
    *(PLACEMENT, UNKNOWN_KERNELS, MAY_TAKE_LESS),
    *("CUB's scan", "CUB's scan of the mask", "CUB's scan of the parts", "CUB's segmented sort"),
    *("CUB's selection", "CUB's sort", "CUB's sort of the indices", "CUB's sort of the keys"),
    *("CUB's unique rows, its descriptors", "batch norm's workspace", "counters of the selection"),
    *("cuDNN's reserve", "cuDNN's workspace", "distributions and their sums"),
    *("gradients in float", "gradients of split keys", "padded chunks", "the input, sorted"),
)
"""Names of ``ForecastPart``; others are a stranger's."""
SIZES = ("nonzero", "unique", "int", "bincount")
"""Kinds of values that decide how large something becomes."""
ASSUMED_KINDS = (*SIZES, "bool", "float")
_NUMBERS_OF = expression(
    r"(True|False|-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-][0-9]{1,3})?( of [0-9]{1,20})?)\Z"
)


@dataclass(frozen=True)
class ForecastPart:
    """One reason why a forecast's peak may be lower or higher than expected; in bytes."""

    device: str
    name: str
    """Such as ``cuDNN's workspaces``."""
    lower: int
    """By how much it may lower the peak of allocated memory."""
    higher: int
    """By how much it may raise it."""


@dataclass(frozen=True)
class AssumedValue:
    """Values that a forecast had to assume, at one place of the program."""

    kind: str
    """``bool``, ``int``, ``float``, ``nonzero``, ``unique`` or ``bincount``."""
    place: str
    """As ``train.py:28``."""
    value: str
    count: int


@dataclass(frozen=True)
class UnknownKernel:
    """An operation of which it is not known what its kernel allocates inside."""

    operator: str
    count: int


@dataclass(frozen=True)
class Forecast:
    """What was noted of a run that has not happened: nothing was computed, no card was used."""

    card: str
    """Its name, as ``h100-80``."""
    steps: int
    """Steps of the optimizer that were made."""
    repeats: bool
    """Whether the last one allocated exactly what the one before did."""
    parts: tuple[ForecastPart, ...] = ()
    assumed: tuple[AssumedValue, ...] = ()
    unknown: tuple[UnknownKernel, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences on what was left out, such as compilation."""

    def as_plain(self) -> _Plain:
        """Return it as a snapshot has it: dicts, lists, texts and numbers."""
        plain = asdict(self)
        for key in ("parts", "assumed", "unknown", "notes"):
            plain[key] = list(plain[key])
        return plain

    def with_texts(self, change: Callable[[str], str]) -> Forecast:
        """Return it with every text changed, but for those that only we write."""

        def known(text: str, names: Collection[str]) -> str:
            return text if text in names else change(text)

        return replace(
            self,
            card=change(self.card),
            parts=tuple(
                replace(each, device=change(each.device), name=known(each.name, FORECAST_PARTS))
                for each in self.parts
            ),
            assumed=tuple(
                replace(
                    each,
                    kind=known(each.kind, ASSUMED_KINDS),
                    place=change(each.place),
                    value=known(each.value, (each.value,) * bool(_NUMBERS_OF.match(each.value))),
                )
                for each in self.assumed
            ),
            unknown=tuple(replace(each, operator=change(each.operator)) for each in self.unknown),
            notes=tuple(map(change, self.notes)),
        )

    def range_of(self, device: str, peak: int) -> tuple[int, int]:
        """Return the least and the most that the peak of a device may be, in bytes."""
        parts = [part for part in self.parts if part.device == device]
        lower, higher = sum(part.lower for part in parts), sum(part.higher for part in parts)
        return max(peak - lower, 0), peak + higher


@dataclass(frozen=True)
class Mark:
    """A moment that the program named."""

    name: str
    time_us: int


@dataclass(frozen=True)
class Storage:
    """Memory of a module's or an optimizer's tensor when the snapshot was taken."""

    device: str
    """As ``str(DeviceId)``: ``cuda:0``."""
    address: int
    size: int
    kind: str
    """``parameter``, ``gradient``, ``buffer`` or ``optimizer state``."""
    name: str


@dataclass(frozen=True)
class RecordedDevice:
    """A device as PyTorch and the driver saw it; bytes, None where unknown."""

    device: str
    name: str | None = None
    capacity: int | None = None
    free_before: int | None = None
    free_after: int | None = None
    total_before: int | None = None
    total_after: int | None = None
    stats_before: dict[str, int | float] = field(default_factory=dict)
    """``torch.cuda.memory_stats()`` without its zeros, as ``stats_after``."""
    stats_after: dict[str, int | float] = field(default_factory=dict)

    def stat(self, name: str, when: str = "after") -> int | None:
        """Return one of PyTorch's counters, None where none were read."""
        stats = self.stats_before if when == "before" else self.stats_after
        return int(stats.get(name, 0)) if stats else None


@dataclass(frozen=True)
class RecorderInfo:
    """Everything that was noted; None or empty for what was not."""

    format: int
    made_by: str | None
    recorder: str | None
    """``cuda``, ``forecast``, or ``torch.profiler``, whose snapshots have another shape."""
    command: tuple[str, ...]
    title: str | None
    notes: str
    started_us: int | None
    """Microseconds since 1970, as the next field."""
    ended_us: int | None
    torch: str | None
    cuda: str | None
    driver: str | None
    python: str | None
    devices: tuple[RecordedDevice, ...]
    storages: tuple[Storage, ...]
    marks: tuple[Mark, ...]
    failure: Failure | None
    rank: int
    world_size: int
    local_rank: int | None
    """Among the processes of its machine; None where the launcher does not say, as below."""
    node: int | None
    """The number of its machine: which one that is, is not noted."""
    joined: bool
    """Whether another recording was already running; what it had recorded is not in the file."""
    children_s: int = 0
    """Seconds of processor time that child processes took, of those that ended meanwhile."""
    forecast: Forecast | None = None
    """Of a run that has not happened; None for a real one."""

    def device(self, name: str) -> RecordedDevice | None:
        """Return what was noted of a device, such as ``cuda:0``."""
        return next((device for device in self.devices if device.device == name), None)

    @property
    def cpu_failure(self) -> Failure | None:
        """What ended the program, if that was a failed request for the CPU's memory."""
        failure = self.failure
        return None if failure is None or failure.cpu_request is None else failure

    def as_plain(self) -> _Plain:
        """Return it as the key's value: dicts, lists, texts and numbers."""
        plain = asdict(self)
        for key in ("command", "devices", "storages", "marks"):
            plain[key] = list(plain[key])
        if self.forecast is not None:
            plain["forecast"] = self.forecast.as_plain()
        return plain

    def with_texts(self, change: Callable[[str], str]) -> RecorderInfo:
        """Return it with every text changed, but for those that only we write."""
        change = cache(change)  # a stranger's file may have one long text in every row

        def maybe(text: str | None) -> str | None:
            return None if text is None else change(text)

        failure = self.failure
        texts: _Plain = {key: maybe(getattr(self, key)) for key in _TEXTS if key != "recorder"}
        return replace(
            self,
            **texts,
            command=tuple(map(change, self.command)),
            title=maybe(self.title),
            notes=change(self.notes),
            devices=tuple(replace(device, name=maybe(device.name)) for device in self.devices),
            storages=tuple(
                each if (name := change(each.name)) == each.name else replace(each, name=name)
                for each in self.storages
            ),
            marks=tuple(replace(mark, name=change(mark.name)) for mark in self.marks),
            failure=None
            if failure is None
            else replace(
                failure,
                type=change(failure.type),
                message=change(failure.message),
                place=maybe(failure.place),
            ),
            forecast=None if self.forecast is None else self.forecast.with_texts(change),
        )


def recorder_info(value: Any, texts: CleanTexts | None = None) -> RecorderInfo | None:
    """Read the value of the key; None if it is not a mapping.

    The file may be a stranger's, so only the fields named here are taken over, if their types are
    right and their lengths limited.

    Args:
        value: the key's value.
        texts: the cleaned texts of the same file, to share them.
    """
    return _Reader(texts or CleanTexts()).info(value) if isinstance(value, dict) else None


class _Reader:
    """Reads the key's value."""

    def __init__(self, texts: CleanTexts) -> None:
        self._texts = texts

    def info(self, value: _Plain) -> RecorderInfo:
        found: _Plain = {key: self._text(value.get(key)) for key in _TEXTS}
        found |= {key: _number(value.get(key)) for key in _NUMBERS}
        return RecorderInfo(
            **found,
            format=_number(value.get("format")) or 1,
            command=tuple(
                clean
                for word in _list(value.get("command"))[:_MOST_WORDS]
                if (clean := self._text(word)) is not None
            ),
            title=self._text(value.get("title")) or None,
            notes=self._text(value.get("notes"), _LONGEST * 16) or "",
            devices=tuple(_rows(_list(value.get("devices"))[:_MOST_DEVICES], self._device)),
            storages=tuple(_rows(value.get("storages"), self._storage)),
            marks=tuple(_rows(value.get("marks"), self._mark)),
            failure=self._failure(value.get("failure")),
            rank=_number(value.get("rank")) or 0,
            world_size=_number(value.get("world_size")) or 1,
            joined=value.get("joined") is True,
            children_s=_number(value.get("children_s")) or 0,
            forecast=self._forecast(value.get("forecast"), found["recorder"]),
        )

    def _forecast(self, value: Any, recorder: str | None) -> Forecast | None:
        if not isinstance(value, dict):
            if recorder != "forecast":
                return None
            value = {}  # whatever else it says, it is none of a real run

        def rows(key: str) -> list[Any]:
            return _list(value.get(key))[:_MOST_FORECAST]

        def count(row: _Plain, key: str) -> int:
            return min(_number(row.get(key)) or 0, MOST_BYTES)

        def text(row: _Plain, key: str) -> str:
            return self._text(row.get(key), _LONGEST_OF_ROW) or ""

        plain = {key: [row for row in rows(key) if isinstance(row, dict)]
                 for key in ("parts", "assumed", "unknown")}  # fmt: skip
        return Forecast(
            card=text(value, "card"),
            steps=count(value, "steps"),
            repeats=value.get("repeats") is True,
            parts=tuple(
                ForecastPart(
                    text(row, "device"),
                    text(row, "name"),
                    count(row, "lower"),
                    count(row, "higher"),
                )
                for row in plain["parts"]
            ),
            assumed=tuple(
                AssumedValue(
                    text(row, "kind"), text(row, "place"), text(row, "value"), count(row, "count")
                )
                for row in plain["assumed"]
            ),
            unknown=tuple(
                UnknownKernel(text(row, "operator"), count(row, "count"))
                for row in plain["unknown"]
            ),
            notes=tuple(
                note
                for each in rows("notes")[:_MOST_NOTES]
                if (note := self._text(each, _LONGEST_OF_ROW)) is not None
            ),
        )

    def _device(self, row: _Plain) -> RecordedDevice | None:
        name = self._text(row.get("device"))
        if name is None:
            return None
        numbers: _Plain = {key: _number(row.get(key)) for key in _OF_DEVICE}
        return RecordedDevice(
            device=name,
            name=self._text(row.get("name")),
            **numbers,
            stats_before=self._stats(row.get("stats_before")),
            stats_after=self._stats(row.get("stats_after")),
        )

    def _stats(self, value: Any) -> dict[str, int | float]:
        found: dict[str, int | float] = {}
        if isinstance(value, dict):
            for key, number in islice(value.items(), _MOST_NUMBERS):
                name, known = self._text(key), _number(number)
                if name is not None and known is not None:
                    found[name] = known
        return found

    def _storage(self, row: _Plain) -> Storage | None:
        device, kind, name = (
            self._text(row.get(key), _LONGEST_OF_ROW) for key in ("device", "kind", "name")
        )
        address, size = _number(row.get("address")), _number(row.get("size"))
        if device is None or kind is None or address is None or size is None:
            return None
        return Storage(device, address, size, kind, name or "")

    def _mark(self, row: _Plain) -> Mark | None:
        name, time_us = self._text(row.get("name"), _LONGEST_OF_ROW), _number(row.get("time_us"))
        return None if name is None or time_us is None else Mark(name, time_us)

    def _failure(self, value: Any) -> Failure | None:
        if not isinstance(value, dict):
            return None
        return Failure(
            self._text(value.get("type")) or "unknown",
            self._text(value.get("message")) or "",
            _number(value.get("step")),
            _number(value.get("cpu_request")),
            self._text(value.get("place")),
        )

    def _text(self, value: Any, longest: int = _LONGEST) -> str | None:
        """A text that every encoder takes, and not without end."""
        return self._texts.cut(value, longest) if isinstance(value, str) else None


_MOST_ROWS = 100_000
_Row = TypeVar("_Row")


def _rows(value: Any, take: Callable[[_Plain], _Row | None]) -> Iterator[_Row]:
    for row in _list(value)[:_MOST_ROWS]:
        taken = take(row) if isinstance(row, dict) else None
        if taken is not None:
            yield taken


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


_LARGEST = 2**63 - 1


def _number(value: Any) -> int | None:
    """A whole number from 0 that any store takes."""
    if type(value) is float and 0 <= value <= _LARGEST and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


# Limits on the numbers of a recording. No real file comes near. Within them sums stay within 64
# bits, and every time is a date. ``docs/safety.md`` has those of sizes in its table.

MOST_BYTES = 1 << 48
"""Bytes of one size: more than any memory has."""

MOST_TOTAL = 1 << 62
"""Bytes of all sizes of a column together: sums of two columns stay within 64 bits."""

MOST_ADDRESS = 1 << 62

LATEST_US = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that a date can represent."""

MOVES = words(
    "alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap"
)
"""Events whose address and size say of memory.

Those of others may be anything: a program can ask for any number of bytes in vain.
"""

MOST_WRITTEN = 32
"""Characters that texts come to for each byte of a snapshot, written out wherever they are used.

Of real ones up to 3.2: a reference to a frame takes two to five bytes, and its line in a call
stack has a hundred characters; but most allocations share their call stacks.
"""

_ALWAYS_WRITTEN = 1 << 23
"""Ten times what the texts of real files come to that are so small that this is more."""

MOST_EXPORTED = 256
"""Bytes of an export for each byte of its source, unpacked. JSON, which repeats the call stack of
every event, has up to 55 in real files, and CSV 12."""

_ALWAYS_EXPORTED = 1 << 26


def most_written(length: int) -> int:
    """Return how many characters a snapshot's texts may have, for its length in bytes."""
    return max(length * MOST_WRITTEN, _ALWAYS_WRITTEN)


def most_exported(length: int) -> int:
    """Return how many bytes an export may have, for the unpacked length of its source."""
    return max(length * MOST_EXPORTED, _ALWAYS_EXPORTED)

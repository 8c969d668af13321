"""What snapreport noted while it recorded: the key ``snapreport`` of a snapshot that it wrote.

The file may be a stranger's, so only the fields named here are taken over, if their types are right
and their lengths limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from snapreport.ground.clean_texts import CleanTexts

_LONGEST = 4096
_MOST_ROWS = 100_000
_MOST_WORDS = 1000
_MOST_NUMBERS = 1000
_MOST_DEVICES = 256
_LONGEST_OF_ROW = 512
_LARGEST = 2**63 - 1
_TEXTS = ("made_by", "recorder", "torch", "cuda", "driver", "python")
_NUMBERS = ("started_us", "ended_us", "local_rank", "node")
_OF_DEVICE = ("capacity", "free_before", "free_after", "total_before", "total_after")

Plain = dict[str, Any]
_Row = TypeVar("_Row")


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
    """``cuda``, or ``torch.profiler``, whose snapshots have another shape."""
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

    def device(self, name: str) -> RecordedDevice | None:
        """Return what was noted of a device, such as ``cuda:0``."""
        return next((device for device in self.devices if device.device == name), None)

    @property
    def cpu_failure(self) -> Failure | None:
        """What ended the program, if that was a failed request for the CPU's memory."""
        failure = self.failure
        return None if failure is None or failure.cpu_request is None else failure

    def as_plain(self) -> Plain:
        """Return it as the key's value: dicts, lists, texts and numbers."""
        plain = asdict(self)
        for key in ("command", "devices", "storages", "marks"):
            plain[key] = list(plain[key])
        return plain

    def with_texts(self, change: Callable[[str], str]) -> RecorderInfo:
        """Return it with every text changed, but for those that only we write."""
        change = cache(change)  # a stranger's file may have one long text in every row

        def maybe(text: str | None) -> str | None:
            return None if text is None else change(text)

        failure = self.failure
        texts: Plain = {key: maybe(getattr(self, key)) for key in _TEXTS if key != "recorder"}
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
        )


def recorder_info(value: Any, texts: CleanTexts | None = None) -> RecorderInfo | None:
    """Read the value of the key; None if it is not a mapping.

    Args:
        value: the key's value.
        texts: the cleaned texts of the same file, to share them.
    """
    return _Reader(texts or CleanTexts()).info(value) if isinstance(value, dict) else None


class _Reader:
    """Reads the key's value."""

    def __init__(self, texts: CleanTexts) -> None:
        self._texts = texts

    def info(self, value: Plain) -> RecorderInfo:
        found: Plain = {key: self._text(value.get(key)) for key in _TEXTS}
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
        )

    def _device(self, row: Plain) -> RecordedDevice | None:
        name = self._text(row.get("device"))
        if name is None:
            return None
        numbers: Plain = {key: _number(row.get(key)) for key in _OF_DEVICE}
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

    def _storage(self, row: Plain) -> Storage | None:
        device, kind, name = (
            self._text(row.get(key), _LONGEST_OF_ROW) for key in ("device", "kind", "name")
        )
        address, size = _number(row.get("address")), _number(row.get("size"))
        if device is None or kind is None or address is None or size is None:
            return None
        return Storage(device, address, size, kind, name or "")

    def _mark(self, row: Plain) -> Mark | None:
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


def _rows(value: Any, take: Callable[[Plain], _Row | None]) -> Iterator[_Row]:
    for row in _list(value)[:_MOST_ROWS]:
        taken = take(row) if isinstance(row, dict) else None
        if taken is not None:
            yield taken


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _number(value: Any) -> int | None:
    """A whole number from 0 that any store takes."""
    if type(value) is float and 0 <= value <= _LARGEST and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _LARGEST else None

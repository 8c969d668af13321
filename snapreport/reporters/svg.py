"""The still picture of a recording: curves, stages, events, the peak and failed requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.findings import DeviceFindings, StageUse
from snapreport.model.snapshot import NO_TIME

WIDTH, HEIGHT = 1000, 260
"""The picture's own units; the page scales it."""

_COLUMNS = 500
_TICKS = 4
_ROOM = 1.09
"""The picture's height in multiples of the highest value, as the timeline's that takes its place;
the rest is room for a label."""


@dataclass(frozen=True)
class CurvePicture:
    """Paths and labels of one device's picture; the template puts them into an ``svg`` element."""

    allocated: str
    """Path data of the filled area."""
    requested: str
    """Path data of the line."""
    reserved: str
    """Path data of the line; empty where no allocator reserves memory, or it is not known when."""
    ticks: tuple[tuple[float, str], ...]
    """Position from the top and label of each horizontal line."""
    last_event: str
    events: tuple[tuple[float, str, str], ...]
    """Position in percent, label and ``text-anchor`` of each tick of the axis."""
    bands: tuple[Band, ...]
    all_stages: bool
    """Whether ``bands`` has every level of stages."""
    marks: tuple[Mark, ...]


def draw_curves(device: DeviceFindings) -> CurvePicture:
    """Reduce the curves to columns that each keep their maximum."""
    events = device.history.events
    allocated, requested = device.curves["allocated"], device.curves["requested"]
    reserved = device.curves["reserved"] if "reserved" in device.peaks else None
    highest = max(each.bytes for each in device.peaks.values()) or 1
    top = highest * _ROOM
    bands, all_stages = _stage_bands(device.stages, events)

    def line(curve: NDArray[np.int64]) -> str:
        values = maxima(curve)
        return step_line(values, WIDTH / len(values), top)

    return CurvePicture(
        allocated=f"{line(allocated)}V{HEIGHT}H0Z",
        requested=line(requested),
        reserved="" if reserved is None else line(reserved),
        ticks=tuple((_height_of(k, top), format_bytes(k)) for k in round_values(highest)),
        last_event=format_count(max(events - 1, 0)),
        events=event_ticks(events),
        bands=bands,
        all_stages=all_stages,
        marks=_point_marks(device, top),
    )


SMALL_WIDTH, SMALL_HEIGHT = 200, 40
"""The units of a small curve."""


@dataclass(frozen=True)
class SmallCurve:
    """One device's allocated bytes, on axes that several devices share."""

    path: str
    """Path data of the filled area; empty without a history."""
    ooms: tuple[float, ...]
    """Where requests failed, in percent of the width."""


@dataclass(frozen=True)
class SmallCurves:
    """The curves of several devices, one above the other."""

    first_us: int | None
    """When the axis of time begins; None where the width is each device's own events."""
    span_us: int
    """How much time the width is; 0 where it is events."""
    curves: tuple[SmallCurve, ...]

    @property
    def axes(self) -> str:
        """What the axes are, in words."""
        over = "the events of each device"
        if self.first_us is not None:
            over = f"the {format_duration(self.span_us)} of all devices"
        return f"Allocated bytes on one scale, over {over}"


def draw_small_curves(devices: Sequence[DeviceFindings]) -> SmallCurves:
    """Draw a curve for each device on one axis of bytes, and of time if their times overlap."""
    recorded = [
        each for each in devices if each.recorded and (len(each.history.allocations) or each.ooms)
    ]
    known = [each.times[each.times != NO_TIME] for each in recorded]
    spans = [(int(times[0]), int(times.max())) for times in known if len(times)]
    timed = bool(spans) and len(spans) == len(recorded)
    timed = timed and max(first for first, _ in spans) < min(last for _, last in spans)
    first = min(first for first, _ in spans) if timed else None
    span = max(last for _, last in spans) - first if first is not None else 0
    top = max((each.peak.allocated for each in recorded), default=0) or 1

    def draw(device: DeviceFindings) -> SmallCurve:
        if device not in recorded:
            return SmallCurve("", ())
        events, ooms = device.history.events, np.array([oom.event for oom in device.ooms], int)
        if first is None:
            values, start = maxima(device.curves["allocated"], SMALL_WIDTH), 0.0
            at = [_event_place(event, events) for event in ooms.tolist()]
            return SmallCurve(_small_area(values, start, SMALL_WIDTH / len(values), top), tuple(at))
        place = _in_time(device.times, first) * (SMALL_WIDTH / span)
        column = np.minimum(place, SMALL_WIDTH - 1).astype(int)
        values = _maxima_of_columns(device.curves["allocated"], column)
        at = np.round(100 * place[ooms] / SMALL_WIDTH, 2).tolist()
        return SmallCurve(_small_area(values, int(column[0]), 1, top), tuple(at))

    return SmallCurves(first, span, tuple(draw(each) for each in devices))


def _in_time(times: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return microseconds after a moment; where time is unknown or steps back, it stands still."""
    known = times[times != NO_TIME]
    return np.maximum.accumulate(np.where(times == NO_TIME, known[0], times)) - first


def _maxima_of_columns(curve: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most in each column from the first event's to the last one's.

    Args:
        curve: bytes at the start and after each event, shape (n_events + 1,).
        column: of each event, ascending, shape (n_events,).
    """
    columns = np.arange(column[0], column[-1] + 1)
    values = curve[np.searchsorted(column, columns)]  # what a column begins with
    np.maximum.at(values, column - column[0], curve[1:])
    return values


def _small_area(values: NDArray[np.int64], start: float, width: float, top: int) -> str:
    """Return path data of an area."""
    ys = np.round(SMALL_HEIGHT * (1 - values / top), 1).tolist()
    return f"M{start:g} {SMALL_HEIGHT}{_steps(ys, width)}V{SMALL_HEIGHT}Z"


def step_line(values: NDArray[np.int64], width: float, top: float) -> str:
    """Return path data of a line that keeps each value for ``width``; ``top`` is at the top."""
    ys = [_height_of(value, top) for value in values.tolist()]
    return f"M0 {ys[0]:g}{_steps(ys, width)}"


def _steps(ys: list[float], width: float) -> str:
    """Return path data of steps of one width; equal ones that follow one another are one."""
    ends = [k for k, y in enumerate(ys, start=1) if k == len(ys) or ys[k] != y]
    places = [round(k * width, 1) for k in (0, *ends)]
    wide = (round(right - left, 1) for left, right in pairwise(places))
    return "".join(f"V{ys[k - 1]:g}h{each:g}" for k, each in zip(ends, wide, strict=True))


def _height_of(value: int, top: float) -> float:
    """Return how far below the upper edge a number of bytes is drawn; ``top`` is at that edge."""
    return round(HEIGHT * (1 - value / top), 1)


def maxima(curve: NDArray[np.int64], most: int = _COLUMNS) -> NDArray[np.int64]:
    """Return the maxima of a curve in at most ``most`` equal runs of events."""
    columns = min(most, len(curve))
    starts = np.arange(columns) * len(curve) // columns
    return np.asarray(np.maximum.reduceat(curve, starts), dtype=np.int64)


def round_values(highest: int) -> list[int]:
    """Return the multiples of a power of two up to the highest value, at most ``_TICKS``."""
    step = 1
    while highest // step > _TICKS:
        step *= 2
    return list(range(step, highest + 1, step))


# Marks: stages, events, the peak and failed requests.


_MOST_BANDS = 120
_DEPTHS = 5
_THIN = 0.1
"""Percent of the width: of narrower bands, only one is drawn in each column of this width."""
_NAMED = 4.0
"""Percent of the width: narrower bands have no room for a name."""
_EVENT_TICKS = 5
_MOST_LABELS = 4

# Labels must not overlap on the narrowest screen: sizes of the picture and of letters, CSS pixels.
_WIDTH, _HEIGHT = 380.0, 168.0
_LETTER, _LINE = 6.6, 15.0
_GAP = 7.0
_ROWS = (-1, 0, 1, -2, 2, -3, 3)
"""How many lines below its point a label may be, in order of preference."""


@dataclass(frozen=True)
class Band:
    """A stage, in percent of the width."""

    name: str
    row: int
    left: float
    width: float
    tone: str
    """``a``, ``b`` or ``c``, by its name, as in the timeline."""
    named: bool


@dataclass(frozen=True)
class Label:
    """A text beside a marked point: its offset in pixels, and its ``text-anchor``."""

    text: str
    dx: float
    dy: float
    anchor: str


@dataclass(frozen=True)
class Mark:
    """The peak (``kind`` is ``peak``) or failed requests (``oom``), in percent of the picture."""

    kind: str
    x: float
    y: float
    title: str
    label: Label | None
    """None if there is no room for one."""


def _stage_bands(stages: tuple[StageUse, ...], events: int) -> tuple[tuple[Band, ...], bool]:
    """Return the stages as bands, outer before inner, and whether all levels are there.

    To keep the page small, inner levels are left out, and the shortest stages of the outermost.
    """
    drawn: list[Band] = []
    depths = sorted({stage.depth for stage in stages})
    for depth in depths[:_DEPTHS]:
        level = _level([stage for stage in stages if stage.depth == depth], depth, events)
        if drawn and len(drawn) + len(level) > _MOST_BANDS:
            return tuple(drawn), False
        longest = sorted(level, key=lambda band: -band.width)[:_MOST_BANDS]
        drawn += sorted(longest, key=lambda band: band.left)
        if len(longest) < len(level):
            return tuple(drawn), False
    return tuple(drawn), len(depths) <= _DEPTHS


def _level(stages: list[StageUse], row: int, events: int) -> list[Band]:
    bands = []
    thin = set()
    for stage in stages:
        left, right = (
            100 * (min(max(event, -1), events) + 1) / (events + 1)
            for event in (stage.start_event, max(stage.start_event, stage.end_event))
        )
        if right - left < _THIN:
            column = math.floor(left / _THIN)
            if column in thin:
                continue
            thin.add(column)
        width = round(max(right - left, _THIN), 3)
        tone = "abc"[_hash(stage.name) % 3]
        bands.append(Band(stage.name, row, round(left, 3), width, tone, width >= _NAMED))
    return bands


def _hash(text: str) -> int:
    """Return FNV-1a over UTF-16, as the page's script does, so that print and screen agree."""
    value = 0x811C9DC5
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (value ^ int.from_bytes(units[at : at + 2], "little")) * 0x01000193 & 0xFFFFFFFF
    return value


def event_ticks(events: int) -> tuple[tuple[float, str, str], ...]:
    """Return position in percent, label and ``text-anchor`` of round event numbers."""
    rough = max((events - 1) / _EVENT_TICKS, 1)
    power = 10 ** math.floor(math.log10(rough))
    apart = next(power * by for by in (1, 2, 5, 10) if power * by >= rough)
    ticks = []
    for event in range(0, events, apart):
        x = _event_place(event, events)
        anchor = "start" if x < 4 else "end" if x > 96 else "middle"
        ticks.append((x, format_count(event), anchor))
    return tuple(ticks)


def _event_place(event: int, events: int) -> float:
    """Return the middle of an event in percent of the width; -1 is the start."""
    return round(100 * (event + 1.5) / (events + 1), 2)


def _point_marks(device: DeviceFindings, top: float) -> tuple[Mark, ...]:
    """Return the failed requests, then the peak, which is drawn over them.

    Args:
        device: the device of the picture.
        top: the bytes at the picture's upper edge.
    """
    events = device.history.events
    allocated = device.curves["allocated"]

    def place(event: int) -> tuple[float, float]:
        return _event_place(event, events), round(100 * (1 - int(allocated[event + 1]) / top), 2)

    at: dict[tuple[float, float], list[str]] = {}
    for oom in device.ooms:
        words = f"out of memory: {format_bytes(oom.size)} requested"
        at.setdefault(place(oom.event), []).append(words)
    points = [
        ("oom", *where, words[0] + (f", {len(words) - 1} more" if len(words) > 1 else ""))
        for where, words in at.items()
    ]
    peak = ("peak", *place(device.peak.event), f"peak {format_bytes(device.peak.allocated)}")
    # The peak's label is placed first.
    chosen = _place_labels([peak, *points[:_MOST_LABELS]])
    labels = [*chosen[1:], *[None] * (len(points) - len(chosen) + 1), chosen[0]]
    return tuple(Mark(*point, label) for point, label in zip([*points, peak], labels, strict=True))


_Rect = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""


def _place_labels(points: list[tuple[str, float, float, str]]) -> list[Label | None]:
    """Place labels so that they hide no point and no other label; earlier points go first."""
    centres = [(x * _WIDTH / 100, y * _HEIGHT / 100) for _, x, y, _ in points]
    taken: list[_Rect] = [(x - 5, y - 5, x + 5, y + 5) for x, y in centres]
    labels: list[Label | None] = []
    for (x, y), (_, _, _, text) in zip(centres, points, strict=True):
        found = None
        for label in _candidates(text):
            width = len(text) * _LETTER
            left = x + label.dx - (width if label.anchor == "end" else 0)
            rect = (left, y + label.dy - 0.8 * _LINE, left + width, y + label.dy + 0.2 * _LINE)
            inside = rect[0] >= 0 and rect[1] >= 0 and rect[2] <= _WIDTH and rect[3] <= _HEIGHT
            if inside and not any(_overlap(rect, other) for other in taken):
                taken.append(rect)
                found = label
                break
        labels.append(found)
    return labels


def _candidates(text: str) -> list[Label]:
    """Return a label's places by preference: above, beside and below the point, then further."""
    return [
        Label(text, side * _GAP, 0.3 * _LINE + row * _LINE, anchor)
        for row in _ROWS
        for side, anchor in _SIDES
    ]


_SIDES = ((1, "start"), (-1, "end"))


def _overlap(a: _Rect, b: _Rect) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]

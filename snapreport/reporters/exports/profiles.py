"""Writes profiles of call stacks: collapsed stacks, speedscope's JSON and pprof's protobuf."""

from __future__ import annotations

from typing import Any, BinaryIO

import orjson

from snapreport.ground.files import gzipped
from snapreport.ground.protobuf import data, number, packed, text
from snapreport.ground.safe_text import plain_json, visible
from snapreport.ground.version import __version__
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.snapshot import FrameTable
from snapreport.reporters.exports.stack_weights import (
    Export,
    StackWeight,
    frame_texts,
    moment_text,
    weigh_stacks,
)


def write_collapsed(export: Export, out: BinaryIO) -> None:
    """Write ``outermost;...;innermost bytes`` for each stack live at the moment.

    Source: the header of Brendan Gregg's flamegraph.pl.
    """
    # A semicolon would end a frame.
    texts = [text.replace(";", ",") for text in frame_texts(export.history.stacks.frames)]
    totals: dict[str, int] = {}
    for stack in weigh_stacks(export):
        if stack.live_count:
            path = ";".join(texts[f] for f in stack.frames) if stack.frames else f"[{stack.reason}]"
            totals[path] = totals.get(path, 0) + stack.live_bytes
    out.writelines(f"{path} {total}\n".encode() for path, total in totals.items())


def write_speedscope(export: Export, out: BinaryIO) -> None:
    """Write three sampled profiles: bytes live at the moment, their number, all bytes allocated.

    Source: the schema that the npm package ``speedscope`` ships, version 1.25.
    """
    device = export.devices[0]
    frames = export.history.stacks.frames
    stacks = weigh_stacks(export)
    name = moment_text(device.found.device, export.curve, device.event)
    ever = f"{device.found.device}, {export.curve} bytes over the whole recording"
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": visible(export.history.title),
        "exporter": f"snapreport@{__version__}",
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {"name": visible(text), "file": visible(filename)}
                | ({"line": line} if line > 0 else {})
                for text, filename, line in zip(
                    frames.names, frames.filenames, frames.lines.tolist(), strict=True
                )
            ]
            + [{"name": reason} for reason in MISSING_REASONS[1:]]
        },
        "profiles": [
            _profile(name, "bytes", stacks, [s.live_bytes for s in stacks], len(frames)),
            _profile(
                name.replace(" bytes ", " allocations "), "none",
                stacks, [s.live_count for s in stacks], len(frames),
            ),
            _profile(ever, "bytes", stacks, [s.all_bytes for s in stacks], len(frames)),
        ],
    }  # fmt: skip
    out.write(plain_json(orjson.dumps(document)))


def _profile(
    name: str, unit: str, stacks: list[StackWeight], weights: list[int], n_frames: int
) -> dict[str, Any]:
    """Return a profile of the stacks that have a weight; reasons come after the frames."""
    used = [(s, weight) for s, weight in zip(stacks, weights, strict=True) if weight]
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weight for _, weight in used),
        "samples": [
            list(s.frames) if s.frames else [n_frames + MISSING_REASONS.index(s.reason) - 1]
            for s, _ in used
        ],
        "weights": [weight for _, weight in used],
    }


# Numbers of the fields in google/pprof's profile.proto.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 3, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14

VALUES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
)
"""The values of every sample, as Go's own heap profiles have them."""


def write_pprof(export: Export, out: BinaryIO) -> None:
    """Write a gzipped profile: in use at the moment, and allocated over the whole recording.

    ``go tool pprof``, Pyroscope and others read it.
    """
    device = export.devices[0]
    strings = _Strings()
    parts = [data(_SAMPLE_TYPE, strings.pair(*value)) for value in VALUES]
    frames = export.history.stacks.frames
    stacks = weigh_stacks(export)
    used = sorted({frame for stack in stacks for frame in stack.frames})
    # Ids may not be 0. Stacks without frames get a location named after the reason.
    locations = {frame: i for i, frame in enumerate(used, start=1)}
    reasons = {stack.reason for stack in stacks if not stack.frames}
    unframed = {
        reason: len(used) + i
        for i, reason in enumerate((r for r in MISSING_REASONS if r in reasons), start=1)
    }
    parts += [data(_SAMPLE, _sample(stack, locations, unframed)) for stack in stacks]
    # One mapping, marked as symbolised, so that pprof does not ask for binaries.
    flags = b"".join(number(field, 1) for field in (7, 8, 9, 10))
    parts.append(data(_MAPPING, number(1, 1) + number(5, strings.place("snapreport")) + flags))
    parts += _locations(frames, used, unframed, strings)
    about = moment_text(device.found.device, export.curve, device.event)
    comment = strings.place(f"{export.history.title}: {about}, by snapreport {__version__}")
    parts.append(number(_COMMENT, comment))
    first, last = device.found.first_time_us, device.found.last_time_us
    if first is not None and last is not None:
        parts.append(number(_TIME_NANOS, first * 1000))
        parts.append(number(_DURATION_NANOS, (last - first) * 1000))
    parts.append(data(_PERIOD_TYPE, strings.pair("space", "bytes")))
    parts.append(number(_PERIOD, 1))  # every byte counts: nothing was sampled
    parts.append(number(_DEFAULT_TYPE, strings.place("inuse_space")))
    parts += [text(_STRINGS, string) for string in strings.all]
    out.write(gzipped(parts, 6))


class _Strings:
    """The table of strings, whose first is empty."""

    def __init__(self) -> None:
        self.all = [""]
        self._places = {"": 0}

    def place(self, string: str) -> int:
        """Return a string's place; a new one is added, as one line because pprof prints it."""
        string = visible(string)
        known = self._places.setdefault(string, len(self.all))
        if known == len(self.all):
            self.all.append(string)
        return known

    def pair(self, kind: str, unit: str) -> bytes:
        """Return a ValueType."""
        return number(1, self.place(kind)) + number(2, self.place(unit))


def _sample(stack: StackWeight, locations: dict[int, int], unframed: dict[str, int]) -> bytes:
    """Return a Sample, with its locations innermost first."""
    path = [locations[frame] for frame in reversed(stack.frames)] or [unframed[stack.reason]]
    values = (stack.all_count, stack.all_bytes, stack.live_count, stack.live_bytes)
    return packed(1, path) + packed(2, values)


def _locations(
    frames: FrameTable, used: list[int], unframed: dict[str, int], strings: _Strings
) -> list[bytes]:
    """Return locations of one line each, and their functions."""
    parts = []
    functions: dict[tuple[str, str], int] = {}
    lines = [(frames.names[f], frames.filenames[f], max(int(frames.lines[f]), 0)) for f in used]
    lines += [(reason, "", 0) for reason in unframed]
    for i, (name, filename, line) in enumerate(lines, start=1):
        function = functions.get((name, filename))
        if function is None:
            function = functions[name, filename] = len(functions) + 1
            called = strings.place(name)
            parts.append(
                data(
                    _FUNCTION,
                    number(1, function)
                    + number(2, called)
                    + number(3, called)
                    + number(4, strings.place(filename)),
                )
            )
        at = number(1, function) + number(2, line)
        parts.append(data(_LOCATION, number(1, i) + number(2, 1) + data(4, at)))
    return parts

"""Writes a file for speedscope.app: bytes and counts by call stack, as sampled profiles."""

from __future__ import annotations

from typing import Any, BinaryIO

import orjson

from snapreport.exporters.export_input import Export
from snapreport.exporters.stack_weights import StackWeight, moment_text, weigh_stacks
from snapreport.ground.safe_text import plain_json, visible
from snapreport.ground.version import __version__
from snapreport.model.findings import MISSING_REASONS

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(export: Export, out: BinaryIO) -> None:
    """Write three profiles: bytes live at the moment, their number, and all bytes ever allocated.

    Source: the schema that the npm package ``speedscope`` ships, version 1.25.
    """
    device = export.devices[0]
    frames = export.history.stacks.frames
    stacks = weigh_stacks(export)
    name = moment_text(device.found.device, export.curve, device.event)
    ever = f"{device.found.device}, {export.curve} bytes over the whole recording"
    document = {
        "$schema": _SCHEMA,
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

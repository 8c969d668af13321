"""Reads what a page holds, as the page does."""

from __future__ import annotations

import base64
import gzip
import re
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.reporters.payload import Packed

_TYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "i8": "i1", "i16": "<i2", "i32": "<i4"}


class Unpacked:
    """Reads a payload as the page does."""

    def __init__(self, payload: Packed) -> None:
        body = gzip.decompress(payload.first)
        length = int.from_bytes(body[:4], "little")
        self.header: dict[str, Any] = orjson.loads(body[4 : 4 + length])
        self._area = body[(4 + length + 7) // 8 * 8 :]
        self._later = gzip.decompress(payload.later)

    def column(self, entry: dict[str, Any]) -> NDArray[np.float64]:
        dtype = np.dtype(_TYPES.get(entry["type"], "<f8"))
        size = entry["length"] * dtype.itemsize
        block = self._later if entry.get("later") else self._area
        planes = np.frombuffer(block, np.uint8, size, entry["offset"])
        raw = planes.reshape(dtype.itemsize, entry["length"]).T.copy()
        values = raw.view(dtype).reshape(-1).astype(np.float64)
        return np.cumsum(values) if entry["delta"] else values

    def device(self, name: str, index: int = 0) -> list[float]:
        return list(self.column(self.header["devices"][index]["columns"][name]))

    def shared(self, name: str) -> list[float]:
        return list(self.column(self.header["columns"][name]))


def payload_of(page: bytes) -> Unpacked:
    """Unpack the data of a whole page."""
    return Unpacked(Packed(_block(page, "payload"), _block(page, "later")))


def folded_in(page: bytes) -> str:
    """Return the parts of a whole page that its script puts in their places, as HTML."""
    return gzip.decompress(_block(page, "folded")).decode() if b'id="folded"' in page else ""


def _block(page: bytes, name: str) -> bytes:
    found = re.search(rb'id="%s">([^<]*)<' % name.encode(), page)
    assert found is not None
    return base64.b64decode(found[1])


def drawn_curves(payload: Unpacked, index: int) -> dict[str, NDArray[np.int64]]:
    """Add up what a page draws of a device: strips, and what is not drawn one by one.

    Returns:
        requested, allocated and active bytes; int64, shape (events + 1,), the start first.
    """
    device = payload.header["devices"][index]
    events = int(device["events"])

    def column(name: str) -> NDArray[np.int64]:
        return payload.column(device["columns"][name]).astype(np.int64)

    begin = column("alloc_event")
    requested_end = begin + column("free_requested_after")
    end = requested_end + column("free_after")
    classes = column("size_class")
    size, block = column("class_requested")[classes], column("class_block")[classes]
    kinds = {
        "requested": (size, end),
        "allocated": (block, requested_end),
        "active": (block, end),
    }
    curves = {}
    for name, (weights, ends) in kinds.items():
        curve = np.zeros(events + 1, np.int64)
        for weight, first, last in zip(
            weights.tolist(), begin.tolist(), ends.tolist(), strict=True
        ):
            curve[first + 1 : last + 1] += weight
        if "rest_event" in device["columns"]:
            places = column("rest_event") + 1
            lengths = np.diff(np.append(places, events + 1))
            curve += np.repeat(column(f"rest_{name}"), lengths)
        curves[name] = curve
    return curves

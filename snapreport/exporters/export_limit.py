"""Refuses exports that are far too large for their source."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from snapreport.ground.errors import ExportError
from snapreport.ground.units import format_bytes
from snapreport.model.bounds import most_exported


def too_large(name: str, length: int) -> ExportError:
    """Return the error for an export of a source with this name and length in bytes."""
    return ExportError(
        f"{name} has {format_bytes(length)}, and would have over"
        f" {format_bytes(most_exported(length))} in this format, which repeats its texts for each"
        " event; export a pickle instead."
    )


def limited(out: BinaryIO, name: str, length: int) -> BinaryIO:
    """Return a file that passes on what is written, up to the largest export allowed.

    Args:
        out: the file to pass it on to.
        name: of the source, for the message.
        length: bytes of the source, unpacked.
    """
    return cast("BinaryIO", _Limited(out, name, length))


class _Limited(io.RawIOBase):
    def __init__(self, out: BinaryIO, name: str, length: int) -> None:
        self._out, self._name, self._length = out, name, length
        self._left = most_exported(length)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._name, self._length)
        return self._out.write(data)

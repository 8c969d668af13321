"""The native library is built so that a fault in it ends the process, and can do no more."""

from __future__ import annotations

import shutil
import struct
import sys

import pytest

from snapreport.ground.native import library
from snapreport.ground.native.compiling import NAME, OPTIONS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="read from a library of Linux"
)

_DYNAMIC, _GNU_RELRO = 2, 0x6474E552
_FLAGS, _FLAGS_1 = 30, 0x6FFFFFFB
_BIND_NOW, _NOW = 8, 1


def segments(library: bytes) -> list[tuple[int, int, int]]:
    """Return type, place and size of each segment of a 64-bit ELF file of little-endian numbers."""
    assert library[:6] == b"\x7fELF\x02\x01"
    (table,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    found = []
    for place in range(table, table + size * count, size):
        kind, _flags, offset, _address, _physical, length = struct.unpack_from(
            "<IIQQQQ", library, place
        )
        found.append((kind, offset, length))
    return found


def dynamic(library: bytes) -> dict[int, int]:
    """Return the entries of the dynamic section."""
    (place,) = [(offset, size) for kind, offset, size in segments(library) if kind == _DYNAMIC]
    return dict(struct.iter_unpack("<qQ", library[place[0] : place[0] + place[1]]))


@pytest.mark.skipif(
    struct.calcsize("P") != 8 or sys.byteorder != "little", reason="these are read alone"
)
def test_the_library_binds_at_once_and_guards_its_stacks() -> None:
    library.library()  # which makes it where it is stale
    made = (library.FOLDER / NAME).read_bytes()
    entries = dynamic(made)
    assert entries.get(_FLAGS, 0) & _BIND_NOW or entries.get(_FLAGS_1, 0) & _NOW
    assert any(kind == _GNU_RELRO for kind, _, _ in segments(made))
    assert b"__stack_chk_fail" in made, "some functions have arrays of their own"
    assert {"-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"} <= set(OPTIONS)

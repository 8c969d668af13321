"""The libraries are built so that a fault in them ends the process, and can do no more."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="read from Linux's libraries"
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
def test_libraries_bind_at_once_and_guard_their_stacks(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", REPOSITORY / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    include = f"-I{sysconfig.get_path('include')}"
    guarded = []
    for name in build.SOURCES:
        target = tmp_path / f"{Path(name).stem}.so"
        command = ["cc", *build.OPTIONS, include, "-o", str(target), str(REPOSITORY / name)]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        assert said.stderr == ""
        library = target.read_bytes()
        entries = dynamic(library)
        assert entries.get(_FLAGS, 0) & _BIND_NOW or entries.get(_FLAGS_1, 0) & _NOW, name
        assert any(kind == _GNU_RELRO for kind, _, _ in segments(library)), name
        if b"__stack_chk_fail" in library:
            guarded.append(name)
    assert guarded, "some functions have arrays of their own"
    assert {"-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"} <= set(build.OPTIONS)

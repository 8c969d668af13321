"""The zip writer: any reader unpacks what it writes, and it writes the same everywhere."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import snapreport
from snapreport.bundle import archive
from snapreport.bundle.archive import Packer
from snapreport.ground.native.library import Marked
from tests.conftest import REPOSITORY


def packed(*members: tuple[str, Sequence[bytes | Marked]]) -> bytes:
    out = io.BytesIO()
    with Packer() as packer:
        for name, parts in members:
            packer.add(name, parts, 5)
        packer.write(out)
    return out.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def text(length: int, seed: int = 1) -> bytes:
    """Return bytes that deflate well, far references included."""
    rng = random.Random(seed)
    words = [b"alpha", b"beta", b"gamma, ", b"delta " * 9]
    made = b"".join(rng.choice(words) for _ in range(length // 4 + 1))
    return made[:length]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 1000])
def test_members_come_back_whatever_their_length(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(archive, "PIECE", 64)
    content = text(length)
    assert unpacked(packed(("a.json", [content]), ("b.json", [content[:7], b"", content[7:]]))) == {
        "a.json": content,
        "b.json": content,
    }


def test_pieces_refer_back_to_those_before_them() -> None:
    noise = random.Random(2).randbytes(30_000)
    once = packed(("a", [noise]))
    twice = packed(("a", [noise, noise]))
    assert unpacked(twice) == {"a": noise * 2}
    assert len(twice) < len(once) * 1.1


def test_pieces_with_marks_come_back_among_others() -> None:
    noise = random.Random(2).randbytes(3000)
    part = Marked(noise + b"end", np.array([0, 2990], np.uint32))
    packed_one = packed(("a", [noise, part, noise, part, b"", noise]))
    assert unpacked(packed_one) == {"a": noise * 2 + b"end" + noise * 2 + b"end" + noise}


def test_members_stand_in_the_order_that_is_asked_for() -> None:
    out = io.BytesIO()
    with Packer() as packer:
        for name in "abcd":
            packer.add(name, [name.encode()], 5)
        packer.write(out, ["c", "none", "b"])
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["c", "b", "a", "d"]
    assert unpacked(out.getvalue()) == {name: name.encode() for name in "abcd"}


def test_a_zip_without_members_is_empty() -> None:
    assert unpacked(packed()) == {}


def test_the_bytes_are_the_same_for_any_number_of_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = text(3 * archive.PIECE + 17)
    found = set()
    for count in (None, 1, 2, 64):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        found.add(packed(("a", [content]), ("b", [b"x"])))
    assert len(found) == 1


@pytest.mark.parametrize("limit", [1, 50, 150])
def test_zip64_fields_are_written_where_a_number_is_too_large(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(archive, "_LIMIT", limit)
    members = {"small": b"x", "large": text(700), "last": b"y" * 60}
    data = packed(*((name, [content]) for name, content in members.items()))
    assert b"PK\x06\x06" in data
    assert unpacked(data) == members


def test_an_error_while_a_member_is_made_ends_all_threads() -> None:
    before = threading.active_count()

    def parts() -> Iterator[bytes]:
        yield text(1000)
        raise MemoryError

    with pytest.raises(MemoryError), Packer() as packer:
        packer.add("a", parts(), 5)
    assert threading.active_count() == before


def test_an_error_in_a_thread_is_raised_by_write() -> None:
    out = io.BytesIO()
    with Packer() as packer:
        packer.add("a", [b"x"], 99)  # no such level
        with pytest.raises(ValueError, match="Invalid"):
            packer.write(out)
    assert out.getvalue() == b""


def test_whoever_makes_pieces_faster_than_they_are_deflated_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archive, "PIECE", 64)
    monkeypatch.setattr(archive, "_MOST_WAITING", 3)
    monkeypatch.setattr(threading.Thread, "start", _refuse)
    waiting, content = [], text(64 * 40)

    def parts(packer: Packer) -> Iterator[bytes]:
        for start in range(0, len(content), 64):
            yield content[start : start + 64]
            waiting.append(packer._tasks.qsize())

    out = io.BytesIO()
    with Packer() as packer:
        packer.add("a", parts(packer), 5)
        packer.write(out)
    assert max(waiting) == 3
    assert unpacked(out.getvalue()) == {"a": content}


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_no_thread_can_be_started_the_caller_does_it_all(
    monkeypatch: pytest.MonkeyPatch, samples: Path, tmp_path: Path
) -> None:
    with_threads = snapreport.convert(samples / "training_step.pickle", tmp_path / "with.zip")

    monkeypatch.setattr(threading.Thread, "start", _refuse)
    without = snapreport.convert(samples / "training_step.pickle", tmp_path / "without.zip")
    assert without.read_bytes() == with_threads.read_bytes()


def test_ctrl_c_while_waiting_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Packer() as packer:
        packer.add("a", [text(1000)], 5)
        monkeypatch.setattr("zlib.crc32", interrupted)
        packer.add("b", [text(1000)], 5)
    assert threading.active_count() == before


def test_an_interrupt_while_threads_are_started_hangs_nothing(tmp_path: Path) -> None:
    program = tmp_path / "interrupted.py"
    program.write_text(
        "import threading\n"
        "from snapreport.bundle.archive import Packer\n"
        "start = threading.Thread.start\n"
        "def interrupt(thread):\n"
        "    start(thread)\n"
        "    raise KeyboardInterrupt\n"
        "threading.Thread.start = interrupt\n"
        "with Packer() as packer:\n"
        "    pass\n"
    )
    done = subprocess.run(
        [sys.executable, program],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.strip().endswith(b"KeyboardInterrupt")

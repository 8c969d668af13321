"""What the native library deflates is what any reader of deflate unpacks, whatever is marked."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.ground.native.library import Marked, deflated
from tests.thorough import tried

PLACES = 1 << 28


def inflate(block: bytes) -> bytes:
    """Return what a block unpacks to; it refers to nothing before it, and is not the last."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    found = unpacker.decompress(block)
    assert not unpacker.eof
    assert not unpacker.unused_data
    assert block.endswith(b"\0\0\xff\xff")
    return found


def marked(data: bytes, places: list[int], kinds: int = 1) -> Marked:
    marks = [place + i % kinds * PLACES for i, place in enumerate(places)]
    return Marked(data, np.array(marks, np.uint32))


PARTS = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([b"1234567,", b'"size":', b"\0" * 300])),
    min_size=1,
    max_size=80,
)


@tried(300)
@given(PARTS, st.integers(1, 16), st.data())
def test_any_data_with_any_marks_comes_back(
    parts: list[bytes], kinds: int, data: st.DataObject
) -> None:
    whole = b"".join(parts) + b"."
    fields = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    others = data.draw(st.sets(st.integers(0, len(whole) - 1), max_size=20))
    for places in (fields, [], others, [*range(len(whole))]):
        made = deflated(marked(whole, sorted(set(places)), kinds))
        assert inflate(made) == whole


def test_matches_reach_as_far_back_as_deflate_allows_and_no_farther() -> None:
    noise = random.Random(3).randbytes(1 << 15)
    for far in range(-3, 4):
        data = noise[:600] + noise[600 : (1 << 15) + far] + b"x" * max(far, 0) + noise[:600]
        made = deflated(marked(data, [0, 600, len(data) - 600]))
        assert inflate(made) == data
        reached = len(data) - 600 <= 1 << 15
        assert (len(made) < len(data)) == reached


@pytest.mark.parametrize("length", [1, 2, 4, 5, 257, 258, 259, 600, 1 << 20])
def test_runs_of_any_length_come_back(length: int) -> None:
    for data in (b"a" * length, b"ab" * length, bytes(length), b"a" * length + b"b"):
        assert inflate(deflated(marked(data, [*range(0, len(data), 97)]))) == data


def test_codes_are_no_longer_than_deflate_allows() -> None:
    # With Fibonacci's numbers as counts, each code would be a bit longer than the next.
    counts = [1, 1]
    while len(counts) < 26:
        counts.append(counts[-1] + counts[-2])
    data = b"".join(bytes([symbol]) * count for symbol, count in enumerate(counts))
    assert inflate(deflated(marked(data, []))) == data
    noise = random.Random(4).randbytes(1 << 16)
    made = deflated(marked(noise, []))
    assert inflate(made) == noise
    assert len(made) < len(noise) * 1.02


def test_fields_that_come_again_are_not_stored_again() -> None:
    rows = b"".join(b'{"elem":%d,"size":%d}' % (i, i % 7 * 1000) for i in range(5000))
    fields = [i for i in range(len(rows)) if rows[i : i + 1] in b"{,"]
    made = deflated(marked(rows, fields, 2))
    assert inflate(made) == rows
    assert len(made) < 1.1 * len(zlib.compress(rows, 5))


@pytest.mark.parametrize("places", [[3], [1, 1], [2, 1], [0, PLACES - 1]])
def test_marks_out_of_order_or_range_are_refused(places: list[int]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        deflated(marked(b"abc", places))

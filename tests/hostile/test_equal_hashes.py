"""Keys of equal hashes, which Python cannot tell apart without comparing: none come into a dict."""

from __future__ import annotations

import itertools
import os
import pickle
import struct
from collections.abc import Callable

import pytest

from snapreport.ground.errors import UnsafePickleError
from snapreport.read import read_bytes, unpickle
from tests.bombs import MODULUS, PROTO, integer, snapshot
from tests.builders import frame, trace
from tests.hostile.cost import assert_within

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")

AGAIN = 100_000


def as_keys(keys: list[bytes]) -> bytes:
    """Return the opcodes of a dict with these keys, the last of them again and again."""
    all_of_them = b"".join(key + b"\x94N" for key in keys)
    last = b"j" + struct.pack("<I", len(keys) - 1) + b"N"
    return PROTO + b"}(" + all_of_them + last * AGAIN + b"u."


def floats() -> list[bytes]:
    """Return 202 floats with one hash: it repeats when a bit is moved by 61 places."""
    bits = sum(1 << 9 * i for i in range(6)) | 1 << 54
    turned = [(bits << i | bits >> 61 - i) & MODULUS for i in range(61)]
    wanted = [float(n) * 2.0**e for n in turned if n < 2**53 for e in range(-1074, 918)]
    kept = [n for n in wanted if 0 < n < float("inf") and hash(n) == bits]
    return [b"G" + struct.pack(">d", n) for n in dict.fromkeys(kept)]


def tuples(*parts: bytes) -> bytes:
    """Return the opcodes of a dict whose keys are tuples of 15 of these parts."""
    keys = itertools.islice(itertools.product(parts, repeat=15), 20_000)
    return PROTO + b"}(" + b"".join(b"(" + b"".join(key) + b"tN" for key in keys) + b"u."


REFUSED: dict[str, Callable[[], bytes]] = {
    "tuples of 0 and nothing": lambda: tuples(b"K\x00", b"\x8c\x00"),
    "tuples of -1 and -2": lambda: tuples(integer(-1), integer(-2)),
    "integers of 9 bytes": lambda: as_keys([integer(MODULUS * i) for i in range(-1024, 1024)]),
    "floats": lambda: as_keys(floats()),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_keys_of_equal_hashes_are_refused_before_they_are_loaded(kind: str) -> None:
    data = REFUSED[kind]()
    assert_within(data, seconds=1, mib=50)
    with pytest.raises(UnsafePickleError, match="nothing was loaded"):
        read_bytes(data, "x")


def test_there_are_as_many_floats_of_one_hash_as_it_says() -> None:
    values = [struct.unpack(">d", each[1:])[0] for each in floats()]
    assert len(set(values)) > 150
    assert len(set(map(hash, values))) == 1


def pools() -> bytes:
    many = trace()
    for i in range(2000):
        number = MODULUS * (i % 8) + i
        many.alloc(f"a{i}", 512, pool_id=[number, MODULUS - number])
        many.event("oom", size=MODULUS * (i % 4))
    return pickle.dumps(many.snapshot(), 4)


def frames() -> bytes:
    many = [frame("f") | {"name": MODULUS * (i % 8), "filename": i << 40} for i in range(9000)]
    return pickle.dumps(trace().alloc("a", 4, frames=many).snapshot(), 4)


SLOW: dict[str, Callable[[], bytes]] = {
    "integers": lambda: as_keys([integer(MODULUS * i) for i in range(-4, 9)]),
    "integers whose lower half is 0": lambda: as_keys([integer(i << 31) for i in range(30_000)]),
    "pairs": lambda: as_keys(
        [b"J" + struct.pack("<i", -1 - i % 2) + b"K%c\x86" % (i % 256) for i in range(512)]
    ),
    "pools": pools,
    "frames": frames,
    "empty": snapshot,
}
"""What is taken, by the numbers in it that have one hash, or begin alike."""


@pytest.mark.parametrize("way", ["columns", "objects"])
@pytest.mark.parametrize("kind", SLOW)
def test_what_may_be_a_key_has_few_of_one_hash(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "objects":
        monkeypatch.setattr(unpickle, "parse", lambda *_: None)
    assert_within(SLOW[kind](), seconds=2, mib=60)

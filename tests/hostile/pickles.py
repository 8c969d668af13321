"""Hostile snapshots: bent, cut off, and made by hand to take long or to run something."""

from __future__ import annotations

import gzip
import pickle
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unittest import mock

import orjson

import snapreport
from snapreport.read import unpickle
from tests import bombs
from tests.corpus import corpus_files
from tests.hostile.families import Family, Inputs, run_family

MUTATED = 10_000
"""How many bent snapshots are tried, all in all."""

LARGEST = 700_000
"""Bytes of the largest real snapshot that is bent: thousands of larger ones would take hours."""

TELLING = b"\x8a\x8b\x8c\x8d\x95Xrjqh(\x85\x86t}]ues.\x94c\x93R\x81"


def attempt(source: Path, output: Path) -> None:
    """Convert a snapshot, and draw all conclusions from the bundle."""
    bundle = output.with_suffix(".zip")
    try:
        snapreport.convert(source, bundle)
        snapreport.load(bundle).findings()
    finally:
        bundle.unlink(missing_ok=True)


def real_snapshots() -> list[bytes]:
    """Return the samples, and the real ones where there are some."""
    samples = sorted(Path(__file__).parents[2].joinpath("sample_snapshots").glob("*.pickle"))
    found = [path.read_bytes() for path in [*samples, *corpus_files()]]
    return [data for data in found if len(data) < LARGEST]


def small() -> bytes:
    """Return a small snapshot with something of everything."""
    return pickle.dumps(bombs.sample(), 4)


def bent(data: bytes, rng: random.Random) -> bytes:
    """Return data with some bytes changed, removed, repeated or brought from elsewhere."""
    copy = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 30))):
        place, length = rng.randrange(len(copy)), rng.choice((1, 2, 4, 9, 200))
        kind = rng.random()
        if kind < 0.4:
            copy[place] = rng.choice([rng.randrange(256), *TELLING])
        elif kind < 0.55:
            copy[place] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            del copy[place : place + length]
        else:
            other = rng.randrange(len(copy))
            copy[place : place + (length if kind < 0.85 else 0)] = copy[other : other + length]
        if not copy:
            return b"\x80"
    return bytes(copy)


def mutated(seed: int, count: int) -> Inputs:
    """Return what makes bent snapshots: small ones more often, so that all come to something."""

    def make() -> Iterator[tuple[str, bytes]]:
        rng = random.Random(seed)
        originals = real_snapshots()
        weights = [1 / len(data) ** 0.5 for data in originals]
        for number in range(count):
            data = bent(rng.choices(originals, weights)[0], rng)
            kind = rng.random()
            if kind < 0.05:
                data = bent(gzip.compress(data, 1), rng)
            yield f"bent {seed}/{number}", data

    return make


def mutated_json(seed: int, count: int) -> Inputs:
    """Return what makes bent snapshots of JSON."""

    def make() -> Iterator[tuple[str, bytes]]:
        rng = random.Random(seed)
        data = orjson.dumps(pickle.loads(small()))
        for number in range(count):
            yield f"bent JSON {seed}/{number}", bent(data, rng)

    return make


def truncated(data: bytes) -> Inputs:
    """Return what cuts a file off at every byte."""
    return lambda: ((f"first {n} bytes", data[:n]) for n in range(len(data)))


def families(share: float) -> Iterator[Family]:
    """Try all of it, and some as files that are read in the general way."""

    def some(number: int) -> int:
        return max(1, round(number * share))

    def made(make: Callable[[int], Iterable[tuple[str, bytes]]], scale: int = 1) -> Inputs:
        return lambda: make(scale)

    attempt_warm()
    data = small()
    yield run_family("snapshots bent", mutated(1, some(MUTATED * 8 // 10)), attempt, ".pickle")
    yield run_family("JSON bent", mutated_json(3, some(1000)), attempt, ".json")
    yield run_family("pickle cut off at every byte", truncated(data), attempt, ".pickle")
    packed = gzip.compress(data)
    yield run_family("gzip cut off at every byte", truncated(packed), attempt, ".gz")
    text = orjson.dumps(pickle.loads(data))
    yield run_family("JSON cut off at every byte", truncated(text), attempt, ".json")
    yield run_family("wrong value in each field", bombs.fields, attempt, ".pickle")
    yield run_family("pickles made to be slow or large", made(bombs.pickles), attempt, ".pickle")
    yield run_family("the same, 4 times as large", made(bombs.pickles, 4), attempt, ".pickle")
    yield run_family("JSON made to be slow or large", made(bombs.jsons), attempt, ".json")
    yield run_family("gzip and zstd made to be large", made(bombs.packed), attempt, ".packed")
    yield run_family("pickles that run something", bombs.running, attempt, ".pickle")
    with mock.patch.object(unpickle, "parse", return_value=None):  # in what is forked meanwhile
        yield run_family(
            "snapshots bent, read generally",
            mutated(2, some(MUTATED * 2 // 10)),
            attempt,
            ".pickle",
        )
        yield run_family(
            "pickles made to be slow, read generally", made(bombs.pickles), attempt, ".pickle"
        )


def attempt_warm() -> None:
    """Import and open all that an attempt needs, so that no child has to."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "warm.pickle")
        for data in (small(), gzip.compress(small()), *real_snapshots()[:3]):
            source.write_bytes(data)
            attempt(source, Path(folder, "output"))

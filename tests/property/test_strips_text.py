"""What was compiled from strips.c writes the strips that the Python code does, part by part."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snapreport
from simulator import Simulator
from snapreport.bundle import cut_strips, strips, strips_text, write_bundle
from snapreport.model.cut import Drawn
from snapreport.model.history import START, DeviceHistory, History
from tests.corpus import corpus_files
from tests.laid_strips import device_of, drawn_rows
from tests.property.examples import tried
from tests.property.simulated import device_files, for_simulations

COMPILED = strips_text._library()
pytestmark = pytest.mark.skipif(COMPILED is None, reason="strips.c was not compiled")
SIZES = st.one_of(st.integers(0, 5), st.integers(0, 1 << 40), st.sampled_from([0, 1 << 62]))
SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
ENDINGS = {".pickle", ".gz", ".zst", ".json"}
FILES = [*(p for p in sorted(SAMPLES.iterdir()) if p.suffix in ENDINGS), *corpus_files()]

checked = tried(200)


@st.composite
def devices(draw: st.DrawFn) -> DeviceHistory:
    """Any device whose rows are in order: with a baseline, freed at once or never, or empty."""
    events = draw(st.one_of(st.just(0), st.integers(1, 6), st.integers(1, 80)))
    born = sorted(draw(st.lists(st.integers(START, events - 1), max_size=40)))
    rows = []
    for step in born:
        freed = draw(st.one_of(st.just(events), st.integers(step + 1, events)))
        rows.append((step, freed, draw(SIZES)))
    return device_of(rows, events)


def parts(
    device: DeviceHistory, first_id: int = 0, drawn: Drawn | None = None, columns: int | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Return the parts of the text as the library makes them, and as Python does."""

    def made() -> list[bytes]:
        return list(strips_text.strips_text(device, first_id, drawn, columns))

    steps = strips.sampled_steps(device, columns)
    assert strips_text._begin(device, first_id, drawn, steps) is not None
    compiled = made()
    with mock.patch.object(strips_text, "_library", return_value=None):
        return compiled, made()


@checked
@given(devices(), st.one_of(st.none(), st.integers(1, 90)), st.integers(0, 1 << 62))
def test_the_text_is_that_of_python(
    device: DeviceHistory, columns: int | None, first_id: int
) -> None:
    compiled, python = parts(device, first_id, columns=columns)
    assert compiled == python
    rows = orjson.loads(b"".join(compiled))
    assert [row["elem"] for row in rows] == [first_id + i for i in range(len(rows))]
    assert [row["size"] for row in rows] == device.allocations.size.tolist()


@checked
@given(devices(), st.data(), st.integers(1, 90))
def test_the_text_of_a_cut_is_that_of_python(
    device: DeviceHistory, data: st.DataObject, columns: int
) -> None:
    n = len(device.allocations)
    rows = sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else []
    for chosen in (rows, [], list(range(n))):
        compiled, python = parts(device, 7, drawn_rows(device, chosen), columns)
        assert compiled == python
        assert len(orjson.loads(b"".join(compiled))) >= n


@checked
@given(devices(), st.data())
def test_parts_of_any_size_are_those_of_python(device: DeviceHistory, data: st.DataObject) -> None:
    points = data.draw(st.integers(1, 60))
    many = data.draw(st.integers(1, 9))
    n = len(device.allocations)
    drawn = drawn_rows(device, sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else [])
    with (
        mock.patch.object(strips, "POINTS_AT_ONCE", points),
        mock.patch.object(strips_text, "POINTS_AT_ONCE", points),
        mock.patch.object(cut_strips, "ROWS_AT_ONCE", many),
        mock.patch.object(strips_text, "ROWS_AT_ONCE", many),
    ):
        for cut in (None, drawn):
            compiled, python = parts(device, drawn=cut)
            assert compiled == python


@for_simulations(120)
def test_simulated_recordings_have_the_text_of_python(simulation: Simulator) -> None:
    for _, device in device_files(simulation):
        for columns in (None, 1, 3, 20):
            compiled, python = parts(device, columns=columns)
            assert compiled == python


def test_many_rows_and_long_paths_have_the_text_of_python() -> None:
    random = np.random.default_rng(5)
    for n, events, columns in ((9000, 20_000, None), (3000, 9000, 1 << 30), (5000, 1 << 20, 384)):
        born = np.sort(random.integers(START, events, n))
        freed = np.minimum(born + 1 + random.integers(0, events // 3, n), events)
        rows = np.stack((born, freed, random.integers(0, 1 << 50, n)), axis=1)
        compiled, python = parts(device_of(rows.tolist(), events), 10**6, columns=columns)
        assert len(compiled) > 2
        assert compiled == python


def test_rows_that_fill_a_part_of_a_cut_are_an_array() -> None:
    device = device_of([(START, 3, 8)] * 4, 3)
    with (
        mock.patch.object(cut_strips, "ROWS_AT_ONCE", 2),
        mock.patch.object(strips_text, "ROWS_AT_ONCE", 2),
    ):
        for text in parts(device, drawn=drawn_rows(device, [0, 1, 2, 3])):
            assert len(orjson.loads(b"".join(text))) == 4


def outcome(device: DeviceHistory) -> bytes | type[Exception]:
    try:
        return b"".join(strips_text.strips_text(device, columns=3))
    except (ValueError, IndexError, OverflowError) as error:
        return type(error)


ANY = st.one_of(st.integers(-3, 12), st.sampled_from([-(2**63), 2**63 - 1, 1 << 40]))


@checked
@given(st.lists(st.tuples(ANY, ANY, ANY), max_size=12), st.integers(0, 10))
def test_what_is_not_in_order_is_left_to_python(
    rows: list[tuple[int, int, int]], events: int
) -> None:
    device = device_of(rows, events)
    found = outcome(device)
    with mock.patch.object(strips_text, "_library", return_value=None):
        assert outcome(device) == found


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        ([(0, 1, 8), (-1, 1, 8)], [3]),
        ([(0, 0, 8)], [3]),
        ([(-2, 1, 8)], [3]),
        ([(4, 5, 8)], [3]),
        ([(0, 1, 8)], [2, 1, 3]),
        ([(0, 1, 8)], [1, 1, 3]),
        ([(0, 1, 8)], [-1, 3]),
        ([(0, 1, 8)], [1, 4]),
    ],
)
def test_the_library_refuses_what_is_not_in_order(
    rows: list[tuple[int, int, int]], steps: list[int]
) -> None:
    at = np.array(steps, np.int64)
    assert strips_text._begin(device_of(rows, 4), 0, None, at) is None
    assert strips_text._begin(device_of([(0, 1, 8)], 4), 0, None, np.array([3])) is not None


def test_the_library_refuses_what_it_has_no_room_for() -> None:
    assert COMPILED is not None
    device = device_of([(0, 1, 8)], 4)
    for change in ("room_points", "room_text", "n_steps"):
        compiled = strips_text._begin(device, 0, None, np.arange(4))
        assert compiled is not None
        fields = compiled.fields
        setattr(fields, change, 0 if change == "n_steps" else getattr(fields, change) - 1)
        assert not COMPILED.snapreport_strips_begin(ctypes.byref(fields)), change
    assert strips_text._begin(device, 2**63 - 1, None, np.arange(4)) is None
    assert strips_text._begin(device, -1, None, np.arange(4)) is None
    assert strips_text._begin(replace(device, events=-1), 0, None, np.arange(4)) is None


def bundles(history: History) -> Iterator[bytes]:
    """Make bundles of a history: whole, and cut to every second allocation."""
    cut = [
        drawn_rows(device, range(0, len(device.allocations), 2))
        for device in history.devices
        if device.events * len(device.allocations) < 1 << 22
    ]
    for drawn in (None, cut) if len(cut) == len(history.devices) else (None,):
        out = io.BytesIO()
        write_bundle(history, out, drawn=drawn)
        yield out.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_bundles_are_the_same_to_the_byte_either_way(path: Path) -> None:
    history = snapreport.load(path).history
    compiled = list(bundles(history))
    with mock.patch.object(strips_text, "_library", return_value=None):
        assert list(bundles(history)) == compiled

"""The native library writes the strips that the plain code of the tests does, part by part."""

from __future__ import annotations

from unittest import mock

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.bundle import strips
from snapreport.ground.native import library
from snapreport.ground.native.library import StripRows, deflated
from snapreport.model.history import START, DeviceHistory, Drawn
from tests.laid_strips import device_of, drawn_rows
from tests.property.simulated import Simulated, device_files, for_simulations
from tests.property.test_deflating import inflate
from tests.reference import strips as reference
from tests.thorough import tried

SIZES = st.one_of(st.integers(0, 5), st.integers(0, 1 << 40), st.sampled_from([0, 1 << 62]))

checked = tried(200)


@st.composite
def devices(draw: st.DrawFn) -> DeviceHistory:
    """Any device whose rows are in order: with a baseline, freed at once or never, or empty."""
    events = draw(st.one_of(st.just(0), st.integers(1, 6), st.integers(1, 80)))
    born = sorted(draw(st.lists(st.integers(START, events - 1), max_size=40)))
    rows = []
    for event in born:
        freed = draw(st.one_of(st.just(events), st.integers(event + 1, events)))
        rows.append((event, freed, draw(SIZES)))
    return device_of(rows, events)


def parts(
    device: DeviceHistory, first_id: int = 0, drawn: Drawn | None = None, columns: int | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Return the parts of the text as the library makes them, and as they are to be."""
    made = list(strips.strips_text(device, first_id, drawn, columns))
    for part in made:
        assert inflate(deflated(part)) == part.data
    most = strips.POINTS_AT_ONCE
    expected = reference.strips_text(device, first_id, drawn, columns, most)
    return [part.data for part in made], expected


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
    n = len(device.allocations)
    drawn = drawn_rows(device, sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else [])
    with mock.patch.object(strips, "POINTS_AT_ONCE", points):
        for cut in (None, drawn):
            compiled, python = parts(device, drawn=cut)
            assert compiled == python


@for_simulations(120)
def test_simulated_recordings_have_the_text_of_python(simulation: Simulated) -> None:
    for _, device in device_files(simulation):
        for columns in (None, 1, 3, 20):
            compiled, python = parts(device, columns=columns)
            assert compiled == python


def test_many_rows_and_long_paths_have_the_text_of_python() -> None:
    random = np.random.default_rng(5)
    for n, events, columns in ((900, 5000, None), (300, 900, 1 << 30), (500, 1 << 20, 384)):
        born = np.sort(random.integers(START, events, n))
        freed = np.minimum(born + 1 + random.integers(0, events // 3, n), events)
        rows = np.stack((born, freed, random.integers(0, 1 << 50, n)), axis=1)
        compiled, python = parts(device_of(rows.tolist(), events), 10**6, columns=columns)
        assert len(b"".join(compiled)) > 1 << 16
        assert compiled == python


ANY = st.one_of(st.integers(-3, 12), st.sampled_from([-(2**63), 2**63 - 1, 1 << 40]))


@checked
@given(st.lists(st.tuples(ANY, ANY, ANY), max_size=12), st.integers(0, 10))
def test_what_is_not_in_order_is_refused(rows: list[tuple[int, int, int]], events: int) -> None:
    births = [born for born, _, _ in rows]
    fine = births == sorted(births) and all(
        START <= born < events and freed > born for born, freed, _ in rows
    )
    samples = [*range(max(events, 1))]
    if fine:
        text = b"".join(part.data for part in begin(rows, samples, events=events).up_to(99))
        assert len(orjson.loads((text or b"[") + b"]")) == len(rows)
    else:
        with pytest.raises(ValueError, match="not in order"):
            begin(rows, samples, events=events)


def begin(
    rows: list[tuple[int, int, int]], samples: list[int], first_id: int = 0, events: int = 4
) -> StripRows:
    column = device_of(rows, events).allocations
    columns = column.alloc_event, column.free_event, column.size
    return StripRows(columns, None, np.array(samples, np.int64), events, first_id, 1)


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        ([(0, 1, 8), (-1, 1, 8)], [3]),
        ([(0, 0, 8)], [3]),
        ([(-2, 1, 8)], [3]),
        ([(4, 5, 8)], [3]),
        ([(0, 1, 8)], [2, 1, 3]),
        ([(0, 1, 8)], [1, 1, 3]),
        ([(0, 1, 8)], [-1, 3]),
        ([(0, 1, 8)], [1, 4]),
        ([(0, 1, 8)], []),
    ],
)
def test_rows_and_events_that_are_not_in_order_are_refused(
    rows: list[tuple[int, int, int]], events: list[int]
) -> None:
    with pytest.raises(ValueError, match="not in order"):
        begin(rows, events)
    begin([(0, 1, 8)], [3])


@pytest.mark.parametrize("first_id", [2**63 - 1, -1])
def test_ids_beyond_64_bits_are_refused(first_id: int) -> None:
    with pytest.raises(ValueError, match="not in order"):
        begin([(0, 1, 8)], [3], first_id)


@pytest.mark.parametrize("change", ["room_points", "room_text", "room_marks"])
def test_the_library_refuses_what_it_has_no_room_for(change: str) -> None:
    made = library.Strips

    def narrow(**fields: int) -> library.Strips:
        return made(**{**fields, change: fields[change] - 1})

    with (
        mock.patch.object(library, "Strips", narrow),
        pytest.raises(ValueError, match="not in order"),
    ):
        begin([(0, 1, 8)], [0, 1, 2, 3])

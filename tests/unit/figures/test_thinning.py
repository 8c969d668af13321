"""What users say of cuts, and what small ones leave, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from snapreport.diagnosis.conclude import find
from snapreport.figures.thinning import Cutter, Thinning
from snapreport.ground.errors import CutError
from snapreport.model.asked import (
    NO_CUT,
    Bound,
    Cut,
    cut_from_plain,
    cut_size,
    make_cut,
    parse_bound,
)
from snapreport.model.findings import Findings
from tests.builders import KIB, MIB, trace


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("0", Bound(0)),
        (1200, Bound(1200)),
        ("1,200", Bound(1200)),
        ("1.5s", Bound(None, 1_500_000)),
        ("200ms", Bound(None, 200_000)),
        ("200 ms", Bound(None, 200_000)),
        ("7us", Bound(None, 7)),
        ("7µs", Bound(None, 7)),
        (".5ms", Bound(None, 500)),
        ("2min", Bound(None, 120_000_000)),
    ],
)
def test_a_bound_is_a_event_or_a_time(text: int | str, bound: Bound) -> None:
    assert parse_bound(text) == bound


@pytest.mark.parametrize("text", ["", "-1", "peak", "1.5", "1.5 days", "s", "1e3", "1" * 30])
def test_anything_else_is_no_bound(text: str) -> None:
    with pytest.raises(CutError, match=r"neither an event nor a time; write 1200, 1\.5s or 200ms"):
        parse_bound(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("25MB", 25_000_000), ("25MiB", 25 * MIB), ("1234", 1234), (77, 77), ("1.5k", 1536)],
)
def test_a_size_has_a_unit_or_is_in_bytes(text: int | str, size: int) -> None:
    assert cut_size(text) == size


@pytest.mark.parametrize("text", ["", "large", "-5", -5, "25 apples"])
def test_anything_else_is_no_size(text: int | str) -> None:
    with pytest.raises(CutError, match="not a size; write 40GiB, 40GB or a number of bytes"):
        cut_size(text)


def test_a_cut_survives_being_stored() -> None:
    for cut in (NO_CUT, Cut(Bound(3), Bound(None, 9), 7), Cut(last=Bound(0))):
        assert cut_from_plain(cut.as_plain()) == cut
    assert cut_from_plain(None) is None
    for other in ("x", "12", [1], [1, 2], [None, None], [-1, None], [None, 2**63], [1.5, None], 3):
        with pytest.raises((KeyError, TypeError, ValueError)):
            cut_from_plain({"first": other, "last": None, "min_size": 0})
    for size in (None, "7", 7.0, -1, 2**63, True):
        with pytest.raises(ValueError, match="not understood"):
            cut_from_plain({"first": None, "last": None, "min_size": size})


def test_nothing_said_is_no_cut_and_size_zero_is_a_cut_of_nothing() -> None:
    assert make_cut() is None
    everything = make_cut(min_size=0)
    assert everything == NO_CUT
    assert everything.nothing


def small() -> Findings:
    """Events 0 to 7: a large one throughout, a small one, and one that waits for its free."""
    return find(
        trace()
        .alloc("large", 8 * MIB)  # 0
        .alloc("small", KIB)  # 1
        .request("small")  # 2
        .complete("small")  # 3
        .alloc("middle", 2 * MIB)  # 4
        .request("middle")  # 5
        .alloc("other", 512)  # 6
        .complete("middle")  # 7
        .file()
    )


def rest_of(findings: Findings, cut: Cut | None) -> list[list[int]]:
    rest = Cutter(findings.devices, cut).drawn()[0].rest
    return [
        column.tolist()
        for column in (rest.event, rest.requested, rest.count_allocated, rest.count_requested)
    ]


def test_what_is_too_small_is_summed_up_where_it_lives() -> None:
    found = small()
    drawn = Cutter(found.devices, Cut(min_size=MIB)).drawn()[0]
    assert drawn.rows.tolist() == [0, 2]
    assert rest_of(found, Cut(min_size=MIB)) == [
        [-1, 1, 2, 3, 6],
        [0, KIB, KIB, 0, 512],
        [0, 1, 0, 0, 1],
        [0, 1, 1, 0, 1],
    ]
    assert (drawn.left_out, drawn.left_out_requested) == (2, KIB + 512)
    assert drawn.error == 0


def test_a_window_keeps_what_lives_in_it_and_the_free_at_its_edge() -> None:
    found = small()

    def kept(first: int | None, last: int | None) -> list[int]:
        cut = Cut(None if first is None else Bound(first), None if last is None else Bound(last))
        rows: list[int] = Cutter(found.devices, cut).drawn()[0].rows.tolist()
        return rows

    assert kept(None, None) == [0, 1, 2, 3]
    assert kept(None, 0) == [0]
    assert kept(3, 3) == [0, 1]  # its free_completed is event 3
    assert kept(4, 5) == [0, 2]
    assert kept(7, None) == [0, 2, 3]
    assert kept(2, 10_000) == [0, 1, 2, 3]


def test_a_time_is_the_first_event_from_it_on_or_the_last_up_to_it() -> None:
    found = small()  # an event each 10 µs

    def window(first: int, last: int) -> tuple[int, int] | None:
        cut = Cut(Bound(None, first), Bound(None, last))
        return Cutter(found.devices, cut).drawn()[0].window

    assert window(10, 30) == (1, 3)
    assert window(11, 39) == (2, 3)
    assert window(0, 0) == (0, 0)


def test_cuts_that_leave_no_picture_are_refused() -> None:
    found = small()
    with pytest.raises(CutError, match="behind the end of the recording, which has 8 events"):
        Cutter(found.devices, Cut(first=Bound(8)))
    with pytest.raises(CutError, match="--to is before --from"):
        Cutter(found.devices, Cut(Bound(5), Bound(4)))


def test_without_times_only_events_can_be_named() -> None:
    found = find(trace().event("alloc", addr=1 << 20, size=4, time_us=None)
                 .event("alloc", addr=1 << 21, size=4, time_us=None).file())  # fmt: skip
    with pytest.raises(CutError, match="has no times; name an event instead"):
        Cutter(found.devices, Cut(first=Bound(None, 5)))
    assert Cutter(found.devices, Cut(first=Bound(1))).drawn()[0].window == (1, 1)


def test_the_sum_in_a_column_is_its_least() -> None:
    found = small()
    cutter = Cutter(found.devices, Cut(min_size=4 * MIB))
    drawn = cutter.drawn(Thinning(True, 0, 1))[0]
    # Events 4 (allocated and active) and 6 (requested stays below) are peaks; 7 is the end.
    curve = np.array([0, 0, KIB, KIB, 0, 2 * MIB, 2 * MIB, 2 * MIB + 512, 512])
    held = np.repeat(drawn.rest.requested, np.diff(np.append(drawn.rest.event + 1, len(curve))))
    assert (held <= curve).all()
    assert drawn.error >= int((curve - held).max())
    for device in found.devices:
        for peak in device.peaks.values():
            assert held[peak.event + 1] == curve[peak.event + 1]

"""What is cut from a picture changes no total: strips and the sum of the rest are the curves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import snapreport
from snapreport.api.making import save_report
from snapreport.bundle import strips
from snapreport.figures.thinning import REST_COLUMNS, Cutter, Thinning
from snapreport.model.asked import (
    NO_CUT,
    Bound,
    Cut,
)
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.model.history import (
    Drawn,
    Picture,
)
from snapreport.model.snapshot import NO_TIME
from snapreport.reporters.json_report import findings_as_json
from snapreport.reporters.page_report import write_report
from snapreport.reporters.payload import pack
from tests.corpus import corpus_files, findings_of, loaded
from tests.laid_strips import rows_of
from tests.payloads import Unpacked, drawn_curves
from tests.property.simulated import Simulated, for_simulations
from tests.thorough import small, some

_SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
_ENDINGS = {".pickle", ".gz", ".zst", ".json"}
FILES = [
    *(path for path in sorted(_SAMPLES.iterdir()) if path.suffix in _ENDINGS),
    *small(corpus_files()),
]


def cuts_of(findings: Findings) -> Iterator[Cut]:
    """Some cuts that leave out something of a file: by size, by events, by time, and all of it."""
    sizes = np.concatenate([device.history.allocations.size for device in findings.devices])
    events = max(device.history.events for device in findings.devices)
    middle = Cut(Bound(events // 4), Bound(3 * events // 4))
    yield middle
    if any((device.times != NO_TIME).any() for device in findings.devices):
        yield Cut(None, Bound(None, 40))
    yield Cut(min_size=1 << 62)
    if len(sizes):
        yield Cut(min_size=int(np.median(sizes)) + 1)
        yield replace(middle, min_size=int(sizes.max()))


def thinnings(cutter: Cutter) -> Iterator[Thinning]:
    yield Thinning()
    for columns in (None, REST_COLUMNS[-1], 7, 1):  # more than a simulation's events are all
        for count in {cutter.spare // 2, cutter.spare}:
            yield Thinning(True, count, columns)


def drawn_with(findings: Findings, cutter: Cutter, thinning: Thinning) -> Findings:
    return replace(findings, picture=Picture(cutter.cut, None, cutter.drawn(thinning)))


def exact_events(device: DeviceFindings) -> set[int]:
    """Where a picture is exact, however thin."""
    events = {-1, device.history.events - 1, device.peak.event}
    events |= {peak.event for peak in device.peaks.values()} | {oom.event for oom in device.ooms}
    for stage in device.stages:
        events |= {stage.start_event - 1, stage.start_event, stage.end_event - 1}
        events |= set() if stage.peak_event is None else {stage.peak_event}
    return {event for event in events if -1 <= event < device.history.events}


def check_curves(findings: Findings, drawn: Findings) -> None:
    """Check that a page of these would show the curves, or be as far off as it says."""
    payload = Unpacked(pack(drawn, {}))
    assert drawn.picture is not None
    for index, (device, part) in enumerate(
        zip(findings.devices, drawn.picture.devices, strict=True)
    ):
        off = 0
        for name, shown in drawn_curves(payload, index).items():
            curve = device.curves[name]
            assert len(curve) == len(shown)
            low = curve - shown
            assert low.min() >= 0  # never above the truth
            off = max(off, int(low.max()))
            assert [int(low[event + 1]) for event in exact_events(device)] == [0] * len(
                exact_events(device)
            )
            # So the page finds each peak where it is.
            assert (int(shown.argmax()), int(shown.max())) == (
                int(curve.argmax()),
                int(curve.max()),
            )
        assert off == part.error


def check_counts(device: DeviceFindings, part: Drawn) -> None:
    rows = device.history.allocations
    out = np.ones(len(rows), np.bool_)
    out[part.rows] = False
    assert part.left_out == int(out.sum()) == len(rows) - len(part.rows)
    assert part.left_out_bytes == int(rows.block_size[out].sum())
    event = device.peak.event
    live = out & rows.live_at(event)
    assert part.left_out_at_peak == int(rows.block_size[live].sum())


@for_simulations(40)
def test_strips_and_rest_are_the_curves_of_any_trace(simulation: Simulated) -> None:
    findings = simulation.findings
    for cut in (NO_CUT, *cuts_of(findings)):
        cutter = Cutter(findings.devices, cut)
        for thinning in thinnings(cutter):
            drawn = drawn_with(findings, cutter, thinning)
            assert drawn.picture is not None
            check_curves(findings, drawn)
            for device, part in zip(findings.devices, drawn.picture.devices, strict=True):
                check_counts(device, part)
                if thinning.columns is None:
                    assert part.error == 0


@for_simulations(40)
def test_thinning_takes_nothing_that_is_live_at_a_peak(simulation: Simulated) -> None:
    findings = simulation.findings
    cutter = Cutter(findings.devices, None)
    most = cutter.drawn(Thinning(True, cutter.spare, 1))
    for device, part in zip(findings.devices, most, strict=True):
        rows = device.history.allocations
        events = {device.peak.event} | {peak.event for peak in device.peaks.values()}
        events |= {oom.event for oom in device.ooms}
        events |= {stage.peak_event for stage in device.stages if stage.peak_event is not None}
        for event in events:
            live = np.flatnonzero((rows.alloc_event <= event) & (event < rows.free_event))
            assert set(live.tolist()) <= set(part.rows.tolist())


@for_simulations(25)
def test_the_smallest_and_shortest_lived_go_first(simulation: Simulated) -> None:
    findings = simulation.findings
    cutter = Cutter(findings.devices, None)
    area = [
        (device.history.allocations.free_event - device.history.allocations.alloc_event)
        * device.history.allocations.block_size
        for device in findings.devices
    ]
    gone: list[set[int]] = [set() for _ in findings.devices]
    latest = -1
    for count in range(1, min(cutter.spare, 40) + 1):
        parts = cutter.drawn(Thinning(True, count))
        now = [set(range(len(area[i]))) - set(part.rows.tolist()) for i, part in enumerate(parts)]
        new = [(i, row) for i, each in enumerate(now) for row in each - gone[i]]
        assert len(new) == 1
        (device, row) = new[0]
        assert area[device][row] >= latest
        latest, gone = int(area[device][row]), now


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_figure_of_a_file_changes_with_a_cut(path: Path) -> None:
    findings = findings_of(path)
    if not findings.devices:
        return
    whole = findings_as_json(findings)
    for cut in cuts_of(findings):
        cutter = Cutter(findings.devices, cut)
        for thinning in (Thinning(), Thinning(True, cutter.spare, REST_COLUMNS[-1])):
            drawn = drawn_with(findings, cutter, thinning)
            check_curves(findings, drawn)
            cut_json = findings_as_json(drawn)
            for device in cut_json["devices"]:
                assert device.pop("cut")["not_drawn"] >= 0
            assert cut_json == whole


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_page_is_no_larger_than_asked(path: Path, tmp_path: Path) -> None:
    findings = loaded(path).findings(allocator=False)  # as render() asks
    out = io.BytesIO()
    write_report(findings, out)
    whole = len(out.getvalue())
    fits, least = 0, None
    for share in some((1.0, 0.97, 0.9, 0.8, 0.5), 3):
        most = int(whole * share)
        target = tmp_path / f"{share}.html"
        try:
            save_report(findings, target, "html", fit=most)
        except snapreport.CutError as error:
            assert not target.exists()
            least = int(str(error).rsplit(" ", 1)[1].rstrip("."))
            continue
        fits += 1
        assert target.stat().st_size <= most
        assert (target.read_bytes() == out.getvalue()) == (share == 1.0)
        summary = summary_of(target)
        assert all(device.pop("cut")["fit"] == most for device in summary["devices"]) or (
            share == 1.0
        )
    assert fits >= 1
    if least is not None:  # what the error says will do, does; also from the beginning
        snapreport.render(path, tmp_path / "least.html", fit=least)
        assert (tmp_path / "least.html").stat().st_size <= least


def summary_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = text.split('id="summary">')[1].split("</script>")[0]
    summary: dict[str, Any] = orjson.loads(found)
    for device in summary["devices"]:
        device.setdefault("cut", {"fit": None})
    return summary


@pytest.mark.parametrize("columns", [2, 20, 1 << 30])
def test_strips_of_a_bundle_and_their_rest_are_the_requested_curve(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "EXACT_UP_TO", columns)
    monkeypatch.setattr(strips, "COLUMNS", min(columns, strips.COLUMNS))

    @for_simulations(40)
    def check(simulation: Simulated) -> None:
        findings = simulation.findings
        for cut in cuts_of(findings):
            for device, part in zip(
                findings.devices, Cutter(findings.devices, cut).drawn(), strict=True
            ):
                history = device.history
                events = strips.sampled_events(history)
                laid = [
                    (row["size"], np.array(row["timesteps"]), row["offsets"])
                    for row in rows_of(history, drawn=part)
                ]
                drawn = set(part.rows.tolist())
                n = len(history.allocations)
                sizes = history.allocations.size.tolist()
                assert [size for size, _, _ in laid[:n]] == [
                    size if row in drawn else 0 for row, size in enumerate(sizes)
                ]
                for event in events.tolist():
                    top = 0
                    for size, at, offsets in laid:
                        if size and at[0] <= event < at[-1]:
                            last = np.flatnonzero(at <= event)[-1]  # of two there, the later one
                            assert offsets[last] == top
                            top += size
                    assert top == device.curves["requested"][event + 1]

    check()

"""Every real snapshot file: it loads, closes, converts and renders, or says why it does not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import snapreport
from snapreport.api.making import save_bundle, save_report
from snapreport.figures.curves import find_fragmentation
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import DeviceHistory
from tests.builders import assert_same_history
from tests.corpus import corpus_files, every_corpus_file, findings_of, loaded, representative
from tests.golden.conftest import Make

SOUND = [
    "bare_segments_list.pkl",
    "compiled_2.7b_forward.pickle",
    "compiled_lone_end.pickle",
    "medium_512_training.pickle",
    "mem_snapshot.pickle",
    "memory_ctx128_forward_.pickle",
    "memory_forward_bf16_128.pickle",
    "no_times_torch21.pickle",
    "nothing_allocated_four_devices.pickle",
    "one_event_ring.pickle",
    "oom_snapshot_torch20.pickle",
    "private_pools_eight_devices.pickle",
    "sgd_annotated.pickle",
    "snapshot_event_inside.pickle",
    "three_gpus_expandable_oom.pickle",
    "windows_unaligned.pickle",
]
"""Looked through and found to have nothing odd; of any other file only the laws are asked."""
COMMENT_LIMIT = 65_536
"""Characters that GitHub takes in an issue comment."""


@every_corpus_file
def test_the_closing_law_holds_or_its_breach_is_said(path: Path) -> None:
    for device in findings_of(path).devices:
        if len(device.history.segments):
            assert device.closing is not None
            assert device.closing.closes == ("does-not-close" not in codes_of(device))
        else:
            assert device.closing is None
            assert not len(device.history.allocations)


@every_corpus_file
def test_what_is_odd_in_a_recording_is_said(path: Path) -> None:
    for device in findings_of(path).devices:
        odd = bool(device.history.anomalies)
        assert odd == ("odd-events" in codes_of(device))
        if not odd:
            assert_final_blocks_have_allocations(device.history)


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_odd_in_these_files(corpus: Path, name: str) -> None:
    snapshot = loaded(corpus / name)
    assert snapshot.history.oddities.keys() <= {"annotation that cannot be placed"}
    for device in snapshot.findings().devices:
        assert device.history.anomalies == {}
        assert not codes_of(device) & {"odd-events", "does-not-close", "reserved-too-low"}


def codes_of(device: DeviceFindings) -> set[str]:
    return {warning.code for warning in device.warnings}


def assert_final_blocks_have_allocations(device: DeviceHistory) -> None:
    """Every block in use is held by one allocation of its size, exactly known."""
    rows, segments = device.allocations, device.segments
    held = device.block_allocation >= 0
    assert (held == (segments.block_state != 2)).all()
    at = device.block_allocation[held]
    assert len(set(at.tolist())) == len(at)
    assert (rows.addr[at] == segments.block_address[held]).all()
    assert (rows.size[at] == segments.block_requested[held]).all()
    assert (rows.block_size[at] == segments.block_size[held]).all()
    assert (rows.block_size_max[at] == segments.block_size[held]).all()
    assert (rows.free_event[at] == device.events).all()


@every_corpus_file
def test_fragmentation_over_time_is_that_of_single_events(path: Path) -> None:
    for device in findings_of(path).devices:
        history, fragmentation = device.history, device.allocator.fragmentation
        events = np.unique(np.linspace(-1, history.events - 1, 60).astype(int))
        expected = [find_fragmentation(history, int(event)) for event in events]
        assert fragmentation[events + 1].tolist() == expected
        for amounts in (device.start, device.peak, device.end):
            assert fragmentation[amounts.event + 1] == amounts.fragmentation


@every_corpus_file
def test_a_bundle_gives_back_the_history_and_the_same_reports(
    path: Path, made: Make, tmp_path: Path
) -> None:
    bundle = made(path, "zip")
    save_bundle(loaded(path), tmp_path / "again.zip")  # of the same file, read another time
    assert bundle.read_bytes() == (tmp_path / "again.zip").read_bytes()
    shared = snapreport.load(bundle)
    assert_same_history(shared.history, loaded(path).history)
    if path not in representative(corpus_files()):
        return  # of the same history the same reports are made
    findings = shared.findings(allocator=False)  # as render() asks
    for ending in ("html", "md"):
        save_report(findings, tmp_path / f"shared.{ending}", ending)
        assert made(path, ending).read_bytes() == (tmp_path / f"shared.{ending}").read_bytes()


@every_corpus_file
def test_a_markdown_report_fits_an_issue_comment(path: Path, made: Make) -> None:
    text = made(path, "md").read_text(encoding="utf-8")
    assert len(text.encode()) < COMMENT_LIMIT
    assert path.name in text


@every_corpus_file
def test_a_report_says_how_to_record_where_history_is_missing_and_only_there(
    path: Path, made: Make
) -> None:
    missing = False
    for device in findings_of(path).devices:
        said = [warning for warning in device.warnings if warning.code == "no-history"]
        assert bool(said) == bool(len(device.history.allocations) and not device.recorded)
        missing |= any(warning.severity == "warning" for warning in said)
    for ending in ("html", "md") if missing else ():
        text = made(path, ending).read_text(encoding="utf-8").replace("\\_", "_")
        assert "_record_memory_history()" in text


def test_an_unrelated_pickle_is_refused_in_one_line(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "not_a_snapshot.pickle"
    for refused in (
        lambda: snapreport.load(path),
        lambda: snapreport.convert(path, tmp_path / "out.zip"),
        lambda: snapreport.render(path, tmp_path / "out.html"),
    ):
        with pytest.raises(snapreport.NotASnapshotError) as caught:
            refused()
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_training_step_becomes_a_small_bundle_and_page(corpus: Path, made: Make) -> None:
    source = corpus / "medium_512_training.pickle"
    assert made(source, "zip").stat().st_size <= 0.25 * source.stat().st_size
    assert made(source, "html").stat().st_size < 400_000

"""Every real snapshot file: it loads, closes, converts and renders, or says why it does not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import snapreport
from snapreport.analyse.amounts import find_fragmentation
from snapreport.analyse.segment_replay import lives_of
from snapreport.model.history import DeviceHistory
from tests.builders import assert_same_history

FILES = [
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
    "sgd_annotated.pickle",
    "snapshot_event_inside.pickle",
    "three_gpus_expandable_oom.pickle",
    "windows_unaligned.pickle",
]
WITHOUT_HISTORY = [
    "bare_segments_list.pkl",
    "compiled_lone_end.pickle",
    "nothing_allocated_four_devices.pickle",
    "one_event_ring.pickle",
    "oom_snapshot_torch20.pickle",
    "windows_unaligned.pickle",
]
COMMENT_LIMIT = 65_536
"""Characters that GitHub takes in an issue comment."""


def test_the_corpus_is_the_one_that_these_tests_know(corpus: Path) -> None:
    names = {name for name in os.listdir(corpus) if name.endswith((".pickle", ".pkl"))}
    assert names == {*FILES, "not_a_snapshot.pickle"}


@pytest.mark.parametrize("name", FILES)
def test_the_closing_law_holds(corpus: Path, name: str) -> None:
    snapshot = snapreport.load(corpus / name)
    for device in snapshot.findings().devices:
        if len(device.history.segments):
            assert device.closing is not None
            assert device.closing.closes
        else:
            assert device.closing is None
            assert not len(device.history.allocations)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_odd_in_a_real_recording(corpus: Path, name: str) -> None:
    snapshot = snapreport.load(corpus / name)
    assert snapshot.history.oddities.keys() <= {"annotation that cannot be placed"}
    for device in snapshot.devices:
        assert device.anomalies == {}
        assert_final_blocks_have_allocations(device)


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
    assert (rows.free_step[at] == device.events).all()


@pytest.mark.parametrize("name", FILES)
def test_fragmentation_over_time_is_that_of_single_steps(corpus: Path, name: str) -> None:
    for device in snapreport.load(corpus / name).findings().devices:
        history, fragmentation = device.history, device.allocator.fragmentation
        lives = lives_of(history)
        steps = np.unique(np.linspace(-1, history.events - 1, 60).astype(int))
        expected = [find_fragmentation(history, lives, int(step)) for step in steps]
        assert fragmentation[steps + 1].tolist() == expected
        for amounts in (device.start, device.peak, device.end):
            assert fragmentation[amounts.step + 1] == amounts.fragmentation


@pytest.mark.parametrize("name", FILES)
def test_a_bundle_gives_back_the_history_and_the_same_reports(
    corpus: Path, tmp_path: Path, name: str
) -> None:
    source = corpus / name
    bundle = snapreport.convert(source, tmp_path / "first.zip")
    again = snapreport.convert(source, tmp_path / "second.zip")
    assert bundle.read_bytes() == again.read_bytes()
    assert_same_history(snapreport.load(bundle).history, snapreport.load(source).history)
    for ending in ("html", "md"):
        direct = snapreport.render(source, tmp_path / f"direct.{ending}")
        shared = snapreport.render(bundle, tmp_path / f"shared.{ending}")
        assert direct.read_bytes() == shared.read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_markdown_report_fits_an_issue_comment(corpus: Path, tmp_path: Path, name: str) -> None:
    text = snapreport.render(corpus / name, tmp_path / "report.md").read_text(encoding="utf-8")
    assert len(text.encode()) < COMMENT_LIMIT
    assert name in text


@pytest.mark.parametrize("ending", ["html", "md"])
@pytest.mark.parametrize("name", WITHOUT_HISTORY)
def test_a_report_without_history_says_how_to_record_one(
    corpus: Path, tmp_path: Path, name: str, ending: str
) -> None:
    report = snapreport.render(corpus / name, tmp_path / f"report.{ending}")
    assert "_record_memory_history()" in report.read_text(encoding="utf-8").replace("\\_", "_")


@pytest.mark.parametrize("name", sorted(set(FILES) - set(WITHOUT_HISTORY)))
def test_a_recorded_history_is_not_called_missing(corpus: Path, name: str) -> None:
    # One of the files has a GPU that nobody used; its recording is not at fault.
    codes = {
        warning.code
        for device in snapreport.load(corpus / name).findings().devices
        for warning in device.warnings
        if device.history.events
    }
    assert "no-history" not in codes
    assert "odd-events" not in codes
    assert "does-not-close" not in codes
    assert "reserved-too-low" not in codes


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


def test_a_training_step_becomes_a_small_bundle_and_page(corpus: Path, tmp_path: Path) -> None:
    source = corpus / "medium_512_training.pickle"
    bundle = snapreport.convert(source, tmp_path / "out.zip")
    page = snapreport.render(bundle, tmp_path / "out.html")
    assert bundle.stat().st_size <= 0.25 * source.stat().st_size
    assert page.stat().st_size < 400_000

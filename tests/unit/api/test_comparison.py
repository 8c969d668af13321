"""diff() and render_diff(): which devices are compared, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import snapreport
from tests.builders import MIB, TraceBuilder, history_of, trace


def snapshot(*builders: TraceBuilder) -> snapreport.Snapshot:
    """A file of several devices."""
    file = builders[0].snapshot()
    for builder in builders[1:]:
        other = builder.snapshot()
        file["device_traces"] += other["device_traces"][len(file["device_traces"]) :]
        file["segments"] += other["segments"]
    return snapreport.Snapshot(history_of(file))


def test_paths_and_snapshots_give_the_same(samples: Path) -> None:
    base, new = samples / "training_step.pickle", samples / "truncated_ring.pickle"
    by_path = snapreport.diff(base, new)
    by_snapshot = snapreport.diff(snapreport.load(base), snapreport.load(new))
    assert by_path.sites == by_snapshot.sites
    assert by_path.figures == by_snapshot.figures
    assert repr(by_path) == (
        f"<Diff of training_step.pickle and truncated_ring.pickle: {by_path.conclusion}>"
    )


def test_files_of_one_name_are_told_apart_by_their_paths(samples: Path, tmp_path: Path) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder / "run").mkdir(parents=True)
        shutil.copy(samples / "two_streams.pickle", tmp_path / folder / "run" / "snap.pickle")
    before, after = (tmp_path / folder / "run" / "snap.pickle" for folder in ("before", "after"))
    found = snapreport.diff(before, after)
    assert found.base.source.name == "before/snap.pickle"
    assert found.new.source.name == "after/snap.pickle"
    bundles = [snapreport.convert(before, tmp_path / f"{name}.zip") for name in ("one", "two")]
    found = snapreport.diff(*bundles)
    assert (found.base.source.name, found.new.source.name) == ("one.zip", "two.zip")
    same = snapreport.diff(before, before)
    assert same.base.source.name == same.new.source.name == "snap.pickle"
    verdict = snapreport.check(after, base=before)
    assert verdict.source.name == "after/snap.pickle"
    redacted = [
        snapreport.convert(file, tmp_path / f"{name}.zip", redact=True, salt="0123456789abcdef")
        for name, file in (("a", before), ("b", after))
    ]
    assert not snapreport.diff(*redacted).base.source.name.endswith(".zip")


def test_the_device_that_a_report_opens_with_is_compared_with_the_same(samples: Path) -> None:
    file = samples / "three_devices.pickle"
    assert snapreport.diff(file, file).base.device == "cuda:1"
    assert snapreport.diff(file, file).new.device == "cuda:1"
    both = snapreport.diff(file, file, device=0)
    assert (both.base.device, both.new.device) == ("cuda:0", "cuda:0")


def test_a_device_of_one_file_compares_with_another(samples: Path) -> None:
    file = samples / "three_devices.pickle"
    found = snapreport.diff(file, file, device=0, new_device=1)
    assert (found.base.device, found.new.device) == ("cuda:0", "cuda:1")
    assert found.change > 0
    assert "BASE is cuda:0, and NEW cuda:1." in found.notes


def test_a_device_with_nothing_on_it_gives_way_to_one_in_use() -> None:
    base = snapshot(trace(0).alloc("a", MIB).alloc("b", MIB))
    new = snapshot(trace(0), trace(1).alloc("a", MIB).alloc("b", MIB))
    found = snapreport.diff(base, new)
    assert (found.base.device, found.new.device, found.change) == ("cuda:0", "cuda:1", 0)


def test_a_cpu_profile_compares_with_itself_and_not_with_a_gpu(samples: Path) -> None:
    profile = samples / "cpu_profile.pickle"
    assert snapreport.diff(profile, profile).change == 0
    with pytest.raises(snapreport.DeviceError, match="different kinds"):
        snapreport.diff(profile, samples / "training_step.pickle")
    with pytest.raises(snapreport.MomentError, match="no reserved bytes"):
        snapreport.diff(profile, profile, curve="reserved")


def test_files_without_anything_compare() -> None:
    found = snapreport.diff(snapshot(trace()), snapshot(trace()))
    assert (found.change, found.sites, found.groups) == (0, (), ())
    assert found.conclusion.startswith("NEW peaks as high as BASE, 0 B")


@pytest.mark.parametrize("option", ["curve", "at", "by"])
def test_a_word_that_is_none_of_those_known_is_a_value_error(option: str, samples: Path) -> None:
    file = samples / "two_streams.pickle"
    with pytest.raises(ValueError, match=f"{option} is 'colour', not one of "):
        snapreport.diff(file, file, **{option: "colour"})  # type: ignore[arg-type]


def test_a_stage_and_a_event_are_two_moments(samples: Path) -> None:
    file = samples / "two_streams.pickle"
    with pytest.raises(snapreport.MomentError, match="one name"):
        snapreport.diff(file, file, stage="x", new_event=1)


def test_a_comparison_is_written_whole_or_not_at_all(samples: Path, tmp_path: Path) -> None:
    file = samples / "two_streams.pickle"
    found = snapreport.diff(file, file)
    assert snapreport.render_diff(found, tmp_path / "x.md") == tmp_path / "x.md"
    with pytest.raises(snapreport.OutputExistsError):
        snapreport.render_diff(found, tmp_path / "x.md")
    with pytest.raises(snapreport.OutputError, match=r"neither in \.html nor in \.md"):
        snapreport.render_diff(found, tmp_path / "x.other")
    with pytest.raises(snapreport.OutputError, match="not accepted as a file name"):
        snapreport.render_diff(found, "-")
    with pytest.raises(ValueError, match="not 'html' or 'md'"):
        snapreport.render_diff(found, tmp_path / "y", format="pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["x.md"]

"""load(), convert(), render() and the Snapshot that they share."""

from __future__ import annotations

import gc
import zipfile
from pathlib import Path
from weakref import ref

import orjson
import pytest

import snapreport

SAMPLE = "training_step.pickle"


def test_a_bundle_and_its_snapshot_give_the_same_report_byte_for_byte(
    samples: Path, tmp_path: Path
) -> None:
    bundle = snapreport.convert(samples / SAMPLE, tmp_path / "snap.zip")
    for ending in ("html", "md"):
        direct = snapreport.render(samples / SAMPLE, tmp_path / f"direct.{ending}")
        through = snapreport.render(bundle, tmp_path / f"through.{ending}")
        assert direct.read_bytes() == through.read_bytes()


def test_equal_input_gives_equal_bundles(samples: Path, tmp_path: Path) -> None:
    first = snapreport.convert(samples / SAMPLE, tmp_path / "first.zip")
    second = snapreport.convert(samples / SAMPLE, tmp_path / "second.zip")
    assert first.read_bytes() == second.read_bytes()


def test_the_output_is_named_after_the_input(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert snapreport.convert(samples / "out_of_memory.pickle.gz") == Path("out_of_memory.zip")
    assert snapreport.render("out_of_memory.zip") == Path("out_of_memory.html")


def test_a_bundle_is_not_converted_again(samples: Path, tmp_path: Path) -> None:
    bundle = snapreport.convert(samples / SAMPLE, tmp_path / "snap.zip")
    with pytest.raises(snapreport.BundleError, match="needs no converting"):
        snapreport.convert(bundle, tmp_path / "again.zip")
    assert not (tmp_path / "again.zip").exists()


def test_an_unknown_format_is_refused_before_anything_is_written(
    samples: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="'pdf'"):
        snapreport.render(samples / SAMPLE, tmp_path / "report.pdf", format="pdf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spelling", [1, "1", "cuda:1"])
def test_a_device_is_found_by_number_or_name(spelling: str | int, samples: Path) -> None:
    snapshot = snapreport.load(samples / "three_devices.pickle")
    assert snapshot.device(spelling).name == "cuda:1"
    only = snapshot.findings(device=spelling)
    assert [str(device.device) for device in only.devices] == ["cuda:1"]


def test_an_unknown_device_lists_those_there_are(samples: Path) -> None:
    snapshot = snapreport.load(samples / "three_devices.pickle")
    with pytest.raises(snapreport.DeviceError, match="cuda:0, cuda:1, cuda:2"):
        snapshot.device(7)


def test_the_cpu_of_a_profile_is_a_device_by_its_kind(samples: Path) -> None:
    device = snapreport.load(samples / "cpu_profile.pickle").device("cpu").figures
    assert device.peak.reserved is None
    assert device.peak.requested == device.peak.allocated > 0


def test_a_notebook_shows_a_summary_in_which_nothing_is_markup(
    samples: Path, tmp_path: Path
) -> None:
    hostile = tmp_path / "<img src=x onerror=alert(1)>.pickle"
    hostile.write_bytes((samples / SAMPLE).read_bytes())
    shown = snapreport.load(hostile)._repr_html_()
    assert "<img" not in shown
    assert "&lt;img src=x" in shown
    assert "4.45 GiB" in shown


def test_notes_stand_on_top_of_the_markdown_without_html(samples: Path, tmp_path: Path) -> None:
    report = snapreport.render(
        samples / SAMPLE, tmp_path / "r.md", notes="# My run\n\n<script>x</script>", title="Run *7*"
    ).read_text("utf-8")
    assert report.startswith("# My run\n\n&lt;script>x&lt;/script>\n\n## GPU memory: Run \\*7\\*\n")


def test_notes_longer_than_a_comment_are_cut_and_say_so(samples: Path, tmp_path: Path) -> None:
    report = snapreport.render(samples / SAMPLE, tmp_path / "r.md", notes="ä" * 70_000)
    assert len(report.read_bytes()) < 65_536
    assert "the rest was cut" in report.read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["training_step.pickle", "three_devices.pickle", "truncated_ring.pickle"]
)
def test_a_manifest_has_every_warning_of_the_findings(
    samples: Path, tmp_path: Path, name: str
) -> None:
    bundle = snapreport.convert(samples / name, tmp_path / "snap.zip")
    with zipfile.ZipFile(bundle) as archive:
        manifest = orjson.loads(archive.read("manifest.json"))
    findings = snapreport.load(samples / name).findings()
    several = sum(bool(device.history.events) for device in findings.devices) > 1
    expected = [(warning.code, warning.paragraph) for warning in findings.warnings]
    for device in findings.devices:
        before = f"{device.device}: " if several else ""
        expected += [
            (warning.code, before + warning.paragraph)
            for warning in device.warnings
            if warning.code != "nothing-allocated" or len(findings.devices) == 1
        ]
    assert [(each["code"], each["text"]) for each in manifest["warnings"]] == expected


def test_a_device_is_diagnosed_once_whoever_asks(samples: Path) -> None:
    snapshot = snapreport.load(samples / SAMPLE)
    first = snapshot.device().diagnosis
    (device,) = snapshot.findings(ignore=["churn"]).devices
    for other in (snapshot.device().diagnosis, device.diagnosis):
        kept = [each for each in first.findings if each.code != "churn" or other is first]
        assert list(map(id, other.findings)) == list(map(id, kept))
    assert snapshot.findings(rules=[]).devices[0].diagnosis is not first


def test_a_snapshot_that_was_diagnosed_leaves_memory(samples: Path) -> None:
    snapshot = snapreport.load(samples / SAMPLE)
    found = snapshot.findings()
    assert [each.suggestions for each in found.devices[0].diagnosis.findings]
    assert [each.tables for each in snapshot.device().diagnosis.findings]
    left = ref(snapshot.figures()[0]), ref(snapshot.history)
    del snapshot, found
    gc.collect()
    assert [each() for each in left] == [None, None]

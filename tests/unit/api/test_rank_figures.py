"""What a run keeps of a rank: by hand, and against what the rank's own answers say."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.api.rank_figures import rank_facts
from snapreport.figures.ranks import find_holders, site_key
from snapreport.model.run import DeviceFacts, Holder
from snapreport.reporters.json_report import findings_as_json
from tests.builders import FIRST_US, KIB, MIB, frame, trace
from tests.corpus import corpus_files, loaded
from tests.thorough import small

MODEL = [frame("forward", "/home/ann/run/model.py", 9), frame("main", "/home/ann/run/train.py", 1)]
OTHER_FOLDER = [frame("forward", "/scratch/model.py", 9)]
LOADER = [frame("load", "/home/ann/run/data.py", 4), frame("main", "/home/ann/run/train.py", 1)]


def facts_of(snapshot: snapreport.Snapshot) -> DeviceFacts:
    (found,) = rank_facts(snapshot.findings())
    return found


def made() -> snapreport.Snapshot:
    built = (
        trace()
        .alloc("a", 2 * MIB, frames=MODEL)
        .alloc("b", 2 * MIB, frames=OTHER_FOLDER)
        .alloc("c", 3 * MIB, frames=MODEL)
        .alloc("d", KIB, frames=LOADER)
        .free("c")
        .event("oom", size=64 * MIB, addr=5 * MIB, frames=LOADER)
    )
    for place, size in (("a", 2 * MIB), ("b", 2 * MIB), ("d", KIB)):
        built.segment(place, 2 * MIB, (size, size, "live"))
    built.segment("c", 6 * MIB)
    return snapreport.Snapshot(built.file())


def test_sites_are_the_same_line_whatever_the_folder_with_the_commonest_size() -> None:
    sites = [each for each in facts_of(made()).holders if each.kind == "site"]
    assert sites == [
        Holder("site", "forward model.py:9", 7 * MIB, 3, 2 * MIB, 2),
        Holder("site", "load data.py:4", KIB, 1, KIB, 1),
    ]


@pytest.mark.parametrize("name", ["training_step.pickle", "out_of_memory.pickle.gz"])
def test_nothing_is_suggested_to_a_single_rank(
    name: str, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a run shows the titles of a rank's findings alone")

    for place in ("peak.suggest", "peak.find_what_if", "oom.finding.suggest"):
        monkeypatch.setattr(f"snapreport.diagnosis.{place}", refuse)
    findings = snapreport.load(samples / name).findings()
    assert [each.title for each in rank_facts(findings)[0].findings]
    with pytest.raises(AssertionError, match="titles"):
        _ = [each.suggestions for each in findings.devices[0].diagnosis.findings]


def test_those_left_out_are_one_and_add_up() -> None:
    snapshot = made()
    (device,) = snapshot.findings().devices
    held = find_holders(device, snapshot.history.stacks, most=1)
    assert [each for each in held if each.kind == "site"] == [
        Holder("site", "forward model.py:9", 7 * MIB, 3, 2 * MIB, 2),
        Holder("site", "", KIB, 1, KIB, 1),
    ]


def test_a_failed_request_has_its_time_its_line_and_what_the_card_had() -> None:
    facts = facts_of(made())
    (failed,) = facts.failed
    assert (failed.event, failed.size, failed.site) == (6, 64 * MIB, "load data.py:4")
    assert failed.time_us == FIRST_US + 60
    assert facts.reserved is not None
    assert facts.capacity == facts.reserved + 5 * MIB


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("forward  a/b/model.py:9", "forward model.py:9"),
        ("run  C:\\x\\model.py:9", "run model.py:9"),
        ("before recording", "before recording"),
        ("MmBackward0::apply", "MmBackward0::apply"),
    ],
)
def test_site_keys_have_no_folder(name: str, key: str) -> None:
    assert site_key(name) == key


def test_stages_of_one_name_are_one_and_numbered_steps_too(corpus: Path) -> None:
    snapshot = loaded(corpus / "sgd_annotated.pickle")
    (device,) = snapshot.findings().devices
    peaks: dict[str, list[int]] = {}
    for stage in device.stages:
        if stage.peak_bytes is not None:
            peaks.setdefault(stage.name, []).append(stage.peak_bytes)
    found = {each.key: each for each in facts_of(snapshot).holders if each.kind == "stage"}
    for name, all_ in peaks.items():
        if "#" not in name:
            assert (found[name].bytes, found[name].count) == (max(all_), len(all_))
    assert not any(key[-1].isdigit() and "#" in key for key in found)


def test_names_are_redacted_where_those_of_the_findings_are(tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle"
    secret = [frame("secret_sauce", "/home/ann/run/model.py", 9)]
    path.write_bytes(pickle.dumps(trace().alloc("a", MIB, frames=secret).snapshot()))
    facts = facts_of(snapreport.load(path, redact_functions=True, salt="0123456789abcdef"))
    (site,) = [each for each in facts.holders if each.kind == "site"]
    assert "model" not in site.key
    assert "secret" not in site.key
    again = snapreport.load(path, redact_functions=True, salt="0123456789abcdef")
    assert facts_of(again).holders == facts.holders


@pytest.mark.parametrize("path", small(corpus_files()), ids=lambda path: path.name)
def test_figures_are_those_of_the_summary(path: Path) -> None:
    findings = loaded(path).findings()
    told: list[dict[str, Any]] = findings_as_json(findings)["devices"]
    for facts in rank_facts(findings):
        device = told[facts.place]
        assert device["device"] == facts.device
        peaks = device["peaks"]
        if facts.recorded:
            assert peaks["allocated"]["bytes"] == facts.allocated
            assert peaks["allocated"]["event"] == facts.peak_event
            assert facts.reserved == peaks.get("reserved", {}).get("bytes")
        else:
            assert device["peak"]["allocated"] == facts.allocated
        for kind in ("site", "role"):
            held = [each for each in facts.holders if each.kind == kind]
            assert sum(each.bytes for each in held) == facts.allocated
            assert [each.bytes for each in held] == sorted(
                (each.bytes for each in held), reverse=True
            )
        for cells in (facts.by_event, facts.by_time):
            if cells is not None:
                assert cells.allocated.max() == facts.allocated
                assert cells.reserved is None or cells.reserved.max() == facts.reserved
        assert len(facts.failed) == len(device["ooms"])
        assert [each.title for each in facts.findings] == [
            each["title"] for each in device["diagnosis"]["findings"]
        ]

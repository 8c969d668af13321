"""What is said of the recording of every real snapshot file: the codes, and the judgement."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.model.findings import DeviceFindings
from tests.corpus import every_corpus_file, findings_of

# One set of codes for each device, in the order of the file; a failed request is not in here.
# Each follows from the numbers of events, baseline blocks and stacks in the file.
CODES: dict[str, list[set[str]]] = {
    "bare_segments_list.pkl": [{"no-history"}],
    # 438 blocks that live to the end have stacks but no alloc; 1 is freed that nobody made. Its
    # 8,694 events are no size of a ring: recording was stopped and started again, it seems.
    "compiled_2.7b_forward.pickle": [{"started-late", "ring-overflowed", "unmatched-frees"}],
    "compiled_lone_end.pickle": [{"no-history"}],
    "medium_512_training.pickle": [{"started-late", "unmatched-frees"}],
    "mem_snapshot.pickle": [set()],
    # Its peak is the last of 4,657 events.
    "memory_ctx128_forward_.pickle": [{"started-late", "dumped-early"}],
    "memory_forward_bf16_128.pickle": [{"started-late"}],
    # 1.03 of 5.51 GiB was there before.
    "no_times_torch21.pickle": [{"no-times", "started-late"}],
    "nothing_allocated_four_devices.pickle": [{"nothing-allocated"}] * 4,
    "one_event_ring.pickle": [{"no-history"}],
    "oom_snapshot_torch20.pickle": [{"no-history"}],
    # Python frames alone, but no allocation lacks one.
    "sgd_annotated.pickle": [set()],
    "snapshot_event_inside.pickle": [set()],
    # The exception was caught, and all but 384.8 MiB freed, before the file was written.
    "three_gpus_expandable_oom.pickle": [set(), {"dumped-late"}, set(), {"nothing-allocated"}],
    "windows_unaligned.pickle": [{"no-history"}],
}
VERDICTS = {
    "bare_segments_list.pkl": ["no history"],
    "compiled_2.7b_forward.pickle": ["earlier"],
    "compiled_lone_end.pickle": ["no history"],
    "medium_512_training.pickle": ["window"],
    "mem_snapshot.pickle": ["trusted"],
    "memory_ctx128_forward_.pickle": ["later"],
    "memory_forward_bf16_128.pickle": ["window"],
    "no_times_torch21.pickle": ["window"],
    "nothing_allocated_four_devices.pickle": ["nothing"] * 4,
    "one_event_ring.pickle": ["no history"],
    "oom_snapshot_torch20.pickle": ["no history"],
    "sgd_annotated.pickle": ["trusted"],
    "snapshot_event_inside.pickle": ["trusted"],
    "three_gpus_expandable_oom.pickle": ["trusted", "trusted", "trusted", "nothing"],
    "windows_unaligned.pickle": ["no history"],
}
WARNINGS = {
    "bare_segments_list.pkl": {"no-history"},
    "compiled_lone_end.pickle": {"no-history"},
    "no_times_torch21.pickle": {"started-late"},
    "one_event_ring.pickle": {"no-history"},
    "oom_snapshot_torch20.pickle": {"no-history"},
    "windows_unaligned.pickle": {"no-history"},
}


def devices_of(corpus: Path, name: str) -> tuple[DeviceFindings, ...]:
    return findings_of(corpus / name).devices


@pytest.mark.parametrize("name", CODES)
def test_the_findings_about_a_recording_are_these(corpus: Path, name: str) -> None:
    devices = devices_of(corpus, name)
    found = [
        [each for each in device.diagnosis.findings if each.topic == "recording"]
        for device in devices
    ]
    assert [{each.code for each in some} for some in found] == CODES[name]
    assert all(len(some) == len({each.id for each in some}) for some in found)
    assert {each.code for some in found for each in some if each.severity != "note"} == (
        WARNINGS.get(name, set())
    )


@pytest.mark.parametrize("name", VERDICTS)
def test_a_recording_is_judged_by_what_it_holds(corpus: Path, name: str) -> None:
    assert [each.trust.verdict for each in devices_of(corpus, name)] == VERDICTS[name]


@every_corpus_file
def test_reserved_memory_is_accounted_for_to_the_byte(path: Path) -> None:
    for device in findings_of(path).devices:
        facts = device.trust.facts
        assert facts.at_end is not None
        assert facts.at_end.difference == 0
        assert facts.at_end.reserved == int(device.history.segments.size.sum())
        assert (facts.at_peak is not None) == device.recorded
        if facts.at_peak is not None:
            assert facts.at_peak.difference == 0
            assert facts.at_peak.fragmented == device.peak.fragmentation


def test_the_figures_of_two_files_are_those_worked_out_by_hand(corpus: Path) -> None:
    (training,) = devices_of(corpus, "medium_512_training.pickle")
    facts = training.trust.facts
    assert facts.window.unmatched == 438
    assert facts.at_peak is not None
    assert facts.at_peak.requested == 12426629128
    # Three blocks from before the recording end where the next one begins: 2,949,120 bytes more.
    assert facts.at_peak.requested + facts.at_peak.slack == 12431545344 + 2949120
    assert facts.peaks["requested"].width == facts.peaks["allocated"].width == 0
    (ring,) = devices_of(corpus, "one_event_ring.pickle")
    assert ring.trust.facts.at_end is not None
    assert ring.trust.facts.at_end.reserved == 17133731840
    assert ring.trust.facts.at_end.requested == 16380108176 - 8  # its one event frees 8 bytes


def test_what_was_live_before_a_failure_is_found_though_the_file_came_late(corpus: Path) -> None:
    device = devices_of(corpus, "three_gpus_expandable_oom.pickle")[1]
    (late,) = [each for each in device.diagnosis.findings if each.code == "dumped-late"]
    values = {each.label: each.value for each in late.evidence}
    assert values["events after the failure"] == 596 - 1 - 421
    assert values["allocated at the failure"] == 84063358976
    assert late.view is not None
    assert late.view.event == 421
    assert late.suggestions[0].change.count("\n") == 1


@pytest.mark.parametrize("name", [name for name, codes in CODES.items() if {"no-history"} in codes])
def test_a_file_without_history_comes_with_the_two_lines_that_record_one(
    corpus: Path, name: str
) -> None:
    (device,) = devices_of(corpus, name)
    (fix,) = device.trust.fixes
    first, second = fix.change.splitlines()
    assert first.startswith("torch.cuda.memory._record_memory_history()")
    assert second.startswith('torch.cuda.memory._dump_snapshot("snap.pickle")')
    assert device.trust.checks[0].mark == "not ok"

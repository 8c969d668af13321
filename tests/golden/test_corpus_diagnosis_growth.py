"""What is said of growth, churn and the allocator on real files, and no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.diagnosis.allocator_use import find_slack
from snapreport.diagnosis.given_back import find_bursts
from snapreport.roles.steps import find_iterations
from tests.corpus import findings_of
from tests.programs import figures, found, of_code

TOPICS = ("growth", "churn", "allocator", "transient-peak")

# By file and device: the findings, the largest first in each severity, and a figure of each.
EXPECTED: dict[str, dict[str, list[tuple[str, str, int]]]] = {
    "bare_segments_list.pkl": {"cuda:1": [("fragmentation", "fragmentation", 295_405_056)]},
    "compiled_2.7b_forward.pickle": {"cuda:0": [("churn", "made again at once", 2_338)]},
    "medium_512_training.pickle": {"cuda:0": []},
    "mem_snapshot.pickle": {
        "cuda:0": [
            ("transient-peak", "short-lived at the peak", 1_073_741_824),
            ("fragmentation", "fragmentation", 530_317_312),
        ]
    },
    "memory_ctx128_forward_.pickle": {"cuda:0": []},
    "memory_forward_bf16_128.pickle": {"cuda:0": [("slack", "slack at the peak", 35_946_496)]},
    "no_times_torch21.pickle": {"cuda:0": [("fragmentation", "fragmentation", 375_341_056)]},
    "one_event_ring.pickle": {"cuda:0": []},
    "oom_snapshot_torch20.pickle": {"cuda:0": []},
    "sgd_annotated.pickle": {
        "cuda:0": [
            ("transient-peak", "short-lived at the peak", 620_756_992),
            ("churn", "made again at once", 2_432),
        ]
    },
    "snapshot_event_inside.pickle": {
        "cuda:0": [
            ("unused-reserved", "unused when reserved was raised", 3_498_049_536),
            ("transient-peak", "peak falls by", 2_706_275_328),
        ]
    },
    "three_gpus_expandable_oom.pickle": {
        "cuda:0": [],
        "cuda:1": [("allocator-retries", "bytes given back", 3_963_617_280)],
        "cuda:2": [],
    },
    "windows_unaligned.pickle": {"cuda:0": []},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_file_gets_its_findings(corpus: Path, name: str) -> None:
    for device in findings_of(corpus / name).devices:
        expected = EXPECTED[name].get(str(device.device), [])
        said = found(device, *TOPICS)
        assert [each.code for each in said] == [code for code, _, _ in expected]
        for finding, (_, label, value) in zip(said, expected, strict=True):
            assert figures(finding)[label] == value


@pytest.mark.parametrize("name", EXPECTED)
def test_the_layers_of_a_model_are_taken_for_no_steps(corpus: Path, name: str) -> None:
    # None of these files holds more than one step of its program, but many layers of a model.
    findings = findings_of(corpus / name)
    for device in findings.devices:
        assert find_iterations(device.history, findings.history) is None


def test_slack_of_the_forward_pass_is_all_of_blocks_handed_out_whole(corpus: Path) -> None:
    # snapshot-format notes 8: 815,783,936 - 779,837,440, of which rounding explains nothing.
    findings = findings_of(corpus / "memory_forward_bf16_128.pickle")
    slack = find_slack(findings.history, findings.devices[0])
    assert (slack.total, slack.unsplit, slack.divided) == (35_946_496, 35_946_496, 0)


def test_the_failure_on_three_devices_was_preceded_by_a_retry_that_worked(corpus: Path) -> None:
    # Six unmaps, a map and another alloc precede the failed request.
    findings = findings_of(corpus / "three_gpus_expandable_oom.pickle")
    device = findings.devices[1]
    (burst,) = find_bursts(findings.history, device)
    assert (burst.kind, burst.first_event, burst.last_event, burst.count) == ("retry", 413, 418, 6)
    assert device.ooms[0].event == 421
    assert of_code(device, "allocator-retries").severity == "warning"


def test_a_cache_emptied_by_the_compiler_is_known_by_its_stack(corpus: Path) -> None:
    findings = findings_of(corpus / "compiled_2.7b_forward.pickle")
    (burst,) = find_bursts(findings.history, findings.devices[0])
    assert (burst.kind, burst.count) == ("emptied", 742)

"""The verdicts on real files: the failed request with the figures of the reference, and peaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from snapreport.diagnosis.conclude import find_memory
from snapreport.diagnosis.oom.verdict import OomVerdict, Removal, judge
from snapreport.model.diagnoses import Finding, Frees
from tests.corpus import every_corpus_file, loaded

_MODELS = "train/models.py"


def findings(path: Path, device: int) -> list[Finding]:
    found = loaded(path).device(device)
    return list(find_memory(found.file, found.figures))


@pytest.fixture(scope="module")
def oom(corpus: Path) -> OomVerdict:
    found = loaded(corpus / "three_gpus_expandable_oom.pickle").device(1)
    verdict = judge(found.file, found.figures, found.figures.ooms[0])
    assert verdict is not None
    return verdict


def test_the_failed_request_has_the_figures_of_the_reference(oom: OomVerdict) -> None:
    assert (oom.event, oom.size, oom.device_free) == (421, 5_308_694_528, 95_682_560)
    assert (oom.allocated, oom.reserved, oom.pending) == (84_063_358_976, 84_202_749_952, 0)
    assert oom.slack == 84_063_358_976 - 84_063_351_764
    assert oom.inactive == 84_202_749_952 - 84_063_358_976
    assert oom.ceiling == 84_202_749_952 + 95_682_560


def test_it_is_judged_to_be_truly_full(oom: OomVerdict) -> None:
    assert (oom.cause, oom.alone, oom.expandable, oom.pool) == ("full", True, True, "default")
    # All that was free, on the device and in pieces, is far from what was asked for.
    assert oom.device_free + oom.inactive == 235_073_536 < oom.size
    # Pages of 20 MiB, less what the last page of the segment had free.
    assert (oom.needed, oom.needed_most) == (253 * 20 << 20, 254 * 20 << 20)
    assert oom.missing == (253 * 20 << 20) - 95_682_560
    assert (oom.returnable, oom.locked, oom.other_streams, oom.foreign) == (0, 0, 0, 0)
    assert not oom.recovered


def test_four_lines_of_one_function_held_it(oom: OomVerdict) -> None:
    assert oom.removals[0] == Removal((f"update_nodes  {_MODELS}:178",), 5_308_694_528)
    assert [each.sites[0].rpartition(":")[2] for each in oom.removals] == [
        "178", "176", "181", "174",
    ]  # fmt: skip


def test_the_first_lines_say_what_happened_and_what_to_do(corpus: Path) -> None:
    (found,) = findings(corpus / "three_gpus_expandable_oom.pickle", 1)
    assert found.severity == "critical"
    assert found.title == "Out of memory: 4.94 GiB asked for, 91.25 MiB free on the device"
    assert "truly full" in found.explanation
    assert "The request came from update_nodes (models.py:181)." in found.explanation
    assert "Of an H100 80 GB, for example, with 79.10 GiB, 609.8 MiB would" in found.explanation
    plan, *changes, room = found.suggestions
    assert (plan.code, plan.frees) == ("plan", None)
    assert (room.code, room.frees) == ("make-room", Frees.exactly(5_308_694_528))
    assert "smaller-batch" in {each.code for each in changes}
    # Never as much as all activations, of which 83,811,692,544 bytes were live.
    assert all(each.frees and each.frees.most < 83_811_692_544 for each in changes)
    assert not any("expandable" in each.change for each in found.suggestions)


def test_where_the_memory_of_a_training_step_went(corpus: Path) -> None:
    (found,) = findings(corpus / "medium_512_training.pickle", 0)
    assert (found.code, found.severity) == ("peak", "note")
    assert found.title == "11.58 GiB allocated at the peak, at event 3,485"
    most = found.evidence[0].most
    assert most is not None
    assert 12_431_545_344 < most <= 12_431_545_344 + 3_900_000
    (checkpoint,) = [each for each in found.suggestions if each.code == "checkpoint"]
    assert checkpoint.frees is not None
    assert checkpoint.frees.most <= 5_346_697_216  # without any activation


@every_corpus_file
def test_every_device_gets_one_finding_whose_tables_add_up(path: Path) -> None:
    snapshot = loaded(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        found = list(find_memory(device.file, device.figures))
        if not device.peak.allocated:
            assert found == []
            continue
        (finding,) = found
        assert finding.severity == ("critical" if device.figures.ooms else "note")
        whole = device.figures.peak.allocated
        for suggestion in finding.suggestions:
            if suggestion.frees is not None:
                assert 0 < suggestion.expected <= suggestion.frees.most <= whole
        for table in finding.tables:
            if table.title.startswith("The peak without"):
                for held, lower, then, _, _ in table.rows:
                    assert int(lower or 0) + int(then or 0) == whole
                    assert int(lower or 0) <= int(held or 0)
            elif re.match("What held it|Held by", table.title) and not table.left_out:
                at = device.at(finding.view.event if finding.view else None)
                assert sum(int(row[0] or 0) for row in table.rows) == at.bytes


def test_a_backward_node_is_named_with_its_lines_of_the_forward_pass(corpus: Path) -> None:
    # softmax divides by the sum at line 9, and attention by the root of the width at line 13.
    (finding,) = findings(corpus / "mem_snapshot.pickle", 0)
    (text,) = (each.text for each in finding.suggestions if each.code == "largest-site")
    assert (
        "Begin with the backward of div (DivBackward0), whose forward is at"
        " custom_scaled_dot_product_attention (trace_peak_memory.py:13) or"
        " custom_softmax (trace_peak_memory.py:9): without"
    ) in text

"""Small blocks that keep segments: in the findings about fragmentation and failed requests."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapreport
from snapreport.diagnosis.conclude import find
from snapreport.model.diagnoses import Finding
from tests.builders import MIB, TraceBuilder, frame, trace


def three_segments(life: int = 0) -> TraceBuilder:
    """Three segments of 40 MiB with 2 MiB of norm() in each, and 60 MiB that find no room.

    Args:
        life: events after which these blocks are freed, 0 for never.
    """
    made = trace()
    frames = [frame("norm", "model.py", 7)]
    for place in "abc":
        made.segment(place, 40 * MIB, *([] if life else [(2 * MIB, 2 * MIB, "live")]))
        made.alloc(place, 2 * MIB, frames=frames)
    made.event("oom", size=60 * MIB, addr=MIB, device_free=MIB, frames=[frame("big", "model.py")])
    if life:
        for place in "abc":
            made.free(place)
        for _ in range(life):
            made.alloc("d", MIB).free("d")
    return made


def failed(made: TraceBuilder) -> Finding:
    file = made.file()
    (finding,) = (each for each in find(file).devices[0].diagnosis.findings if each.code == "oom")
    return finding


def test_a_failed_request_is_told_which_blocks_keep_what_was_free() -> None:
    finding = failed(three_segments())
    assert "in pieces: 114.0 MiB of what PyTorch had reserved were free" in finding.explanation
    (figure,) = (each for each in finding.evidence if each.label == "kept by small blocks")
    assert figure.value == 114 * MIB
    (table,) = (each for each in finding.tables if "small blocks keep" in each.title)
    assert table.rows == ((114 * MIB, 3, 6 * MIB, "norm  model.py:7"),)
    (advice,) = (each for each in finding.suggestions if each.code == "kept-segments")
    assert advice.text == (
        "Make the small, long-lived blocks of norm (model.py:7) before the large ones around"
        " them, so that they end up side by side. They keep 114.0 MiB from going back to the"
        " driver, in 3 segments that hold little else. torch.cuda.empty_cache() cannot give that"
        " back while they live."
    )
    assert advice.sites == ("norm  model.py:7",)
    assert advice.frees is None


def test_short_lived_blocks_need_not_be_made_elsewhere() -> None:
    finding = failed(three_segments(life=20))
    assert any("small blocks keep" in each.title for each in finding.tables)
    assert not any(each.code == "kept-segments" for each in finding.suggestions)


def test_nothing_is_said_where_large_blocks_keep_it() -> None:
    made = trace()
    for place in "abc":
        made.segment(place, 40 * MIB, (15 * MIB, 15 * MIB, "live")).alloc(place, 15 * MIB)
    made.event("oom", size=60 * MIB, addr=MIB, device_free=MIB)
    finding = failed(made)
    assert "in pieces: 75.00 MiB of what PyTorch had reserved were free" in finding.explanation
    assert not any("small blocks keep" in each.title for each in finding.tables)
    assert not any(each.label == "kept by small blocks" for each in finding.evidence)


@pytest.mark.parametrize("name", ["mem_snapshot.pickle"])
def test_one_gradient_keeps_half_a_gibibyte(corpus: Path, name: str) -> None:
    # Of the segment at 0x7f211c000000, 512 MiB, allocation 19 has 8,519,680 bytes at event 52,
    # and nothing else is in it.
    device = snapreport.load(corpus / name).device(0)
    assert int(device.allocations.block_size[19]) == 8_519_680
    (finding,) = (each for each in device.diagnosis.findings if each.code == "fragmentation")
    assert finding.view is not None
    assert finding.view.event == 52
    (table,) = finding.tables
    assert table.rows == (
        (536_870_912 - 8_519_680, 1, 8_519_680, "backward of bmm (BmmBackward0)"),
    )
    assert [each.code for each in finding.suggestions] == ["kept-segments", "allocator-setting"]

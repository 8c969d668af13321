"""The bar under the headline: its parts sum to reserved memory, to the byte."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import snapreport
from snapreport.diagnosis.conclude import find
from snapreport.model.findings import DeviceFindings
from snapreport.reporters.page_report import reserved_parts, write_report
from tests.browser.builders import MIB, DeviceSpec, Row, findings
from tests.builders import KIB, TraceBuilder


def _sizes(device: DeviceFindings) -> dict[str, int]:
    return {part.kind: part.bytes for part in reserved_parts(device)}


def test_memory_awaiting_its_free_is_a_part_with_its_own_slack() -> None:
    # "a" of 3 MiB in a block of 4 awaits its free while "b", 6 in 8 MiB, is the allocated peak.
    trace = TraceBuilder().alloc("a", 3 * MIB).request("a").alloc("b", 6 * MIB)
    trace.segment("a", 5 * MIB, (4 * MIB, 3 * MIB, "pending"))
    trace.segment("b", 8 * MIB, (8 * MIB, 6 * MIB, "live")).segment("c", 2 * MIB)
    (device,) = find(trace.file()).devices
    assert device.peak.reserved == 15 * MIB
    assert _sizes(device) == {
        "requested": 6 * MIB,
        "slack": 2 * MIB,
        "pending": 4 * MIB,
        "fragmentation": MIB,
        "returnable": 2 * MIB,
    }
    assert [part.text for part in reserved_parts(device)][:3] == [
        "requested, live 6.00 MiB",
        "slack, live 2.00 MiB",
        "awaiting free 4.00 MiB",
    ]


def test_where_nothing_awaits_its_free_the_parts_are_those_of_the_headline() -> None:
    rows = [Row(3 * KIB, 0, None, block=4 * KIB)]
    (device,) = findings(DeviceSpec(rows, reserved=MIB)).devices
    sizes = _sizes(device)
    assert "pending" not in sizes
    assert (sizes["requested"], sizes["slack"]) == (device.peak.requested, device.peak.slack)


def test_without_an_allocator_there_is_no_bar() -> None:
    (device,) = findings(DeviceSpec([Row(MIB)], allocator=False)).devices
    assert reserved_parts(device) == ()


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix not in (".py", ".md"))
    assert found
    return found


def _assert_sums(path: Path) -> bool:
    """Check the law on every device; whether memory awaited its free on one of them."""
    try:
        found = snapreport.load(path).findings()
    except snapreport.SnapreportError:
        return False  # a file that is none
    for device in found.devices:
        parts = reserved_parts(device)
        assert sum(part.bytes for part in parts) == (device.peak.reserved or 0), path
        assert all(part.bytes >= 0 for part in parts), path
        if parts:
            assert sum(part.percent for part in parts) == pytest.approx(100)
    return any(device.peak.active > device.peak.allocated for device in found.devices)


def test_the_parts_of_every_sample_sum_to_reserved(samples: Path) -> None:
    waited = [_assert_sums(path) for path in _files(samples)]
    assert any(waited)


def test_the_parts_of_every_real_snapshot_sum_to_reserved(corpus: Path) -> None:
    for path in _files(corpus):
        _assert_sums(path)


def test_the_page_draws_each_part_from_where_the_one_before_ends(samples: Path) -> None:
    found = snapreport.load(samples / "two_streams.pickle").findings()
    out = io.BytesIO()
    write_report(found, out)
    pattern = r'<rect class="(\w+)" data-bytes="(\d+)" x="([\d.]+)%" width="([\d.]+)%"'
    drawn = re.findall(pattern, out.getvalue().decode())
    parts = reserved_parts(found.devices[0])
    assert [(kind, int(size)) for kind, size, _, _ in drawn] == [(p.kind, p.bytes) for p in parts]
    end = 0.0
    for _, _, x, width in drawn:
        assert float(x) == pytest.approx(end, abs=0.01)
        end = float(x) + float(width)
    assert end == pytest.approx(100, abs=0.01)

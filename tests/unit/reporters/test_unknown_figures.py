"""A figure that cannot be known is no number anywhere, and never left out without a word."""

from __future__ import annotations

import re
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import pytest

import snapreport
from snapreport.api.rank_figures import rank_facts
from snapreport.commands.explorer.opening import OpenedFile
from snapreport.commands.explorer.screen import Viewpoint
from snapreport.commands.mcp_server.finding_answers import _amounts
from snapreport.ground.errors import MomentError
from snapreport.reporters.answers import live_document
from snapreport.reporters.document import Paragraph
from snapreport.reporters.exports import perfetto
from snapreport.reporters.json_report import findings_as_json
from snapreport.reporters.page_report import write_report
from snapreport.reporters.svg import draw_curves
from tests.builders import MIB, frame, trace
from tests.documents import report_as, text_of
from tests.exports import export_of, read_perfetto, written

F: dict[str, Any] = {"frames": [frame("f")]}


@pytest.fixture
def snapshot() -> snapreport.Snapshot:
    """At the peak 9 MiB are active and 0 reserved: the event that freed a segment is missing."""
    built = (
        trace()
        .alloc("a", 4 * MIB, **F)
        .alloc("b", 5 * MIB, **F)
        .event("oom", size=64 * MIB, addr=5 * MIB, **F)
        .free("b")
        .event("segment_alloc", addr=1 << 40, size=20 * MIB)
        .segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    )
    return snapreport.Snapshot(built.file())


def test_in_python_and_json_it_is_none(snapshot: snapreport.Snapshot) -> None:
    device = snapshot.device()
    for at in (None, -1, 1):
        amounts = device.at(at).amounts
        assert (amounts.reserved, amounts.inactive, amounts.fragmentation) == (None, None, None)
        assert amounts.slack == 0
    assert device.at(device.events - 1).amounts.reserved == 20 * MIB
    assert [oom.reserved for oom in device.figures.ooms] == [None]
    found = findings_as_json(snapshot.findings())["devices"][0]
    assert found["peak"]["reserved"] is None
    assert found["ooms"][0]["reserved"] is None
    # The most of what is not known at every moment is not known.
    assert "reserved" not in found["peaks"]
    assert "reserved" not in found["statistics"]
    (warning,) = [each for each in found["warnings"] if each["code"] == "reserved-too-low"]
    assert warning["text"].endswith("How much was reserved is not known before event 5.")
    (facts,) = rank_facts(snapshot.findings())
    assert (facts.reserved, facts.by_event.reserved) == (None, None)


def test_no_moment_of_it_can_be_named(snapshot: snapreport.Snapshot) -> None:
    device = snapshot.device()
    last = device.events - 1
    assert device.figures.reserved_from == last
    assert device.at(last, curve="reserved").bytes == 20 * MIB
    assert device.at(between=(last, last), curve="reserved").bytes == 20 * MIB
    for wanted in ({}, {"event": -1}, {"event": last - 1}, {"between": (0, last)}):
        with pytest.raises(MomentError, match=r"of cuda:0 is only known from event 5 on: events"):
            device.at(**wanted, curve="reserved")
    with pytest.raises(MomentError):
        device.statistics("reserved")
    assert device.statistics("active").peak == 9 * MIB


def test_a_timeline_for_perfetto_begins_where_it_is_known(snapshot: snapreport.Snapshot) -> None:
    export = export_of(snapshot.history)
    (timeline,) = read_perfetto(written(perfetto.write_perfetto, export)).values()
    assert list(timeline.counters["reserved bytes"].values()) == [20 * MIB]
    assert max(timeline.counters["active bytes"].values()) == 9 * MIB


def test_no_finding_subtracts_from_it() -> None:
    built = trace()
    place = built.address("pool")
    built.alloc("pool", MIB, pool_id=(1, 0), **F)
    built.alloc("other", 300 * MIB, pool_id=(0, 0), **F).free("other")
    built.alloc(place + 2 * MIB, 60 * MIB, pool_id=(1, 0), **F)
    blocks = (MIB, MIB, "live"), (MIB, 0, "free"), (60 * MIB, 60 * MIB, "live")
    built.segment("pool", 100 * MIB, *blocks, segment_pool_id=(1, 0))
    (device,) = snapreport.Snapshot(built.file()).findings().devices
    assert device.peak.reserved is None
    (locked,) = [each for each in device.diagnosis.findings if each.code == "locked-pool"]
    assert locked.title == (
        "39.00 MiB of 100.0 MiB reserved are not in use at the end, all of it in a private pool"
    )


def test_on_a_page_it_is_not_known(snapshot: snapreport.Snapshot) -> None:
    out = BytesIO()
    write_report(snapshot.findings(), out)
    page = out.getvalue().decode()
    head = page[page.index('<dl class="figures">') :].partition("</dl>")[0]
    figures = dict(re.findall(r"<dt[^>]*>([^<]*)<.*?<data[^>]*>([^<]*)<", head, re.DOTALL))
    assert figures == {
        "Peak allocated": "9.00 MiB",
        "Requested": "9.00 MiB",
        "Reserved": "not known",
        "Slack": "0 B",
        "Inactive": "not known",
    }


def test_in_the_picture_without_scripts_it_has_no_line(snapshot: snapreport.Snapshot) -> None:
    (device,) = snapshot.findings().devices
    drawn = draw_curves(device)
    assert drawn.reserved == ""
    assert drawn.allocated
    assert drawn.ticks[-1][1] == "8.00 MiB"  # what is known reaches 9


@pytest.mark.parametrize("kind", ["txt", "md"])
def test_in_tables_it_is_a_dash(snapshot: snapreport.Snapshot, kind: str) -> None:
    text = report_as(snapshot.findings(), kind, width=120)
    rows = [re.split(r" *\| *|  +", line.strip("| ")) for line in text.splitlines()]
    assert [row[1:4] for row in rows if row[0] == "reserved"] == [["-", "-", "20.00 MiB"]]
    assert [row[1:4] for row in rows if row[0] == "inactive"] == [["-", "-", "16.00 MiB"]]


def test_in_the_explorer_and_for_an_agent_it_is_none(snapshot: snapreport.Snapshot) -> None:
    opened = cast("OpenedFile", SimpleNamespace(snapshot=snapshot))
    assert "reserved" not in Viewpoint(opened).figures
    (device,) = snapshot.findings().devices
    table = _amounts(snapshot.findings(), device)[0]
    rows = {row[0]: tuple(row[1:]) for row in table.take(0, table.count)}
    assert rows["reserved"] == (None, None, 20 * MIB, None, None)


def test_a_budget_for_it_is_neither_kept_nor_broken(snapshot: snapreport.Snapshot) -> None:
    (check,) = snapreport.check(snapshot, max_reserved=MIB).checks
    assert check.outcome == "unknown"
    assert "segment events are missing" in check.text


def test_the_rows_of_a_moment_say_that_it_is_not_known(
    snapshot: snapreport.Snapshot,
) -> None:
    moment = snapshot.device().at(None)
    said = live_document("", moment.amounts, moment.parts(), 0, None, Paragraph(""))
    assert re.search(r"reserved +not known *\n", text_of(said))

"""Other settings of the allocator in a page and in Markdown: told, refused, hopeless, left out."""

from __future__ import annotations

import re
from html import unescape

import pytest

from dev.simulator.simulator import Simulator
from snapreport.diagnosis.conclude import find
from snapreport.figures.allocator import settings
from snapreport.model.findings import Findings
from snapreport.model.history import History
from tests import diseases
from tests.builders import MIB, history_of, trace
from tests.documents import report_as


def told(file: History, allocator: bool | None = False) -> tuple[str, str]:
    """The page's section as plain text, and the Markdown."""
    found: Findings = find(file, allocator=allocator)
    section = re.search(
        r'<section class="settings".*?</section>', report_as(found, "html"), re.DOTALL
    )
    text = re.sub(r'<span role="tooltip">.*?</span>', "", section[0]) if section else ""
    return unescape(re.sub(r"<[^>]*>", " ", text)), report_as(found, "md")


def fragmented() -> History:
    return history_of(diseases.fragmented().snapshot())


def test_the_table_has_each_setting_with_the_recorded_one_first() -> None:
    page, markdown = told(fragmented())
    rows = [line for line in page.splitlines() if "(recorded)" in line or "max_split" in line]
    assert "default" in rows[0]
    assert "(recorded)" in rows[0]
    for text in (page, markdown):
        floor = "No setting gets below the 880.0 MiB that were live or asked for"
        assert floor in re.sub(r"\s+", " ", text)
    # 330 MiB live and 200 asked for do not fit into 924 as recorded; with pages they do.
    assert "| `default` (recorded) | no |" in markdown
    assert "| `expandable_segments:True` | yes |" in markdown
    assert markdown.count("and was not measured") == 1


def test_of_a_late_recording_other_settings_are_estimates() -> None:
    """In each form: the recorded setting is known, and the ranges of others are no bounds."""
    assert not any("may be outside these ranges" in text for text in told(fragmented()))
    late = diseases.fragmented().snapshot()
    del late["device_traces"][0][:6]
    page, markdown = told(history_of(late))
    (recorded,) = [line for line in markdown.splitlines() if "(recorded)" in line]
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    (paged,) = [line for line in rows if "`expandable_segments" in line]
    assert (recorded.count("about"), paged.count("about")) == (0, 2)
    for text in (page, markdown):
        assert "The true values may be outside these ranges." in text.replace("\\", "")
        assert "gave nothing back leave no trace" in text


def test_what_no_setting_could_have_helped_stops_there() -> None:
    page, markdown = told(history_of(diseases.full().snapshot()))
    assert "No setting could have helped: 960.0 MiB needed, 924.0 MiB available." in page
    assert "Smallest capacity" not in page
    assert "Other settings" not in markdown


def test_without_an_exact_replay_the_reason_stands_in_place_of_the_table() -> None:
    made = trace().segment("b", 20 * MIB, (8 * MIB, 0, "free"), (12 * MIB, 12 * MIB, "live"))
    made.alloc("b", 8 * MIB).free("b").alloc(made.address("b") + 8 * MIB, 12 * MIB)
    page, markdown = told(made.file())
    assert "Other settings are not replayed" in page
    assert "Smallest capacity" not in page
    assert "Other settings" not in markdown


def test_a_long_recording_says_how_to_have_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "QUICK", 2)
    assert "snapreport render --allocator" in told(fragmented())[0]
    assert "snapreport render" not in told(fragmented(), allocator=True)[0]


def test_where_nobody_asked_and_where_nothing_can_be_replayed_there_is_no_section() -> None:
    assert told(fragmented(), allocator=None)[0] == ""
    assert told(history_of(Simulator().snapshot()))[0] == ""

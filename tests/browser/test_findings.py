"""Findings on the page: the worst is open, words explain themselves, links show the evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import snapreport
from snapreport.model.diagnoses import Column, Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import Findings
from tests.browser.builders import MIB, DeviceSpec, Row, findings
from tests.browser.conftest import KeptPage, Opener

pytestmark = pytest.mark.browser(webgl=False)

OOM = Path(__file__).parents[2] / "sample_snapshots" / "out_of_memory.pickle.gz"
TRAINING = OOM.with_name("training_step.pickle")
HOSTILE = "<img src=x onerror=alert(1)> & {{ 7*7 }}"
LEAK = Finding(
    "leak",
    "warning",
    "2.00 MiB more with every step",
    "The slack of this call site grows. A block stays in its segment.",
    subject="train.py:7",
    evidence=(Figure("grows by", 2 * MIB, "bytes", "Median over the steps."),),
    tables=(
        Table("Who keeps it", (Column("bytes"), Column("where", "text")), ((MIB, HOSTILE),), 3),
    ),
    suggestions=(
        Suggestion(
            "leak",
            "Do not keep the loss.",
            "total += loss.item()",
            Frees(4 * MIB, 5 * MIB, 6 * MIB, why_most=HOSTILE),
            costs="It waits for the GPU.",
        ),
    ),
    view=View("live", 30, search="train"),
)
NOTE = Finding("slack", "note", "Some slack", "Little.")


def spec(*found: Finding) -> DeviceSpec:
    rows = [Row(MIB, k, 90, (("step", "/app/train.py", 7),)) for k in range(1, 40)]
    return DeviceSpec(rows, found=found)


def leak() -> Findings:
    return findings(spec(LEAK))


def test_the_worst_finding_is_open_and_notes_wait_to_be_asked(open_page: Opener) -> None:
    page = open_page(findings(spec(LEAK, NOTE)), "#tab=findings").page
    card = page.locator(".finding[data-code=leak]")
    expect(card.get_by_text("2.00 MiB more with every step")).to_be_visible()
    expect(card.locator(".frees")).to_have_text("frees 4.00 MiB to 6.00 MiB, about 5.00 MiB")
    expect(card.locator(".frees")).to_be_visible()
    expect(card.get_by_text("grows by")).not_to_be_visible()
    card.get_by_text("Evidence").click()
    expect(card.get_by_text("grows by")).to_be_visible()
    expect(card.locator("pre")).to_have_text("total += loss.item()")
    expect(card.locator(".advice small")).to_have_text("It waits for the GPU.")
    expect(card.locator(".frees")).to_have_attribute("title", f"At most 6.00 MiB: {HOSTILE}.")
    expect(card.get_by_role("button", name="Copy")).to_be_visible()
    expect(page.get_by_text("Some slack")).not_to_be_visible()
    page.get_by_text("1 more note").click()
    expect(page.get_by_text("Some slack")).to_be_visible()


def test_findings_are_one_list_with_the_best_advice_open(open_page: Opener) -> None:
    help_ = (Suggestion("checkpoint", "Do.", "", Frees(0, 7 * MIB, 8 * MIB)),)
    peak = Finding("peak", "note", "39.00 MiB at the peak", "Why.", suggestions=help_)
    late = Finding("started-late", "warning", "Recording started late", "It did.")
    page = open_page(findings(spec(peak, late, LEAK, NOTE))).page
    codes = page.locator(".findings > ol > .finding").evaluate_all(
        "cards => cards.map((card) => [card.dataset.code, card.firstElementChild.open])"
    )
    assert codes == [["started-late", False], ["leak", False], ["peak", True]]


@pytest.mark.parametrize("width", [1440, 600])
def test_what_failed_stands_beside_the_figures_and_the_timeline_is_in_sight(
    kept_page: KeptPage, width: int
) -> None:
    page = kept_page(OOM).page
    page.set_viewport_size({"width": width, "height": 900})
    if width > 1200:
        page.get_by_role("tab", name="Findings").click()
    peak, found, plot = (
        page.locator(each).first.bounding_box() for each in ("section.peak", ".findings", ".plot")
    )
    assert peak is not None
    assert found is not None
    assert plot is not None
    if width > 1200:
        assert found["x"] > peak["x"] + peak["width"]
        assert found["x"] + found["width"] > 1350  # no empty third
        assert plot["y"] < 600  # two thirds of it are in sight
    else:
        assert found["y"] >= peak["y"] + peak["height"]
    page.locator(".finding[data-code=oom]").first.get_by_text("Show its call stack").click()
    expect(page.locator(".details")).to_be_in_viewport()


def test_a_word_of_ours_says_what_it_means_once(kept_page: KeptPage) -> None:
    page = kept_page(leak).page
    page.get_by_role("tab", name="Findings").click()
    page.locator(".why summary").click()
    words = page.locator(".finding .term")
    texts = [word.evaluate("node => node.firstChild.textContent") for word in words.all()]
    assert texts == ["slack", "call site", "block", "segment"]
    meaning = words.first.get_by_role("tooltip")
    expect(meaning).not_to_be_visible()
    words.first.hover()
    expect(meaning).to_contain_text("not requested")


def test_a_finding_leads_to_the_view_that_shows_it(kept_page: KeptPage) -> None:
    page = kept_page(leak).page
    page.get_by_role("tab", name="Findings").click()
    page.get_by_role("link", name="Show the allocations").click()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Allocations")
    expect(page.locator(".moment")).to_contain_text("event 30")
    expect(page.locator(".moment")).to_be_in_viewport()


def test_a_stranger_s_text_in_a_finding_stays_text(kept_page: KeptPage) -> None:
    page = kept_page(leak).page
    page.get_by_role("tab", name="Findings").click()
    page.get_by_text("Evidence").click()
    expect(page.locator(".evidence-table td").last).to_have_text(HOSTILE)
    expect(page.locator(".evidence-table .more")).to_have_text("3 more.")
    assert page.locator("img").count() == 0


def test_without_scripts_findings_are_complete_but_for_their_links(open_page: Opener) -> None:
    page = open_page(findings(spec(LEAK)), java_script_enabled=False, ready=False).page
    expect(page.locator(".finding").get_by_text("Do not keep the loss.")).to_be_visible()
    expect(page.get_by_text("Show the allocations")).not_to_be_visible()


_TOOLTIPS = """terms => terms.map((term) => {
  term.focus()
  const { left, right } = term.querySelector("[role=tooltip]").getBoundingClientRect()
  return [term.textContent, left, right]
})"""


def test_what_a_word_means_is_shown_on_the_screen(open_page: Opener) -> None:
    page = open_page(snapreport.load(OOM).findings()).page
    page.get_by_role("tab", name="Recording").click()
    for details in page.locator(".findings details").all():
        details.evaluate("each => each.open = true")
    terms = page.locator(":is(.findings, .recording-panel) .term:visible")
    # Where the page is one screen, a tab shows one or the other.
    shown = {390: 0, 700: 0, 1280: 0}
    for width, tab in ((390, ""), (700, ""), (1280, "Findings"), (1280, "Recording")):
        page.set_viewport_size({"width": width, "height": 900})
        if tab:
            page.get_by_role("tab", name=tab).click()
        shown[width] += terms.count()
        for text, left, right in terms.evaluate_all(_TOOLTIPS):
            assert 0 <= left < right <= width, text
    assert shown[390] > 20
    assert len(set(shown.values())) == 1


def test_what_held_the_peak_is_a_line_that_says_what_would_lower_it(open_page: Opener) -> None:
    help_ = (Suggestion("checkpoint", "Do.", "", Frees(0, 7 * MIB, 8 * MIB)),)
    peak = Finding("peak", "note", "39.00 MiB at the peak", "Why.", suggestions=help_)
    page = open_page(findings(spec(peak)), "#tab=findings").page
    card = page.locator(".finding[data-code=peak]")
    expect(card.locator(".frees")).to_be_visible()
    card.locator("summary").first.click()
    expect(card.locator(".hint")).to_have_text("biggest saving: about 7.00 MiB")
    expect(card.locator(".frees")).not_to_be_visible()
    card.locator("summary").first.click()
    expect(card.locator(".frees")).to_be_visible()
    expect(card.locator(".hint")).not_to_be_visible()


# Whether a click on the middle of an element would hit it: nothing covers it or cuts it off.
_IN_SIGHT = """element => {
  const { left, top, width, height } = element.getBoundingClientRect()
  const hit = document.elementFromPoint(left + width / 2, top + height / 2)
  return hit !== null && element.contains(hit)
}"""


@pytest.mark.parametrize("sample", [OOM, TRAINING], ids=["out of memory", "training"])
def test_what_to_do_stands_on_the_first_screen_with_its_bytes(
    kept_page: KeptPage, sample: Path
) -> None:
    page = kept_page(sample).page
    page.set_viewport_size({"width": 1440, "height": 900})
    action = page.locator(".brief-do [data-finding]")
    for part in action.locator("span, .frees").all():
        assert part.evaluate(_IN_SIGHT), part.inner_text()
    assert "frees" in action.inner_text()
    action.click()
    lead = page.locator(".finding .lead").first
    assert lead.locator(".frees").count() == 1
    for part in lead.locator(".change, .frees, pre, .copy").all():
        assert part.evaluate(_IN_SIGHT), part.inner_text()
    why = page.locator(".finding .explanation").first
    expect(why).not_to_be_visible()  # it repeats the answer beside it
    page.locator(".why summary").first.click()
    expect(why).to_be_visible()
    page.locator(".why summary").first.click()


@pytest.mark.parametrize("sample", [OOM, TRAINING], ids=["out of memory", "training"])
def test_a_phone_shows_the_timeline_within_a_screen_and_a_half(
    kept_page: KeptPage, sample: Path
) -> None:
    page = kept_page(sample).page
    page.set_viewport_size({"width": 390, "height": 844})
    box = page.locator(".plot").bounding_box()
    assert box is not None
    assert box["y"] < 1.5 * 844
    for button in page.locator(".timeline .buttons button").all():
        size = button.bounding_box()
        assert size is not None
        assert size["height"] < 32  # its words fit on one line

"""Two runs side by side, as text for a terminal."""

from __future__ import annotations

from snapreport.compare.changed_alike import changed_alike
from snapreport.ground.units import format_bytes, format_signed_bytes
from snapreport.model.run.run_diff import RunDiff
from snapreport.reporters.run.run_words import difference_text
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import cut, one_line

_DIFFERENCES = 3


def write_run_diff(page: Page, diff: RunDiff, most: int | None) -> None:
    """Write how the ranks of two runs differ, and which allocations make the difference.

    Args:
        page: to write to.
        diff: from ``compare_runs()``.
        most: groups and ranks to list; None for all.
    """
    if most is None:
        most = max(len(diff.groups), len(diff.ranks))
    page.say(one_line(diff.headline), "title")
    if diff.groups:
        page.part("By group")
    for group in diff.groups[:most]:
        page.say(one_line(group.sentence))
        if group.change:
            for each in group.differences[:_DIFFERENCES]:
                page.say(f"  {cut(difference_text(each), page.width - 2)}")
    page.more(len(diff.groups) - most, "group")
    alike = changed_alike(diff.ranks)
    if alike:
        page.part("Ranks that changed alike")
    for some in alike[:most]:
        page.say(one_line(some.sentence))
    page.more(len(alike) - most, "change")
    changed = sorted(
        (each for each in diff.ranks if each.change),
        key=lambda each: (not each.odd, -abs(each.change)),
    )
    if changed:
        page.part()
        page.table(
            ("change", "before", "now", "rank", ""),
            [
                (
                    format_signed_bytes(each.change),
                    format_bytes(each.base),
                    format_bytes(each.new),
                    each.name,
                    "unlike its group" if each.odd else "",
                )
                for each in changed[:most]
            ],
            left=(3, 4),
        )
        page.more(len(changed) - most, "rank")
    for note in diff.notes:
        page.part()
        page.say(one_line(note))

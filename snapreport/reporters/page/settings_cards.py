"""Other settings of the allocator laid out for the page."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from snapreport.ground.safe_text import shown
from snapreport.model.replay.replays import SettingsStudy
from snapreport.reporters.page.terms import Definitions
from snapreport.reporters.words.allocator_words import (
    asked_text,
    cells,
    ending_text,
    floor_text,
    headings,
    how_text,
)


@dataclass(frozen=True)
class SettingRow:
    """One setting."""

    settings: str
    recorded: bool
    curve: int
    """Its place among the curves that the page has; -1 for the recorded one."""
    cells: tuple[str, ...]


@dataclass(frozen=True)
class SettingsCard:
    """What the page says of other settings of the allocator."""

    lead: tuple[Markup, ...]
    """Sentences before the table; the only thing where there is none."""
    left_out: bool
    """Whether there would be a table for who waits."""
    headings: tuple[str, ...]
    rows: tuple[SettingRow, ...]
    how: Markup


def lay_out_settings(study: SettingsStudy | None) -> SettingsCard | None:
    """Lay out other settings for the page; None where there is nothing to say."""
    if study is None:
        return None
    found, define = study.found, Definitions()
    texts = [floor_text(found), ending_text(found), asked_text(found) if found.outcomes else ""]
    sentences = [_sentence(each) for each in texts if each]
    curves = [each.settings for each in study.curves]
    return SettingsCard(
        lead=tuple(define.mark(each) for each in sentences),
        left_out=study.left_out,
        headings=headings(found),
        rows=tuple(
            SettingRow(
                shown(each.settings),
                each.recorded,
                -1 if each.recorded else curves.index(each.settings),
                tuple(cells(each, found)),
            )
            for each in found.outcomes
        ),
        how=define.mark(how_text(found)),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."

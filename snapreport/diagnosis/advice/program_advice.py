"""Changes to the program as suggestions: what each would free, what it costs, when not to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.diagnosis.advice.call_blocks import Blocks, keep_much, name_caller
from snapreport.diagnosis.advice.change_words import WORDS, code_for, framework_of
from snapreport.diagnosis.advice.edits import Change
from snapreport.diagnosis.advice.program_changes import find_changes
from snapreport.diagnosis.advice.situation import Situation, look_at
from snapreport.diagnosis.block_room import WHYS
from snapreport.figures.callsites import label_sites, short_site, site_text
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import ROLES

_WORTH = 0.02
"""A change expected to free less than this part of the peak is not worth the work."""
_LAST = ("offload", "offload-activations")
"""Copying memory to the host and back in each step is the last resort."""
_DOUBTFUL = "first"
"""``Change.about`` where the program may still need what the change takes away."""
_SITES = 5
_SHARES = {2: "half", 4: "a quarter", 8: "an eighth", 16: "a sixteenth"}


def situation_of(tables: History, device: DeviceFigures) -> Situation | None:
    """Return the situation that advice is drawn from, None if nothing was recorded."""
    if not device.recorded or not len(device.history.allocations):
        return None
    return look_at(tables, device.history, device.curves["allocated"])


def suggest(
    situation: Situation, parts: Sequence[int] = (2,), chunks: Sequence[int] = (8,)
) -> tuple[Suggestion, ...]:
    """Return the changes worth making: those that free most first, but the slowest last.

    Each is tried on the recording: what it would save is taken from the history, and the peak over
    all events is computed again.

    Args:
        parts: into how many the batch may be cut.
        chunks: into how many the loss may be cut.
    """
    peak = situation.peak
    found = [
        (each.code in _LAST or each.about == _DOUBTFUL, as_suggestion(situation, each))
        for each in find_changes(situation, parts, chunks)
        if peak - situation.left(each.expected) >= _WORTH * peak
    ]
    found.sort(key=lambda each: (each[0], -each[1].expected))
    return tuple(suggestion for _, suggestion in found)


def as_suggestion(situation: Situation, change: Change) -> Suggestion:
    """Put a change in words, with what it frees by itself."""
    words = WORDS[f"{change.code} {change.about}".strip()]
    peak = situation.peak
    expected = max(peak - situation.left(change.expected), 0)
    least = max(min(peak - situation.at_most([change]), expected), 0)
    most = max(peak - situation.at_least([change]), expected)
    whys = words.whys if any(words.whys) else WHYS
    live = np.flatnonzero(change.acts_on & situation.live())
    weights = situation.history.allocations.block_size[live]
    number, names = label_sites(situation.history, situation.tables.stacks)
    held = np.bincount(number[live], weights=weights, minlength=len(names))
    largest = [i for i in np.argsort(-held, kind="stable")[:_SITES].tolist() if held[i]]
    roles = np.bincount(situation.roles.role[live], weights=weights, minlength=len(ROLES))
    share = _SHARES.get(change.number, f"1/{change.number}")
    blanks = {"number": str(change.number), "share": share}
    if change.blocks is not None:
        blanks["caller"] = name_caller(situation.tables.stacks, change.blocks)
        blanks["count"] = format_count(_count(situation, change, change.blocks))
    if change.calls is not None:
        blanks["count"] = format_count(len(change.calls.starts))
        blanks["each"] = format_bytes(change.calls.kept)
        caller = change.calls.caller
        place = short_site(site_text(situation.tables.stacks, caller)) if caller >= 0 else ""
        blanks["from"] = f" from {place}" if place else ""
    code = code_for(change.code, change.about, framework_of(situation.tables.stacks.frames))
    return Suggestion(
        change.code,
        _filled(words.text, blanks),
        _filled(code, blanks),
        Frees(least, expected, most, *(whys if least < most else ("", "", ""))),
        ROLES[int(roles.argmax())] if len(live) else "",
        tuple(names[i] for i in largest),
        words.costs,
        words.unless,
        change.number,
    )


def _count(situation: Situation, change: Change, blocks: Blocks) -> int:
    """Count the calls of a forward pass that keep much, such as layers, not embeddings."""
    size = situation.history.allocations.block_size[blocks.rows]
    kept = np.bincount(blocks.instance, weights=size * change.acts_on[blocks.rows])
    much = blocks.meant & keep_much(kept)
    return int(np.bincount(blocks.turn[much]).max(initial=0))


def _filled(text: str, blanks: dict[str, str]) -> str:
    """Fill in the names in braces; not ``str.format``, as code has braces of its own."""
    for name, value in blanks.items():
        text = text.replace(f"{{{name}}}", value)
    return text

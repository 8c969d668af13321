"""The current view as Markdown, as JSON, and as a link for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from snapreport.ground.errors import OutputError
from snapreport.ground.files import write_atomically
from snapreport.ground.safe_text import plain_json
from snapreport.ground.units import format_bytes, format_count
from snapreport.reporters.markdown.markdown_parts import table
from snapreport.reporters.words.plain_text import code_span, escaped

if TYPE_CHECKING:
    from snapreport.explorer.parts.viewpoint import Viewpoint

MOST_ROWS = 40
"""Rows of a table in Markdown: the length of an issue comment is limited."""
MOST_LETTERS = 70_000
"""Letters that go to the clipboard: terminals accept no more."""
_BYTES = frozenset(
    {"bytes", "requested", "cumulative", "median", "allocated", "reserved", "size", "in use",
     "start", "peak", "end", "change", "before", "after"}
)  # fmt: skip
"""Columns whose numbers are bytes."""
LINK_KEYS = ("device", "axis", "view", "curve", "event", "tab", "search", "stacks", "frames")
"""The keys of a fragment of the page's address, as in ``#event=12&tab=lines``, in the page's order.
The page has more keys, for things that the explorer does not have."""
_PLAIN = "-_.!~*'(),:"

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Headings, and rows of plain values."""


def link_of(view: Viewpoint, screen: Mapping[str, object]) -> str:
    """Return the fragment of the page's address for a moment; ``screen``: the screen's own keys."""
    snapshot = view.opened.snapshot
    places = [str(device.device) for device in snapshot.devices]
    device = places.index(view.device.name)
    return encode_link(
        {
            "device": None if device == snapshot.history.default_device else device,
            "curve": None if view.curve == "allocated" else view.curve,
            "event": None if view.event == view.opening else view.event,
            **screen,
        }
    )


def encode_link(values: Mapping[str, object]) -> str:
    """Return a fragment without its ``#``; None and ``""`` are the page's defaults."""
    parts = [
        f"{key}={quote(_text(values[key]), safe=_PLAIN)}"
        for key in LINK_KEYS
        if values.get(key) not in (None, "")
    ]
    return "&".join(parts)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_number(each) for each in value)
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Write enough digits to find the same pixel again, as the page does."""
    return str(int(value)) if value == int(value) else f"{value:.9g}"


def as_markdown(view: Viewpoint, title: str, shown: Table, link: str) -> str:
    """Return a screen as Markdown; no name in it is markup, a mention or a link."""
    titles, rows = shown
    amounts = view.moment.amounts
    figures = [("allocated", amounts.allocated), ("requested", amounts.requested)]
    figures += [] if amounts.reserved is None else [("reserved", amounts.reserved)]
    held = f"{format_bytes(view.moment.bytes)} {view.curve} {view.name}"
    blocks = [
        f"**{escaped(view.opened.snapshot.history.title)}**, {escaped(view.device.name)}: {held}",
        " · ".join(f"{name} {format_bytes(size)}" for name, size in figures),
        f"{title}:",
    ]
    if rows:
        left = [k for k, cell in enumerate(rows[0]) if isinstance(cell, str)]
        cells = [
            [_cell(name, cell) for name, cell in zip(titles, row, strict=True)]
            for row in rows[:MOST_ROWS]
        ]
        blocks.append(table([escaped(each) for each in titles], cells, left))
    if len(rows) > MOST_ROWS:
        blocks.append(f"and {format_count(len(rows) - MOST_ROWS)} more")
    if link:
        blocks.append(f"In the report: {code_span(f'#{link}')}")
    return "\n\n".join(blocks) + "\n"


def _cell(name: str, cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return format_bytes(cell) if name in _BYTES else format_count(cell)
    return code_span(str(cell)) if str(cell) else ""


def as_json(view: Viewpoint, title: str, shown: Table, link: str) -> str:
    """Return a screen as JSON, sizes in bytes."""
    titles, rows = shown
    whole: dict[str, Any] = {
        "file": view.opened.snapshot.history.source.name,
        "device": view.device.name,
        "event": view.event,
        "time_us": view.moment.time_us,
        "curve": view.curve,
        "bytes": view.moment.bytes,
        "amounts": asdict(view.moment.amounts),
        "screen": title,
        "link": link,
        "rows": [dict(zip(titles, map(_plain, row), strict=True)) for row in rows],
    }
    return plain_json(orjson.dumps(whole, option=orjson.OPT_INDENT_2)).decode() + "\n"


def _plain(cell: object) -> object:
    return cell.hex() if isinstance(cell, bytes) else cell


def write_text(path: Path, text: str) -> None:
    """Write a text into a new file.

    Raises:
        OutputError: the file exists already, or cannot be written.
    """
    if not path.name:
        raise OutputError("name a file, such as view.md or view.json.")
    with write_atomically(path, force=False) as out:
        out.write(text.encode())

"""Writes a document as HTML, to stand in a page."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from snapreport.ground.safe_text import shown
from snapreport.ground.templates import environment
from snapreport.ground.units import true_minus
from snapreport.reporters.document import (
    Code,
    Document,
    Drawing,
    Mark,
    Part,
    Severity,
    Site,
    Size,
    Strong,
    Tag,
    Words,
    parts_of,
    plain,
    with_content,
)
from snapreport.reporters.markdown import MARKS
from snapreport.reporters.whole_page import NUMBERS


def fragment(document: Document) -> str:
    """Return a document without its title as HTML to stand in a page, such as a notebook's."""
    blocks: Any = environment().get_template("blocks.html.j2").make_module(block_functions())
    return f"<div>{blocks.show(document.blocks)}</div>"


def block_functions() -> dict[str, Any]:
    """Return what the template of blocks calls."""

    def drawn(block: Drawing) -> Markup:
        template = environment().get_template(block.template)
        return Markup(template.render(**NUMBERS, **block.values()))  # noqa: S704

    return {
        "inline": inline,
        "largest": _largest,
        "kind": lambda block: type(block).__name__.lower(),
        "plain": plain,
        "drawn": drawn,
        "with_content": with_content,
    }


def inline(words: Words) -> Markup:
    """Return words as HTML."""
    return Markup("").join(map(_part, parts_of(words)))


def _part(part: Part) -> Markup:
    if isinstance(part, (Code, Tag)):
        code = Markup("<code>{}</code>").format(shown(part.text))
        link = part.link if isinstance(part, Code) else ""
        return Markup('<a href="{}">{}</a>').format(link, code) if link else code
    if isinstance(part, Strong):
        return Markup("<strong>{}</strong>").format(shown(part.text))
    if isinstance(part, Severity):
        return escape(f"{part.name.capitalize()}:")
    if isinstance(part, Mark):
        return escape(f"{MARKS[part.is_good]} {part.text}".rstrip())
    if isinstance(part, Size):
        text = true_minus(str(part))
        if part.bytes is None or part.exact:
            return escape(text)
        exact = Size(part.bytes, part.is_change, exact=True)
        return Markup('<span title="{} bytes">{}</span>').format(true_minus(str(exact)), text)
    if isinstance(part, Site):
        name = escape(shown(part.name))
        if part.is_code:
            name = Markup("<code>{}</code>").format(name)
        # The last two parts of the path are enough to recognise it.
        end = "/".join(part.place.replace("\\", "/").split("/")[-2:])
        return Markup('{} <span class="place" title="{}">{}</span>').format(
            name, shown(part.place), shown(end)
        )
    return escape(true_minus(shown(part)))


def _largest(rows: list[list[Words]], column: int) -> int:
    """Return the largest size of a column, which gets a full bar; never 0."""
    sizes = [row[column] for row in rows]
    return max((abs(each.bytes or 0) for each in sizes if isinstance(each, Size)), default=0) or 1

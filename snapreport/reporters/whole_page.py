"""A page as one file that opens offline: template, styles, script and content security policy."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, BinaryIO

import orjson
from markupsafe import Markup, escape

from snapreport.ground.files import gzipped
from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.safe_text import plain_json, shown
from snapreport.ground.templates import (
    LOADER,
    STARTER,
    built,
    built_packed,
    environment,
    hash_source,
    style_beside,
    templates_folder,
)
from snapreport.ground.units import (
    format_bytes,
    format_change,
    format_count,
    format_share,
    format_signed_bytes,
    plural,
    true_minus,
)
from snapreport.ground.version import __version__
from snapreport.reporters.words import amount

# The longest first: "private pool" before "pool". Plurals count too.
_NAMES = "|".join(map(re.escape, sorted(GLOSSARY, key=len, reverse=True)))
# Not terms: code and names of functions or files, such as stream.wait_stream(), graph.pool() and
# "step (block.py:28)", and Python's "except block".
_TERM = re.compile(
    r"(?=[a-z]{2})(?<!except )(?<!::)(?<![\w.=/\\])"
    rf"(?P<term>{_NAMES})(?:e?s)?"
    r"(?![\w(=]|::|\.\w| \([^()\s]+:\d+\))",
    re.IGNORECASE,
)
_MEANINGS = {term.lower(): meaning for term, meaning in GLOSSARY.items()}


class Definitions:
    """Defines each term at its first use in one part of a page."""

    def __init__(self) -> None:
        """Begin a part in which no term has been defined yet."""
        self._explained: set[str] = set()

    def mark(self, text: str) -> Markup:
        """Return text as HTML, with a definition at each new term."""
        text = shown(text)
        parts: list[Markup] = []
        end = 0
        for match in _TERM.finditer(text):
            meaning = _MEANINGS[match["term"].lower()]
            if meaning in self._explained:
                continue
            self._explained.add(meaning)
            parts += [
                escape(text[end : match.start()]),
                Markup(
                    '<span class="term" tabindex="0">{}<span role="tooltip">{}</span></span>'
                ).format(match.group(0), meaning),
            ]
            end = match.end()
        return Markup("").join([*parts, escape(text[end:])])


class Folded:
    """Parts of a page that its script puts in their places: packed, they are a fifth as large."""

    def __init__(self) -> None:
        """Begin a page without such parts."""
        self._parts: list[Markup] = []

    def __call__(self, now: bool, without: str, *, caller: Callable[[], Markup]) -> Markup:
        """Return a part of the page now, or else what stands for it until the script runs.

        Args:
            now: whether the part stays where it is.
            without: what a reader without JavaScript sees.
            caller: makes the part.
        """
        part = caller()
        if now or not part.strip():
            return part
        self._parts.append(part)
        place = Markup('<p class="more folded-part" data-part="{}">{}</p>\n')
        return place.format(len(self._parts) - 1, shown(without))

    def packed(self) -> Markup:
        """Return all of these parts, each in an element of its own; empty if there are none."""
        parts = "".join(f"<div>{part}</div>" for part in self._parts)
        return data_for_script(gzipped([parts.encode()], 9)) if parts else Markup("")


def coded(text: str) -> Markup:
    """Return text as HTML in which what stands between backticks is code."""
    parts = shown(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner is part of the text
        parts[-2:] = ["`".join(parts[-2:])]
    marked = (
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )
    return Markup("").join(marked)


NUMBERS = {
    "bytes": format_bytes,
    "signed_bytes": lambda change: true_minus(format_signed_bytes(change)),
    "count": format_count,
    "share": format_share,
    "percent": lambda change, base: true_minus(format_change(change, base)),
    "true_minus": true_minus,
    "amount": amount,
    "plural": plural,
}
"""The functions that every template formats numbers with."""


def write_page(
    out: BinaryIO,
    template: str,
    *,
    script: str,
    format: int,  # noqa: A002  (the bundle and JSON call it that)
    style: str = "",
    workers: bool = False,
    **values: Any,
) -> None:
    """Write a page as UTF-8.

    Args:
        out: the file to write to.
        template: the template's name.
        script: the name of the built script.
        format: the format of the page's data.
        style: the name of the page's own style sheet, added after the common one.
        workers: whether the script may run itself as a worker.
        values: what the template shows.
    """
    styles = {"built/style.css": built("style.css")}
    if style:
        styles[style] = style_beside(style)
    scripts = {"starts": STARTER, "unpacks the next": LOADER, f"built/{script}": built(script)}
    # Not escaped: these are not a stranger's, and their hashes are of the text as it is.
    values |= {"starter": Markup(STARTER), "loader": Markup(LOADER)}  # noqa: S704
    values |= {"app": Markup(built_packed(script))}  # noqa: S704
    about = about_page(styles, scripts, format)
    # Nothing may be fetched, framed or submitted.
    policy = [
        "default-src 'none'",
        f"script-src {' '.join(about['scripts'].values())}",
        f"style-src {' '.join(about['styles'].values())}",
        *(["worker-src blob:"] if workers else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    values |= {"csp": "; ".join(policy), "about": about, **NUMBERS}
    values["styles"] = [Markup(text) for text in styles.values()]  # noqa: S704
    page = environment().get_template(template).render(values)
    out.write(page.encode("utf-8", errors="replace"))


def about_page(
    styles: Mapping[str, str],
    scripts: Mapping[str, str],
    format: int,  # noqa: A002
) -> dict[str, Any]:
    """Return what a page says about itself, with the hashes of scripts and styles in its policy.

    Args:
        styles: the text of each style sheet by its file, below the folder of the templates.
        scripts: the text of each script by its file, or by what it does.
        format: the format of the page's data.
    """
    return {
        "version": __version__,
        "format": format,
        "inlined": inlined(),
        "scripts": {what: hash_source(text) for what, text in scripts.items()},
        "styles": {what: hash_source(text) for what, text in styles.items()},
    }


@cache
def inlined() -> list[dict[str, str]]:
    """Return name, version, licence and licence text of all third-party code in the built files."""
    rows: list[dict[str, str]] = orjson.loads((templates_folder() / "inlined.json").read_bytes())
    return rows


def json_for_script(data: dict[str, Any]) -> Markup:
    """Return JSON in which no HTML parser can find the end of the script element around it."""
    text = plain_json(orjson.dumps(data)).decode()
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def data_for_script(data: bytes) -> Markup:
    """Return bytes as base64, for a script element."""
    return Markup(base64.b64encode(data).decode("ascii"))  # noqa: S704

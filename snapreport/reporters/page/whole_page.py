"""A page as one file that opens offline: template, styles, script and content security policy."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any, BinaryIO

import orjson
from markupsafe import Markup

from snapreport.ground.safe_text import plain_json
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
from snapreport.reporters.words.summary_rows import amount

_NUMBERS = {
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
    style: str = "",
    script: str = "",
    format: int | None = None,  # noqa: A002  (the bundle and JSON call it that)
    workers: bool = False,
    **values: Any,
) -> None:
    """Write a page as UTF-8.

    Args:
        out: the file to write to.
        template: the template's name.
        style: the name of the page's own style sheet, added after the common one.
        script: the name of the built script; ``""`` for a page without one.
        format: the format of the page's data.
        workers: whether the script may run itself as a worker.
        values: what the template shows.
    """
    styles = {"built/style.css": built("style.css")}
    if style:
        styles[style] = style_beside(style)
    scripts = {}
    if script:
        scripts = {"starts": STARTER, "unpacks the next": LOADER, f"built/{script}": built(script)}
        # Not escaped: these are not a stranger's, and their hashes are of the text as it is.
        values |= {"starter": Markup(STARTER), "loader": Markup(LOADER)}  # noqa: S704
        values |= {"app": Markup(built_packed(script))}  # noqa: S704
    about = about_page(styles, scripts, format)
    # Nothing may be fetched, framed or submitted.
    policy = [
        "default-src 'none'",
        *([f"script-src {' '.join(about['scripts'].values())}"] if scripts else []),
        f"style-src {' '.join(about['styles'].values())}",
        *(["worker-src blob:"] if workers else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    values |= {"csp": "; ".join(policy), "about": about, **_NUMBERS}
    values["styles"] = [Markup(text) for text in styles.values()]  # noqa: S704
    page = environment().get_template(template).render(values)
    out.write(page.encode("utf-8", errors="replace"))


def about_page(
    styles: Mapping[str, str],
    scripts: Mapping[str, str],
    format: int | None,  # noqa: A002
) -> dict[str, Any]:
    """Return what a page says about itself, with the hashes of scripts and styles in its policy.

    Args:
        styles: the text of each style sheet by its file, below the folder of the templates.
        scripts: the text of each script by its file, or by what it does.
        format: the format of the page's data; None for a page without data.
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

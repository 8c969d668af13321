"""What a page says of itself: who made it, whose code is in it, and what it is allowed to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import orjson

from snapreport.ground.templates import hash_source, templates_folder
from snapreport.ground.version import __version__


@dataclass(frozen=True)
class Inlined:
    """Somebody else's code in the page."""

    name: str
    version: str
    licence: str
    text: str
    """The whole licence."""


@dataclass(frozen=True)
class Part:
    """A script or style that the page's policy allows."""

    what: str
    """The file that it is, below the folder of the templates; or what it does."""
    hash: str
    """As in the policy: ``'sha256-...'``."""


@dataclass(frozen=True)
class About:
    """What "About this page" shows."""

    version: str
    format: int | None
    """Of the data in the page; None where there is only what is seen."""
    inlined: tuple[Inlined, ...]
    scripts: tuple[Part, ...]
    styles: tuple[Part, ...]


def about_page(
    styles: Mapping[str, str],
    scripts: Mapping[str, str] | None = None,
    format: int | None = None,  # noqa: A002  (the word of the bundle and of JSON)
) -> About:
    """Return what a page with these styles and scripts says of itself.

    Args:
        styles: the text of each by its file's name; likewise the next, of a page that has scripts.
        scripts: none in a page that only shows.
        format: of the page's data.
    """
    return About(
        __version__,
        format,
        inlined(),
        tuple(Part(what, hash_source(text)) for what, text in (scripts or {}).items()),
        tuple(Part(what, hash_source(text)) for what, text in styles.items()),
    )


@cache
def inlined() -> tuple[Inlined, ...]:
    """Return whose code is in the built script and style; the build checks that it is all."""
    rows = orjson.loads((templates_folder() / "inlined.json").read_bytes())
    return tuple(Inlined(row["name"], row["version"], row["licence"], row["text"]) for row in rows)

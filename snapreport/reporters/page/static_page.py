"""A self-contained page without any script: its template, its styles and what it may do."""

from __future__ import annotations

from typing import Any, BinaryIO

from markupsafe import Markup

from snapreport.ground.templates import built, environment, hash_source, style_beside
from snapreport.reporters.page.about import about_page


def write_static_page(out: BinaryIO, template: str, style: str, **values: Any) -> None:
    """Write a page as UTF-8.

    Args:
        out: where to.
        template: its name.
        style: the name of its own style sheet, which comes after the one that all pages have.
        values: what the template shows.
    """
    styles = {"built/style.css": built("style.css"), style: style_beside(style)}
    hashes = " ".join(map(hash_source, styles.values()))
    page = (
        environment()
        .get_template(template)
        .render(
            # Ours, not a stranger's, and hashed as they stand: they must not be escaped.
            styles=[Markup(text) for text in styles.values()],  # noqa: S704
            about=about_page(styles),
            csp=f"default-src 'none'; style-src {hashes}; base-uri 'none'; form-action 'none'",
            **values,
        )
    )
    out.write(page.encode("utf-8", errors="replace"))

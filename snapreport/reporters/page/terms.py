"""Marks up what stands in a plain text: glossary terms to define, and names in backticks."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.safe_text import shown

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

"""Marks the words of ours in a text, so that a page can say what they mean."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from snapreport.model.glossary import GLOSSARY

# The longest first: "private pool" before "pool". Plurals count too; an "except block" is Python's.
_TERM = re.compile(
    rf"(?<!except )\b({'|'.join(map(re.escape, sorted(GLOSSARY, key=len, reverse=True)))})(e?s)?\b",
    re.IGNORECASE,
)


class Definitions:
    """Explains each word the first time that it comes up in one part of a page."""

    def __init__(self) -> None:
        """Begin a part in which no word was explained yet."""
        self._explained: set[str] = set()

    def mark(self, text: str) -> Markup:
        """Return text as HTML, with what each new word means beside it."""
        parts: list[Markup] = []
        end = 0
        for match in _TERM.finditer(text):
            term = match.group(1).lower()
            if term in self._explained:
                continue
            self._explained.add(term)
            parts += [
                escape(text[end : match.start()]),
                Markup(
                    '<span class="term" tabindex="0">{}<span role="tooltip">{}</span></span>'
                ).format(match.group(0), GLOSSARY[term]),
            ]
            end = match.end()
        return Markup("").join([*parts, escape(text[end:])])

"""Marks the words of ours in a text, so that a page can say what they mean."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.safe_text import shown

_STEP = r"(?:(?<=at )|(?<=from )|(?<=to ))step|steps?(?= \d)"
"""Only a step with a number is ours: not "step by step", nor a training step."""
# The longest first: "private pool" before "pool". Plurals count too.
_NAMES = "|".join(
    re.escape(term) for term in sorted(GLOSSARY, key=len, reverse=True) if term != "step"
)
# Neither code nor the name of a function or file is ours: stream.wait_stream(), graph.pool(),
# "step (block.py:28)"; and an "except block" is Python's.
_TERM = re.compile(
    r"(?=[a-z]{2})(?<!except )(?<!::)(?<![\w.=/\\])"
    rf"(?:(?P<step>{_STEP})|(?P<term>{_NAMES})(?:e?s)?)"
    r"(?![\w(=]|::|\.\w| \([^()\s]+:\d+\))",
    re.IGNORECASE,
)
_MEANINGS = {term.lower(): meaning for term, meaning in GLOSSARY.items()}


class Definitions:
    """Explains each word the first time that it comes up in one part of a page."""

    def __init__(self) -> None:
        """Begin a part in which no word was explained yet."""
        self._explained: set[str] = set()

    def mark(self, text: str) -> Markup:
        """Return text as HTML, with what each new word means beside it."""
        text = shown(text)
        parts: list[Markup] = []
        end = 0
        for match in _TERM.finditer(text):
            meaning = _MEANINGS["step" if match["step"] else match["term"].lower()]
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

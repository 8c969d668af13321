"""Count strings as they are found, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The kinds of values by their keys; other values have their key's name as their kind.
_KINDS = {
    "filename": "file",
    "file": "file",
    "files": "file",
    "strings": "text",
    "settings": "setting",
    "allocator_settings": "setting",
    "recorder": "recording",
    "recording": "recording",
    "snapreport": "recording",
    "external_annotations": "stage",
    "stages": "stage",
    "oddities": "oddity",
    "sha256": "hash",
    "user_metadata": "metadata",
}
_WHOLE = {"setting", "recording", "oddity"}
"""Everything below these keys is of their kind."""


@dataclass(frozen=True, order=True)
class Given:
    """A distinct string in a file."""

    kind: str
    """Such as ``file``, ``function``, ``stage``, ``setting``, or else where it is."""
    text: str
    count: int
    """How often it occurs; 1 in tables that hold every string once."""


class Tally:
    """Counts strings by kind."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, text: str, count: int = 1) -> None:
        """Count a string; an empty one gives nothing away."""
        if text:
            self._found[kind, text] += count

    def given(self) -> list[Given]:
        """Return every string, by kind and text."""
        rows = sorted(self._found.items())
        return [Given(kind, text, count) for (kind, text), count in rows]

    def walk(self, value: Any, kind: str = "text") -> None:
        """Count every string in dicts and lists, including all keys."""
        seen: set[int] = set()
        waiting: list[tuple[Any, str]] = [(value, kind)]
        while waiting:
            item, kind = waiting.pop()
            if isinstance(item, str):
                self.add(kind, item)
            elif isinstance(item, bytes):
                self.add(kind, item.decode("utf-8", "replace"))
            elif isinstance(item, Mapping):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                for key, below in item.items():
                    if isinstance(key, str):
                        self.add("key", key)
                    if not isinstance(below, (int, float)):
                        waiting.append((below, _kind(kind, key, item)))
            elif isinstance(item, (list, tuple)):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                waiting += [(below, kind) for below in item if not isinstance(below, (int, float))]


def is_number(text: str) -> bool:
    """Say whether a text has no letter, and so gives nothing away."""
    return not any(char.isalpha() for char in text)


def _kind(outer: str, key: Any, item: Mapping[Any, Any]) -> str:
    if outer in _WHOLE:
        return outer
    if key == "name":
        if "filename" in item:
            return "function"
        return "stage" if "stage" in item or outer == "stage" else "name"
    name = str(key)
    return _KINDS.get(name, name)

"""Strings that should not be in public: homes, users, hosts, addresses, links and keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from snapreport.names.homes import find_users
from snapreport.names.personal_data import Known, find_private
from snapreport.names.secret_keys import is_hash
from snapreport.names.tally import Given

# An identifier of speedscope's format, which nothing fetches.
_FORMATS = {("$schema", "https://www.speedscope.app/file-format-schema.json")}
_SHOWN = 6


@dataclass(frozen=True, order=True)
class Leak:
    """A part of a string that reveals a person or a place, or is a secret."""

    what: str
    """``home directory``, ``user name``, ``host name``, ``e-mail address``, ``URL``, ``token``."""
    found: str
    """The text that gives it away; for a token, only its first letters."""
    why: str
    """Why it counts as one."""
    kind: str
    """The kind of the string that contains it."""
    text: str


def find_leaks(given: Iterable[Given], known: Known) -> list[Leak]:
    """Return the parts of strings that should not be public, each part of each string once.

    Args:
        given: as from ``list_strings()``.
        known: names to look for, besides those of users whose homes are found.
    """
    rows = [row for row in given if (row.kind, row.text) not in _FORMATS]
    plain = [(row, _plain(row)) for row in rows]
    users = known.users | find_users(text for _, text in plain)
    hashes = {row.text for row in rows if row.kind == "hash"}
    known = Known(frozenset(users), known.hosts)
    found = set()
    for row, text in plain:
        for what, part, why in _leaks(text, known, hashes):
            found.add(Leak(what, part, why, row.kind, row.text))
    return sorted(found)


def _plain(row: Given) -> str:
    """Return a string without the escapes that Markdown needs."""
    if row.kind != "line":
        return row.text
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", row.text.replace("\u200b", ""))


def _leaks(text: str, known: Known, hashes: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for part in find_private(text, known):
        found = text[part.begin : part.end]
        if part.what != "token":
            yield part.what, found, part.why
        elif found not in hashes and not (text in hashes and is_hash(text)):
            yield part.what, f"{found[:_SHOWN]}…", part.why

"""Find parts of texts that should not be public, and remove them.

The recorder uses this before it writes anything, loading a snapshot uses it on what a recorder
noted, and ``strings --check`` uses it to find what is left.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from snapreport.names.any_of import any_of
from snapreport.names.homes import find_homes, hide_homes, names_someone
from snapreport.names.secret_keys import HIDDEN, find_keys, hide_values

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[A-Za-z]{2,24}(?![\w(])")
_URL = re.compile(r"(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://|\bwww\.)[^\s\"'<>`)\]]+")
_STAND_INS = {"user name": "USER", "host name": "HOST", "e-mail address": "EMAIL", "URL": "URL"}


@dataclass(frozen=True)
class Known:
    """Names that give away who ran something, and where."""

    users: frozenset[str]
    hosts: frozenset[str]


NOBODY = Known(frozenset(), frozenset())


def known_here() -> Known:
    """Return the current user's and this machine's names, if they identify anything."""
    users = {os.path.basename(os.path.expanduser("~"))}  # noqa: PTH111, PTH119  (which never fail)
    with contextlib.suppress(OSError, KeyError, ImportError):  # no such user, as in containers
        users.add(getpass.getuser())
    host = socket.gethostname()
    return Known(
        frozenset(filter(names_someone, users)),
        frozenset(filter(names_someone, {host, host.split(".")[0]})),
    )


@dataclass(frozen=True)
class Private:
    """A part of a text."""

    begin: int
    end: int
    what: str
    """``home directory``, ``user name``, ``host name``, ``e-mail address``, ``URL``, ``token``."""
    why: str
    """Why it counts as one."""


def find_private(text: str, known: Known) -> Iterator[Private]:
    """Yield the parts of a text that should not be public; they may overlap."""
    for begin, end, _ in find_homes(text):
        yield Private(begin, end, "home directory", "a path to a user's own folder, or its server")
    for what, names in (("user name", known.users), ("host name", known.hosts)):
        if names:
            why = f"the {what.split()[0]} of this machine or of a home"
            for found in _pattern(names).finditer(text):
                yield Private(*found.span(), what, why)
    if "@" in text:
        for found in _EMAIL.finditer(text):
            yield Private(*found.span(), "e-mail address", "a name, @ and a domain")
    if "://" in text or "www." in text:
        for found in _URL.finditer(text):
            yield Private(*found.span(), "URL", "a link")
    for begin, end, why in find_keys(text):
        yield Private(begin, end, "token", why)


def hide_private(text: str, known: Known, keep: Collection[str] = ()) -> str:
    """Return a text with a stand-in for each private part.

    Args:
        text: any.
        known: whose names are private.
        keep: kinds of parts that stay, as in ``Private.what``.
    """
    parts = [part for part in find_private(text, known) if part.what not in keep]
    pieces, at = [], 0
    for part in sorted(parts, key=lambda part: (part.begin, -part.end)):
        if part.end <= at:
            continue
        stand_in = "~" if part.what == "home directory" else _STAND_INS.get(part.what, HIDDEN)
        if part.begin >= at:  # otherwise it overlaps the one before
            pieces += [text[at : part.begin], stand_in]
        at = part.end
    return hide_homes("".join(pieces) + text[at:])


def hide_command(words: Iterable[str], known: Known) -> list[str]:
    """Return a command line without private parts or values of options that look like secrets."""
    return [hide_private(word, known) for word in hide_values(list(words))]


@lru_cache(maxsize=8)
def _pattern(names: frozenset[str]) -> re.Pattern[str]:
    either = any_of(names)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])", re.IGNORECASE)

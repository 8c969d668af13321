"""Homes in texts: whose they are, and the texts with ``~`` for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from snapreport.model.libraries import words

# A path begins where no name goes on; file:///home/x and ../../home/x count, ~/home/x does not.
_BEGIN = r"(?<![\w.~-])(?:(?:\.\./){0,20}\.\.)?"
_NAME = r"[^\\/\s:*?\"'<>|,;()\[\]{}`]+"
_SPACED = rf"{_NAME}(?: {_NAME})*(?=[\\/])|{_NAME}"  # of Windows: C:\Users\Jane Doe\x
_HOMES = re.compile(
    rf"{_BEGIN}(?:(?:/[\w.+-]+){{0,2}}/(?:home|homes|Users)/(?P<posix>{_NAME})"
    r"|/root(?![\w.-])"
    r"|(?:(?<![A-Za-z0-9])[A-Za-z]:|\\\\[\w.$-]+(?:\\[\w.$-]+)?)"
    rf"(?:\\{{1,2}}|/)(?i:Users|Documents and Settings)(?:\\{{1,2}}|/)(?P<windows>{_SPACED}))"
)
# Where PyTorch keeps what it compiled: its folder is named after the user.
_COMPILED = re.compile(r"(?<=torchinductor_)(?!~)([^\\/\s\"':]+)")

_ANYONE = words(
    "root user users admin ubuntu debian ec2-user centos runner jovyan vscode public default nobody"
    " sagemaker-user azureuser opc shared docker app data work test guest home"
)
"""Names that say nothing of who it is."""
_SHORTEST = 3


def names_someone(user: str) -> bool:
    """Say whether a user's name says anything of who it is, and can be told from other words."""
    return len(user) >= _SHORTEST and user.lower() not in _ANYONE


def find_homes(text: str) -> list[str]:
    """Return the homes that a text names, as they stand there."""
    if "/" not in text and "\\" not in text:
        return []
    return [found[0] for found in _HOMES.finditer(text)]


def find_users(texts: Iterable[str]) -> set[str]:
    """Return the names of those whose homes are in some texts, but for names that anyone has."""
    users: set[str] = set()
    for text in texts:
        if "/" not in text and "\\" not in text:
            continue
        for found in _HOMES.finditer(text):
            users.add(found["posix"] or found["windows"] or "")
        users.update(_COMPILED.findall(text))
    return {user for user in users if names_someone(user)}


def folders_of(users: Collection[str]) -> re.Pattern[str] | None:
    """Return what finds folders of these users that are no homes, such as ``/scratch/alice``."""
    if not users:
        return None
    names = "|".join(map(re.escape, sorted(users)))
    return re.compile(
        rf"{_BEGIN}(?:[A-Za-z]:)?(?:[\\/]{{1,2}}[\w.+-]+){{0,6}}?[\\/]{{1,2}}(?:{names})(?![\w.-])"
    )


def hide_homes(text: str, folders: re.Pattern[str] | None = None) -> str:
    """Return a text with ``~`` for every home in it.

    Args:
        text: any.
        folders: finds more that counts as one, as from ``folders_of()``.
    """
    if "/" not in text and "\\" not in text:
        return text if "torchinductor_" not in text else _COMPILED.sub("~", text)
    text = _COMPILED.sub("~", _HOMES.sub("~", text))
    return text if folders is None else folders.sub("~", text)


def home_of(parts: list[str], users: Collection[str]) -> int:
    """Return how many parts of an absolute path are a home; 0 where it lies in none.

    Args:
        parts: of the path, the first being ``""`` or a drive such as ``C:``.
        users: whose folders count as homes, wherever they are.
    """
    for i, part in enumerate(parts[:4]):
        windows = i == 1 and parts[0][1:2] == ":" and part.lower() == "users"
        if (windows or part in ("home", "homes", "Users")) and len(parts) > i + 2:
            return i + 2
    if parts[:2] == ["", "root"]:
        return 2
    for i, part in enumerate(parts[:-1]):
        if part in users:
            return i + 1
    return 0

"""Strings that should not be in public: homes, users, hosts, addresses, links and keys."""

from __future__ import annotations

import getpass
import math
import re
import socket
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from snapreport.analyse.homes import find_homes, find_users, names_someone
from snapreport.model.disclosure import Given, Leak

# Everything is bounded, or begins where a run does: a stranger's text takes no longer than it is.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[A-Za-z]{2,24}(?![\w(])")
_URL = re.compile(r"(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://|\bwww\.)[^\s\"'<>`)\]]+")
_PREFIXES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"(?P<GitHub>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"
    r"|(?P<GitLab>glpat-[\w-]{16,})"
    r"|(?P<HuggingFace>hf_[A-Za-z0-9]{20,})"
    r"|(?P<OpenAI_or_Anthropic>sk-[\w-]{20,})"
    r"|(?P<AWS>(?:AKIA|ASIA)[A-Z0-9]{16})"
    r"|(?P<Google>AIza[\w-]{30,})"
    r"|(?P<Slack>xox[abprs]-[\w-]{10,})"
    r"|(?P<npm>npm_[A-Za-z0-9]{30,})"
    r"|(?P<PyPI>pypi-[\w-]{30,})"
    r"|(?P<JSON_Web_Token>eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]+)?)"
    r"|(?P<private_key>-----BEGIN [A-Z ]{0,30}PRIVATE KEY)"
    r")"
)
_SECRET = re.compile(
    r"(?i)(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|token)[\"']?\s*[=:]\s*[\"']?([^\s\"',;]{6,})"
)
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_PARTS = re.compile(r"[A-Za-z0-9+]{24,}")
# Hashes that PyTorch and Triton name what they compiled by: base32 of a SHA-256.
_COMPILED = re.compile(r"[cf]?[a-z2-7]{51,52}|[A-Z2-7]{52}")
# What we write ourselves: in a page's policy, and behind the source's name.
_OURS = re.compile(r"'sha256-[A-Za-z0-9+/=]{44}'|SHA-256 `?[0-9a-f]{64}")
# Which speedscope tells its files by; nothing asks for it.
_FORMATS = {("$schema", "https://www.speedscope.app/file-format-schema.json")}
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_LEAST_ENTROPY = 3.8
"""Bits for each character; words and their abbreviations have less, at this length."""
_SHOWN = 6


@dataclass(frozen=True)
class Known:
    """Names that give away who ran something, and where."""

    users: frozenset[str]
    hosts: frozenset[str]


def known_here() -> Known:
    """Return the present user's name and this machine's, where they say anything."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user, as in some containers
        user = ""
    host = socket.gethostname()
    hosts = {host, host.split(".")[0]} - {"localhost"}
    return Known(
        frozenset(filter(names_someone, [user])),
        frozenset(name for name in hosts if names_someone(name)),
    )


def find_leaks(given: Iterable[Given], known: Known) -> list[Leak]:
    """Return what among strings should not be in public, each part of each string once.

    Args:
        given: as from ``list_strings()``.
        known: names to look for; those of users whose homes are found come on top.
    """
    rows = [row for row in given if (row.kind, row.text) not in _FORMATS]
    plain = [(row, _plain(row)) for row in rows]
    users = known.users | find_users(text for _, text in plain)
    hashes = {row.text for row in rows if row.kind == "hash"}
    names = (("user name", _words(users)), ("host name", _words(known.hosts)))
    found = set()
    for row, text in plain:
        for what, part, why in _leaks(text, names, hashes):
            found.add(Leak(what, part, why, row.kind, row.text))
    return sorted(found)


def _plain(row: Given) -> str:
    """Return a string without what Markdown needs to show it as it is."""
    if row.kind != "line":
        return row.text
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", row.text.replace("\u200b", ""))


def _words(names: Collection[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    any_of = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{any_of})(?![A-Za-z0-9])", re.IGNORECASE)


def _leaks(
    text: str,
    names: Iterable[tuple[str, re.Pattern[str] | None]],
    hashes: Collection[str],
) -> Iterator[tuple[str, str, str]]:
    for home in find_homes(text):
        yield "home directory", home, "a path to a user's own folder"
    for what, pattern in names:
        if pattern is not None:
            for found in pattern.finditer(text):
                yield what, found[0], f"the {what.split()[0]} of this machine or of a home"
    for found in _EMAIL.finditer(text):
        yield "e-mail address", found[0], "a name, @ and a domain"
    for found in _URL.finditer(text):
        yield "URL", found[0], "a link"
    for found in _PREFIXES.finditer(text):
        kind = (found.lastgroup or "").replace("_", " ")
        yield "token", _shown(found[0]), f"begins as a key of {kind}"
    for found in _SECRET.finditer(text):
        yield "token", _shown(found[1]), "follows a word for a secret"
    if text in hashes and _HEX.fullmatch(text):
        return
    text = _OURS.sub("", text)
    for found in _RUN.finditer(text):
        if found[0] not in hashes and _is_random(found[0]):
            yield "token", _shown(found[0]), f"{len(found[0])} characters as if at random"


def _is_random(run: str) -> bool:
    """Say whether a run of letters and digits is as a key: long, mixed, and no words."""
    for part in _PARTS.findall(run):
        if _COMPILED.fullmatch(part) or run.startswith("_Z"):  # C++ names as linkers have them
            continue
        if _HEX.fullmatch(part):
            return bool(re.search(r"\d", part) and re.search(r"[A-Fa-f]", part))
        classes = [len(re.findall(kind, part)) for kind in ("[a-z]", "[A-Z]", "[0-9]")]
        if len(part) >= 32 and min(classes) >= 2 and _entropy(part) >= _LEAST_ENTROPY:
            return True
    return False


def _entropy(text: str) -> float:
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def _shown(secret: str) -> str:
    return f"{secret[:_SHOWN]}…"

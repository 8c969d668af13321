"""Find parts of texts that should not be public, and remove them.

The recorder uses this before it writes anything, loading a snapshot uses it on what a recorder
noted, and ``strings --check`` uses it to find what is left.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import os.path
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from snapreport.ground.later import expression
from snapreport.ground.records import dataclass
from snapreport.ground.units import words
from snapreport.model.snapshot import RecorderInfo

_HIDDEN = "HIDDEN"
"""What replaces a key."""
_EMAIL = expression(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[A-Za-z]{2,24}(?![\w(])")
_URL = expression(r"(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://|\bwww\.)[^\s\"'<>`)\]]+")


@dataclass(frozen=True)
class Known:
    """Names that give away who ran something, and where."""

    users: frozenset[str]
    hosts: frozenset[str]


NOBODY = Known(frozenset(), frozenset())


def known_here() -> Known:
    """Return the current user's and this machine's names, if they identify anything."""
    import getpass  # what only loads a recording needs neither
    import socket

    users = {os.path.basename(os.path.expanduser("~"))}  # noqa: PTH111, PTH119  (which never fail)
    with contextlib.suppress(OSError, KeyError, ImportError):  # no such user, as in containers
        users.add(getpass.getuser())
    host = socket.gethostname()
    return Known(
        frozenset(filter(_names_someone, users)),
        frozenset(filter(_names_someone, {host, host.split(".")[0]})),
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
    for begin, end, _ in _find_homes(text):
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
    for begin, end, why in _find_keys(text):
        yield Private(begin, end, "token", why)


_STAND_INS = {"user name": "USER", "host name": "HOST", "e-mail address": "EMAIL", "URL": "URL"}


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
        stand_in = "~" if part.what == "home directory" else _STAND_INS.get(part.what, _HIDDEN)
        if part.begin >= at:  # otherwise it overlaps the one before
            pieces += [text[at : part.begin], stand_in]
        at = part.end
    return hide_homes("".join(pieces) + text[at:])


def hide_in_recording(noted: RecorderInfo, known: Known) -> RecorderInfo:
    """Return what was noted with stand-ins for its private parts.

    Args:
        noted: command line, title, notes, marks, names of tensors, and the error.
        known: whose names are private, whatever they are part of.
    """
    by_hand = ("URL", "e-mail address")  # somebody put them there to be read
    hidden = noted.with_texts(lambda text: hide_private(text, known))
    return replace(
        hidden,
        command=tuple(hide_private(word, known) for word in _without_secrets(noted.command)),
        title=None if noted.title is None else hide_private(noted.title, known, by_hand),
        notes=hide_private(noted.notes, known, by_hand),
    )


# Home directories and their owners.

# A path begins where no name goes on; file:///home/x and ../../home/x count, ~/home/x does not.
_BEGIN = r"(?<![\w.~-])(?<!(?<![\w.~-])\.\./)(?:(?:\.\./)*\.\.)?"
_NAME = r"[^\\/\s:*?\"'<>|,;()\[\]{}`]{1,255}"
_SPACED = rf"{_NAME}(?: {_NAME}){{0,3}}(?=[\\/])|{_NAME}"  # of Windows: C:\Users\Jane Doe\x
_DEEPEST_FOLDER = 12
"""How many folders of a path are looked at."""
_USERS = r"(?i:Users|Documents and Settings)"
_TILDE = expression(r"(?<![\w.~/\\-])~([A-Za-z_][\w.-]{0,63})(?=[\\/])")
# Where PyTorch keeps what it compiled: its folder is named after the user.
_CACHE = "torchinductor_"
_INDUCTOR = expression(rf"(?<={_CACHE})(?!~)([^\\/\s\"':]{{1,255}})")
# The names that editors give to the machine that they are connected to.
_REMOTE = expression(
    r"((?:ssh-remote|dev-container|attached-container|k8s-container|tunnel)(?:\+|%2[bB]))"
    r"(?!~)[\w.%@-]{1,255}"
)


_ANYONE = words(
    "root user users admin ubuntu debian ec2-user centos runner jovyan vscode public default nobody"
    " sagemaker-user azureuser opc shared docker app data work test guest home host localhost"
    " python torch train"
)
"""User names that identify nobody."""
_SHORTEST_NAME = 3


def _names_someone(user: str) -> bool:
    """Say whether a user's name identifies somebody, and is not a common word."""
    return len(user) >= _SHORTEST_NAME and user.lower() not in _ANYONE


_PATH = expression(rf"(?=[./]){_BEGIN}(?P<path>(?:/{_NAME}){{1,{_DEEPEST_FOLDER}}})")
_WINDOWS = expression(
    rf"(?=[.A-Za-z]){_BEGIN}(?<![A-Za-z0-9])[A-Za-z]:(?:\\{{1,2}}|/){_USERS}(?:\\{{1,2}}|/)(?P<drive>{_SPACED})"
    # A server, and what of it is shared.
    r"|(?<![\w.~:\\-])\\{2,4}[\w.$-]{1,255}\\{1,2}[\w.$-]{1,255}"
    rf"(?:\\{{1,2}}{_USERS}\\{{1,2}}(?P<share>{_SPACED}))?"
)


def _find_homes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the begin and end of homes and servers in a text, and the owner, ``""`` if unsure."""
    # Each pattern is tried at every letter, and few texts have what it needs.
    if "/" in text:
        for found in _PATH.finditer(text):
            parts = found["path"].split("/")
            length, owner = _home(parts)
            if length:
                yield found.start(), found.start("path") + len("/".join(parts[:length])), owner
    if "\\" in text or ":/" in text:
        for found in _WINDOWS.finditer(text):
            yield found.start(), found.end(), found["drive"] or found["share"] or ""
    if "~" in text:
        for found in _TILDE.finditer(text):
            yield found.start(), found.end(), found[1]
    if "+" in text or "%2" in text:
        for found in _REMOTE.finditer(text):
            yield found.end(1), found.end(), ""


def find_users(texts: Iterable[str]) -> set[str]:
    """Return the users whose homes are in some texts, except common names."""
    users: set[str] = set()
    for text in texts:
        users.update(owner for _, _, owner in _find_homes(text))
        if _CACHE in text:
            users.update(_INDUCTOR.findall(text))
    return {user for user in users if _names_someone(user)}


def folders_of(users: Collection[str]) -> re.Pattern[str] | None:
    """Return a pattern of these users' folders outside their homes, such as ``/opt/alice``."""
    if not users:
        return None
    return re.compile(
        rf"(?=[.A-Za-z]|[\\/]{{1,2}}[^\\/]){_BEGIN}(?:[A-Za-z]:)?(?:[\\/]{{1,2}}[\w.+-]{{1,255}}){{0,6}}?"
        rf"[\\/]{{1,2}}(?:{any_of(users)})(?![\w.-])"
    )


def hide_homes(text: str, folders: re.Pattern[str] | None = None) -> str:
    """Return a text with ``~`` for every home in it, and for a server or machine in a path.

    Args:
        text: any.
        folders: finds other folders that count as homes, as from ``folders_of()``.
    """
    if folders is not None and ("/" in text or "\\" in text):  # else it is tried at every letter
        text = folders.sub("~", text)
    pieces, at = [], 0
    for begin, end, _ in sorted(_find_homes(text)):
        if begin >= at:
            pieces += [text[at:begin], "~"]
            at = end
    text = "".join(pieces) + text[at:]
    return _INDUCTOR.sub("~", text) if _CACHE in text else text


_SHARE = expression(r"\\\\(?:[?.]\\UNC\\)?[\w.$-]{1,255}\\[\w.$ -]{1,255}(?=\\)")


def hide_servers(path: str) -> str:
    """Return a path with ``~`` for a server's share, an editor's machine or somebody's ``~``."""
    path = _REMOTE.sub(r"\1~", _TILDE.sub("~", path))
    return _SHARE.sub("~", path) if path.startswith("\\\\") else path


def home_of(parts: list[str], users: Collection[str]) -> int:
    """Return how many parts of an absolute path are a home; 0 if it has no home.

    Args:
        parts: of the path, the first being ``""`` or a drive such as ``C:``.
        users: whose folders count as homes, wherever they are.
    """
    return _home(parts[:-1], users)[0]


_HOMES = frozenset({"home", "homes", "Users"})
"""Folders that hold the homes of users; ``users`` is one at any depth, the others near the root."""
_WINDOWS_HOMES = ("users", "documents and settings")
_DISKS = expression(
    r"\A(?:(scratch|gpfs|lustre|nfs|beegfs|weka|vast|ceph|cephfs|panfs|afs|efs|fsx|raid)[\d_.-]{0,8}$"
    r"|mnt$|media$|(scratch|gpfs|lustre|nfs)[-_]\w{1,32}$)"
)
"""Folders where clusters mount the disks that their users share."""
_EVERYONES = expression(
    r"\A(?i:users?|homes?|scratch|data|datasets?|work|workspaces?|projects?|proj|groups?|shared?|common"
    r"|public|fs|fsw|portfolios|lustre|gpfs|nfs|stor(?:e|age)|vol(?:umes?)?|disks?|ssd|nvme|raid|te?mp"
    r"|local|cache|models?|checkpoints?|run|\w)[\d_.-]{0,8}$"
)
"""Folders of such a disk that belong to no single user."""


def _home(folders: list[str], users: Collection[str] = ()) -> tuple[int, str]:
    """Return how many folders of a path are a home, and its owner, ``""`` if unsure."""
    if folders[:2] == ["", "root"]:
        return 2, ""
    for i, (part, below) in enumerate(itertools.pairwise(folders[:_DEEPEST_FOLDER])):
        windows = i == 1 and folders[0][1:2] == ":" and part.lower() in _WINDOWS_HOMES
        if below and (windows or part == "users" or (i < 4 and part in _HOMES)):
            return i + 2, below
    for i, part in enumerate(folders):
        if part in users:
            return i + 1, part
    if len(folders) > 2 and folders[0] == "" and _DISKS.match(folders[1]):
        for i, part in enumerate(folders[2:], 2):
            if not _EVERYONES.match(part):
                return i + 1, ""
    return 0, ""


# Keys: by how they begin, by the word before them, or by looking random.

# All repetitions are bounded or begin where a run does, so the time is linear in a stranger's text.
_PREFIXES = expression(
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
_SHORTEST_KEY = 15
"""Letters of a key that is known by how it begins, at least."""
_SECRET = expression(
    r"(?i)(?:(?:api|access|auth|private|wandb|secret)[_-]?key|secret|passw(?:or)?d|passphrase|token)"
    rf"[\"']?\s{{0,9}}[=:]\s{{0,9}}[\"']?(?!{_HIDDEN}\b)(?P<value>[^\s\"',;]{{6,}})"
    r"|\bauthorization[\"']?\s{0,9}[=:]\s{0,9}[\"']?"
    rf"(?!(?:\w{{1,16}}\s{{1,9}})?{_HIDDEN}\b)(?:\w{{1,16}}\s{{1,9}})?(?P<sent>[^\s\"',;]{{6,}})"
)
_RUN = expression(r"[A-Za-z0-9+/_=-]{24,}")
# Hashes that we write ourselves: in a page's policy, and after the source's name.
_OURS = expression(r"'sha256-[A-Za-z0-9+/=]{44}'|SHA-256 `?[0-9a-f]{64}")
_HEX = expression(r"[0-9a-f]{32,}|[0-9A-F]{32,}")

# Options such as --wandb-key, trainer.api_key= and DB_PASSWORD=, but not --max-tokens.
_OPTION = expression(
    r"(?i)\A(?P<name>[\w.+/-]{0,128}(?:key|token|passw(?:or)?d|passwd|pwd|passphrase|secret|credentials?))"
    r"(?P<rest>=.*)?$",
    re.DOTALL,
)


def _find_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the begin and end of each key in a text, and why it counts as one."""
    for found in _PREFIXES.finditer(text) if len(text) >= _SHORTEST_KEY else ():
        kind = (found.lastgroup or "").replace("_", " ")
        yield found.start(), found.end(), f"begins as a key of {kind}"
    if "=" in text or ":" in text:
        for found in _SECRET.finditer(text):
            group = found.lastgroup or ""
            yield found.start(group), found.end(group), "follows a word for a secret"
    runs = [found.span() for found in _RUN.finditer(text) if _is_random(found[0])]
    ours = [found.span() for found in _OURS.finditer(text)] if runs else []
    for begin, end in runs:
        if not any(a < end and begin < b for a, b in ours):
            yield begin, end, f"{end - begin} characters as if at random"


def is_hash(text: str) -> bool:
    """Say whether a text is nothing but a hash in hexadecimal digits."""
    return _HEX.fullmatch(text) is not None


def _without_secrets(words: Iterable[str]) -> list[str]:
    """Return a command's words without the values of options that are named as secrets are."""
    hidden = []
    follows = False
    for word in words:
        found = _OPTION.match(word)
        if follows and not word.startswith("-"):
            hidden.append(_HIDDEN)
            follows = False
            continue
        if found is not None and found["rest"]:
            word = f"{found['name']}={_HIDDEN}"
        follows = found is not None and not found["rest"] and word.startswith("-")
        hidden.append(word)
    return hidden


_PARTS = expression(r"[A-Za-z0-9+]{24,}")
# Names that PyTorch and Triton give to compiled code: a SHA-256 in base32.
_COMPILED = expression(r"[cf]?[a-z2-7]{51,52}|[A-Z2-7]{52}")
_LEAST_ENTROPY = 3.8
"""Bits for each character; words and their abbreviations have less, at this length."""


def _is_random(run: str) -> bool:
    """Say whether a run of letters and digits looks like a key: long, mixed, and not words."""
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


# One regular expression for many names, as fast for thousands as for a few.


@lru_cache(maxsize=8)
def _pattern(names: frozenset[str]) -> re.Pattern[str]:
    either = any_of(names)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])", re.IGNORECASE)


_DEEPEST_GROUP = 40
"""The most nested groups: Python's regex compiler calls itself for each."""


def any_of(names: Collection[str]) -> str:
    """Return a pattern that finds the longest of some names.

    Common prefixes are tried once for all names that share them; a plain alternation would try
    name by name at every place of a text.
    """
    return _tree(sorted(set(names)), 0)


def _tree(names: list[str], depth: int) -> str:
    """Return the pattern of sorted, distinct names."""
    shared = os.path.commonprefix([names[0], names[-1]])  # noqa: RUF071  (letters, not folders)
    rest = [name[len(shared) :] for name in names]
    if len(rest) == 1:
        return re.escape(shared)
    if depth == _DEEPEST_GROUP:
        longest_first = sorted(rest, key=len, reverse=True)
        return f"{re.escape(shared)}(?:{'|'.join(map(re.escape, longest_first))})"
    grouped = itertools.groupby((each for each in rest if each), key=lambda each: each[0])
    branches = "|".join(_tree(list(each), depth + 1) for _, each in grouped)
    return f"{re.escape(shared)}(?:{branches}){'' if rest[0] else '?'}"

"""Find home directories in texts and their owners, and replace them by ``~``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator

from snapreport.ground.known_packages import words
from snapreport.names.any_of import any_of

# A path begins where no name goes on; file:///home/x and ../../home/x count, ~/home/x does not.
_BEGIN = r"(?<![\w.~-])(?<!(?<![\w.~-])\.\./)(?:(?:\.\./)*\.\.)?"
_NAME = r"[^\\/\s:*?\"'<>|,;()\[\]{}`]{1,255}"
_SPACED = rf"{_NAME}(?: {_NAME}){{0,3}}(?=[\\/])|{_NAME}"  # of Windows: C:\Users\Jane Doe\x
_DEEPEST = 12
"""How many folders of a path are looked at."""
_PATH = re.compile(rf"(?=[./]){_BEGIN}(?P<path>(?:/{_NAME}){{1,{_DEEPEST}}})")
_SHARE = re.compile(r"\\\\(?:[?.]\\UNC\\)?[\w.$-]{1,255}\\[\w.$ -]{1,255}(?=\\)")
_USERS = r"(?i:Users|Documents and Settings)"
_WINDOWS = re.compile(
    rf"(?=[.A-Za-z]){_BEGIN}(?<![A-Za-z0-9])[A-Za-z]:(?:\\{{1,2}}|/){_USERS}(?:\\{{1,2}}|/)(?P<drive>{_SPACED})"
    # A server, and what of it is shared.
    r"|(?<![\w.~:\\-])\\{2,4}[\w.$-]{1,255}\\{1,2}[\w.$-]{1,255}"
    rf"(?:\\{{1,2}}{_USERS}\\{{1,2}}(?P<share>{_SPACED}))?"
)
_TILDE = re.compile(r"(?<![\w.~/\\-])~([A-Za-z_][\w.-]{0,63})(?=[\\/])")
# Where PyTorch keeps what it compiled: its folder is named after the user.
_CACHE = "torchinductor_"
_COMPILED = re.compile(rf"(?<={_CACHE})(?!~)([^\\/\s\"':]{{1,255}})")
# The names that editors give to the machine that they are connected to.
_REMOTE = re.compile(
    r"((?:ssh-remote|dev-container|attached-container|k8s-container|tunnel)(?:\+|%2[bB]))"
    r"(?!~)[\w.%@-]{1,255}"
)

_HOMES = frozenset({"home", "homes", "Users"})
"""Folders that hold the homes of users; ``users`` is one at any depth, the others near the root."""
_WINDOWS_HOMES = ("users", "documents and settings")
_DISKS = re.compile(
    r"\A(?:(scratch|gpfs|lustre|nfs|beegfs|weka|vast|ceph|cephfs|panfs|afs|efs|fsx|raid)[\d_.-]{0,8}$"
    r"|mnt$|media$|(scratch|gpfs|lustre|nfs)[-_]\w{1,32}$)"
)
"""Folders where clusters mount the disks that their users share."""
_EVERYONES = re.compile(
    r"\A(?i:users?|homes?|scratch|data|datasets?|work|workspaces?|projects?|proj|groups?|shared?|common"
    r"|public|fs|fsw|portfolios|lustre|gpfs|nfs|stor(?:e|age)|vol(?:umes?)?|disks?|ssd|nvme|raid|te?mp"
    r"|local|cache|models?|checkpoints?|run|\w)[\d_.-]{0,8}$"
)
"""Folders of such a disk that belong to no single user."""

_ANYONE = words(
    "root user users admin ubuntu debian ec2-user centos runner jovyan vscode public default nobody"
    " sagemaker-user azureuser opc shared docker app data work test guest home host localhost"
    " python torch train"
)
"""User names that identify nobody."""
_SHORTEST = 3


def names_someone(user: str) -> bool:
    """Say whether a user's name identifies somebody, and is not a common word."""
    return len(user) >= _SHORTEST and user.lower() not in _ANYONE


def find_homes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the begin and end of homes and servers in a text, and the owner, ``""`` if unsure."""
    # Each pattern is tried at every letter, and few texts have what it needs.
    if "/" in text:
        for found in _PATH.finditer(text):
            parts = found["path"].split("/")
            length, owner = _home(parts)
            if length:
                yield found.start(), found.start("path") + len("/".join(parts[:length])), owner
    if "\\" in text or ":" in text:
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
        users.update(owner for _, _, owner in find_homes(text))
        if _CACHE in text:
            users.update(_COMPILED.findall(text))
    return {user for user in users if names_someone(user)}


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
    if folders is not None:
        text = folders.sub("~", text)
    pieces, at = [], 0
    for begin, end, _ in sorted(find_homes(text)):
        if begin >= at:
            pieces += [text[at:begin], "~"]
            at = end
    text = "".join(pieces) + text[at:]
    return _COMPILED.sub("~", text) if _CACHE in text else text


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


def _home(folders: list[str], users: Collection[str] = ()) -> tuple[int, str]:
    """Return how many folders of a path are a home, and its owner, ``""`` if unsure."""
    if folders[:2] == ["", "root"]:
        return 2, ""
    for i, (part, below) in enumerate(itertools.pairwise(folders[:_DEEPEST])):
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

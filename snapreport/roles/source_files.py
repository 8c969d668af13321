"""Match source files of two recordings, even if installed or checked out in different places."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection

from snapreport.ground.later import expression

FileKey = tuple[str, str]
"""The kind of place a file is in, and its path below that place: equal in both recordings."""

# Each place, and a pattern for the path below it; the first match counts. With DOTALL, since a name
# with line breaks would otherwise be searched again for each folder.
_PLACES = (
    # Native code: folders differ between build machines, so only the name is kept.
    (
        "native",
        expression(r"^(?:.*/)?([^/]*\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|S|o)(?::.*)?)$", re.DOTALL),
    ),
    ("package", expression(r"^(?:.*/)?(?:site|dist)-packages/(.+)$", re.DOTALL)),
    ("compiled", expression(r"^(?:.*/)?torchinductor_[^/]*/(.+)$", re.DOTALL)),
    ("notebook", expression(r"^(?:.*/)?ipykernel_\d+/(.+)$", re.DOTALL)),
    ("python", expression(r"^(?:(?:.*/)?lib(?:64)?/)?python3[^/]*/(.+)$", re.DOTALL)),
    (
        "python",
        expression(r"^[A-Za-z]:/(?:.*/)?c?python[^/]*/lib/(.+)$", re.DOTALL | re.IGNORECASE),
    ),
    # A checkout of PyTorch counts as the package.
    (
        "package",
        expression(
            r"^(?=.*\.py$)(?:.*/)?(torch/(?:_\w+|amp|autograd|cuda|distributed|functional|fx|jit|nn|optim"
            r"|serialization|utils)(?:/.*)?\.py)$",
            re.DOTALL,
        ),
    ),
)
_NUMBERED = expression(r"^(<eval_with_key>)\.\d+$")
_NO_FILES = ("", "??", "none")


Keys = dict[str, FileKey]


def pair_files(base: Collection[str], new: Collection[str]) -> tuple[Keys, Keys]:
    """Return a key for every file name of two recordings: the same file has the same key.

    Files below a package, PyTorch or Python itself are the same if the rest of their paths is.
    Other files are the same if their full paths are, or their paths below the projects' roots: the
    two folders below which most paths agree.
    """
    if sorted(base) > sorted(new):  # so that the order of the two does not matter
        found = pair_files(new, base)
        return found[1], found[0]
    keys = ({name: file_key(name) for name in base}, {name: file_key(name) for name in new})
    loose = tuple(
        {path: name for name, (kind, path) in side.items() if kind == "file"} for side in keys
    )
    stayed = loose[0].keys() & loose[1].keys()
    for path in stayed:
        del loose[0][path], loose[1][path]
    roots = find_roots(loose[0].keys(), loose[1].keys())
    if roots is not None and not _is_move(roots, stayed):
        for side, root, files in zip(keys, roots, loose, strict=True):
            for path, name in files.items():
                parts = path.split("/")
                if tuple(parts[: len(root)]) == root:
                    side[name] = ("project", "/".join(parts[len(root) :]))
    return keys


def file_key(filename: str) -> FileKey:
    """Return the kind of place a file is in, and its path below it, from its name alone."""
    text = filename.replace("\\", "/")
    if text in _NO_FILES:
        return "none", ""
    if text.startswith("<"):
        return "generated", _NUMBERED.sub(r"\1", text)
    text = posixpath.normpath(text)
    for kind, pattern in _PLACES:
        found = pattern.match(text)
        if found:
            return kind, found[1]
    return "file", text


Root = tuple[str, ...]

LEAST_COMPARED, COMPARED_OF_EACH = 2_000_000, 32
"""The most parts of paths to compare: a total, or a multiple of all parts if that is more."""


def find_roots(base: Collection[str], new: Collection[str]) -> tuple[Root, Root] | None:
    """Return the two folders below which most files of two recordings have the same paths.

    Args:
        base: paths with slashes, none of them in ``new``.
        new: paths of the other recording.

    Returns:
        The folders as their parts; None if no file names are in both, or each is too common.
    """
    ours, theirs = _by_name(base), _by_name(new)
    left = max(LEAST_COMPARED, COMPARED_OF_EACH * (_count_parts(base) + _count_parts(new)))
    # Rare names say most and cost least: thousands of __init__.py come last, if at all.
    names = {
        name: len(theirs[name]) * sum(map(len, ours[name]))
        + len(ours[name]) * sum(map(len, theirs[name]))
        for name in ours.keys() & theirs.keys()
    }
    votes: dict[tuple[Root, Root], list[int]] = {}
    for name in sorted(names, key=lambda name: (names[name], name)):
        left -= names[name]
        if left < 0:
            break
        for parts, other in itertools.product(ours[name], theirs[name]):
            shared = common_tail(parts, other)
            pair = (tuple(parts[: len(parts) - shared]), tuple(other[: len(other) - shared]))
            vote = votes.setdefault(pair, [0, 0])
            vote[0] += 1
            vote[1] += shared
    if not votes:
        return None
    return max(votes, key=lambda pair: (votes[pair], pair))


def _by_name(paths: Collection[str]) -> dict[str, list[list[str]]]:
    by_name: dict[str, list[list[str]]] = defaultdict(list)
    for path in paths:
        by_name[path.rpartition("/")[2]].append(path.split("/"))
    return by_name


def _count_parts(paths: Collection[str]) -> int:
    return sum(path.count("/") + 1 for path in paths)


def _is_move(roots: tuple[Root, Root], stayed: Collection[str]) -> bool:
    """Say whether only some files moved within a project, while others stayed."""
    outer, inner = sorted(roots, key=len)
    if inner[: len(outer)] != outer or (not outer and _is_absolute("/".join(inner))):
        return False
    return any(
        tuple(path.split("/")[: len(outer)]) == outer and (outer or not _is_absolute(path))
        for path in stayed
    )


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:2] == ":"


def common_tail(one: list[str], other: list[str]) -> int:
    """Return how many parts at the end two paths share."""
    shared = 0
    while shared < min(len(one), len(other)) and one[-1 - shared] == other[-1 - shared]:
        shared += 1
    return shared


_MOST_PARTS = 64


def can_move(file: FileKey) -> bool:
    """Say whether a file may be another recording's file of the same name in another folder."""
    return file[0] not in ("native", "none", "generated")


def last_parts(file: FileKey) -> tuple[str, ...]:
    """Return the parts of a file's path that tell where it is, its name first; no more than 64."""
    return tuple(file[1].rsplit("/", _MOST_PARTS)[-_MOST_PARTS:][::-1])

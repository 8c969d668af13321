"""Find the files to work on: those that were named, and the snapshots and bundles in folders."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from snapreport.bundle.archive import checked_members
from snapreport.bundle.manifest import MANIFEST
from snapreport.bundle.members import MOST_MANIFEST, NotABundleError
from snapreport.ground.errors import InputError
from snapreport.ground.files import by_number, is_folder, open_regular, sha256_of
from snapreport.ground.latest_recording import LATEST_FILE, NUMBER, WRITTEN, latest_number
from snapreport.ground.remote.remote_paths import is_remote

_GZIP, _ZSTD = ".gz", (".zst", ".zstd")
_SNAPSHOTS = (".pickle", ".pkl", ".json")
_BUNDLE = ".zip"
_PEEK = 1 << 16
"""A snapshot names one of its parts within this many bytes from the beginning."""
_PARTS = (b"segments", b"device_traces", b"blocks")

NO_SNAPSHOT_NAME = "not named like a snapshot or bundle"
NO_CONVERTING = "a zip; bundles need no converting"
NO_SNAPSHOT = "does not begin like a snapshot"
NO_BUNDLE = "a zip, but not a bundle"
NO_FILE = "a pipe or device, not a file"
CONVERTED = "its bundle is used instead"
NAMED = "already named"
OTHER = "another recording; the newest is used"
OURS = "a recording's report"
NOT_ALLOWED = "outside the folders that may be read"
DEEPER = "too many folders deep; name it directly"

DEEPEST = 8
"""How many levels of subfolders are searched."""
MOST_ENTRIES = 100_000
"""The most files and folders in a folder; more are a home folder or a disk, not a run."""


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was left out."""

    path: Path
    reason: str
    """Why: ``a zip, but not a bundle``."""


@dataclass(frozen=True)
class Inputs:
    """The files to work on, and what was left out of folders."""

    files: tuple[Path, ...]
    """In the order given; files of a folder by name, ``rank2`` before ``rank10``."""
    skipped: tuple[Skipped, ...]


def find_inputs(
    paths: Iterable[Path], *, bundles: bool, allowed: Callable[[Path], bool] | None = None
) -> Inputs:
    """Replace each folder by the snapshots in it and, with ``bundles``, the bundles.

    A file that was named is taken, whatever it is: its reader says what is wrong with it. Folders
    are searched, subfolders too, for bundles (``.zip``) and for files that end in ``.pickle``,
    ``.pkl`` or ``.json`` (also with ``.gz`` or ``.zst``) and begin like a snapshot. A snapshot with
    its bundle among them is left out, and so are all numbered recordings but the one that
    ``latest`` leads to. Hidden files and folders, reports of recordings, and folders that links
    lead to a second time are skipped silently.

    Args:
        paths: files and folders.
        bundles: whether bundles are wanted.
        allowed: says which files and folders within a folder may be read; None for all.

    Raises:
        InputError: a folder cannot be read or has no file to work on, or a file is given twice.
    """
    given = list(paths)
    named: dict[Path, Path] = {}
    for path in given:
        if not is_folder(path):
            same = named.setdefault(path.resolve(), path)
            if same is not path:
                raise InputError(f"{path} is given twice; name each file once.")
    files: list[Path] = []
    skipped: list[Skipped] = []
    taken = set(named)
    for path in given:
        if not is_folder(path):
            files.append(path)
            continue
        found, left = _look_into(path, bundles, allowed)
        if not found:
            raise InputError(_nothing_in(path, left, bundles))
        for each in found:
            if each.resolve() in taken:
                left.append(Skipped(each, NAMED))
            else:
                taken.add(each.resolve())
                files.append(each)
        skipped += [each for each in left if each.reason != OURS]
    return Inputs(tuple(files), tuple(skipped))


def the_recording(path: Path) -> Path:
    """Return the recording of a folder with a single one, such as ``out/latest``; else the path."""
    if not is_folder(path):
        return path
    try:
        found, _ = _look_into(path, True, None, enough=2)  # a snapshot and its bundle are one
    except InputError:  # whoever reads the folder meets it again
        return path
    return found[0] if len(found) == 1 else path


def skipped_words(skipped: Iterable[Skipped], most: int = 3) -> Iterator[str]:
    """Yield a line for each reason, with the names of the first few files."""
    reasons: dict[str, list[Path]] = {}
    for each in skipped:
        reasons.setdefault(each.reason, []).append(each.path)
    for reason, paths in reasons.items():
        names = ", ".join(str(path) for path in paths[:most])
        if len(paths) > most:
            names += f" and {len(paths) - most:,} more"
        yield f"{names} ({reason})"


def _look_into(
    folder: Path,
    bundles: bool,
    allowed: Callable[[Path], bool] | None,
    enough: int = MOST_ENTRIES,
) -> tuple[list[Path], list[Skipped]]:
    """Return the files in a folder that are taken, and the others; stop at more than ``enough``."""
    found: list[Path] = []
    skipped: list[Skipped] = []
    sources: set[tuple[str, int, str]] = set()
    waiting, seen, entries = [(folder, 0)], set(), 0
    while waiting:
        place, depth = waiting.pop()
        try:
            # With the dot, which a folder without search permission does not let us look at.
            status = place.stat() if is_remote(place) else os.stat(f"{place}/.")  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            inside = [path for path in place.iterdir() if not path.name.startswith(".")]
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            if depth == 0:
                raise InputError(f"{folder} {reason}.") from error
            skipped.append(Skipped(place, reason))
            continue
        entries += len(inside)
        if entries > MOST_ENTRIES:
            raise InputError(
                f"{folder} has over {MOST_ENTRIES:,} files in it; name the folders of the run."
            )
        inside.sort(key=lambda path: by_number(path.name))
        if allowed is not None:
            known = {path for path in inside if allowed(path)}
            skipped += [Skipped(path, NOT_ALLOWED) for path in inside if path not in known]
            inside = [path for path in inside if path in known]
        known = {path for path in inside if is_folder(path)}
        folders = [path for path in inside if path in known]
        files = [path for path in inside if path not in known]
        if newest := latest_number(place):
            numbered = {path for path in folders if NUMBER.fullmatch(path.name)}
            others = {path for path in numbered if int(path.name) != newest}
            skipped += [Skipped(path, OTHER) for path in folders if path in others]
            folders = [path for path in folders if path not in others]
        if depth == DEEPEST:
            skipped += [Skipped(path, DEEPER) for path in folders]
        else:  # the last is searched first: a link comes after the folder that it may lead to
            folders.sort(key=lambda path: path.is_symlink())
            waiting += [(path, depth + 1) for path in reversed(folders)]
        for path in files:
            reason = _why_not(path, bundles, sources)
            if reason:
                skipped.append(Skipped(path, reason))
            else:
                found.append(path)
            if len(found) > enough:
                return found, skipped
    converted = {path for path in found if _is_one_of(path, sources)}
    skipped += [Skipped(path, CONVERTED) for path in found if path in converted]
    return [path for path in found if path not in converted], skipped


def _why_not(path: Path, bundles: bool, sources: set[tuple[str, int, str]]) -> str:
    """Say why a file is left out, ``""`` if it is taken; add the source of a bundle."""
    if _ends_in(path, (_BUNDLE,)):
        if not bundles:
            return NO_CONVERTING
        if _is_special(path):
            return NO_FILE
        source = _source_of(path)
        if source is None:
            return NO_BUNDLE
        sources.add(source)
        return ""
    if not _ends_in(path, _SNAPSHOTS):
        return OURS if _is_report(path.name) else NO_SNAPSHOT_NAME
    if _is_special(path):
        return NO_FILE
    return "" if _begins_well(path) else NO_SNAPSHOT


def _is_special(path: Path) -> bool:
    """Say whether a path, or what a link leads to, is a pipe or device: it may never end."""
    try:
        return not is_remote(path) and not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # the reader meets the same error, and names it
        return False


def _is_report(name: str) -> bool:
    written = WRITTEN.fullmatch(name)
    return name == LATEST_FILE or (written is not None and written["stem"] == "report")


def _ends_in(path: Path, endings: Sequence[str]) -> bool:
    name = path.name.lower()
    if endings is _SNAPSHOTS:
        for packed in (_GZIP, *_ZSTD):
            name = name.removesuffix(packed)
    return name.endswith(tuple(endings))


def _source_of(bundle: Path) -> tuple[str, int, str] | None:
    """Return the name, size and SHA-256 of a bundle's source; None if it is not a bundle.

    A file that cannot be read may be a damaged bundle: its reader says what is wrong with it.
    """
    try:
        with checked_members(bundle) as members:
            source = orjson.loads(members.unpack(MANIFEST, MOST_MANIFEST))["source"]
            return str(source["name"]), int(source["size"]), str(source["sha256"])
    except NotABundleError:
        return None
    except Exception:  # whatever a stranger's file makes of it
        return "", -1, ""


def _is_one_of(path: Path, sources: set[tuple[str, int, str]]) -> bool:
    """Say whether a bundle was made from a snapshot; ranks may all have one name and size."""
    try:
        alike = {each[2] for each in sources if each[:2] == (path.name, path.stat().st_size)}
        return bool(alike) and sha256_of(path) in alike
    except OSError:
        return False


def _begins_well(path: Path) -> bool:
    """Say whether a file begins like a snapshot, or is empty, damaged or unreadable.

    Such a file was meant to be a snapshot: its reader says what is wrong with it.
    """
    if is_remote(path):  # each look is a request, and there may be a thousand files
        return True
    try:
        with open_regular(path) as file:
            data = file.read(_PEEK)
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(wbits=31).decompress(data, _PEEK)
        elif data[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(_PEEK)
    except Exception:  # the reader meets the same error, and names it
        return True
    return not data or any(part in data for part in _PARTS)


def _nothing_in(folder: Path, skipped: Sequence[Skipped], bundles: bool) -> str:
    wanted = "snapshot or bundle" if bundles else "snapshot"
    if not skipped:
        return f"{folder} holds no {wanted}: there is no file in it."
    left = "; ".join(skipped_words(skipped))
    return f"{folder} holds no {wanted}, only {left}."

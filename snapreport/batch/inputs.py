"""Which files to work on: those that were named, and the snapshots and bundles in folders."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from snapreport.errors import InputError

_GZIP, _ZSTD = ".gz", (".zst", ".zstd")
_SNAPSHOTS = (".pickle", ".pkl", ".json")
_BUNDLE = ".zip"
_PEEK = 1 << 16
"""Bytes from the beginning of a file in which a snapshot names one of its parts."""
_MANIFEST = 1 << 22
"""Bytes that a bundle's manifest may have; a larger one is for the reader to refuse."""
_PARTS = (b"segments", b"device_traces", b"blocks")

NO_SNAPSHOT_NAME = "by name neither snapshot nor bundle"
NO_CONVERTING = "a zip; bundles need no converting"
NO_SNAPSHOT = "not beginning as snapshots do"
NO_BUNDLE = "a zip, but no bundle"
FOLDER = "a folder in a folder; to be given by itself"
CONVERTED = "its bundle is taken"
NAMED = "named already"


@dataclass(frozen=True)
class Skipped:
    """A file of a folder that nothing is made of."""

    path: Path
    reason: str
    """Why: ``a zip, but no bundle``."""


@dataclass(frozen=True)
class Inputs:
    """The files to work on, and those of the folders that were left out."""

    files: tuple[Path, ...]
    """In the order given; those of a folder by name, ``rank2`` before ``rank10``."""
    skipped: tuple[Skipped, ...]


def find_inputs(paths: Iterable[Path], *, bundles: bool) -> Inputs:
    """Replace each folder by the snapshots in it and, with ``bundles``, the bundles.

    A file that was named is taken whatever it is: reading it says what is wrong. Of a folder are
    taken files directly in it that end in ``.pickle``, ``.pkl`` or ``.json``, also with ``.gz``
    or ``.zst`` behind it, and begin as a snapshot does, and bundles, which end in ``.zip``. Where
    the bundle of a snapshot lies beside it, the bundle alone is taken. Hidden files are passed
    over without a word.

    Raises:
        InputError: a folder cannot be read, or has nothing to take in it; a file is given twice.
    """
    given = list(paths)
    named: dict[Path, Path] = {}
    for path in given:
        if not path.is_dir():
            same = named.setdefault(path.resolve(), path)
            if same is not path:
                raise InputError(f"{path} is given twice; name each file once.")
    files: list[Path] = []
    skipped: list[Skipped] = []
    taken = set(named)
    for path in given:
        if not path.is_dir():
            files.append(path)
            continue
        found, left = _look_into(path, bundles)
        if not found:
            raise InputError(_nothing_in(path, left, bundles))
        for each in found:
            if each.resolve() in taken:
                left.append(Skipped(each, NAMED))
            else:
                taken.add(each.resolve())
                files.append(each)
        skipped += left
    return Inputs(tuple(files), tuple(skipped))


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


def _look_into(folder: Path, bundles: bool) -> tuple[list[Path], list[Skipped]]:
    try:
        entries = sorted(folder.iterdir(), key=_by_number)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}.") from error
    found: list[Path] = []
    skipped: list[Skipped] = []
    sources: set[tuple[str, int]] = set()
    for path in entries:
        if path.name.startswith("."):
            continue
        reason = _why_not(path, bundles, sources)
        if reason:
            skipped.append(Skipped(path, reason))
        else:
            found.append(path)
    for path in list(found):
        if not _ends_in(path, (_BUNDLE,)) and _identity(path) in sources:
            found.remove(path)
            skipped.append(Skipped(path, CONVERTED))
    return found, skipped


def _why_not(path: Path, bundles: bool, sources: set[tuple[str, int]]) -> str:
    """Say why a file is left out, ``""`` if it is taken; notes the sources of bundles."""
    if path.is_dir():
        return FOLDER
    if _ends_in(path, (_BUNDLE,)):
        if not bundles:
            return NO_CONVERTING
        source = _source_of(path)
        if source is None:
            return NO_BUNDLE
        sources.add(source)
        return ""
    if not _ends_in(path, _SNAPSHOTS):
        return NO_SNAPSHOT_NAME
    return "" if _begins_well(path) else NO_SNAPSHOT


def _ends_in(path: Path, endings: Sequence[str]) -> bool:
    name = path.name.lower()
    if endings is _SNAPSHOTS:
        for packed in (_GZIP, *_ZSTD):
            name = name.removesuffix(packed)
    return name.endswith(tuple(endings))


def _source_of(bundle: Path) -> tuple[str, int] | None:
    """Return name and size of the snapshot that a bundle was made of; None if it is no bundle.

    What cannot be read may be a bundle that is damaged: reading it whole says what is wrong.
    """
    try:
        with zipfile.ZipFile(bundle) as archive:
            if "manifest.json" not in archive.namelist():
                return None
            if archive.getinfo("manifest.json").file_size > _MANIFEST:
                return "", -1
            manifest = orjson.loads(archive.read("manifest.json"))
        source = manifest["source"]
        return str(source["name"]), int(source["size"])
    except (OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError):
        return "", -1
    except (ArithmeticError, ValueError, LookupError, TypeError):
        return "", -1


def _identity(path: Path) -> tuple[str, int]:
    try:
        return path.name, path.stat().st_size
    except OSError:
        return path.name, -1


def _begins_well(path: Path) -> bool:
    """Say whether a file begins as a snapshot does; also if it is empty, damaged or unreadable.

    Those are for the reader to name: they were meant to be snapshots.
    """
    try:
        if not path.is_file():  # opening a pipe would wait for its other end
            return False
        with path.open("rb") as file:
            data = file.read(_PEEK)
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(wbits=31).decompress(data, _PEEK)
        elif data[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(_PEEK)
    except Exception:  # whatever it is, the reader meets it too, and names it
        return True
    return not data or any(part in data for part in _PARTS)


def _nothing_in(folder: Path, skipped: Sequence[Skipped], bundles: bool) -> str:
    wanted = "snapshot or bundle" if bundles else "snapshot"
    if not skipped:
        return f"{folder} holds no {wanted}: it is a folder with no file in it."
    left = "; ".join(skipped_words(skipped))
    return f"{folder} is a folder that holds no {wanted}, only {left}."


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Sort ``rank2`` before ``rank10``."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if k % 2 else (-1, part) for k, part in enumerate(parts)]

"""The members of a bundle's zip: its manifest, and how all are checked and unpacked within limits.

The zip may be a stranger's, made to harm whoever opens or unpacks it. Nothing in it is written to
disk here, but people unpack bundles for other tools, so what would harm them is refused too.
"""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from snapreport.bundle.strips import CUT_RULE, EXACT_UP_TO, RULE, count_columns
from snapreport.ground.errors import BundleError
from snapreport.ground.files import open_regular
from snapreport.ground.processes import MAX_UNPACKED, most_unpacked
from snapreport.ground.version import __version__
from snapreport.model.history import Drawn, History
from snapreport.model.snapshot import Source

FORMAT = 1
MANIFEST = "manifest.json"
"""The member in which a bundle describes itself."""


def make_manifest(
    history: History, warnings: list[dict[str, str]], drawn: Sequence[Drawn] | None = None
) -> dict[str, Any]:
    """Return the manifest of a history as plain values.

    Args:
        history: what the bundle holds.
        warnings: ``code`` and ``text`` of each.
        drawn: what the strips show of each device; None for all.
    """
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "snapreport": __version__,
        "source": vars(history.source),
        **_facts(history),
        "strips": RULE,
        "warnings": warnings,
    }
    if drawn is not None:
        manifest["strips"] = f"{RULE} {CUT_RULE}"
        for device, part in zip(manifest["devices"], drawn, strict=True):
            device["cut"] = part.as_plain()
    return manifest


def strips_name(history: History, index: int) -> str:
    """Return the member that holds a device's strips; the default device's has no number."""
    return "allocations.json" if index == history.default_device else f"allocations.{index}.json"


def _facts(history: History) -> dict[str, Any]:
    """Return the facts that ``elements.db`` also holds, or that follow from it."""
    return {
        "default_device": history.default_device,
        "devices": [
            {
                "device": str(device.device),
                "events": device.events,
                "allocations": len(device.allocations),
                "segments": len(device.segments),
                "blocks": len(device.segments.block_state),
                "annotations": len(device.stages),
                "strips": strips_name(history, index),
                "strips_columns": count_columns(device),
                "strips_exact_at_every_event": device.events <= EXACT_UP_TO,
            }
            for index, device in enumerate(history.devices)
        ],
        "counts": {
            "frames": len(history.stacks.frames),
            "stacks": len(history.stacks),
        },
    }


def parse_manifest(data: bytes) -> dict[str, Any]:
    """Read a manifest.

    Raises:
        BundleError: it is of a newer format.
        KeyError, TypeError, ValueError: it is not a manifest.
    """
    manifest = orjson.loads(data)
    if not isinstance(manifest, dict):
        raise TypeError(f"{MANIFEST} is not an object")
    version = manifest["format"]
    if type(version) is not int:
        raise TypeError("the format is not a number")
    if version > FORMAT:
        raise BundleError(
            f"has bundle format {str(version)[:20]}, but snapreport {__version__} reads only"
            f" formats up to {FORMAT}; upgrade snapreport, or convert the snapshot with this one."
        )
    if version < FORMAT:
        raise ValueError(f"there is no format {version}")
    result: dict[str, Any] = manifest
    return result


def source_of(manifest: dict[str, Any]) -> Source:
    """Return the file that a bundle was made from.

    Raises:
        KeyError, TypeError, ValueError: the manifest does not say.
    """
    source = manifest["source"]
    name, size, digest = source["name"], source["size"], source["sha256"]
    if not isinstance(name, str) or len(name) > 4096:
        raise TypeError("the source's name is not valid")
    if type(size) is not int or not 0 <= size < 2**63:
        raise TypeError("the source's size is not valid")
    if not isinstance(digest, str) or len(digest) > 128:
        raise TypeError("the source's sha256 is not valid")
    return Source(name, size, digest)


def check_manifest(manifest: dict[str, Any], history: History, members: Collection[str]) -> None:
    """Compare a manifest with what the database says, and with the members of the zip.

    Raises:
        BundleError: they disagree.
    """
    facts = _facts(history)
    for device in facts["devices"]:
        del device["strips_columns"]  # depends on the version that wrote the strips
    for key, fact in facts.items():
        if not _agrees(manifest.get(key), fact):
            raise BundleError(
                f"has a {MANIFEST} that disagrees with its elements.db ({key}); one of them was"
                " changed: convert the snapshot again."
            )
    for index in range(max(len(history.devices), 1)):
        name = strips_name(history, index) if history.devices else "allocations.json"
        if name not in members:
            raise KeyError(name)


def _agrees(stated: Any, fact: Any) -> bool:
    """Say whether each fact is as stated; older versions may not have stated all of them."""
    if isinstance(fact, dict):
        return isinstance(stated, dict) and all(
            key not in stated or _agrees(stated[key], value) for key, value in fact.items()
        )
    if isinstance(fact, list):
        return (
            isinstance(stated, list)
            and len(stated) == len(fact)
            and all(_agrees(one, other) for one, other in zip(stated, fact, strict=True))
        )
    return type(stated) is type(fact) and bool(stated == fact)


_MOST_MEMBERS = 1000
"""Members of one zip: a bundle has two, and one for each device."""
_MOST_DIRECTORY = 2**20
"""Bytes of the zip's directory, which is read whole before anything can be checked."""
_ALWAYS_UNPACKED = 2**24
"""Bytes that any member may unpack to, however small it is."""
MOST_MANIFEST = 2**22
"""Bytes of manifest.json: it holds counts and warnings, a few kilobytes."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40 | 0x2000


class NotABundleError(BundleError):
    """The zip is no bundle, whole or damaged: it is somebody's other zip."""


class Members:
    """The members of an open zip, whose names and places have been checked."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Check the directory.

        Raises:
            NotABundleError: it has no manifest.
            BundleError: a member cannot be part of any bundle.
        """
        self._archive = archive
        infos = archive.infolist()
        if all(info.filename != MANIFEST for info in infos):
            raise NotABundleError(
                f"is a zip, but not a snapreport bundle: it has no {MANIFEST}. Make a bundle with"
                " 'snapreport convert'."
            )
        if len(infos) > _MOST_MEMBERS:
            raise BundleError(
                f"is a zip of {len(infos):,} members; a bundle has at most {_MOST_MEMBERS:,}."
            )
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            _check_name(info)
            if info.filename.lower() in self._infos:  # some file systems ignore case
                raise BundleError(
                    f"has two members named {_shown(info)}; convert the snapshot again."
                )
            self._infos[info.filename.lower()] = info
        _check_places(infos, archive.start_dir)

    @property
    def names(self) -> frozenset[str]:
        """The names of all members."""
        return frozenset(info.filename for info in self._infos.values())

    @property
    def comments(self) -> list[str]:
        """What the zip and its members say that is no member's content."""
        told = [self._archive.comment, *(info.comment for info in self._infos.values())]
        return [text.decode("utf-8", "replace") for text in told]

    def size(self, name: str) -> int:
        """Return how many bytes a member unpacks to, as the zip states; 0 if there is none."""
        info = self._infos.get(name)
        return 0 if info is None else info.file_size

    def unpack(self, name: str, most: int | None = None) -> bytes:
        """Return a member's content.

        Args:
            name: of the member.
            most: bytes that it may have; None for what follows from its packed size.

        Raises:
            KeyError: there is no such member.
            BundleError: it is larger than allowed, encrypted, or packed by another method.
            zipfile.BadZipFile, zlib.error, EOFError: it is damaged.
        """
        return b"".join(self.parts(name, most))

    def parts(self, name: str, most: int | None = None, length: int = -1) -> Iterator[bytes]:
        """Yield a member's content in parts of a length; raises as ``unpack()``."""
        info = self._checked(name, most)
        read = 0
        with self._archive.open(info) as file:
            # Never more than the directory states. Reading the last byte checks the checksum.
            while part := file.read(info.file_size if length < 0 else length):
                read += len(part)
                yield part
        if read != info.file_size or (not read and info.CRC):
            raise zipfile.BadZipFile(f"{name} is not as long as stated, or has a wrong checksum")

    def _checked(self, name: str, most: int | None) -> zipfile.ZipInfo:
        info = self._infos.get(name.lower())
        if info is None or info.filename != name:
            raise KeyError(name)
        if info.flag_bits & _ENCRYPTED:
            raise BundleError(
                f"has an encrypted {name}; unpack the zip, and pack it without a password."
            )
        if info.compress_type not in _METHODS:
            raise BundleError(
                f"packs {name} by method {info.compress_type}; unpack the zip, and pack it with"
                " deflate."
            )
        if most is None:
            most = most_unpacked(info.compress_size, _ALWAYS_UNPACKED)
            advice = f"if you trust it, set {MAX_UNPACKED} to more, such as 50GiB"
        else:
            advice = "convert the snapshot again"
        if info.file_size > most:
            raise BundleError(
                f"states that {name} unpacks to {info.file_size:,} bytes, over the limit of"
                f" {most:,}; {advice}."
            )
        return info


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a zip and check its directory.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        zipfile.BadZipFile: it is damaged.
        BundleError: it cannot be a bundle.
    """
    with open_regular(path) as file:
        limited = _LimitedFile(file)
        with zipfile.ZipFile(limited) as archive:
            members = Members(archive)
            limited.most = None
            yield members


class _LimitedFile:
    """A file whose single reads are limited, whatever sizes the zip states."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self.most: int | None = _MOST_DIRECTORY

    def read(self, size: int = -1) -> bytes:
        if self.most is not None and size > self.most:
            raise NotABundleError(
                f"is a zip whose directory states {size:,} bytes; a bundle's has at most"
                f" {self.most:,}."
            )
        return self._file.read(min(size, self._size))


def _check_name(info: zipfile.ZipInfo) -> None:
    name = info.orig_filename
    parts = re.split(r"[/\\]", name)
    outside = name[:1] in ("/", "\\") or ".." in parts or re.match("[A-Za-z]:", name)
    if outside or "\\" in name or not name.isprintable() or not name:
        raise BundleError(
            f"has a member named {_shown(info)}, which is not safe to unpack; ask for another copy."
        )
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(
            f"has a member {_shown(info)} that is not a plain file but a link or device; do not"
            " unpack it, and ask for another copy."
        )


_HEADER = 30
"""Bytes of a member's own header, without its name."""


def _check_places(infos: list[zipfile.ZipInfo], directory: int) -> None:
    """Refuse members that overlap: a few bytes could be unpacked again and again."""
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        first = end == 0
        if info.header_offset < end or (first and info.header_offset > 0):
            what = "something before its first member" if first else "members that overlap"
            raise BundleError(f"is a zip with {what}; convert the snapshot again.")
        end = info.header_offset + _HEADER + len(info.orig_filename) + info.compress_size
    if end > directory:
        raise BundleError(
            "is a zip whose members overlap its directory; convert the snapshot again."
        )


def _shown(info: zipfile.ZipInfo) -> str:
    name = info.orig_filename
    return repr(name if len(name) <= 60 else name[:57] + "...")

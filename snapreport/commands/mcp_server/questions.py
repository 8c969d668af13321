"""What a client may ask about: the files below the roots, and no others.

A file is named by its place below a root once links are resolved, and it is opened as exactly the
file that was found, even if it is moved or replaced by a link meanwhile.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from snapreport.api.runs.inputs import read_name
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.files import stem_of
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import visible
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.names.redaction import quoted

_DESCRIPTORS = Path("/proc/self/fd")
"""Linux has a name for each open file here: it leads to that file, whatever its path is now."""


@dataclass(frozen=True)
class FileBelow:
    """A file below a root, as it was found."""

    root: Path
    """Resolved."""
    parts: tuple[str, ...]
    """Folders and name below the root; none of them was a link."""
    shown: str
    """Its name in answers."""
    device: int
    inode: int
    size: int
    changed_ns: int
    folder: bool
    """Whether it is a folder; folders are never opened as files."""

    @property
    def path(self) -> Path:
        """Where it was found."""
        return self.root.joinpath(*self.parts)


def file_below(path: Path, roots: Sequence[Path], shown: str = "") -> FileBelow | None:
    """Return a regular file or a folder if it is below a root after resolving links; else None.

    Args:
        path: may contain links.
        roots: resolved.
        shown: its name in answers.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        status = real.stat(follow_symlinks=False)
    except (OSError, ValueError):
        return None
    root = next((each for each in roots if real.is_relative_to(each)), None)
    folder = stat.S_ISDIR(status.st_mode)
    if root is None or not (folder or stat.S_ISREG(status.st_mode)):
        return None
    return FileBelow(
        root=root,
        parts=real.relative_to(root).parts,
        shown=shown,
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        folder=folder,
    )


@contextmanager
def opened_below(file: FileBelow) -> Iterator[Path]:
    """Open a file, and yield a path that leads to exactly this file while it is open.

    Each folder of the path is opened from the one before. A link there is an error, because it
    must have appeared after the path was resolved. If the system cannot do that, the file is
    compared with the one that was found, before and after it is read.

    Raises:
        InputError: the file is gone, was replaced, or cannot be read.
        SnapreportError: raised by the body, with the file called by its shown name.
    """
    try:
        descriptor = _descend(file) if os.open in os.supports_dir_fd else _open(file.path)
    except OSError as error:
        raise InputError(f"{file.shown} cannot be opened: {_reason(error)}.") from None
    try:
        _same(os.fstat(descriptor), file)
        named = _DESCRIPTORS / str(descriptor)
        path = named if named.exists() else file.path
        try:
            yield path
        except SnapreportError as error:
            text = str(error).replace(str(path), file.shown)
            raise type(error)(text.replace(str(file.path), file.shown)) from None
        if path != named:
            with suppress(OSError):
                _same(file.path.stat(follow_symlinks=False), file)
    finally:
        os.close(descriptor)


def _descend(file: FileBelow) -> int:
    folder = os.open(file.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in file.parts[:-1]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    try:
        return _open(Path(file.parts[-1]), folder)
    finally:
        os.close(folder)


def _open(path: Path, folder: int | None = None) -> int:
    # A pipe would wait for its other end; anything but a regular file is refused below.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, dir_fd=folder)


def _same(found: os.stat_result, file: FileBelow) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{file.shown} is not a regular file.")
    now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if now != (file.device, file.inode, file.size, file.changed_ns):
        raise InputError(f"{file.shown} was replaced while it was opened; ask again.")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    if isinstance(error, PermissionError):
        return "permission denied"
    return "it was replaced by a link or folder meanwhile"


ENDINGS = (".pickle", ".pkl", ".zip", ".json", ".gz", ".zst")
"""The file names that are listed end like this; a client can open any other file by its name."""

_MOST_ENTRIES = 20_000
"""The most files and folders that a list searches."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//|(?![\\/]))")
_LONGEST = 4096


class RootedFiles:
    """The files below some folders."""

    def __init__(self, roots: Sequence[Path], names: NamesWanted) -> None:
        """Take the roots.

        Args:
            roots: folders; links to them are resolved now.
            names: says whether file names are redacted.

        Raises:
            InputError: one is not a folder.
        """
        self.roots = tuple(_root(each) for each in roots)
        self._names = names

    def find(self, name: str, *, folders: bool = False) -> FileBelow:
        """Return the file that a client names by a path below a root, or by its absolute path.

        Args:
            name: from the client.
            folders: whether it may be a folder, too.

        Raises:
            InputError: it is not below the roots; the message reveals nothing about other files.
        """
        if "\0" in name or not name or len(name) > _LONGEST:
            raise InputError("That is not the name of a file.")
        if _SCHEME.match(name) and not Path(name).drive:
            raise InputError("Files are named by paths below the roots; addresses are not opened.")
        named = (root / name for root in self.roots)
        # The name in a list may differ from the file's own.
        listed = (path for path in self._listed(folders) if self._shown(path) == name)
        for path in itertools.chain(named, listed):
            found = self._below(path)
            if found is not None and (folders or not found.folder):
                return found
        what = "file or folder" if folders else "file"
        raise InputError(
            f"{visible(name[:200])} is not a {what} below the roots of this server; call open"
            " without a file for a list."
        )

    def list(self) -> list[FileBelow]:
        """Return the files below the roots that are recordings by their names, in order."""
        found = [file for path in self._walk() if (file := self._below(path)) is not None]
        return sorted(found, key=lambda file: file.shown)

    def list_runs(self) -> Sequence[tuple[str, int]]:
        """Return the folders with files of several ranks, and how many ranks, in order."""
        return sorted((self._shown(path), ranks) for path, ranks in self._runs().items())

    def _listed(self, folders: bool) -> Iterator[Path]:
        yield from self._runs() if folders else ()
        yield from self._walk()

    def _runs(self) -> dict[Path, int]:
        ranks: dict[Path, set[int]] = {}
        for path in self._walk():
            root = next(each for each in self.roots if path.is_relative_to(each))
            rank = read_name(path.relative_to(root).as_posix()).rank
            if rank is not None and self._below(path) is not None:
                ranks.setdefault(_run_of(path, root), set()).add(rank)
        return {path: len(found) for path, found in ranks.items() if len(found) > 1}

    def _below(self, path: Path) -> FileBelow | None:
        """Return a regular file, or a folder, if it is below a root after resolving links."""
        found = file_below(path, self.roots)
        return None if found is None else replace(found, shown=self._shown(found.path))

    def _shown(self, path: Path) -> str:
        """Return a file's name in answers: its path below the root, without any home folder."""
        root = next(each for each in self.roots if path.is_relative_to(each))
        name = path.relative_to(root).as_posix()
        if sum(_is_there(each / name) for each in self.roots) > 1:
            name = path.as_posix()
        if not self._names.redacted:
            return quoted(visible(name))
        return _stand_in(name, self._names.salt)

    def _walk(self) -> Iterator[Path]:
        left = _MOST_ENTRIES
        for root in self.roots:
            for folder, folders, files in os.walk(root):
                folders[:] = sorted(each for each in folders if not each.startswith("."))
                for name in sorted(files):
                    if name.lower().endswith(ENDINGS) and not name.startswith("."):
                        yield Path(folder, name)
                left -= len(folders) + len(files)
                if left < 0:
                    return


def _root(path: Path) -> Path:
    try:
        real = Path(os.path.realpath(path.expanduser(), strict=True))
    except OSError:
        raise InputError(f"{path} does not exist; a root is a folder that does.") from None
    if not real.is_dir():
        raise InputError(f"{path} is not a folder; name the one that the files are in.")
    return real


def _run_of(path: Path, root: Path) -> Path:
    """Return the run's folder for a rank's file: above the folders of its host and step."""
    folder = path.parent
    while folder != root:
        name = read_name(f"{folder.name}/x")
        if name.dump is None and not name.host and not name.coordinates:
            break
        folder = folder.parent
    return folder


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


@lru_cache(maxsize=_MOST_ENTRIES)
def _stand_in(name: str, salt: str | None) -> str:
    from snapreport.api.loading import redacted_names

    stem = stem_of(name)
    return redacted_names([stem], salt)[0] + name.removeprefix(stem)


ANSWERING = "Answering"
"""The progress report that starts the time limit: the files are open."""


@dataclass(frozen=True)
class Question:
    """One call of a tool."""

    tool: str
    files: tuple[FileBelow, ...]
    """The recording; for ``diff`` NEW and BASE; for ``run`` the folder or zip."""
    arguments: Mapping[str, Any]
    """The tool's arguments, except files."""
    roots: tuple[Path, ...] = ()
    """For ``run``: the folders that its files have to be below."""

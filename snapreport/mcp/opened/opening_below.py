"""Find and open a file below a folder, and no other, even if it is moved or linked meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from snapreport.ground.errors import InputError, SnapreportError

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

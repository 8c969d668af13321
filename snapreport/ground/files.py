"""Output files: their default names, and writing them completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import BinaryIO

from snapreport.ground.errors import OutputError, OutputExistsError
from snapreport.ground.file_endings import check_ending
from snapreport.ground.remote.remote_paths import RemotePath
from snapreport.ground.remote.store_copies import upload_when_whole

_COMPRESSED = {".gz", ".zst", ".zstd"}
_REPORTS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_KINDS = {".pickle", ".pkl", ".json", ".zip"}

# Errors of the writing itself; any other OSError in the body may be about another file.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}

_writer: ContextVar[str] = ContextVar("writer", default="")
"""The mark for this thread's unfinished files; ``""`` for the process id."""


def as_text(path: str | PurePath) -> str:
    """Return a path as text, with bytes that are not UTF-8 replaced."""
    return os.fsencode(path).decode(errors="replace")


def open_regular(path: Path) -> BinaryIO:
    """Open a stranger's file for reading: never a pipe or a device, which may have no end.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    if isinstance(path, RemotePath):
        file: BinaryIO = path.open("rb")
        return file
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  (the caller closes it)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        reason = "it is a pipe or device; save its content to a file first"
        raise OSError(errno.ENOTSUP, reason, str(path))
    return file


def _without_waiting(name: str, how: int) -> int:
    # Opening a pipe would wait for its other end.
    return os.open(name, how | getattr(os, "O_NONBLOCK", 0))


def is_folder(path: Path) -> bool:
    """Say whether a path leads to a folder; False where permissions do not let us see."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Say whether a path leads to a regular file; False where permissions do not let us see."""
    try:
        return path.is_file()
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; raises ``OSError`` if it cannot be read."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def by_number(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``rank2`` before ``rank10``."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if k % 2 else (-1, part) for k, part in enumerate(parts)]


def common_beginning(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the parts that all paths begin with."""
    first, last = min(paths), max(paths)
    n = next((i for i, part in enumerate(first) if last[i : i + 1] != (part,)), len(first))
    return first[:n]


def telling_folders(paths: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return for each path the folders in which it differs from the others, links as they are."""
    parents = [Path(os.path.abspath(path)).parent.parts[1:] for path in paths]  # noqa: PTH100
    first = len(common_beginning(parents))
    last = len(common_beginning([parts[first:][::-1] for parts in parents]))
    return [parts[first : len(parts) - last] for parts in parents]


def output_path(source: Path, output: Path | None, ending: str, stem: str = "") -> Path:
    """Return where to write what is made from a file.

    Args:
        source: the input file; ``snap.pickle.gz`` gives ``snap`` and the ending.
        output: the file to write, an existing folder to write into, or None for the current one.
        ending: the ending of a name made from the input's, with its dot: what will be written.
        stem: what that name is before its ending, if not the input's.

    Raises:
        OutputError: that would be the input itself, or ``-``, which is not a file here, or a name
            that ends as other files do.
    """
    if output is not None and str(output) == "-":
        raise OutputError(
            "- is not accepted as a file name; to write to a pipe use -o /dev/stdout."
        )
    chosen = output
    if output is None or is_folder(output):
        output = (output or Path()) / ((stem or stem_of(source.name)) + ending)
    if is_file(output) and is_file(source) and output.samefile(source):
        raise OutputError(f"{output} is the input itself; name another file with -o.")
    if output is chosen:
        check_ending(output, ending)
    return output


def stem_of(name: str) -> str:
    """Return an input's name without what says its kind: ``snap.pickle.gz`` gives ``snap``."""
    for known in (_COMPRESSED, _KINDS):
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in known:
            name = stem
    return name


def report_format(output: Path | None) -> str:
    """Return a report's format, ``html`` or ``md``, from its name's ending; ``html`` without one.

    Raises:
        OutputError: the ending is that of something else.
    """
    if output is None or is_folder(output) or not output.suffix:
        return "html"
    kind = _REPORTS.get(output.suffix.lower())
    if kind is None:
        check_ending(output, ".html", ".md")
        raise OutputError(
            f"{output} ends neither in .html nor in .md; end it in one of them, or give the format"
            " with --format html or --format md."
        )
    return kind


def check_output(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a path that ``write_atomically`` would refuse.

    Raises:
        OutputExistsError: the file exists and ``force`` is off.
        OutputError: it is a folder, or the folder to hold it does not exist, or it is a link that
            leads nowhere and ``force`` is off.
    """
    try:
        mode = stat.S_IFDIR if path.is_dir() else path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if isinstance(path, RemotePath):  # stores make folders as they are needed
            return
        if path.is_symlink() and not force:
            raise OutputExistsError(
                f"{path} is a link to {path.readlink()}, where nothing is; remove it, or pass"
                " --force to write there."
            ) from None
        if not path.parent.is_dir():
            raise OutputError(
                f"{path} cannot be written: there is no folder {path.parent}; make it first."
            ) from None
        return
    except OSError as error:
        raise _cannot_write(path, error) from error
    if stat.S_ISDIR(mode):
        raise OutputError(f"{path} is a folder; name a file in it.")
    if stat.S_ISREG(mode) and not force:
        raise _exists(path)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; those that stay empty are removed in the end.

    Raises:
        OutputError: it cannot be made.
    """
    new: list[Path] = []
    try:
        if isinstance(folder, RemotePath):
            folder.mkdir()
        else:
            new = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made: {error.strerror}; choose another folder with -o."
        ) from error
    try:
        yield
    finally:
        for each in new:  # where nothing was written
            with suppress(OSError):
                each.rmdir()


@contextmanager
def write_atomically(path: Path, force: bool, sources: Iterable[Path] = ()) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    The bytes go to a hidden file beside the target, which gets its name at the end and is removed
    on any exception, Ctrl-C included. Both the bytes and the name are on the disk before it
    returns, so that a machine that stops at once leaves no empty file under the name. Devices and
    pipes (``/dev/stdout``) are written directly.

    Args:
        path: the file.
        force: replace an existing one.
        sources: what it is made of: whoever may not read one of these may not read it either.

    Raises:
        OutputExistsError: the file exists and ``force`` is off, before the body runs or, where
            somebody else made it meanwhile, after it.
        OutputError: it cannot be written: a folder, no such folder, no permission, no space.
    """
    check_output(path, force)
    if isinstance(path, RemotePath):
        try:
            with upload_when_whole(path) as out:
                yield out
        except OSError as error:
            raise _cannot_write(path, error) from error
        return
    if path.exists() and not path.is_file():
        try:
            with path.open("wb") as out:
                yield out
        except OSError as error:
            if error.errno in _WRITE_ERRORS:
                raise _cannot_write(path, error) from error
            raise
        return
    target = Path(os.path.realpath(path))  # through a link: the link stays
    # Not the module secrets: what it imports takes longer than a small file's deflate.
    unique = os.urandom(4).hex()
    name = os.fsdecode(os.fsencode(target.name)[:200])  # names may be no longer than 255
    beside = target.with_name(f".{name}.{_writer.get() or os.getpid()}-{unique}.part")
    ours = True  # until the rename, errors are about the unfinished file
    try:
        mode = _mode_of([*sources, target])
        # Not tempfile: its files are readable by their owner alone, whatever the umask says.
        with open(beside, "xb", opener=lambda name, how: os.open(name, how, mode)) as out:
            ours = False
            yield out
            ours = True
            sync(out)
        if force or not _named(path, beside, target):
            check_output(path, force)
            os.replace(beside, target)
        _sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):  # its folder may be gone
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and (ours or error.errno in _WRITE_ERRORS):
            raise _cannot_write(path, error) from error
        raise


def sync(out: BinaryIO) -> None:
    """Wait until what was written is on the disk, if its file system can say so.

    Raises:
        OSError: it cannot be written.
    """
    out.flush()
    try:
        os.fsync(out.fileno())
    except OSError as error:
        if error.errno in _WRITE_ERRORS:
            raise


def _sync_folder(folder: Path) -> None:
    """Wait until a file's new name is on the disk; it comes later where nobody can wait."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode_of(sources: Iterable[Path]) -> int:
    """Return what may be done with a file before the umask: no more than with any source."""
    mode = 0o666
    for source in sources:
        with suppress(OSError):  # it may be gone, or not be there yet
            status = source.stat()
            if stat.S_ISREG(status.st_mode):
                mode &= status.st_mode
    return mode | stat.S_IRUSR | stat.S_IWUSR


def _named(path: Path, beside: Path, target: Path) -> bool:
    """Give a complete file its name if it is free; False if links cannot be made.

    Unlike checking and then renaming, this fails for the second of two that do it at once.

    Raises:
        OutputExistsError: somebody else made the target meanwhile.
    """
    try:
        os.link(beside, target)
    except FileExistsError:
        raise _exists(path) from None
    except (OSError, AttributeError):  # some file systems and systems have no links
        return False
    beside.unlink()
    return True


@contextmanager
def writing_as(mark: str) -> Iterator[None]:
    """Give the unfinished files of this thread a mark, by which ``remove_unfinished`` knows them.

    Args:
        mark: letters and digits, of this work alone.
    """
    before = _writer.set(mark)
    try:
        yield
    finally:
        _writer.reset(before)


def remove_unfinished(folder: Path, mark: str) -> None:
    """Remove what workers that were killed had written of files before those had their names.

    Args:
        folder: that ``write_atomically`` was to write into.
        mark: that of the workers' ``writing_as``.
    """
    with suppress(OSError):
        for beside in list(folder.iterdir()):
            if beside.name.endswith(".part") and f".{mark}-" in beside.name:
                beside.unlink(missing_ok=True)


def _exists(path: Path) -> OutputExistsError:
    return OutputExistsError(f"{path} already exists; pass --force to replace it.")


def _cannot_write(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or type(error).__name__
    if isinstance(path, RemotePath) and error.errno == errno.ENOENT:
        reason = "there is no such bucket or folder"
    return OutputError(f"{path} cannot be written: {reason}; choose another place with -o.")

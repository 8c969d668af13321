"""Files on this machine and in stores: their names, writing them whole, and what is in them.

An output gets the ending of what it is, and appears under its name when it is complete. A file that
was given as input is recognized by its beginning if it is neither a snapshot nor a bundle.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from snapreport.ground.errors import OutputError, OutputExistsError
from snapreport.ground.later import expression
from snapreport.ground.stores import RemotePath, upload_when_whole

# Names


class _Form(NamedTuple):
    what: str
    endings: tuple[str, ...]
    """The names of no other form end in these."""
    also: tuple[str, ...] = ()
    """Endings that it may have besides."""
    made_by: str = ""
    """The command that writes it."""


_FORMS = (
    _Form("a bundle", (".zip",), made_by="convert"),
    _Form("a page", (".html", ".htm"), made_by="render"),
    _Form("Markdown", (".md", ".markdown"), (".txt",), "render"),
    _Form("JSON", (".json",), made_by="export json"),
    _Form("a pickle", (".pickle", ".pkl"), made_by="export pickle"),
    _Form("a profile for speedscope", (".speedscope.json",), (".json",), "export speedscope"),
    _Form("collapsed stacks", (".collapsed.txt", ".collapsed", ".folded"), (".txt",),
          "export collapsed"),
    _Form("a profile for pprof", (".pb.gz", ".pprof"), (".gz",), "export pprof"),
    _Form("a Perfetto trace", (".perfetto-trace", ".pftrace"), made_by="export perfetto"),
    _Form("CSV", (".csv",), (".txt",), "export csv"),
    _Form("Parquet", (".parquet",), made_by="export parquet"),
    _Form("a folder for SnapViewer", (".snapviewer",), made_by="export snapviewer"),
    _Form("text", (".txt",)),
    _Form("a compressed file", (".gz", ".zst", ".zstd")),
    _Form("a picture", (".svg", ".png", ".pdf")),
    _Form("a database", (".db", ".sqlite")),
)  # fmt: skip
_BY_ENDING = {ending: form for form in _FORMS for ending in form.endings}


def check_ending(output: Path, *own: str) -> None:
    """Refuse a name whose ending belongs to another form than the one that is written.

    Args:
        output: the file to write; an unknown ending counts as none.
        own: an ending of each form that it may have.

    Raises:
        OutputError: it ends as another form does; the message says what to do.
    """
    ending = _ending_of(output.name)
    forms = [_BY_ENDING[_ending_of(each)] for each in own]
    if not ending or any(ending in form.endings + form.also for form in forms):
        return
    found = _BY_ENDING[ending]
    instead = f", or make {found.what} with 'snapreport {found.made_by}'" if found.made_by else ""
    raise OutputError(
        f"{output} has the ending of {found.what}, and {' or '.join(form.what for form in forms)}"
        f" would be written; end the name in {' or '.join(form.endings[0] for form in forms)}"
        f"{instead}."
    )


def check_folder(output: Path) -> None:
    """Refuse a name for a folder that ends as a file's does.

    Raises:
        OutputError: it does, or is ``-``, and is not a folder so far.
    """
    if str(output) == "-" or (is_named_as_file(output) and not output.is_dir()):
        raise OutputError(f"{output} is named as a file is; here -o names a folder.")


def is_named_as_file(output: Path) -> bool:
    """Say whether a name has an ending that says what a file holds; ``v1.5`` has none."""
    return bool(_ending_of(output.name))


def _ending_of(name: str) -> str:
    """Return the longest ending of a name that is known, in small letters; ``""`` if none is."""
    for place in (k for k, letter in enumerate(name) if letter == "."):
        if name[place:].lower() in _BY_ENDING:
            return name[place:].lower()
    return ""


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


def is_zip(path: Path) -> bool:
    """Say whether a file begins like a zip."""
    try:
        with open_regular(path) as file:
            return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError:
        return False


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
    for known in ((".gz", ".zst", ".zstd"), (".pickle", ".pkl", ".json", ".zip")):
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
    suffix = output.suffix.lower()
    if suffix in (".md", ".markdown"):
        return "md"
    if suffix not in (".html", ".htm"):
        check_ending(output, ".html", ".md")
        raise OutputError(
            f"{output} ends neither in .html nor in .md; end it in one of them, or give the format"
            " with --format html or --format md."
        )
    return "html"


# Writing

# Errors of the writing itself; any other OSError in the body may be about another file.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}

_writer: ContextVar[str] = ContextVar("writer", default="")
"""The mark for this thread's unfinished files; ``""`` for the process id."""


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


def gzipped(parts: Sequence[bytes], level: int) -> bytes:
    """Compress parts of some data with gzip; equal data gives equal bytes on every system.

    Its header has no date, and always the system Unix: zlib would write its own.

    Source: RFC 1952, 2.3.1.
    """
    packer = zlib.compressobj(level, wbits=31)
    made = b"".join((*map(packer.compress, parts), packer.flush()))
    return b"".join((made[:9], b"\x03", made[10:]))


# The newest recording of a folder

LATEST = "latest"
"""A link to the newest recording's folder, or where there are no links ``LATEST_FILE``."""
LATEST_FILE = "latest.txt"
"""The file with the newest recording's number."""
NUMBER = expression(r"[1-9]\d{0,8}")
"""The name of a recording's folder."""
WRITTEN = expression(
    r"(?P<stem>snapshot|snap|report)(\.[\w-]{1,99}){0,3}\.(pickle|pickle\.zst|zip|html|md)"
)
"""The names of files that recordings leave, as ``report.rank3.oom.html``."""


def latest_number(parent: Path) -> int:
    """Return the number that ``latest`` points to; 0 if there is none, or its folder is gone."""
    try:
        name = str((parent / LATEST).readlink())
    except OSError:
        try:
            with open_regular(parent / LATEST_FILE) as file:
                name = file.read(32).decode().strip()
        except (OSError, ValueError):
            return 0
    known = NUMBER.fullmatch(name) and is_folder(parent / name)
    return int(name) if known else 0


def name_a_file(folder: Path) -> str:
    """Say that a file is needed, not this folder, and which file to name."""
    number = latest_number(folder)
    if number:
        return f"is a folder of recordings; name a file of the newest, in {folder / str(number)}."
    return "is a folder; name a file in it."


# Files that are neither a snapshot nor a bundle

BEGIN = 4096
"""Bytes at the beginning of a file that show what it is."""

_RECORD = "record one with 'snapreport record' or torch.cuda.memory._dump_snapshot()"
_SAVED = (
    "was written by torch.save and holds tensors or a model; if it holds a snapshot, load it with"
    f" torch.load and write it with pickle.dump, else {_RECORD}."
)
TRACE = (
    "is a profiler's trace (Chrome, Kineto, TensorBoard), which has no memory snapshot in it; use"
    f" snapreport.from_profile(prof) on the profile itself, or {_RECORD}."
)
_ARCHIVE = "is packed with {}; unpack it, and give what is in it."

_BEGINNINGS = {
    b"SQLite format 3\0": "is a bare SQLite database, such as a bundle's elements.db; give the"
    " bundle (.zip) that it is from.",
    b"version https://git-lfs.github.com/": "stands in for a file of Git LFS; fetch that with"
    " 'git lfs pull'.",
    b"PAR1": "is a Parquet table; give the snapshot or bundle that it was made of.",
    b"BZh": _ARCHIVE.format("bzip2"),
    b"\xfd7zXZ\0": _ARCHIVE.format("xz"),
    b"7z\xbc\xaf\x27\x1c": _ARCHIVE.format("7-Zip"),
}
_TAR = slice(257, 262)
_LEGACY_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_TRACE_BEGIN = expression(
    rb'\s*\{\s*"(traceEvents|schemaVersion|deviceProperties|displayTimeUnit)"'
    rb'|\s*\[\s*\{[^\0]{0,300}"ph"\s*:\s*"'
)
_NAMES = (
    (expression(r"\.(nsys-rep|qdrep|ncu-rep)$", re.IGNORECASE), "is a report of NVIDIA Nsight"),
    (expression(r"\.(perfetto-trace|pftrace|pb|pprof)$", re.IGNORECASE), "is a profile or trace"),
    (expression(r"events\.out\.tfevents"), "is a log of TensorBoard"),
)


def foreign_file(begin: bytes, size: int, name: str) -> str:
    """Say what a file is if not a snapshot, and what to do; ``""`` if it may be a snapshot.

    Args:
        begin: its first ``BEGIN`` bytes, unpacked.
        size: its bytes, unpacked.
        name: of the file; some kinds are known by it.
    """
    for start, said in _BEGINNINGS.items():
        if begin.startswith(start):
            return said
    if begin[2:].startswith(_LEGACY_MAGIC):
        return _SAVED
    if begin[_TAR] == b"ustar":
        return _ARCHIVE.format("tar")
    if int.from_bytes(begin[:8], "little") <= size - 8 and begin[8:10] == b'{"':
        return f"is a safetensors file, which holds tensors, not a memory snapshot; {_RECORD}."
    if _TRACE_BEGIN.match(begin):
        return TRACE
    if begin[:64].lstrip()[:5].lower() in (b"<!doc", b"<html"):
        return _page(begin)
    for pattern, what in _NAMES:
        if pattern.search(name):
            return f"{what}, which has no memory snapshot in it; {_RECORD}."
    return ""


def _page(begin: bytes) -> str:
    if b"MemoryViz.js" in begin:
        return "is a page of PyTorch's memory_viz; give the snapshot that it was made of."
    if b'content="snapreport"' in begin:
        return (
            "is a report that snapreport made; 'snapreport summary' prints what it carries, and"
            " anything else needs the snapshot or bundle that it was made of."
        )
    return f"is a web page, not a memory snapshot; {_RECORD}."


def foreign_zip(begin: bytes) -> str:
    """Say what a zip is if not a bundle, and what to do; ``""`` if it may be a bundle.

    Args:
        begin: its first ``BEGIN`` bytes: the name of the member that comes first is in them.
    """
    first = begin[30 : 30 + int.from_bytes(begin[26:28], "little")].decode(errors="replace")
    if first.endswith("/data.pkl"):
        return _SAVED
    if re.search(r"\.(pickle|pkl)(\.gz|\.zst)?$", first):
        return _ARCHIVE.format("zip")
    return ""

"""Files in stores, as ``s3://bucket/rank0.pickle``: paths that fsspec opens, lists and writes.

A ``RemotePath`` is used like a ``Path``: it has the methods that we use, and each error is an
``OSError``. A file is read by ranges or copied to this machine, and what is written is put into the
store when it is whole. Credentials are left to the store's library; those in an address are left
out of its text, and so of every message.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from snapreport.ground.errors import InputError, RemoteError, reason_of
from snapreport.ground.later import expression
from snapreport.ground.units import format_bytes

_USER = expression(r"(?<=://)[^/\s]*@")
_QUERY = expression(r"(?<=\w)\?[^\s'\"]*")
_PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "abfs": "adlfs",
    "az": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
}


def without_secrets(text: str) -> str:
    """Return a text without user, password and query in its addresses."""
    return _QUERY.sub("", _USER.sub("", text)) if "://" in text else text


def open_store(url: str) -> tuple[Any, str]:
    """Return the store's file system, and the path in it.

    Raises:
        RemoteError: the package for it is missing, or there is no such kind of store.
    """
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(url)
    except ImportError as error:
        packages = f"fsspec {_PACKAGES.get(url.partition('://')[0].lower(), '')}".strip()
        raise RemoteError(
            f"{without_secrets(url)} needs packages that are not installed: pip install {packages}"
        ) from error
    except ValueError as error:
        if "Protocol not known" in str(error):
            raise RemoteError(
                f"{without_secrets(url)} is in no kind of store that fsspec knows."
            ) from error
        raise
    system.invalidate_cache()  # others may have written to it meanwhile
    return system, str(path)


@contextmanager
def plain_errors(url: str) -> Iterator[None]:
    """Turn what a store's library raises into an ``OSError`` whose message has no secrets."""
    try:
        yield
    except RemoteError:
        raise
    except Exception as error:
        missing = isinstance(error, FileNotFoundError)
        refused = isinstance(error, PermissionError)
        code = errno.ENOENT if missing else errno.EACCES if refused else errno.EIO
        text = without_secrets(reason_of(error).replace(url, without_secrets(url))).rstrip(".")
        said = os.strerror(code) if missing else text or type(error).__name__
        raise OSError(code, said, without_secrets(url)) from error  # of the subclass for its code


class RangedFile(io.RawIOBase):
    """A file of a store whose errors are those of files."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def readable(self) -> bool:
        """Return True."""
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position."""
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; all that are left by default."""
        with plain_errors(self._url):
            return bytes(self._file.read(-1 if size is None else size))

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._file.close()
        super().close()


if TYPE_CHECKING:
    _Base = Path
else:
    _Base = object

_Entry: TypeAlias = "dict[str, Any]"
_Tree: TypeAlias = "dict[str, Any]"

_SCHEME = expression(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")
"""A scheme has at least two letters, so a drive letter does not count as one."""
_RENAMING = {"sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"}
"""Stores in which a file grows under its name while it is written."""
_BLOCK = 8 << 20
"""Bytes that are requested at a time."""
_BLINK = 2.0
"""Seconds before a missing file is looked for again, as each look is a request."""


def is_remote(path: object) -> bool:
    """Say whether a path leads to a store."""
    return isinstance(path, RemotePath)


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or a ``RemotePath`` for text such as ``s3://bucket/name``."""
    found = _SCHEME.match(path) if isinstance(path, str) else None
    if found is None:
        return path if isinstance(path, RemotePath) else Path(path)
    if found["scheme"].lower() == "file":
        return Path(found.string[found.end() :])
    return RemotePath(found.string)


class RemotePath(_Base):
    """A file in a store, with those methods of ``Path`` that we use."""

    def __init__(self, url: str, tree: _Tree | None = None) -> None:
        """Take an address, and what a listing says about it."""
        self._url = url
        self._tree = tree
        self._entry: _Entry | None = None
        """What the store says, where no listing does."""
        self._missed = -_BLINK
        """When it was last found to be missing."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A folder's listing may be long, and a worker is given files.
        return RemotePath, (self._url, self._tree if self._tree and _FILE in self._tree else None)

    def __str__(self) -> str:
        return without_secrets(self._url)

    def __fspath__(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str | os.PathLike[str]) -> RemotePath:
        url, tree = self._bare.rstrip("/"), self._tree
        for part in PurePosixPath(os.fspath(name)).parts:
            url = f"{url}/{part}"
            if tree is not None:  # a listing: what is not in it is not there
                tree = tree.get(part, {})
        return RemotePath(url, tree)

    @property
    def _key(self) -> str:
        return self._url.rstrip("/")

    @property
    def _bare(self) -> str:
        """The address without its query, to which names of files below it are added."""
        return self._url.partition("?")[0] if self.protocol in ("http", "https") else self._url

    @property
    def protocol(self) -> str:
        """``s3``, in small letters."""
        return self._url.partition("://")[0].lower()

    @property
    def parts(self) -> tuple[str, ...]:
        """``("s3://bucket", "run", "rank0.pickle")``."""
        scheme, _, rest = str(self).rstrip("/").partition("://")
        first, *others = rest.split("/")
        return (f"{scheme}://{first}", *others)

    @property
    def name(self) -> str:
        """The last part, without credentials."""
        return self.parts[-1] if len(self.parts) > 1 else ""

    def __getattr__(self, name: str) -> Any:
        """The name's ``stem``, ``suffix`` and ``suffixes``, as those of files."""
        if name in ("stem", "suffix", "suffixes"):
            return getattr(PurePosixPath(self.name), name)
        raise AttributeError(name)

    @property
    def parent(self) -> RemotePath:
        """The folder; a bucket is its own."""
        if len(self.parts) == 1:
            return self
        return RemotePath(self._bare.rstrip("/").rpartition("/")[0])

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """The folders, innermost first."""
        up = self.parent
        return () if up is self else (up, *up.parents)

    def with_name(self, name: str) -> RemotePath:
        """Return another file in the same folder."""
        return self.parent / name

    def relative_to(self, *other: str | os.PathLike[str]) -> PurePosixPath:  # type: ignore[override]
        """Return the path from a folder of the same store."""
        return PurePosixPath(*self.parts).relative_to(PurePosixPath(*as_path(other[0]).parts))

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002
        """Return the path itself: stores have no links."""
        return self

    absolute = expanduser = resolve

    def is_symlink(self) -> bool:
        """Return False."""
        return False

    def readlink(self) -> RemotePath:
        """Raise the error of a file that is not a link.

        Raises:
            OSError: each time.
        """
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self))

    def samefile(self, other: object) -> bool:
        """Say whether it is the same address."""
        return self == other

    def stat(self, **_: Any) -> Any:
        """Return mode, size and time as ``os.stat`` has them.

        Raises:
            OSError: there is nothing, or no access to it.
        """
        entry = self._info()
        folder = entry.get("type") == "directory"
        when = next((entry[key] for key in _TIMES if entry.get(key) is not None), 0)
        seconds = when.timestamp() if hasattr(when, "timestamp") else float(when)
        return SimpleNamespace(
            st_mode=(stat.S_IFDIR if folder else stat.S_IFREG) | 0o666,
            st_size=int(entry.get("size") or 0),
            st_mtime=seconds,
            st_mtime_ns=int(seconds * 1e9),
            st_dev=0,
            st_ino=hash(self._key),
        )

    def exists(self, **_: Any) -> bool:
        """Say whether there is such a file or folder; False if that cannot be found out."""
        try:
            self._info()
        except OSError:  # opening it raises the reason
            return False
        return True

    def is_file(self, **_: Any) -> bool:
        """Say whether there is such a file."""
        return not self._url.endswith("/") and self.exists() and not self._is_folder()

    def is_dir(self, **_: Any) -> bool:
        """Say whether it is a folder; an address that ends in ``/`` is one, even if empty."""
        return self._url.endswith("/") or (self.exists() and self._is_folder())

    def _is_folder(self) -> bool:
        return bool(self._info().get("type") == "directory")

    def iterdir(self) -> Iterator[RemotePath]:  # type: ignore[override]
        """Yield what is in a folder; the store is asked once for all that is below it.

        Raises:
            OSError: there is nothing, or no access to it.
        """
        if self._tree is None:
            with plain_errors(self._url):
                system, path = open_store(self._url)
                self._tree = _tree_of(system.find(path, detail=True), path)
        for name in list(self._tree):
            if name != _FILE:
                yield self / name

    def open(self, *_: Any, **__: Any) -> Any:
        """Open for reading bytes, by ranges.

        Raises:
            OSError: there is nothing, or no access to it.
        """
        if self._tree == {}:
            raise self._not_there()
        with plain_errors(self._url):
            system, path = open_store(self._url)
            return RangedFile(system.open(path, "rb", block_size=_BLOCK), self._url)

    def read_bytes(self) -> bytes:
        """Return the content."""
        with self.open() as file:
            return bytes(file.read())

    def read_text(self, encoding: str | None = None, *_: Any, **__: Any) -> str:
        """Return the content as text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Make a folder, where a store needs one."""
        if self.protocol in _RENAMING:
            with plain_errors(self._url):
                system, path = open_store(self._url)
                system.makedirs(path, exist_ok=True)

    def download(self, target: Path) -> None:
        """Copy the file to this machine.

        Raises:
            OSError: there is nothing, no access to it, or it did not come whole.
        """
        with plain_errors(self._url):
            system, path = open_store(self._url)
            system.get_file(path, str(target))
            size = system.info(path).get("size")
        if size is not None and target.stat().st_size != size:
            raise OSError(errno.EIO, f"of its {size:,} bytes {target.stat().st_size:,} came")

    def upload(self, source: Path) -> None:
        """Put a whole file under this name; nobody sees a part of it.

        Raises:
            OSError: no access, no such bucket.
        """
        self._tree, self._entry, self._missed = None, None, -_BLINK
        with plain_errors(self._url):
            system, path = open_store(self._url)
            if self.protocol in _RENAMING:
                beside = f"{path}.{os.urandom(4).hex()}.part"
                try:
                    system.put_file(str(source), beside)
                    system.mv(beside, path)
                except BaseException:
                    if system.exists(beside):
                        system.rm_file(beside)
                    raise
            else:
                system.put_file(str(source), path)

    def _not_there(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def _info(self) -> _Entry:
        if self._entry is None and self._tree is not None:
            self._entry = self._tree.get(_FILE, {"type": "directory"} if self._tree else None)
        elif self._entry is None and time.monotonic() > self._missed + _BLINK:
            try:
                with plain_errors(self._url):
                    system, path = open_store(self._url)
                    self._entry = dict(system.info(path))
            except FileNotFoundError:
                self._missed = time.monotonic()
        if self._entry is None:
            raise self._not_there()
        return self._entry


_FILE = ""
"""The key of a file's own entry in a tree of names."""
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


def _tree_of(found: dict[str, _Entry], root: str) -> _Tree:
    """Arrange the files of a listing by their folders."""
    tree: _Tree = {}
    start = len(root.rstrip("/"))
    for path in sorted(found):
        if found[path].get("type") == "directory":
            continue
        place = tree
        for part in path[start:].strip("/").split("/"):
            place = place.setdefault(part, {})
        place[_FILE] = found[path]
    return tree


_SPARE = 64 << 20
"""Bytes that are left free where a file is copied to."""


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """Give a file of this machine: the path itself, or a copy of a store's file while it lasts.

    Raises:
        InputError: there is too little room for the copy.
        OSError: there is nothing, or no access to it.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    import shutil
    from tempfile import TemporaryDirectory  # either takes longer than a small file to convert

    size = path.stat().st_size
    with TemporaryDirectory(prefix="snapreport-", ignore_cleanup_errors=True) as folder:
        free = shutil.disk_usage(folder).free
        if size + _SPARE > free:
            raise InputError(
                f"has {format_bytes(size)}, and {Path(folder).parent}, where it would be copied to,"
                f" has {format_bytes(free)} free; set TMPDIR to another folder."
            )
        copy = Path(folder) / (path.name or "copy")
        path.download(copy)
        yield copy


@contextmanager
def upload_when_whole(path: RemotePath) -> Iterator[BinaryIO]:
    """Open a file of this machine that is put into a store when it is complete.

    Raises:
        OSError: no access, no such bucket.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="snapreport-", ignore_cleanup_errors=True) as folder:
        whole = Path(folder) / "whole"
        with whole.open("wb") as out:
            yield out
        path.upload(whole)

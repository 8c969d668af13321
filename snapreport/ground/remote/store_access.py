"""Opens stores with fsspec, and keeps secrets out of its error messages."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snapreport.ground.errors import RemoteError, reason_of

_USER = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(?<=\w)\?[^\s'\"]*")
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
    scheme = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise _needs(url, scheme) from error
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        raise _needs(url, scheme) from error
    except ValueError as error:
        if "Protocol not known" in str(error):
            raise RemoteError(
                f"{without_secrets(url)} is in no kind of store that fsspec knows."
            ) from error
        raise
    system.invalidate_cache()  # others may have written to it meanwhile
    return system, str(path)


def _needs(url: str, scheme: str) -> RemoteError:
    packages = f"fsspec {_PACKAGES.get(scheme, '')}".strip()
    return RemoteError(
        f"{without_secrets(url)} needs packages that are not installed: pip install {packages}"
    )


@contextmanager
def plain_errors(url: str) -> Iterator[None]:
    """Turn what a store's library raises into an ``OSError`` whose message has no secrets."""
    try:
        yield
    except RemoteError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, os.strerror(errno.ENOENT), without_secrets(url)
        ) from error
    except PermissionError as error:
        raise PermissionError(errno.EACCES, _said(error, url), without_secrets(url)) from error
    except Exception as error:
        raise OSError(errno.EIO, _said(error, url), without_secrets(url)) from error


def _said(error: Exception, url: str) -> str:
    text = without_secrets(reason_of(error).replace(url, without_secrets(url)))
    return text.rstrip(".") or type(error).__name__


class RangedFile(io.RawIOBase):
    """A file of a store whose errors are those of files."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position."""
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; all that are left by default."""
        with plain_errors(self._url):
            return bytes(self._file.read(-1 if size is None else size))

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._file.close()
        super().close()

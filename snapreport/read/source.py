"""Opens the files that a user names: a snapshot, mapped or unpacked; budgets in TOML; and rules."""

from __future__ import annotations

import hashlib
import mmap
import re
import stat
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from snapreport.ground.errors import (
    BudgetError,
    InputError,
    NotASnapshotError,
    NotEnoughMemoryError,
    PatternError,
)
from snapreport.ground.files import as_text, name_a_file
from snapreport.ground.processes import MAX_UNPACKED, most_unpacked
from snapreport.ground.stores import local_copy
from snapreport.ground.units import format_bytes
from snapreport.model.roles import Rule
from snapreport.model.snapshot import Source
from snapreport.read.parsed import MOST_RULES, UNPACKED_ALWAYS, require_memory

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PART = 1 << 24


@contextmanager
def open_source(path: Path) -> Iterator[tuple[Callable[[], Source], bytes | mmap.mmap]]:
    """Yield a function that returns a file's identity, to be called last, and its unpacked bytes.

    Raises:
        InputError: it is missing, a folder, or not readable.
        NotASnapshotError: it is empty, or a damaged gzip or zstd file.
        NotEnoughMemoryError: unpacked it is too large for this machine, or larger than allowed.
    """
    try:
        status = path.stat()
        mode = status.st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            # Opening a pipe would wait for its other end, and a device has no length.
            raise InputError("is a pipe or device; save its content to a file first.")
        with local_copy(path) as here, here.open("rb") as file:
            if status.st_size == 0:
                raise NotASnapshotError(
                    "is empty; was the program still writing it? Record it again."
                )
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
                _digest(mapped) as digest,
            ):

                def source() -> Source:
                    return Source(as_text(path.name), len(mapped), digest())

                if mapped[:2] == _GZIP:
                    yield source, _unpack_gzip(mapped)
                elif mapped[:4] == _ZSTD:
                    yield source, _unpack_zstd(mapped)
                else:
                    yield source, mapped
    except FileNotFoundError as error:
        raise InputError("does not exist; check the path.") from error
    except IsADirectoryError as error:
        raise InputError(name_a_file(path)) from error
    except PermissionError as error:
        raise InputError("cannot be read: permission denied.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be read: {reason}.") from error


@contextmanager
def _digest(data: mmap.mmap) -> Iterator[Callable[[], str]]:
    """Compute the SHA-256 of the data in a thread, and yield a function that waits for it."""
    found: list[str] = []
    cancelled = threading.Event()  # a refused file needs no digest

    def take() -> None:
        digest = hashlib.sha256()
        with memoryview(data) as view:
            for start in range(0, len(view), _PART):
                if cancelled.is_set():
                    return
                with view[start : start + _PART] as part:
                    digest.update(part)
        found.append(digest.hexdigest())

    thread = threading.Thread(target=take)
    try:
        thread.start()
    except RuntimeError:  # a limit on threads
        take()

    def result() -> str:
        if thread.ident is not None:
            thread.join()
        return found[0]

    try:
        yield result
    finally:
        cancelled.set()
        if thread.ident is not None:
            thread.join()  # it must release the data before they are unmapped


def _read_short(path: Path) -> str:
    """Return the text of a file of rules or budgets.

    Raises:
        InputError: it cannot be read, or is too long to be one.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RULES + 1)
        if len(data) <= MOST_RULES:
            return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {reason}.") from error
    raise InputError(f"{path} cannot be read: it is larger than {format_bytes(MOST_RULES)}.")


class _Unpacked:
    """The bytes unpacked so far, whose number is limited."""

    def __init__(self, packed: int) -> None:
        self._most = most_unpacked(packed, UNPACKED_ALWAYS)
        self._parts: list[bytes] = []
        self._length = 0
        self._checked = 0

    @property
    def left(self) -> int:
        """How many more bytes may be added."""
        return self._most - self._length

    def add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._most:
            raise NotEnoughMemoryError(
                f"unpacks to more than {format_bytes(self._most)}, far more than a snapshot of its"
                f" size does; if you trust it, set {MAX_UNPACKED} to more, such as 50GiB."
            )
        self._parts.append(part)
        # The file need not state its unpacked size, or may state a wrong one.
        if self._length > 2 * self._checked:
            self._checked = self._length
            require_memory(2 * self._length)  # the parts, and the whole made of them

    def whole(self) -> bytes:
        return b"".join(self._parts)


def _unpack_gzip(packed: mmap.mmap) -> bytes:
    import gzip

    unpacked = _Unpacked(len(packed))
    said = int.from_bytes(packed[-4:], "little")  # of the last member, modulo 4 GiB
    require_memory(min(said, len(packed) * 1032))  # the most that deflate can do
    try:
        with gzip.open(packed) as stream:
            while part := stream.read(_PART):
                unpacked.add(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotASnapshotError(f"is a damaged gzip file ({error}); copy it again.") from error
    return unpacked.whole()


# Bytes that one byte of zstd can unpack to: a block of 128 KiB takes four.
_ZSTD_MOST = 1 << 15
_ZSTD_LEAST_PART = 1 << 10


def _unpack_zstd(packed: mmap.mmap) -> bytes:
    import zstandard

    unpacked = _Unpacked(len(packed))
    try:
        said = zstandard.frame_content_size(packed[:18])  # the longest header; -1 if unknown
        require_memory(min(said, len(packed) * _ZSTD_MOST))
    except zstandard.ZstdError:
        pass  # reported below
    position = 0
    try:
        while position < len(packed):  # one frame each
            frame = zstandard.ZstdDecompressor().decompressobj()
            step = _ZSTD_LEAST_PART
            while not frame.eof:
                part = packed[position : position + step]
                if not part:  # a stream reader would end silently here
                    raise NotASnapshotError("is a zstd file that is cut off; copy it again.")
                unpacked.add(frame.decompress(part))
                position += len(part)
                # Larger steps as it goes on, but never one that could unpack to far too much.
                step = max(_ZSTD_LEAST_PART, min(2 * step, unpacked.left // _ZSTD_MOST, _PART))
            position -= len(frame.unused_data)
    except zstandard.ZstdError as error:
        raise NotASnapshotError(f"is a damaged zstd file ({error}); copy it again.") from error
    return unpacked.whole()


# Budgets for ``snapreport check``, from a TOML file or a project's pyproject.toml.

_TABLE = ("tool", "snapreport", "check")


def _parsed_toml(text: str) -> Any:
    if sys.version_info >= (3, 11):  # here, as most commands never read one
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def has_budget(path: Path) -> bool:
    """Say whether a project's pyproject.toml has budgets, in any form that TOML allows.

    A file that is not valid TOML but names us counts too: ``read_budget`` then says what is wrong,
    and no check passes because its budgets were missed.

    Args:
        path: a file that exists.
    """
    data = path.read_bytes()
    if b"snapreport" not in data:
        return False
    try:
        return _table_of(_parsed_toml(data.decode())) is not None
    except (ValueError, RecursionError):
        return True


def read_budget(path: Path) -> dict[str, Any]:
    """Return the budgets in a file, by key, as they are written there.

    Args:
        path: a TOML file with the keys at its top or, as pyproject.toml has to, in the table
            ``[tool.snapreport.check]``. A ``base`` in it is relative to the file's folder.

    Raises:
        InputError: the file cannot be read.
        BudgetError: it is not TOML, or a pyproject.toml without the table.
    """
    text = _read_short(path)
    try:
        data: Any = _parsed_toml(text)
    except (ValueError, RecursionError) as error:  # an integer may have too many digits
        raise BudgetError(f"{path} is not valid TOML: {error}.") from error
    table = _table_of(data)
    if table is None:
        if path.name == "pyproject.toml":
            raise BudgetError(f"{path} has no table [{'.'.join(_TABLE)}].")
        table = data
    if not isinstance(table, dict):
        raise BudgetError(f"{path}: {'.'.join(_TABLE)} is not a table.")
    said: dict[str, Any] = dict(table)
    if isinstance(said.get("base"), str):
        said["base"] = str(path.parent / said["base"])
    return said


def _table_of(data: Any) -> Any:
    for key in _TABLE:
        data = data.get(key) if isinstance(data, dict) else None
    return data


# Rules for categories.


def read_rules(source: str) -> tuple[Rule, ...]:
    """Read rules in order: the first that matches a frame of a call stack wins.

    A mapping ``{"category": "expression"}`` looks for the expression in function and file names;
    a list has entries with ``category`` and ``function``, ``file`` or ``pattern`` (either).

    Args:
        source: a file's name, or JSON or YAML itself when it begins with ``{`` or ``[``.

    Raises:
        InputError: the file cannot be read.
        PatternError: a rule is not well-formed; the message names it.
    """
    inline = source.lstrip().startswith(("{", "["))
    where = "the rules" if inline else source
    text = source if inline else _read_short(Path(source))
    data = _parse(text, where)
    if isinstance(data, dict):
        entries = [{"category": name, "pattern": pattern} for name, pattern in data.items()]
    elif isinstance(data, list):
        entries = data
    else:
        raise PatternError(f"{where}: rules must be a mapping or a list, not {_kind(data)}.")
    if not entries:
        raise PatternError(f"{where}: it has no rules.")
    return tuple(_rule(entry, k + 1, where) for k, entry in enumerate(entries))


def _parse(text: str, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    import yaml

    try:
        # Aliases are rarely useful, and nested ones expand without limit.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise PatternError(f"{where}: rules cannot use aliases (*name).")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        place = "" if line is None else f" in line {line + 1}"
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise PatternError(f"{where} is neither JSON nor YAML: {problem}{place}.") from error


_KEYS = {"category", "name", "function", "file", "pattern"}


def _rule(entry: Any, number: int, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise PatternError(f"{where}: rule {number} is {_kind(entry)}, not a mapping.")
    unknown = sorted(str(key) for key in entry.keys() - _KEYS)
    if unknown:
        raise PatternError(f"{where}: rule {number} has an unknown key {unknown[0]!r}.")
    category = entry.get("category", entry.get("name"))
    if not isinstance(category, str) or not category:
        raise PatternError(f"{where}: rule {number} has no category.")
    expressions = {}
    for key in ("function", "file", "pattern"):
        pattern = entry.get(key)
        if pattern is None:
            continue
        if not isinstance(pattern, str):
            raise PatternError(f"{where}: rule {number} ({category}): {key} is not text.")
        try:
            expressions[key] = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(
                f"{where}: rule {number} ({category}): {pattern!r} is not a regular expression:"
                f" {error}."
            ) from error
    if not expressions:
        raise PatternError(
            f"{where}: rule {number} ({category}) needs a function, a file or a pattern."
        )
    return Rule(
        category, expressions.get("function"), expressions.get("file"), expressions.get("pattern")
    )


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"

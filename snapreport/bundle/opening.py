"""Opens a stranger's SQLite file in memory: nothing in it runs, or takes forever to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from snapreport.ground.errors import BundleError, reason_of

LONGEST_VALUE = 2**26
"""Bytes of one value or row: far above any call stack, far below what would do harm."""

_CHECK_EVERY = 20_000
"""Steps of SQLite's virtual machine between two checks of the limit: about a millisecond."""

MOST_STEPS = 2**22
"""Steps of SQLite's virtual machine that any file may take, besides those for its bytes."""

STEPS_FOR_A_BYTE = 4
"""Real files take at most one: a table's row has more bytes than it takes steps to read."""

_BEGIN = b"SQLite format 3\0"
_OFF = """
    TRUSTED_SCHEMA ENABLE_LOAD_EXTENSION ENABLE_TRIGGER ENABLE_FTS3_TOKENIZER WRITABLE_SCHEMA
    ENABLE_ATTACH_CREATE ENABLE_ATTACH_WRITE DQS_DDL DQS_DML
"""

_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def open_in_memory(
    data: bytes, limits: dict[int, int] | None = None, name: str = "elements.db"
) -> apsw.Connection:
    """Open a copy of an SQLite file that cannot be changed, in defensive mode.

    Args:
        data: the file.
        limits: SQLite's limits by number, which add to ours or replace them.
        name: its name in the zip.

    Raises:
        BundleError: it does not begin like an SQLite file.
        apsw.Error: it is damaged.
    """
    if not data.startswith(_BEGIN):  # SQLite may treat a file with too few bytes as new
        raise BundleError(
            f"has a damaged {name} (it is not an SQLite file); make the bundle again."
        )
    connection = apsw.Connection(":memory:")
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        for each in _OFF.split():
            number = getattr(apsw, f"SQLITE_DBCONFIG_{each}", None)
            if number is not None:  # SQLite 3.47 lacks some
                connection.config(number, 0)
        connection.deserialize("main", data)
        for limit, most in (_LIMITS | (limits or {})).items():
            connection.limit(limit, most)
        # The first statement also reads the tables' definitions, which may be circular.
        connection.set_progress_handler(steps_guard(len(data)), _CHECK_EVERY)
        connection.pragma("query_only", True)
        connection.pragma("temp_store", 2)  # sorts spill into memory, not into files
        connection.pragma("cell_size_check", True)
        connection.pragma("mmap_size", 0)
    except BaseException:
        connection.close()
        raise
    return connection


def steps_guard(size: int) -> Callable[[], bool]:
    """Return a progress handler that stops SQLite when a file of this size takes too many steps."""
    left = (MOST_STEPS + STEPS_FOR_A_BYTE * size) // _CHECK_EVERY

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return stop


def damaged(error: Exception, name: str = "elements.db") -> BundleError:
    """Return the error for a damaged database of that name."""
    if isinstance(error, apsw.InterruptError):
        reason = "reading it takes too many steps"
    else:
        reason = reason_of(error)
    return BundleError(f"has a damaged {name} ({reason}); make the bundle again.")


@contextmanager
def explaining(name: str = "elements.db") -> Iterator[None]:
    """Turn what reading a damaged database raises into a BundleError that says why."""
    try:
        yield
    except apsw.Error as error:
        raise damaged(error, name) from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise BundleError(
            f"has an inconsistent {name} ({reason_of(error)}); make the bundle again."
        ) from error

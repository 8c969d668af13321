"""Expected errors: each message is one line with the file, what is wrong and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snapreport.ground.safe_text import visible


class SnapreportError(Exception):
    """The parent of every expected error; all else that is raised is a bug."""


class InputError(SnapreportError):
    """A file that was given cannot be read: missing, a folder, no permission, not UTF-8."""


class NotASnapshotError(SnapreportError):
    """The file was read, but it is not a memory snapshot, or it is a damaged one."""


class NotEnoughMemoryError(SnapreportError):
    """Reading or answering would need more memory than there is or is allowed; it says how much."""


class UnsafePickleError(SnapreportError):
    """The pickle asks for code to be run, or has what no snapshot needs; nothing was loaded."""


class BundleError(SnapreportError):
    """The bundle is damaged, or of a newer format than this version reads."""


class DeviceError(SnapreportError):
    """The requested device is not in the file; the message lists the devices that are."""


class MomentError(SnapreportError):
    """There is no such event, time, stage or allocation; the message lists those that exist."""


class CutError(SnapreportError):
    """The cut, or the size to fit into, is not possible; the message says what is."""


class PatternError(SnapreportError):
    """A pattern or rule is malformed; the message names it."""


class PlanError(SnapreportError):
    """There is no target to plan for, or nothing to plan with; the message says which."""


class CardError(SnapreportError):
    """The text is neither a card's name nor a size; the message lists the known cards."""


class AllocatorSettingsError(SnapreportError):
    """Allocator settings that PyTorch would refuse or that are not modelled; it says which."""


class BudgetError(SnapreportError):
    """A budget to check a snapshot against is malformed; the message names the error."""


class QueryError(SnapreportError):
    """The statement is not SQL, would write, or took too long; the message has SQLite's reason."""


class ExportError(SnapreportError):
    """This file or moment has no such form; the message says why, and which forms exist."""


class OutputExistsError(SnapreportError):
    """The file to write already exists and must not be replaced."""


class OutputError(SnapreportError):
    """The file cannot be written: no such folder, no permission, no space left."""


class RemoteError(SnapreportError):
    """A path such as ``s3://…`` names no known kind of store, or its package is missing."""


class EngineError(SnapreportError):
    """The engine for many files cannot be used: unknown, not installed, or not answering."""


class NativeLibraryError(SnapreportError):
    """The native library is missing, stale or cannot be loaded; the message says what to do."""


class RecordingError(SnapreportError):
    """The running program cannot be recorded: no torch, no such device, recording twice."""


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Prefix every expected error with the path of the file that it is about."""
    try:
        yield
    except NativeLibraryError:  # which the file has nothing to do with
        raise
    except SnapreportError as error:
        raise type(error)(f"{path} {error}") from error.__cause__


def reason_of(error: Exception) -> str:
    """Return what an error of Python or a library says: one line of at most 200 letters."""
    text = f"no {error}" if isinstance(error, KeyError) else str(error)
    return visible(" ".join(text[:1000].split()))[:200] or type(error).__name__

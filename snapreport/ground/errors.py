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
    """The file was read, but it is no memory snapshot, or a damaged one."""


class NotEnoughMemoryError(SnapreportError):
    """Reading or answering would need more memory than there is or is allowed; it says how much."""


class UnsafePickleError(SnapreportError):
    """The pickle asks for code to be run, or has what no snapshot needs; nothing was loaded."""


class BundleError(SnapreportError):
    """The bundle is damaged, or of a newer format than this version reads."""


class DeviceError(SnapreportError):
    """The device that was asked for is not in the file; the message lists those that are."""


class MomentError(SnapreportError):
    """There is no such event, time, stage or allocation; the message says which there are."""


class CutError(SnapreportError):
    """What is to be drawn, or the size to fit into, is not possible; the message says what is."""


class PatternError(SnapreportError):
    """A pattern or rule is not well-formed; the message names it."""


class PlanError(SnapreportError):
    """There is no target to plan for, or nothing to plan with; the message says which."""


class CardError(SnapreportError):
    """No card has such a name, and it is no size; the message lists those that are known."""


class AllocatorSettingsError(SnapreportError):
    """Settings of the allocator that PyTorch would refuse or nobody modelled; it says which."""


class BudgetError(SnapreportError):
    """A budget to check a snapshot against is not well-formed; the message names it."""


class QueryError(SnapreportError):
    """The SQL is none, would write, or took too long; the message has what SQLite says."""


class ExportError(SnapreportError):
    """This file or moment has no such form; the message says why, and what there is instead."""


class OutputExistsError(SnapreportError):
    """The file to write exists already and was not to be replaced."""


class OutputError(SnapreportError):
    """The file cannot be written: no such folder, no permission, no space left."""


class RemoteError(SnapreportError):
    """A path such as ``s3://…`` leads to no kind of store, or the package for it is missing."""


class EngineError(SnapreportError):
    """The engine for many files cannot be used: no such one, not installed, nothing answers."""


class NativeLibraryError(SnapreportError):
    """The native library is missing, stale or cannot be loaded; the message says what to do."""


class RecordingError(SnapreportError):
    """The running program cannot be recorded: no torch, no such device, recording twice."""


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Let every expected error begin with the path of the file that it is about."""
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

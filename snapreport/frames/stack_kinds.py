"""Find which frames the call stacks of a file have: Python, C++, or both."""

from __future__ import annotations

from snapreport.frames.frame_kinds import is_native_file
from snapreport.ground.memoize import once_for_each
from snapreport.model.history import History
from snapreport.model.stacks import FrameTable
from snapreport.model.trust import StackKind


def find_stack_kind(tables: History) -> StackKind:
    """Return which frames a file's stacks have, as one setting for all; ``none`` without frames.

    A profile's frames are only names, so they count as none.
    """
    if tables.layout == "profiler":
        return "none"
    native = _are_native(tables.stacks.frames)
    if not native:
        return "none"
    if native == {True, False}:
        return "both"
    return "native" if True in native else "python"


@once_for_each
def _are_native(frames: FrameTable) -> frozenset[bool]:
    return frozenset(is_native_file(name) for name in set(frames.filenames))

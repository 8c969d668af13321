"""A finished ``torch.profiler`` run as a snapshot: ``from_profile()``."""

from __future__ import annotations

import pickle
from typing import Any

from snapreport.api.loading import Snapshot
from snapreport.ground.processes.gc_pause import collector_off
from snapreport.history.build import build_history
from snapreport.names.short_paths import shorten
from snapreport.read import read_bytes


def from_profile(
    profile: Any, *, name: str = "torch.profiler", keep_paths: bool = False
) -> Snapshot:
    """Return the memory in a finished profile as a ``Snapshot``.

    Args:
        profile: of ``torch.profiler.profile(profile_memory=True, with_stack=True)``, after its
            ``with`` block. With ``record_shapes=True`` the gradients of every step are exact.
        name: shown in reports instead of a file name.
        keep_paths: as in ``load()``.

    Raises:
        RecordingError: it is not a profile, is not finished, or recorded no memory.
    """
    from snapreport.recorders.profiler_snapshot import profile_to_snapshot

    with collector_off():
        # Through the bytes of a file, so that profiles and files share all checks.
        data = pickle.dumps(profile_to_snapshot(profile), protocol=4)
    history = build_history(read_bytes(data, name))
    return Snapshot(history if keep_paths else shorten(history))

"""Turns PyTorch CUDA memory snapshots into portable bundles and self-contained reports.

The whole interface is here: ``load()``, ``convert()``, ``render()``, ``convert_many()``,
``load_run()``, ``render_run()``, ``export()``, ``diff()``, ``check()``, ``batch_growth()``, the
``Snapshot`` that ``load()`` returns, and the errors, which share the parent ``SnapreportError``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from snapreport.ground.version import __version__

if TYPE_CHECKING:
    from snapreport.api.comparison import batch_growth, diff, render_diff
    from snapreport.api.device import Asked, Changed, Device, Moment
    from snapreport.api.exporting import export
    from snapreport.api.forecasting import forecast
    from snapreport.api.gate import check
    from snapreport.api.loading import Snapshot, from_profile, load, load_rules
    from snapreport.api.making import convert, render
    from snapreport.api.recording import (
        Recording,
        mark,
        record,
        schedule,
        stage,
        start,
        stop,
    )
    from snapreport.api.runs import (
        Batch,
        LoadedRun,
        Outcome,
        RunReport,
        convert_many,
        load_run,
        render_run,
    )
    from snapreport.diagnosis.compare.diff_types import Diff
    from snapreport.diagnosis.compare.gate import Verdict
    from snapreport.ground.errors import (
        AllocatorSettingsError,
        BudgetError,
        BundleError,
        CardError,
        CutError,
        DeviceError,
        EngineError,
        ExportError,
        InputError,
        MomentError,
        NativeLibraryError,
        NotASnapshotError,
        NotEnoughMemoryError,
        OutputError,
        OutputExistsError,
        PatternError,
        PlanError,
        QueryError,
        RecordingError,
        RemoteError,
        SnapreportError,
        UnsafePickleError,
    )

__all__ = [
    "AllocatorSettingsError",
    "Asked",
    "Batch",
    "BudgetError",
    "BundleError",
    "CardError",
    "Changed",
    "CutError",
    "Device",
    "DeviceError",
    "Diff",
    "EngineError",
    "ExportError",
    "InputError",
    "LoadedRun",
    "Moment",
    "MomentError",
    "NativeLibraryError",
    "NotASnapshotError",
    "NotEnoughMemoryError",
    "Outcome",
    "OutputError",
    "OutputExistsError",
    "PatternError",
    "PlanError",
    "QueryError",
    "Recording",
    "RecordingError",
    "RemoteError",
    "RunReport",
    "SnapreportError",
    "Snapshot",
    "UnsafePickleError",
    "Verdict",
    "__version__",
    "batch_growth",
    "check",
    "convert",
    "convert_many",
    "diff",
    "export",
    "forecast",
    "from_profile",
    "load",
    "load_rules",
    "load_run",
    "mark",
    "record",
    "render",
    "render_diff",
    "render_run",
    "schedule",
    "stage",
    "start",
    "stop",
]

_HOME = {
    **dict.fromkeys(("Snapshot", "load", "load_rules"), "snapreport.api.loading"),
    **dict.fromkeys(("convert", "render"), "snapreport.api.making"),
    **dict.fromkeys(
        ("Batch", "LoadedRun", "Outcome", "RunReport", "convert_many", "load_run", "render_run"),
        "snapreport.api.runs",
    ),
    **dict.fromkeys(("Asked", "Changed", "Device", "Moment"), "snapreport.api.device"),
    **dict.fromkeys(("diff", "render_diff"), "snapreport.api.comparison"),
    "Diff": "snapreport.diagnosis.compare.diff_types",
    "Verdict": "snapreport.diagnosis.compare.gate",
    "check": "snapreport.api.gate",
    "forecast": "snapreport.api.forecasting",
    "from_profile": "snapreport.api.loading",
    "export": "snapreport.api.exporting",
    "batch_growth": "snapreport.api.comparison",
    **dict.fromkeys(
        ("Recording", "mark", "record", "schedule", "stage", "start", "stop"),
        "snapreport.api.recording",
    ),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``snapreport --help`` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_HOME.get(name, "snapreport.ground.errors"))
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: object) -> None:
    """Let IPython have ``%%snapreport_memory``; ``%load_ext snapreport`` calls this."""
    from snapreport.recorders.hosts.ipython import load

    load(shell)

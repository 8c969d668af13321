"""Do the work on one of several files: a task and its outcome."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from snapreport.ground.errors import SnapreportError
from snapreport.ground.object_display import Shown
from snapreport.ground.progress import Progress

if TYPE_CHECKING:
    from snapreport.model.findings import Findings
    from snapreport.runs.gathered import Gathered

_LOG = logging.getLogger(__name__)

NO_MEMORY = "not enough memory for this file; try --jobs 1, or where more is free."


@dataclass(frozen=True)
class Task:
    """One file to convert, to render, or to gather the figures of."""

    verb: Literal["convert", "render", "gather"]
    source: Path
    target: Path
    """The file to write; ``gather`` writes none."""
    options: dict[str, Any]
    """Those of ``convert()`` or ``render()``; for ``gather`` of ``findings()``, and ``names``."""


@dataclass(frozen=True)
class Outcome(Shown):
    """The outcome of working on one file."""

    source: Path
    path: Path | None
    """The bundle or report; None if none was made."""
    error: str = ""
    """Why not: one line that names the file."""
    already: bool = False
    """Whether a bundle of the same file existed already and was kept."""
    warnings: tuple[str, ...] = ()
    """Warnings about a converted snapshot, a line each."""
    gathered: Gathered | None = field(default=None, repr=False)
    """The figures of a file that was gathered or rendered; None if that failed."""


def run_task(task: Task, progress: Progress) -> Outcome:
    """Do a task; the outcome has its error, if any, and a bug is logged with its traceback."""
    try:
        if task.verb == "convert":
            return _convert(task, progress)
        if task.verb == "gather":
            return _gather(task, progress)
        return _render(task, progress)
    except SnapreportError as error:
        return Outcome(task.source, None, str(error))
    except MemoryError:
        return Outcome(task.source, None, f"{task.source}: {NO_MEMORY}")
    except Exception as error:
        _LOG.exception("%s", task.source)
        what = f"{type(error).__name__}: {error}"
        return Outcome(task.source, None, f"{task.source} meets an error in snapreport: {what}.")


def lost_task(task: Task, how: str) -> Outcome:
    """Return the outcome of a task whose workers were lost."""
    return Outcome(task.source, None, f"{task.source}: {how}")


def _convert(task: Task, progress: Progress) -> Outcome:
    from snapreport.api.making import convert

    if not any(task.options.values()):  # a bundle made without options can be kept
        from snapreport.api.resuming import is_converted

        if is_converted(task.source, task.target):
            return Outcome(task.source, task.target, already=True)
    warnings: list[str] = []
    path = convert(task.source, task.target, progress=progress, see=warnings.extend, **task.options)
    return Outcome(task.source, path, warnings=tuple(warnings))


def _gather(task: Task, progress: Progress) -> Outcome:
    from snapreport.api.loading import load_named
    from snapreport.runs.gathered import gather

    options = dict(task.options)
    snapshot = load_named(task.source, options.pop("names"), progress)
    progress("Analysing", None)
    return Outcome(task.source, None, gathered=gather(snapshot.findings(**options)))


def _render(task: Task, progress: Progress) -> Outcome:
    from snapreport.api.making import render

    kept: list[Gathered] = []

    def see(findings: Findings) -> None:
        from snapreport.runs.gathered import gather

        kept.append(gather(findings))

    path = render(task.source, task.target, progress=progress, see=see, **task.options)
    return Outcome(task.source, path, gathered=kept[0])

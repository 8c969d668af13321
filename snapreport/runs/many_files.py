"""Work on several files at once: ``convert_many()``, and what runs need for it, too."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from snapreport.ground.errors import OutputError
from snapreport.ground.file_endings import check_folder
from snapreport.ground.files import made_folder
from snapreport.ground.object_display import Shown
from snapreport.ground.remote.remote_paths import as_path
from snapreport.model.name_treatment import NamesWanted
from snapreport.runs.engines.engine_choice import parse_engine
from snapreport.runs.engines.task_running import run_tasks
from snapreport.runs.inputs import Skipped, find_inputs
from snapreport.runs.jobs import jobs_for
from snapreport.runs.report_names import StandIns, name_outputs
from snapreport.runs.work import Outcome, Task, lost_task, run_task

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Doing:
    """What is being done with one of several files."""

    source: Path
    what: str | None
    """None: the file is finished, with an error or without."""
    fraction: float | None
    """How much of it is done, 0 to 1; None if unknown."""
    ended: int
    """How many of the ``total`` files are finished."""
    total: int


ManyProgress: TypeAlias = Callable[[Doing], None]


@dataclass(frozen=True)
class Batch(Shown):
    """The outcome of working on several files."""

    outcomes: tuple[Outcome, ...]
    """One for each file, in the order given; files of a folder by name."""
    skipped: tuple[Skipped, ...]
    """What was left out of folders, and why."""

    @property
    def paths(self) -> list[Path]:
        """The bundles that were made."""
        return [outcome.path for outcome in self.outcomes if outcome.path is not None]

    @property
    def errors(self) -> list[str]:
        """A line for each file that failed."""
        return [outcome.error for outcome in self.outcomes if outcome.path is None]


def convert_many(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    jobs: int | None = None,
    engine: str | Executor = "local",
    force: bool = False,
    progress: ManyProgress | None = None,
    **options: Any,
) -> Batch:
    """Convert several snapshots into bundles, in several processes.

    Args:
        paths: snapshots, such as the ranks of one run, or folders of them. Folders are searched,
            subfolders too, for files that end and begin like snapshots; ``Batch.skipped`` has the
            others.
        output: the folder to write into, made if missing; by default the current one. Bundles are
            named after their snapshots and, if several have one name, after the folders in which
            they differ: ``rank0-snapshot.zip``.
        jobs: how many processes; by default as many as processors and, judging by the sizes of the
            files, free memory allow; on a running cluster, all that it has.
        engine: where: ``local``, ``dask``, ``dask=tcp://HOST:PORT``, ``ray``, ``ray=ADDRESS``, or
            any executor of ``concurrent.futures``, which is not shut down.
        force: replace existing files.
        progress: called with what is being done.
        options: of ``convert()``, the same for every file.

    Returns:
        an outcome for each file; a file that fails does not stop the others. A bundle that this
        version made from the same file before is kept if there are no options.

    Raises:
        EngineError: the engine is not installed, or does not answer.
        InputError: a file is given twice, or a folder has no snapshot.
        OutputError: ``output`` is not a folder, or two files would have one name; before any work.
        TypeError: there is no such option.
        ValueError: ``jobs`` is below 1.
    """
    inputs = find_inputs(as_paths(paths), bundles=False)
    batch = convert_found(
        inputs.files, output, jobs=jobs, engine=engine, force=force, progress=progress, **options
    )
    return Batch(batch.outcomes, inputs.skipped)


def convert_found(
    files: Sequence[Path],
    output: PathLike | None = None,
    *,
    only: Collection[Path] | None = None,
    jobs: int | None = None,
    engine: str | Executor = "local",
    force: bool = False,
    progress: ManyProgress | None = None,
    **options: Any,
) -> Batch:
    """Convert files, or ``only`` some of them; the names of the bundles depend on all of them."""
    from snapreport.api.making import convert

    check_options(convert, options)
    folder = output_folder(output)
    named = name_outputs(files, folder, ".zip", stand_ins_for(names_wanted(options)))
    if only is not None:
        named = [each for each in named if each.source in only]
    options = options | {"force": force}
    tasks = [Task("convert", each.source, each.target, options) for each in named]
    with made_folder(folder):
        outcomes = run_each(tasks, jobs, engine, progress, [folder])
    return Batch(tuple(outcomes), ())


def run_each(
    tasks: Sequence[Task],
    jobs: int | None,
    engine: str | Executor,
    progress: ManyProgress | None,
    folders: Iterable[Path] = (),
) -> list[Outcome]:
    """Do tasks in the workers of an engine; one that fails does not stop the others.

    Args:
        tasks: in the order in which they are begun.
        jobs: how many at once; None for as many as fit.
        engine: where, as in ``convert_many()``.
        progress: called with what is being done.
        folders: the folders that they write into, so that unfinished files can be removed.

    Returns:
        an outcome for each, in their order.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}; it must be at least 1")
    chosen = parse_engine(engine) if isinstance(engine, str) else engine
    sources = [each.source for each in tasks]
    ended = 0

    def watch(place: int, what: str | None, fraction: float | None) -> None:
        nonlocal ended
        ended += what is None
        if progress is not None:
            progress(Doing(sources[place], what, fraction, ended, len(tasks)))

    return run_tasks(
        run_task,
        tasks,
        lost=lost_task,
        engine=chosen,
        jobs=jobs_for(chosen, sources, jobs),
        watch=None if progress is None else watch,
        folders=folders,
    )


def names_wanted(options: Mapping[str, Any]) -> NamesWanted:
    """Return how names are to be treated, from the options for it."""
    known = [each.name for each in fields(NamesWanted)]
    return NamesWanted(**{name: options[name] for name in known if name in options})


def stand_ins_for(names: NamesWanted) -> StandIns:
    """Return a function that gives the names to write: stand-ins if names are redacted."""
    if not names.redacted:
        return list
    from snapreport.api.loading import redacted_names

    return lambda given: redacted_names(given, names.salt)


def check_options(function: Callable[..., object], options: dict[str, Any]) -> None:
    """Refuse options for which the function has no parameter.

    Raises:
        TypeError: there is such an option.
    """
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known or name in ("path", "output", "see"):
            raise TypeError(f"there is no option {name!r}")


def as_paths(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return one path or several as a list."""
    if isinstance(paths, (str, os.PathLike)):
        return [as_path(paths)]
    return [as_path(path) for path in paths]


def output_folder(output: PathLike | None) -> Path:
    """Return the folder to write into.

    Raises:
        OutputError: it is a file, or is named as one.
    """
    if output is None:
        return Path()
    folder = as_path(output)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise OutputError(f"{folder} is a file; with several inputs -o names a folder.")
    check_folder(folder)
    return folder

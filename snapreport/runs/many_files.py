"""Several files at once: ``convert_many()``, and what a run needs as well."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from snapreport.ground.errors import OutputError
from snapreport.ground.file_endings import check_folder
from snapreport.ground.object_display import Shown
from snapreport.ground.remote.remote_paths import as_path, is_remote
from snapreport.model.name_treatment import NamesWanted
from snapreport.runs.engines.engine_choice import parse_engine
from snapreport.runs.engines.task_running import run_tasks
from snapreport.runs.inputs import Skipped, find_inputs
from snapreport.runs.jobs import jobs_for
from snapreport.runs.report_names import name_outputs
from snapreport.runs.work import Outcome, Task, lost_task, run_task

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Doing:
    """What is being done with one of several files."""

    source: Path
    what: str | None
    """None: the file has ended, with an error or without."""
    fraction: float | None
    """Of it that is done, 0 to 1; None where that is unknown."""
    ended: int
    """How many files have ended, of ``total``."""
    total: int


ManyProgress: TypeAlias = Callable[[Doing], None]

StandIns: TypeAlias = Callable[[list[str]], list[str]]
"""Returns the stand-ins to write for names of files and folders."""


@dataclass(frozen=True)
class Batch(Shown):
    """What came of several files."""

    outcomes: tuple[Outcome, ...]
    """Of each file, in the order given; those of a folder by name."""
    skipped: tuple[Skipped, ...]
    """What was left out of folders, and why."""

    @property
    def paths(self) -> list[Path]:
        """The bundles that were made."""
        return [outcome.path for outcome in self.outcomes if outcome.path is not None]

    @property
    def errors(self) -> list[str]:
        """A line for each file of which nothing could be made."""
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
        paths: snapshots, such as the ranks of one run, or folders of them. Of a folder, and of
            those in it, those files are taken that end and begin as snapshots do;
            ``Batch.skipped`` has the others.
        output: the folder to write into, made if there is none; by default the current one. Bundles
            are named after their snapshots and, where those have one name, the folders in which
            they differ: ``rank0-snapshot.zip``.
        jobs: how many processes; by default as many as there are processors to use, and memory
            for, going by the sizes of the files; on a cluster that is there, all that it has.
        engine: where: ``local``, ``dask``, ``dask=tcp://HOST:PORT``, ``ray``, ``ray=ADDRESS``, or
            any executor of ``concurrent.futures``, which is not shut down.
        force: replace existing files.
        progress: called with what is being done.
        options: as ``convert()`` has them, the same for every file.

    Returns:
        an outcome for each file: what fails for one stops no other. What is there already and was
        made of the same file by this version, without options, is left as it is.

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
    """Convert files, or ``only`` some of them; all together tell how the bundles are named."""
    from snapreport.api.making import convert

    check_options(convert, options)
    folder = output_folder(output)
    stand_ins = stand_ins_for(names_wanted(options))
    named = name_outputs(files, folder, ".zip", stand_ins=stand_ins)
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
    """Do tasks in the workers of an engine; what fails for one stops no other.

    Args:
        tasks: in the order in which they are begun.
        jobs: how many at once; None for as many as fit.
        engine: where, as in ``convert_many()``.
        progress: called with what is being done.
        folders: that they write into, so that unfinished files can be removed.

    Returns:
        an outcome for each, in their order.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}, and has to be 1 at least")
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


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; those that are empty in the end are removed again.

    Raises:
        OutputError: it cannot be made.
    """
    new: list[Path] = []
    try:
        if is_remote(folder):
            folder.mkdir()
        else:
            new = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made: {error.strerror}; choose another folder with -o."
        ) from error
    try:
        yield
    finally:
        for each in new:  # where nothing was written
            with suppress(OSError):
                each.rmdir()


def names_wanted(options: Mapping[str, Any]) -> NamesWanted:
    """Return what is to become of names, as options say."""
    known = [each.name for each in fields(NamesWanted)]
    return NamesWanted(**{name: options[name] for name in known if name in options})


def stand_ins_for(names: NamesWanted) -> StandIns | None:
    """Return what names files where names are redacted; None where they are not."""
    if not names.redacted:
        return None
    from snapreport.api.loading import redacted_names

    return lambda given: redacted_names(given, names.salt)


def check_options(function: Callable[..., object], options: dict[str, Any]) -> None:
    """Refuse what the function has no parameter for.

    Raises:
        TypeError: there is one.
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

"""Convert and render several files at once: ``convert_many()`` and ``render_many()``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from snapreport.ground.errors import OutputError
from snapreport.ground.file_endings import check_folder
from snapreport.ground.files import check_output, write_atomically
from snapreport.ground.object_display import Shown
from snapreport.ground.remote.remote_paths import as_path, is_remote
from snapreport.model.name_treatment import NamesWanted
from snapreport.runs.engines.engine_choice import parse_engine
from snapreport.runs.engines.task_running import run_tasks
from snapreport.runs.inputs import Skipped, find_inputs
from snapreport.runs.jobs import jobs_for
from snapreport.runs.report_names import Named, name_outputs
from snapreport.runs.work import Outcome, Task, link_to, lost_task, run_task

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

_UNTOLD = "no report could be made of it."
"""Where names are redacted, for a line that names the file; who ran it was told."""


@dataclass(frozen=True)
class Batch(Shown):
    """What came of several files."""

    outcomes: tuple[Outcome, ...]
    """Of each file, in the order given; those of a folder by name."""
    skipped: tuple[Skipped, ...]
    """What was left out of folders, and why."""
    index: Path | None = None
    """The list of the reports; None if there is none."""

    @property
    def paths(self) -> list[Path]:
        """The bundles or reports that were made."""
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
        an outcome for each file: what fails for one stops no other.

    Raises:
        EngineError: the engine is not installed, or does not answer.
        InputError: a file is given twice, or a folder has no snapshot.
        OutputError: ``output`` is no folder, or two files would have one name; before any work.
        TypeError: there is no such option.
        ValueError: ``jobs`` is below 1.
    """
    from snapreport.api.making import convert

    _check_options(convert, options)
    folder = _folder(output)
    inputs = find_inputs(_paths(paths), bundles=False)
    named = name_outputs(inputs.files, folder, ".zip", stand_ins=_stand_ins(options))
    outcomes = _run("convert", named, folder, jobs, engine, options | {"force": force}, progress)
    return Batch(tuple(outcomes), inputs.skipped)


def render_many(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    format: Literal["html", "md"] = "html",  # noqa: A002
    title: str | None = None,
    jobs: int | None = None,
    engine: str | Executor = "local",
    force: bool = False,
    progress: ManyProgress | None = None,
    **options: Any,
) -> Batch:
    """Render several snapshots or bundles, in several processes, and an index of the reports.

    The index, ``index.html`` or ``index.md``, lists the recordings in their order, each with its
    peaks, failed requests, growth and verdict, so that the one that is unlike the others shows.

    Args:
        paths: snapshots and bundles, or folders of them. Of a folder those files are taken that
            end and begin as such do, and of a snapshot with its bundle beside it the bundle alone;
            ``Batch.skipped`` has the others.
        output: the folder to write into, made if there is none; by default the current one.
        format: ``html`` or ``md``.
        title: of the index; each report has it before the name of its file.
        jobs: how many processes; by default as many as there are processors to use, and memory
            for, going by the sizes of the files; on a cluster that is there, all that it has.
        engine: where: ``local``, ``dask``, ``dask=tcp://HOST:PORT``, ``ray``, ``ray=ADDRESS``, or
            any executor of ``concurrent.futures``, which is not shut down.
        force: replace existing files.
        progress: called with what is being done.
        options: as ``render()`` has them (``device``, ``notes``, ``rules``, ``ignore`` and so on),
            the same for every file. Redacted, the reports have stand-ins for the names of
            their files and folders, too.

    Returns:
        an outcome for each file: what fails for one stops no other, and is in the index.

    Raises:
        EngineError: the engine is not installed, or does not answer.
        InputError: a file is given twice, or a folder has nothing to render.
        OutputExistsError: there is an index already, and ``force`` is off; before any work.
        OutputError: ``output`` is no folder, or two files would have one name; likewise.
        TypeError: there is no such option.
        ValueError: ``jobs`` is below 1, or ``format`` is none of the two.
    """
    from snapreport.api.making import render

    if format not in ("html", "md"):
        raise ValueError(f"format is {format!r}, not 'html' or 'md'")
    _check_options(render, options)
    folder = _folder(output)
    inputs = find_inputs(_paths(paths), bundles=True)
    index = folder / f"index.{format}"
    stand_ins = _stand_ins(options)
    named = name_outputs(inputs.files, folder, f".{format}", index.name, stand_ins)
    if folder.is_dir():
        check_output(index, force)
    options = options | {"format": format, "force": force}
    titles = None
    if title is not None:
        titles = [f"{title}: {each.label}" for each in named]
    elif stand_ins is not None:  # the name that the index has for it
        titles = [each.label for each in named]
    outcomes = _run("render", named, folder, jobs, engine, options, progress, titles)
    batch = Batch(tuple(outcomes), inputs.skipped)
    if not batch.paths:
        return batch
    _write_index(index, format, title, named, outcomes, force, stand_ins is not None)
    return Batch(batch.outcomes, batch.skipped, index)


def _run(
    verb: Literal["convert", "render"],
    named: Sequence[Named],
    folder: Path,
    jobs: int | None,
    engine: str | Executor,
    options: dict[str, Any],
    progress: ManyProgress | None,
    titles: Sequence[str] | None = None,
) -> list[Outcome]:
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}, and has to be 1 at least")
    chosen = parse_engine(engine) if isinstance(engine, str) else engine
    sources = [each.source for each in named]
    tasks = [
        Task(
            verb,
            each.source,
            each.target,
            options if titles is None else options | {"title": titles[place]},
        )
        for place, each in enumerate(named)
    ]

    ended = 0

    def watch(place: int, what: str | None, fraction: float | None) -> None:
        nonlocal ended
        ended += what is None
        if progress is not None:
            progress(Doing(sources[place], what, fraction, ended, len(tasks)))

    made = _make(folder)
    try:
        return run_tasks(
            run_task,
            tasks,
            lost=lost_task,
            engine=chosen,
            jobs=jobs_for(chosen, sources, jobs),
            watch=None if progress is None else watch,
            folders=[folder],
        )
    finally:
        for each in made:  # remove what a failed run has written
            with suppress(OSError):
                each.rmdir()


def _write_index(
    path: Path,
    kind: str,
    title: str | None,
    named: Sequence[Named],
    outcomes: Sequence[Outcome],
    force: bool,
    redacted: bool,
) -> None:
    from snapreport.model.ranks import Rank, Run

    ranks = tuple(
        Rank(
            each.label,
            link_to(outcome.path) if outcome.path is not None else "",
            outcome.devices,
            _UNTOLD if outcome.error and redacted else outcome.error,
        )
        for each, outcome in zip(named, outcomes, strict=True)
    )
    run = Run(title or "", ranks)
    with write_atomically(path, force, [each.source for each in named]) as out:
        if kind == "html":
            from snapreport.reporters.page.ranks_page import RanksHtmlReporter

            RanksHtmlReporter().render(run, out)
        else:
            from snapreport.reporters.markdown.ranks_markdown import RanksMarkdownReporter

            RanksMarkdownReporter().render(run, out)


def _stand_ins(options: Mapping[str, Any]) -> Callable[[list[str]], list[str]] | None:
    """Return what names outputs where names are redacted."""
    known = [each.name for each in fields(NamesWanted)]
    wanted = NamesWanted(**{name: options[name] for name in known if name in options})
    if not wanted.redacted:
        return None
    from snapreport.api.making import redacted_names

    return lambda names: redacted_names(names, wanted.salt)


def _check_options(function: Callable[..., object], options: dict[str, Any]) -> None:
    """Refuse what the function has no parameter for.

    Raises:
        TypeError: there is one.
    """
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known or name in ("path", "output", "see"):
            raise TypeError(f"there is no option {name!r}")


def _paths(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    if isinstance(paths, (str, os.PathLike)):
        return [as_path(paths)]
    return [as_path(path) for path in paths]


def _folder(output: PathLike | None) -> Path:
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


def _make(folder: Path) -> list[Path]:
    """Make a folder and its parents, and return the new ones, innermost first.

    Raises:
        OutputError: it cannot be made.
    """
    if is_remote(folder):
        folder.mkdir()
        return []
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made: {error.strerror}; choose another folder with -o."
        ) from error
    return new

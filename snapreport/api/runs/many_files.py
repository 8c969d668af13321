"""Work on several files at once: a task for each, and ``convert_many()``, also as files arrive."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import sys
import tempfile
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field, fields, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

from snapreport.api.runs.inputs import Skipped, StandIns, find_inputs, name_outputs
from snapreport.api.runs.tasks import jobs_for, parse_engine, run_tasks
from snapreport.ground.errors import InputError, OutputError, SnapreportError
from snapreport.ground.files import check_folder, made_folder
from snapreport.ground.progress import Progress
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.ground.stores import as_path
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.forecasts import headline_of
from snapreport.model.run import DeviceFacts

if TYPE_CHECKING:
    from snapreport.model.findings import Findings


_MOST_WARNINGS = 20


@dataclass(frozen=True, eq=False, slots=True)
class Gathered:
    """The figures of a file, and what the recorder noted about its process; small."""

    size: int
    """Bytes of the snapshot, even if its bundle was read; ``sha256`` is the snapshot's, too."""
    sha256: str
    devices: tuple[DeviceFacts, ...]
    warnings: tuple[str, ...]
    rank: int | None = None
    """As the recorder noted it; None if it did not, as in the next two."""
    ranks: int | None = None
    """The number of ranks."""
    node: int | None = None
    """The number of the machine."""
    forecast: str = ""
    """Says that it is a forecast; ``""`` for a recording."""


def gather(findings: Findings) -> Gathered:
    """Return what a run keeps of a file."""
    from snapreport.api.rank_figures import rank_facts

    history = findings.history
    noted = history.recorder
    several = noted if noted and noted.world_size > 1 else None
    warnings = [each.title for each in findings.warnings if each.severity != "note"]
    return Gathered(
        size=history.source.size,
        sha256=history.source.sha256,
        devices=rank_facts(findings),
        warnings=tuple(warnings[:_MOST_WARNINGS]),
        rank=several.rank if several else None,
        ranks=several.world_size if several else None,
        node=several.node if several else None,
        forecast=headline_of(noted),
    )


_LOG = logging.getLogger(__name__)

NO_MEMORY = "not enough memory for this file; try --jobs 1, or where more is free."


@dataclass(frozen=True, slots=True)
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
    from snapreport.api.making import convert, is_converted

    # A bundle made without options can be kept.
    if not any(task.options.values()) and is_converted(task.source, task.target):
        return Outcome(task.source, task.target, already=True)
    warnings: list[str] = []
    path = convert(task.source, task.target, progress=progress, see=warnings.extend, **task.options)
    return Outcome(task.source, path, warnings=tuple(warnings))


def _gather(task: Task, progress: Progress) -> Outcome:
    from snapreport.api.loading import load_named

    options = dict(task.options)
    snapshot = load_named(task.source, options.pop("names"), progress)
    progress("Analysing", None)
    return Outcome(task.source, None, gathered=gather(snapshot.findings(**options)))


def _render(task: Task, progress: Progress) -> Outcome:
    from snapreport.api.making import render

    kept: list[Gathered] = []

    def see(findings: Findings) -> None:

        kept.append(gather(findings))

    path = render(task.source, task.target, progress=progress, see=see, **task.options)
    return Outcome(task.source, path, gathered=kept[0])


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
        engine: where: ``local``, ``dask``, ``dask=tcp://HOST:PORT``, or any executor of
            ``concurrent.futures``, such as one of Ray or MPI, which is not shut down.
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
        keep=partial(_shelved, Shelf()),
    )


def _shelved(shelf: Shelf, task: Task, outcome: Outcome) -> Outcome:
    if outcome.gathered is None:
        return outcome
    devices = tuple(map(shelf.put, outcome.gathered.devices))
    gathered = replace(outcome.gathered, devices=devices)
    return replace(outcome, source=task.source, gathered=gathered)  # one path, not two


_ON_SHELF = ("by_event", "by_time", "holders", "steps", "failed", "findings")
_FACTS = tuple(each.name for each in fields(DeviceFacts))


class Shelf:
    """The larger figures of a run's ranks in a file: memory has only a few numbers of each.

    The file has no name, and is closed with the last device that has figures in it.
    """

    def __init__(self) -> None:
        """Begin without a file: the first device makes one."""
        self._file: IO[bytes] | None = None
        self._full = False
        self._lock = threading.Lock()
        self._ends = array("q", [0])

    def put(self, device: DeviceFacts) -> DeviceFacts:
        """Return the device with its larger figures in the file, read each time they are used.

        Where the folder for temporary files cannot take them they stay in memory.
        """
        if self._full:
            return device
        try:
            return self._put(device)
        except OSError:
            self._full = True  # where the file ends is not known from now on
            return device

    def _put(self, device: DeviceFacts) -> DeviceFacts:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        kept = object.__new__(_OnShelf)
        put = object.__setattr__
        put(kept, "shelf", self)
        put(kept, "number", len(self._ends) - 1)
        for name in _FACTS:
            value = getattr(device, name)
            if name not in _ON_SHELF:
                put(kept, name, sys.intern(value) if isinstance(value, str) else value)
            elif not value:
                put(kept, name, value)
                self._ends.append(self._ends[-1])
            else:
                self._ends.append(self._ends[-1] + self._file.write(pickle.dumps(value, 5)))
        self._file.flush()
        return kept

    def get(self, number: int) -> Any:
        """Return the figures of a number; a device has as many numbers as kinds of figures."""
        assert self._file is not None
        begin, end = self._ends[number : number + 2]
        if hasattr(os, "pread"):  # which leaves the place in the file alone: forks share it
            data = os.pread(self._file.fileno(), end - begin, begin)
        else:
            with self._lock:
                self._file.seek(begin)
                data = self._file.read(end - begin)
                self._file.seek(0, 2)
        return pickle.loads(data)  # noqa: S301  (nobody else can have written it)


class _OnShelf(DeviceFacts):
    """A device whose larger figures are in a file, but for those that are empty."""

    __slots__ = ("number", "shelf")
    number: int
    shelf: Shelf

    def __getattr__(self, name: str) -> Any:
        if name not in _ON_SHELF:
            raise AttributeError(name)
        return self.shelf.get(self.number + _ON_SHELF.index(name))

    def __reduce__(self) -> tuple[Callable[..., DeviceFacts], tuple[Any, ...]]:
        return DeviceFacts, tuple(getattr(self, name) for name in _FACTS)


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


_State = tuple[int, int]
"""Bytes of a file, and when it was written last."""

_EVERY = 2.0
"""Seconds between two looks."""


def convert_arriving(
    folders: Sequence[PathLike],
    output: PathLike | None = None,
    *,
    wait: Callable[[float], None] = time.sleep,
    **options: Any,
) -> Iterator[Batch]:
    """Convert what is in folders, and then what arrives, until Ctrl-C.

    A file is converted once two looks find the same size and time, and again after it is written
    anew.

    Args:
        folders: to look into.
        output: as in ``convert_many()``, and so are the options.
        wait: called between two looks with the seconds to wait; a ``KeyboardInterrupt`` ends it.
    """
    before: dict[Path, _State] = {}
    done: dict[Path, _State] = {}
    while True:
        found = _look(folders)
        ready = {
            path for path, state in found.items() if before.get(path) == state != done.get(path)
        }
        if ready:
            done |= {path: found[path] for path in ready}
            yield convert_found(tuple(found), output, only=ready, **options)
        before = found
        try:
            wait(_EVERY)
        except KeyboardInterrupt:
            return


def _look(folders: Sequence[PathLike]) -> dict[Path, _State]:
    """Return the size and time of each snapshot in the folders now."""
    found: dict[Path, _State] = {}
    for folder in folders:
        try:
            files = find_inputs([as_path(folder)], bundles=False).files
        except InputError:  # it is still empty
            continue
        for path in files:
            try:
                status = path.stat()
            except OSError:  # removed meanwhile
                continue
            if status.st_size:
                found[path] = status.st_size, status.st_mtime_ns
    return found

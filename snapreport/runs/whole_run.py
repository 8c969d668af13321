"""Read and compare all files of a run: ``load_run()``."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from snapreport.ground.errors import InputError
from snapreport.ground.files import check_output, is_folder, write_atomically
from snapreport.ground.object_display import Shown
from snapreport.ground.remote.remote_paths import as_path, is_remote
from snapreport.ground.safe_text import visible
from snapreport.model.name_treatment import NamesWanted
from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_findings import RunFindings
from snapreport.runs.inputs import Skipped, find_inputs
from snapreport.runs.many_files import ManyProgress, PathLike, as_paths, run_each, stand_ins_for
from snapreport.runs.rank_names import reader_by
from snapreport.runs.run_making import (
    RunFile,
    make_run,
    name_files,
    parse_layout,
    place_in_layout,
    shown_sources,
)
from snapreport.runs.work import Outcome, Task

OTHER_NAME = "its name does not match --name"
UNKNOWN_RUN = "the zip of a run, which must be the only input"


@dataclass(frozen=True, eq=False)
class LoadedRun(Shown):
    """A run: the figures of every rank, and the findings from comparing them."""

    run: Run
    findings: RunFindings
    skipped: tuple[Skipped, ...] = ()
    """What was left out of folders, and why."""
    files: Mapping[str, Path] = field(default_factory=dict, repr=False)
    """The snapshots and bundles, by ``RankFacts.source``; empty if the run was read from a zip."""
    errors: tuple[str, ...] = ()
    """One line for each file that has no figures."""

    def save(self, path: PathLike, *, force: bool = False) -> Path:
        """Write the run as a zip that ``load_run()`` and ``render_run()`` can read.

        Raises:
            SnapreportError: OutputExistsError or OutputError.
        """
        from snapreport.api.run_files import write_run

        target = as_path(path)
        check_output(target, force)
        with write_atomically(target, force, list(self.files.values())) as out:
            write_run(self.run, out)
        return target

    def __repr__(self) -> str:
        return visible(f"<Run of {len(self.run.ranks)} files: {self.findings.headline}>")

    def _repr_html_(self) -> str:
        return f"<p>{escape(visible(self.findings.headline))}</p>"


def load_run(
    paths: PathLike | Iterable[PathLike],
    *,
    name: str | None = None,
    layout: str | None = None,
    title: str | None = None,
    device: str | int | None = None,
    ignore: Sequence[str] = (),
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    jobs: int | None = None,
    engine: str | Executor = "local",
    progress: ManyProgress | None = None,
) -> LoadedRun:
    """Read all ranks of a run, in several processes, and compare them.

    Args:
        paths: folders of snapshots and bundles, or single files; or the zip of one run, alone.
        name: how files are named, such as ``{host}/it_{step}/rank{rank}.pickle``, if they do not
            have the names that trainers give; files that do not match are left out.
        layout: the parallel dimensions in the order of ranks, ``tp=8,pp=4,dp=2``.
        title: of the run.
        device: read only this device of each rank.
        ignore: findings to leave out, by id, code or topic.
        keep_paths, redact, redact_functions, salt: how names are treated, as in ``load()``; all
            ranks share one salt.
        jobs: how many processes; by default one per available processor, if memory
            allows.
        engine: where the work runs, as in ``convert_many()``.
        progress: called with what is being done.

    Raises:
        SnapreportError: InputError where a folder has nothing to read, or the layout is for
            another number of ranks; BundleError where a zip is damaged.
    """
    files = find_run_files(paths, name)
    names = with_salt(NamesWanted(keep_paths, redact, redact_functions, salt))
    if files is None:
        return run_from_zip(as_paths(paths)[0], title, layout, names)
    tasks = gather_tasks(files.files, device, ignore, names)
    outcomes = run_each(tasks, jobs, engine, progress)
    return put_together(files, outcomes, title, layout, names, named=name is not None)


@dataclass(frozen=True)
class RunInputs:
    """The files of a run, in order, and what was left out."""

    files: tuple[RunFile, ...]
    skipped: tuple[Skipped, ...]
    title: str
    """The name of the run's folder; ``""`` unless a single folder was given."""


def find_run_files(
    paths: PathLike | Iterable[PathLike],
    name: str | None = None,
    allowed: Callable[[Path], bool] | None = None,
) -> RunInputs | None:
    """Find the files of a run; None where the zip of a run was given.

    ``allowed`` is as in ``find_inputs()``.

    Raises:
        InputError: as ``find_inputs()``; or no file matches ``name``.
    """
    from snapreport.api.run_files import is_run_bundle

    given = as_paths(paths)
    runs = [path for path in given if is_run_bundle(path)]
    if runs and len(given) > 1:
        raise InputError(f"{runs[0]} is the zip of a run; give it alone.")
    if runs:
        if name is not None:
            raise InputError(
                f"{runs[0]} is the zip of a run, whose ranks are already named; leave out --name."
            )
        return None
    read = None if name is None else reader_by(name)
    inputs = find_inputs(given, bundles=True, allowed=allowed)
    skipped = [
        replace(each, reason=UNKNOWN_RUN) if is_run_bundle(each.path) else each
        for each in inputs.skipped
    ]
    whole = [path for path in inputs.files if not is_run_bundle(path)]
    skipped += [Skipped(path, UNKNOWN_RUN) for path in inputs.files if path not in set(whole)]
    if not whole:
        raise InputError(
            f"{given[0]} has no file of a rank, only the zip of a run; give that zip alone."
        )
    root = _root(given, whole)
    files = name_files(whole, root, read)
    taken = {file.path for file in files}
    if not files:
        raise InputError(f"no file{f' in {root}' if root else ''} matches --name {name}.")
    skipped += [Skipped(path, OTHER_NAME) for path in whole if path not in taken]
    single = len(given) == 1 and is_folder(given[0])
    return RunInputs(tuple(files), tuple(skipped), given[0].resolve().name if single else "")


def gather_tasks(
    files: Sequence[RunFile],
    device: str | int | None,
    ignore: Sequence[str],
    names: NamesWanted,
) -> list[Task]:
    """Return a task for each file that gathers its figures."""
    options = {"device": device, "ignore": tuple(ignore), "names": names}
    return [Task("gather", file.path, file.path, options) for file in files]


def put_together(
    inputs: RunInputs,
    outcomes: Sequence[Outcome],
    title: str | None,
    layout: str | None,
    names: NamesWanted,
    *,
    named: bool,
) -> LoadedRun:
    """Build a run from the gathered figures, and compare its ranks."""
    from snapreport.compare.among_ranks.find_run import find_run

    files = inputs.files
    run = make_run(
        files,
        [each.gathered for each in outcomes],
        [each.error for each in outcomes],
        title=title or "",
        layout=parse_layout(layout) if layout else (),
        named=named,
        names=names,
    )
    sources = shown_sources(files, stand_ins_for(names))
    paths = dict(zip(sources, (file.path for file in files), strict=True))
    errors = tuple(each.error for each in outcomes if each.error)
    return LoadedRun(run, find_run(run), inputs.skipped, paths, errors)


def run_from_zip(
    path: Path, title: str | None, layout: str | None, names: NamesWanted
) -> LoadedRun:
    """Read the zip of a run; a title or a layout takes the place of its own.

    Raises:
        InputError, BundleError: it cannot be read, or redaction was asked for (it needs snapshots).
    """
    from snapreport.api.run_files import read_run
    from snapreport.compare.among_ranks.find_run import find_run

    if names.redacted:
        raise InputError(f"{path} cannot be redacted; make it from the snapshots again.")
    run = read_run(path)
    if title is not None:
        run = replace(run, title=title)
    if layout:
        run = place_in_layout(run, parse_layout(layout))
    errors = tuple(f"{each.source}: {each.error}" for each in run.ranks if each.error)
    return LoadedRun(run, find_run(run), errors=errors)


def with_salt(names: NamesWanted) -> NamesWanted:
    """Return how names are treated with a salt, so that all ranks have the same stand-ins."""
    if not names.redacted or names.salt is not None:
        return names
    return replace(names, salt=secrets.token_hex(16))


def _root(given: Sequence[Path], files: Sequence[Path]) -> Path | None:
    """Return the folder that file names are relative to; None if there is none above all files."""
    if len(given) == 1 and is_folder(given[0]):
        return given[0]
    folders = [path.parent for path in files]
    if any(map(os.path.isabs, folders)):
        folders = [each if is_remote(each) else Path(os.path.abspath(each)) for each in folders]  # noqa: PTH100
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # on several drives, or in a store and not
        return None

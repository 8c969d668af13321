"""Make a run of its files: find the rank, dump and label of each, and compare all of them."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field, replace
from html import escape
from math import prod
from pathlib import Path

from snapreport.api.runs.inputs import (
    NameReader,
    Skipped,
    StandIns,
    find_inputs,
    name_outputs,
    read_bare_numbers,
    read_name,
    reader_by,
    replaced_parts,
)
from snapreport.api.runs.many_files import (
    Gathered,
    ManyProgress,
    Outcome,
    PathLike,
    Task,
    as_paths,
    run_each,
    stand_ins_for,
)
from snapreport.ground.errors import InputError
from snapreport.ground.files import (
    as_text,
    by_number,
    check_output,
    is_file,
    is_folder,
    stem_of,
    write_atomically,
)
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown, visible
from snapreport.ground.stores import as_path, is_remote
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.run import Layout, RankFacts, RankName, Run, RunFindings, place_in

MOST_RANKS = 1 << 20
"""The most ranks of a layout; a larger number is a typing error."""

REDACTED_ERROR = "no figures could be made of it."
"""Stands for an error that may name the file; the person who ran it has seen the error itself."""


_AS_USUAL = NamesWanted()


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run before it is read."""

    path: Path
    source: str
    """Its path below the run's folder, with ``/``."""
    name: RankName


def parse_layout(text: str) -> Layout:
    """Read ``tp=8,pp=4,dp=2``: dimensions in the order of ranks, the first changing fastest.

    Raises:
        InputError: it is not a layout.
    """
    sizes: dict[str, int] = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*([a-z][a-z_]{0,30})\s*=\s*([1-9]\d{0,5})\s*", part, re.IGNORECASE)
        if found is None or found[1].lower() in sizes:
            raise InputError(f"The layout is {text!r}; it takes dimensions such as tp=8,pp=4,dp=2.")
        sizes[found[1].lower()] = int(found[2])
    layout = tuple(sizes.items())
    if _ranks_of(layout) > MOST_RANKS:
        raise InputError(f"The layout {text} is for {_ranks_of(layout):,} ranks.")
    return layout


def _ranks_of(layout: Layout) -> int:
    return prod(size for _, size in layout)


def name_files(paths: Sequence[Path], root: Path | None, read: NameReader | None) -> list[RunFile]:
    """Name the files of a run; files that do not match the user's pattern are left out.

    Args:
        paths: in order.
        root: the folder that all of them are in; None where there is none.
        read: reads names by the user's pattern; None to recognize common names.
    """
    sources = [_below(root, path) for path in paths]
    above = "" if root is None else f"{root.name}/"
    if read is not None:
        return [
            RunFile(path, source, name)
            for path, source in zip(paths, sources, strict=True)
            if (name := read(above + source)) is not None
        ]
    names = [read_name(source) for source in sources]
    if all(name.rank is None and name.dump is None for name in names):
        bare = read_bare_numbers(sources)
        if bare is not None:
            names = [replace(name, rank=rank) for name, rank in zip(names, bare, strict=True)]
    return [RunFile(*each) for each in zip(paths, sources, names, strict=True)]


def _below(root: Path | None, path: Path) -> str:
    """Return where a file is below a folder, with ``/``; all of its path if there is no folder."""
    if root is None:
        return as_text(path)
    try:
        below = path.relative_to(root)
    except ValueError:  # one of them is absolute, or has dots
        below = Path(os.path.abspath(path)).relative_to(root)  # noqa: PTH100
    return "/".join(map(as_text, below.parts))


def make_run(
    files: Sequence[RunFile],
    gathered: Iterable[Gathered | None],
    errors: Sequence[str],
    *,
    title: str = "",
    layout: Layout = (),
    named: bool = False,
    names: NamesWanted = _AS_USUAL,
) -> Run:
    """Put the figures of files into a run, in the order of dump and rank.

    Args:
        files: as from ``name_files()``.
        gathered: of each file; None if it has no figures.
        errors: why it has none, a line for each file; ``""`` if it has figures.
        title: of the run.
        layout: as from ``parse_layout()``.
        named: whether ranks come from the user's own pattern, which overrides what was recorded.
        names: how the names of files and hosts are treated.

    Raises:
        InputError: the layout is for another number of ranks.
    """
    kept = list(gathered)
    stand_ins = stand_ins_for(names)
    of_files = _global_ranks(
        [_as_noted(file.name, each, named) for file, each in zip(files, kept, strict=True)]
    )
    of_files = _count_dumps(of_files, [file.source for file in files])
    sources = shown_sources(files, stand_ins)
    hosts = stand_ins([name.host for name in of_files])
    expected = max((each.ranks for each in kept if each and each.ranks), default=None)
    if layout:
        _check_layout(layout, expected, of_files)
        expected = _ranks_of(layout)
    of_files = [
        replace(name, host=host, coordinates=name.coordinates or place_in(layout, name.rank))
        for name, host in zip(of_files, hosts, strict=True)
    ]
    labels = _labels(of_files, sources)
    ranks = []
    for file, source, name, label, each, error in zip(
        files, sources, of_files, labels, kept, errors, strict=True
    ):
        if each is None:
            size = file.path.stat().st_size if is_file(file.path) else 0
            shown = as_text(error.replace(str(file.path), source))
            said = REDACTED_ERROR if names.redacted else shown
            ranks.append(RankFacts(source, label, name, size, "", (), (), said))
        else:
            ranks.append(
                RankFacts(
                    source,
                    label,
                    name,
                    each.size,
                    each.sha256,
                    each.devices,
                    each.warnings,
                    forecast=each.forecast,
                )
            )
    ranks.sort(key=lambda each: (*_order(each.name), by_number(each.source)))
    return Run(title, tuple(ranks), layout, expected)


def _as_noted(name: RankName, gathered: Gathered | None, named: bool) -> RankName:
    """Prefer what was recorded to what the file's name says, unless the user gave a pattern."""
    if gathered is None:
        return name
    if gathered.rank is not None and not (named and name.rank is not None):
        name = replace(name, rank=gathered.rank)
    if gathered.node is not None and not name.host:
        name = replace(name, host=f"node{gathered.node}")
    return name


def _global_ranks(names: Sequence[RankName]) -> list[RankName]:
    """Number ranks across all hosts if each host numbers its own from 0."""
    pairs = Counter((name.rank, name.dump) for name in names if name.rank is not None)
    hosts = sorted({name.host for name in names if name.host}, key=by_number)
    ranks = {name.rank for name in names if name.rank is not None}
    each_once = Counter((name.host, name.rank, name.dump) for name in names)
    if (
        len(hosts) < 2
        or max(pairs.values(), default=1) < 2
        or max(each_once.values()) > 1
        or any(name.rank is None or not name.host for name in names)
    ):
        return list(names)
    of_host = max(rank for rank in ranks if rank is not None) + 1
    place = {host: k for k, host in enumerate(hosts)}
    return [replace(name, rank=place[name.host] * of_host + (name.rank or 0)) for name in names]


def _count_dumps(names: Sequence[RankName], sources: Sequence[str]) -> list[RankName]:
    """Number dumps from 1 by folder if names have no dump and a rank has several files."""
    folders = [source.rpartition("/")[0] for source in sources]
    of_rank = Counter((name.rank, name.dump) for name in names)
    of_folder = Counter(zip((name.rank for name in names), folders, strict=True))
    if (
        any(name.dump is not None or name.rank is None for name in names)
        or max(of_rank.values(), default=1) < 2
        or max(of_folder.values()) > 1
        or max(of_rank.values()) != len(set(folders))
    ):
        return list(names)
    place = {folder: k for k, folder in enumerate(sorted(set(folders), key=by_number), 1)}
    return [replace(name, dump=place[folder]) for name, folder in zip(names, folders, strict=True)]


def shown_sources(files: Sequence[RunFile], stand_ins: StandIns) -> list[str]:
    """Return the paths below the run's folder as they may be shown."""
    parts = [file.source.split("/") for file in files]
    return ["/".join(each) for each in replaced_parts(parts, stand_ins)]


def page_names(files: Sequence[RunFile], stand_ins: StandIns) -> tuple[list[str], list[str]]:
    """Return the titles of the files' pages, and the stems of the pages' names: ``rank17``.

    Both are known before any file is read. If files share a rank, their paths are used instead.
    """
    several = len({file.name.dump for file in files}) > 1
    labels = [
        _label(replace(file.name, host=""), "", several) if file.name.rank is not None else ""
        for file in files
    ]
    if "" not in labels and len(set(labels)) == len(labels):
        return labels, [label.replace(" ", "").replace(",", "-") for label in labels]
    named = name_outputs([file.path for file in files], Path(), "", stand_ins)
    return [as_text(each.label) for each in named], [each.target.name for each in named]


def place_in_layout(run: Run, layout: Layout) -> Run:
    """Return a run with its ranks placed in a layout.

    Raises:
        InputError: the layout is for another number of ranks.
    """
    _check_layout(layout, run.expected, [each.name for each in run.ranks])
    ranks = tuple(
        replace(each, name=replace(each.name, coordinates=place_in(layout, each.name.rank)))
        for each in run.ranks
    )
    return replace(run, ranks=ranks, layout=layout, expected=_ranks_of(layout))


def _labels(names: Sequence[RankName], sources: Sequence[str]) -> list[str]:
    """Return the shortest name of each file that no other file has."""
    several = len({name.dump for name in names}) > 1
    labels = [_label(name, source, several) for name, source in zip(names, sources, strict=True)]
    often = Counter(labels)
    return [
        label if often[label] == 1 else f"{label} ({source})"
        for label, source in zip(labels, sources, strict=True)
    ]


def _label(name: RankName, source: str, several: bool) -> str:
    folder, slash, file = source.rpartition("/")
    who = f"rank {name.rank}" if name.rank is not None else name.host
    when = f"step {name.dump}" if several and name.dump is not None else ""
    if not who:
        return when if when else folder + slash + stem_of(file)
    return f"{who}, {when}" if when else who


def _check_layout(layout: Layout, expected: int | None, names: Sequence[RankName]) -> None:
    ranks = _ranks_of(layout)
    text = ",".join(f"{name}={size}" for name, size in layout)
    if expected is not None and expected != ranks:
        raise InputError(f"The layout {text} is for {ranks:,} ranks, and the run has {expected:,}.")
    highest = max((name.rank for name in names if name.rank is not None), default=0)
    if highest >= ranks:
        raise InputError(
            f"The layout {text} is for {ranks:,} ranks, and there is a rank {highest}."
        )


def _order(name: RankName) -> tuple[int, int, int, int]:
    dump, rank = name.dump, name.rank
    return int(dump is None), dump or 0, int(rank is None), rank or 0


# Reading and comparing

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
        from snapreport.bundle.run_archive import write_run_bundle

        target = as_path(path)
        check_output(target, force)
        with write_atomically(target, force, list(self.files.values())) as out:
            write_run_bundle(self.run, out)
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
    from snapreport.bundle.run_archive import is_run_bundle

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
    from snapreport.diagnosis.ranks.find_run import find_run

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
    from snapreport.bundle.run_archive import read_run_bundle
    from snapreport.diagnosis.ranks.find_run import find_run

    if names.redacted:
        raise InputError(f"{path} cannot be redacted; make it from the snapshots again.")
    run = read_run_bundle(path)
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

"""Render a run as one page, Markdown or a zip, with pages of single ranks beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import quote_from_bytes

from snapreport.api.runs.inputs import Skipped
from snapreport.api.runs.many_files import (
    ManyProgress,
    Outcome,
    PathLike,
    Task,
    as_paths,
    check_options,
    names_wanted,
    output_folder,
    run_each,
    stand_ins_for,
)
from snapreport.api.runs.run_making import (
    LoadedRun,
    RunInputs,
    find_run_files,
    gather_tasks,
    page_names,
    put_together,
    run_from_zip,
    shown_sources,
    with_salt,
)
from snapreport.ground.errors import InputError, OutputError, OutputExistsError
from snapreport.ground.files import check_output, is_named_as_file, made_folder, write_atomically
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.ground.stores import as_path
from snapreport.model.asked import (
    NamesWanted,
)

Pages: TypeAlias = Literal["all", "odd", "none"]
RunFormat: TypeAlias = Literal["html", "md", "zip"]

FOLDER = "ranks"
"""The folder for the pages of ranks, beside the run's page."""
_ENDINGS: dict[str, RunFormat] = {
    ".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".zip": "zip",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RunReport(Shown):
    """What was written about a run."""

    path: Path | None
    """None if no file gave any figures."""
    pages: tuple[Path, ...]
    """The pages of single ranks."""
    loaded: LoadedRun
    errors: tuple[str, ...] = ()
    """A line for each file without figures, and for each page that failed."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out of folders, and why."""
        return self.loaded.skipped


def render_run(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  (the word that callers know)
    pages: Pages | None = None,
    name: str | None = None,
    layout: str | None = None,
    title: str | None = None,
    jobs: int | None = None,
    engine: str | Executor = "local",
    force: bool = False,
    progress: ManyProgress | None = None,
    **options: Any,
) -> RunReport:
    """Render a run as one page, as Markdown, or as the zip from which both are made.

    Args:
        paths: a folder of snapshots and bundles, several of them, or single files; or a run's zip.
        output: the file to write, or a folder, made if missing, for ``run.html``, ``run.md`` or
            ``run.zip``. By default a file in the current folder, named after the run's folder.
        format: ``html``, ``md`` or ``zip``; by default from the extension of ``output``, else
            ``html``.
        pages: the ranks that get a page in the folder ``ranks``, beside the run's page: ``odd`` are
            the odd ranks, one rank of each group, and the first that failed; ``all``, or ``none``.
            None is ``odd`` if the input is snapshots or bundles.
        name, layout, title: as in ``load_run()``.
        jobs: how many processes; by default as many as processors and free memory allow.
        engine: where, as in ``convert_many()``.
        force: replace existing files.
        progress: called with what is being done.
        options: of ``render()``, for the pages of ranks (``device``, ``notes``, ``rules`` and so
            on); ``device``, ``ignore`` and how names are treated apply to the run as well.

    Raises:
        SnapreportError: as ``load_run()``, OutputExistsError or OutputError.
        TypeError: there is no such option.
        ValueError: ``format`` or ``pages`` is not one of those above.
    """
    from snapreport.api.making import render

    check_options(render, options)
    if pages is not None and pages not in get_args(Pages):
        raise ValueError(f"pages is {pages!r}, not one of {', '.join(get_args(Pages))}")
    inputs = find_run_files(paths, name)
    kind, target = _target(inputs, output, format)
    if pages in ("all", "odd") and (inputs is None or kind != "html"):
        raise InputError(
            "pages of ranks are made from their snapshots, beside the page of the run: name the"
            " snapshots, and end the name of the output in .html."
        )
    wanted: Pages = "none" if inputs is None or kind != "html" else pages or "odd"
    folder = target.parent / FOLDER
    if target.parent.is_dir():
        check_output(target, force)
    if wanted != "none" and not force and folder.is_dir() and any(folder.iterdir()):
        raise OutputExistsError(
            f"{folder} has pages already; pass --force to replace them, or name another folder."
        )
    names = with_salt(names_wanted(options))
    drawn: dict[str, Outcome] = {}
    with made_folder(target.parent):
        if inputs is None:
            loaded = run_from_zip(as_paths(paths)[0], title, layout, names)
        else:
            options |= vars(names) | {"force": force}
            tasks = _page_tasks(inputs, folder, options, title, names)

            def draw(chosen: Iterable[str]) -> dict[str, Outcome]:
                some = {source: tasks[source] for source in chosen}
                with made_folder(folder):
                    outcomes = run_each([*some.values()], jobs, engine, progress, [folder])
                return dict(zip(some, outcomes, strict=True))

            if wanted == "all":
                drawn = draw(tasks)
                outcomes = list(drawn.values())
            else:
                device, ignore = options.get("device"), options.get("ignore", ())
                gathering = gather_tasks(inputs.files, device, ignore, names)
                outcomes = run_each(gathering, jobs, engine, progress)
            loaded = put_together(inputs, outcomes, title, layout, names, named=name is not None)
            if wanted == "odd":
                drawn = draw(telling_sources(loaded))
        failed = [each.error for each in drawn.values() if each.error not in ("", *loaded.errors)]
        errors = (*loaded.errors, *failed)
        if not loaded.findings.rows:
            return RunReport(None, (), loaded, errors)
        _write(loaded, kind, target, force, list(loaded.files.values()) or as_paths(paths), drawn)
    made = tuple(each.path for each in drawn.values() if each.path is not None)
    return RunReport(target, made, loaded, errors)


def _page_tasks(
    inputs: RunInputs, folder: Path, options: dict[str, Any], title: str | None, names: NamesWanted
) -> dict[str, Task]:
    """Return the task that makes the page of each file, by ``RankFacts.source``."""
    files, stand_ins = inputs.files, stand_ins_for(names)
    tasks = {}
    for source, file, label, stem in zip(
        shown_sources(files, stand_ins),
        files,
        *page_names(files, stand_ins),
        strict=True,
    ):
        shown = {"format": "html", "title": label if title is None else f"{title}: {label}"}
        tasks[source] = Task("render", file.path, folder / f"{stem}.html", options | shown)
    return tasks


def telling_sources(loaded: LoadedRun) -> list[str]:
    """Return the files of the odd ranks, of one rank of each group, and of the first failure.

    The rank of a group is the one whose peak is nearest to the group's median, the first of equals.
    """
    run, findings = loaded.run, loaded.findings
    rows = {each.row for each in findings.odd}
    for group in findings.groups:
        usual = [row for row in group.rows if row not in rows] or list(group.rows)
        rows.add(min(usual, key=lambda row: abs(_peak(loaded, row) - group.allocated)))
    if findings.first_failure is not None:
        rows.add(findings.first_failure[0])
    ranks = sorted({findings.rows[row][0] for row in rows})
    return [run.ranks[rank].source for rank in ranks]


def _peak(loaded: LoadedRun, row: int) -> int:
    rank, device = loaded.findings.rows[row]
    return loaded.run.ranks[rank].devices[device].allocated


def _target(
    inputs: RunInputs | None, output: PathLike | None, kind: str | None
) -> tuple[RunFormat, Path]:
    """Return the format to write, and the file.

    Raises:
        OutputError: the file's extension is not that of the format, or of none that a run can have.
        ValueError: there is no such format.
    """
    if kind is not None and kind not in get_args(RunFormat):
        raise ValueError(f"format is {kind!r}, not one of {', '.join(get_args(RunFormat))}")
    path = None if output is None else as_path(output)
    chosen = cast("RunFormat | None", kind)
    if path is not None and not path.is_dir() and is_named_as_file(path):
        by_name = _ENDINGS.get(path.suffix.lower())
        if by_name is None:
            raise OutputError(f"{path} has to end in .html, .md or .zip to hold a run.")
        if chosen not in (None, by_name):
            raise OutputError(f"{path} ends in {path.suffix}, but the format is {chosen}.")
        return by_name, path
    chosen = chosen or "html"
    if path is not None:
        return chosen, output_folder(path) / f"run.{chosen}"
    return chosen, Path(f"{(inputs and inputs.title) or 'run'}.{chosen}")


def _write(
    loaded: LoadedRun,
    kind: RunFormat,
    target: Path,
    force: bool,
    sources: Sequence[Path],
    drawn: Mapping[str, Outcome],
) -> None:
    pages = {
        source: f"{FOLDER}/{quote_from_bytes(os.fsencode(each.path.name), safe='')}"
        for source, each in drawn.items()
        if each.path is not None
    }
    with write_atomically(target, force, sources) as out:
        if kind == "zip":
            from snapreport.bundle.run_archive import write_run_bundle

            write_run_bundle(loaded.run, out)
        elif kind == "md":
            from snapreport.reporters.markdown import write_markdown
            from snapreport.reporters.run import ROOMS, run_document

            build = partial(run_document, loaded.run, loaded.findings, pages=pages)
            write_markdown(build, ROOMS, out)
        else:
            from snapreport.reporters.run_page import write_run_page

            write_run_page(loaded.run, loaded.findings, out, pages)

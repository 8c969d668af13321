"""``snapreport check``: a CI gate that fails when a snapshot is over its budget."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.console import print_bytes, print_path, progress_bar
from snapreport.commands.options import (
    ANY_PATH,
    RunWanted,
    allow_option,
    device_option,
    fits_option,
    force_option,
    is_run,
    json_option,
    keep_paths_option,
    output_option,
    paths_kept,
    quiet_option,
    refuse_for_file,
    refuse_for_run,
    rules_option,
    run_options,
    source_argument,
    top_option,
)
from snapreport.commands.output import Answer, load_a_run, print_json, print_page
from snapreport.ground.errors import BudgetError, OutputError
from snapreport.ground.files import check_output, output_path, write_atomically
from snapreport.model.roles import Rule

FAILED = 3
"""The exit status of a check that fails."""


def _named_sizes(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    found = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=SIZE, such as backward=30GiB.")
        found[name] = size
    return found or None


@click.command()
@source_argument("SNAPSHOT|BUNDLE|RUN")
@click.option(
    "--base", metavar="OTHER", type=ANY_PATH, help="Compare with this snapshot or bundle."
)
@click.option("--max-peak", metavar="SIZE", help="The most allocated bytes, such as 40GiB.")
@click.option("--max-reserved", metavar="SIZE", help="The most reserved bytes.")
@click.option(
    "--max-growth", metavar="2%|SIZE", help="How much higher than OTHER's the peak may be."
)
@click.option(
    "--max-imbalance",
    metavar="2%|SIZE",
    help="How far one rank's peak may be above the median of the run's ranks.",
)
@click.option(
    "--max-stage",
    "stages",
    metavar="NAME=SIZE",
    multiple=True,
    callback=_named_sizes,
    help="The most allocated bytes inside a stage; may be repeated, and * matches any text.",
)
@click.option(
    "--max-category",
    "categories",
    metavar="NAME=SIZE",
    multiple=True,
    callback=_named_sizes,
    help="The most allocated bytes of a category; may be repeated.",
)
@fits_option
@allow_option
@click.option(
    "--fail-on",
    metavar="NAME,...",
    help="Findings that fail: codes, ids, topics, severities, or none; by default critical.",
)
@click.option("--ignore", metavar="NAME,...", multiple=True, help="Findings to ignore.")
@click.option(
    "--budget",
    metavar="FILE",
    type=ANY_PATH,
    help="TOML file with the same names; by default this project's pyproject.toml, if any.",
)
@run_options
@device_option("Only this device")
@rules_option
@json_option
@click.option("--md", "as_markdown", is_flag=True, help="Markdown instead of text.")
@click.option(
    "--summary",
    metavar="FILE",
    type=ANY_PATH,
    help='Also append Markdown to this file, such as "$GITHUB_STEP_SUMMARY".',
)
@output_option("FILE", "Write Markdown to this file instead of text.")
@top_option(5)
@force_option
@keep_paths_option
@quiet_option
def check(
    source: Path,
    base: Path | None,
    budget: Path | None,
    run: RunWanted,
    device: str | None,
    rules: tuple[Rule, ...] | None,
    as_json: bool,
    as_markdown: bool,
    summary: Path | None,
    output: Path | None,
    top: int,
    force: bool,
    quiet: bool,
    **limits: Any,
) -> None:
    """Check a SNAPSHOT, BUNDLE or RUN against budgets, findings and another recording.

    The exit status is 0 if it passes and 3 if it fails; 1 and 2 are errors, as everywhere. A
    budget that cannot be checked with this recording fails. In a RUN, a folder of ranks or its zip,
    the budget applies to every rank, and --base is another run. Budgets can also be set in
    pyproject.toml, in [tool.snapreport.check]; options override it.

    \b
    Example:
      snapreport check snap.zip --max-peak 40GiB --fail-on leak,oom
    """  # fmt: skip
    if sum((as_json, as_markdown, output is not None)) > 1:
        raise click.UsageError("--json, --md and -o exclude one another; give one.")
    _check_options(limits)
    target = None if output is None else output_path(source, output, ".check.md")
    if target is not None:
        check_output(target, force)
    from snapreport.api.gate import find_budget

    found_budget = budget or find_budget(Path.cwd())
    if is_run([source]):
        categories, fits, allow = (limits.pop(name) for name in ("categories", "fits", "allow"))
        refuse_for_run(max_category=categories, fits=fits, allow=allow, rules=rules)
        verdict = _check_run(source, base, run, quiet, device, budget=found_budget, **limits)
    else:
        refuse_for_file(run, max_imbalance=limits.pop("max_imbalance"))
        with progress_bar(quiet) as progress:
            verdict = snapreport.check(
                source,
                base=base,
                device=device,
                budget=found_budget,
                rules=rules,
                keep_paths=paths_kept(),
                progress=progress,
                **limits,
            )
    _print(verdict, source, base, as_json, as_markdown, summary, target, force, top)


def _check_run(
    source: Path,
    base: Path | None,
    wanted: RunWanted,
    quiet: bool,
    device: str | None,
    **limits: Any,
) -> snapreport.Verdict:
    from snapreport.api.runs.run_check import check_run

    loaded = load_a_run(source, wanted, quiet, device=device)
    other = None if base is None else load_a_run(base, wanted, quiet, device=device)
    return check_run(loaded, base=other, **limits)


def _print(
    verdict: snapreport.Verdict,
    source: Path,
    base: Path | None,
    as_json: bool,
    as_markdown: bool,
    summary: Path | None,
    target: Path | None,
    force: bool,
    top: int,
) -> None:
    """Write a verdict in the form asked for; exits with 3 if the check failed."""
    markdown = _markdown(verdict) if as_markdown or summary or target else b""
    if summary is not None:
        _append(summary, markdown)
    if target is not None:
        sources = [source, *([base] if base else [])]
        with write_atomically(target, force, sources) as out:
            out.write(markdown)
        print_path(target)
    elif as_json:
        from snapreport.reporters.json_report import verdict_as_json

        print_json("check", verdict_as_json(verdict))
    elif as_markdown:
        print_bytes(markdown)
    else:
        from snapreport.reporters.comparison import verdict_document

        page = Answer(as_json).page()
        page.write(verdict_document(verdict, top))
        print_page(page)
    if not verdict.passed:
        raise click.exceptions.Exit(FAILED)


def _check_options(limits: dict[str, Any]) -> None:
    """Report an invalid budget as wrong usage, since it came from an option."""
    from snapreport.diagnosis.compare.gate import Budget

    for option, value in limits.items():
        try:
            Budget.of({option: value}, "")
        except BudgetError as error:
            raise click.UsageError(str(error).removeprefix(": ").replace("_", "-", 1)) from None


def _markdown(verdict: snapreport.Verdict) -> bytes:
    from snapreport.reporters.comparison import VERDICT_ROWS, verdict_document
    from snapreport.reporters.markdown import write_markdown

    out = BytesIO()
    write_markdown(partial(verdict_document, verdict), VERDICT_ROWS, out, level=3)
    return out.getvalue()


def _append(path: Path, text: bytes) -> None:
    """Append to a file, creating it if need be: the steps of a job share one summary file.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with path.open("ab") as out:
            out.write(text + b"\n")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error

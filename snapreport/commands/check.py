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
    output_option,
    refuse_for_file,
    refuse_for_run,
    rules_option,
    run_options,
    source_argument,
)
from snapreport.commands.output import Answer, answer_options, print_json
from snapreport.ground.errors import BudgetError, OutputError
from snapreport.ground.files import check_output, output_path, write_atomically
from snapreport.model.roles import Rule

FAILED = 3
"""The exit status of a check that fails."""
_ALL = 10**9


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
@click.option(
    "--summary",
    metavar="FILE",
    type=ANY_PATH,
    help='Also append Markdown to this file, such as "$GITHUB_STEP_SUMMARY".',
)
@output_option("FILE", "Write Markdown to this file instead of text.")
@force_option
@answer_options(5)
def check(
    source: Path,
    base: Path | None,
    budget: Path | None,
    run: RunWanted,
    device: str | None,
    rules: tuple[Rule, ...] | None,
    summary: Path | None,
    output: Path | None,
    force: bool,
    answer: Answer,
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
    if output is not None and (answer.as_json or answer.as_markdown):
        raise click.UsageError("--json, --md and -o exclude one another; give one.")
    from snapreport.api.gate import find_budget
    from snapreport.diagnosis.compare.gate import Budget

    for option, value in limits.items():
        try:
            Budget.of({option: value}, "")
        except BudgetError as error:  # wrong usage, since it came from an option
            raise click.UsageError(str(error).removeprefix(": ").replace("_", "-", 1)) from None
    target = None if output is None else output_path(source, output, ".check.md")
    if target is not None:
        check_output(target, force)
    limits |= {"budget": budget or find_budget(Path.cwd())}
    if is_run([source]):
        only_files = {name: limits.pop(name) for name in ("categories", "fits", "allow")}
        refuse_for_run(max_category=only_files.pop("categories"), **only_files, rules=rules)
        from snapreport.api.runs.run_check import check_run

        loaded = answer.run(source, run, device=device)
        other = None if base is None else answer.run(base, run, device=device)
        verdict = check_run(loaded, base=other, **limits)
    else:
        refuse_for_file(run, max_imbalance=limits.pop("max_imbalance"))
        limits |= {"base": base, "device": device, "rules": rules, "keep_paths": answer.keep_paths}
        with progress_bar(answer.quiet) as progress:
            verdict = snapreport.check(source, progress=progress, **limits)
    from snapreport.reporters.comparison import VERDICT_ROWS, verdict_document
    from snapreport.reporters.markdown import write_markdown

    build = partial(verdict_document, verdict)
    markdown = BytesIO()
    if answer.as_markdown or summary or target:
        write_markdown(build, (_ALL,) if answer.full else VERDICT_ROWS, markdown, level=3)
    if summary is not None:
        _append(summary, markdown.getvalue())
    if target is not None:
        with write_atomically(target, force, [source, *([base] if base else [])]) as out:
            out.write(markdown.getvalue())
        print_path(target)
    elif answer.as_json:
        from snapreport.reporters.json_report import verdict_as_json

        print_json("check", verdict_as_json(verdict))
    elif answer.as_markdown:
        print_bytes(markdown.getvalue())
    else:
        answer.print(build(answer.top or _ALL))
    if not verdict.passed:
        raise click.exceptions.Exit(FAILED)


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

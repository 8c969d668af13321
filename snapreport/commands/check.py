"""``snapreport check``: a gate for CI, which fails where a snapshot is over its budget."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.options.card_options import allow_option, fits_option
from snapreport.commands.options.name_options import keep_paths_option, paths_kept
from snapreport.commands.options.path_type import ANY_PATH
from snapreport.commands.options.run_options import (
    is_run,
    refuse_for_file,
    refuse_for_run,
    run_options,
)
from snapreport.commands.options.shared_options import (
    device_option,
    force_option,
    json_option,
    quiet_option,
    rules_option,
    source_argument,
    top_option,
)
from snapreport.commands.output.answer_printing import new_page, print_json, print_page
from snapreport.commands.output.console import print_bytes, print_path, progress_bar
from snapreport.commands.output.run_loading import load_a_run, loading_options
from snapreport.ground.errors import BudgetError, OutputError
from snapreport.ground.files import check_output, output_path, write_atomically
from snapreport.ground.remote.remote_paths import as_path

FAILED = 3
"""The exit status of a check that fails."""


@click.command(short_help="Fail where memory is over budget, or a finding must not be.")
@source_argument("SNAPSHOT|BUNDLE|RUN")
@click.option("--base", metavar="OTHER", help="Compare with this snapshot or bundle.")
@click.option("--max-peak", metavar="SIZE", help="The most allocated bytes, such as 40GiB.")
@click.option("--max-reserved", metavar="SIZE", help="The most reserved bytes.")
@click.option(
    "--max-growth", metavar="2%|SIZE", help="How much higher than OTHER's the peak may be."
)
@click.option(
    "--max-imbalance",
    metavar="2%|SIZE",
    help="How much higher than the median of a run's ranks the peak of one may be.",
)
@click.option(
    "--max-stage",
    "stages",
    metavar="NAME=SIZE",
    multiple=True,
    help="The most allocated bytes inside a stage; may be given again, and * fits any text.",
)
@click.option(
    "--max-category",
    "categories",
    metavar="NAME=SIZE",
    multiple=True,
    help="The most allocated bytes of a category; may be given again.",
)
@fits_option
@allow_option
@click.option(
    "--fail-on",
    metavar="NAME,...",
    help="Findings that fail: codes, ids, topics, severities, or none; by default critical.",
)
@click.option("--ignore", metavar="NAME,...", multiple=True, help="Findings that do not.")
@click.option(
    "--budget",
    metavar="FILE",
    type=ANY_PATH,
    help="TOML with the same names; by default this project's pyproject.toml, if it has any.",
)
@run_options
@loading_options
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
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=ANY_PATH,
    help="Write Markdown to this file instead of text.",
)
@top_option(5)
@force_option
@keep_paths_option
@quiet_option
def check(
    source: Path,
    base: str | None,
    max_peak: str | None,
    max_reserved: str | None,
    max_growth: str | None,
    max_imbalance: str | None,
    stages: tuple[str, ...],
    categories: tuple[str, ...],
    fits: str | None,
    allow: str | None,
    fail_on: str | None,
    ignore: tuple[str, ...],
    budget: Path | None,
    name_: str | None,
    layout: str | None,
    device: str | None,
    rules: str | None,
    as_json: bool,
    as_markdown: bool,
    summary: Path | None,
    output: Path | None,
    top: int,
    force: bool,
    quiet: bool,
) -> None:
    """Check a SNAPSHOT, BUNDLE or RUN against budgets, findings and another recording.

    The exit status is 0 if it passes and 3 if it fails; 1 and 2 are errors, as everywhere. A
    budget that the recording cannot tell about fails. In a RUN, a folder of ranks or its zip, every
    rank has the budget, and --base is another run. Budgets can live in pyproject.toml, in
    [tool.snapreport.check]; options win over it.

    \b
    Example:
      snapreport check snap.zip --max-peak 40GiB --fail-on leak,oom
    """  # fmt: skip
    if sum((as_json, as_markdown, output is not None)) > 1:
        raise click.UsageError("--json, --md and -o each say where the verdict goes; give one.")
    said: dict[str, Any] = {
        "max_peak": max_peak,
        "max_reserved": max_reserved,
        "max_growth": max_growth,
        "max_imbalance": max_imbalance,
        "stages": _named_sizes(stages, "--max-stage"),
        "categories": _named_sizes(categories, "--max-category"),
        "fits": fits,
        "allow": allow,
        "fail_on": fail_on,
        "ignore": list(ignore),
    }
    _check_options(said)
    target = None if output is None else output_path(source, output, ".check.md")
    if target is not None:
        check_output(target, force)
    chosen = None if rules is None else snapreport.load_rules(rules)
    from snapreport.api.gate import find_budget

    found_budget = budget or find_budget(Path.cwd())
    if is_run([source]):
        refuse_for_run(max_category=categories, fits=fits, allow=allow, rules=rules)
        options = {"device": device, "name": name_, "layout": layout}
        verdict = _check_run(source, base, found_budget, said, quiet, options)
        _print(verdict, source, base, as_json, as_markdown, summary, target, force, top)
        return
    refuse_for_file(max_imbalance=max_imbalance, name=name_, layout=layout)
    del said["max_imbalance"]
    with progress_bar(quiet) as progress:
        verdict = snapreport.check(
            source,
            base=base,
            device=device,
            budget=found_budget,
            rules=chosen,
            keep_paths=paths_kept(),
            progress=progress,
            **said,
        )
    _print(verdict, source, base, as_json, as_markdown, summary, target, force, top)


def _check_run(
    source: Path,
    base: str | None,
    budget: Path | None,
    said: dict[str, Any],
    quiet: bool,
    options: dict[str, Any],
) -> snapreport.Verdict:
    from snapreport.runs.run_check import check_run

    loaded = load_a_run(source, quiet, **options)
    other = None if base is None else load_a_run(as_path(base), quiet, **options)
    wanted = {
        key: said[key]
        for key in ("max_peak", "max_reserved", "max_growth", "max_imbalance", "stages", "fail_on",
                    "ignore")
    }  # fmt: skip
    return check_run(loaded, base=other, budget=budget, **wanted)


def _print(
    verdict: snapreport.Verdict,
    source: Path,
    base: str | None,
    as_json: bool,
    as_markdown: bool,
    summary: Path | None,
    target: Path | None,
    force: bool,
    top: int,
) -> None:
    """Write a verdict where it goes; exits with 3 if the check failed."""
    markdown = _markdown(verdict) if as_markdown or summary or target else b""
    if summary is not None:
        _append(summary, markdown)
    if target is not None:
        sources = [source, *([as_path(base)] if base else [])]
        with write_atomically(target, force, sources) as out:
            out.write(markdown)
        print_path(target)
    elif as_json:
        from snapreport.reporters.words.gate_rows import verdict_as_json

        print_json("check", verdict_as_json(verdict))
    elif as_markdown:
        print_bytes(markdown)
    else:
        from snapreport.reporters.terminal.gate_text import write_verdict

        page = new_page()
        write_verdict(page, verdict, top)
        print_page(page)
    if not verdict.passed:
        raise click.exceptions.Exit(FAILED)


def _named_sizes(texts: tuple[str, ...], option: str) -> dict[str, str] | None:
    found = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {text!r} is no NAME=SIZE, such as backward=30GiB.")
        found[name] = size
    return found or None


def _check_options(said: dict[str, Any]) -> None:
    """Let a budget that is wrong be wrong usage where it is an option's."""
    from snapreport.compare.gate_types import Budget

    for option, value in said.items():
        try:
            Budget.of({option: value}, "")
        except BudgetError as error:
            raise click.UsageError(str(error).removeprefix(": ").replace("_", "-", 1)) from None


def _markdown(verdict: snapreport.Verdict) -> bytes:
    from snapreport.reporters.markdown.gate_markdown import VerdictMarkdownReporter

    out = BytesIO()
    VerdictMarkdownReporter().render(verdict, out)
    return out.getvalue()


def _append(path: Path, text: bytes) -> None:
    """Append to a file, which is made if need be: steps of a job share their summary.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with path.open("ab") as out:
            out.write(text + b"\n")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error

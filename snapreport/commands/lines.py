"""``snapreport lines``: memory by source line, as a line-by-line tracer prints it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from snapreport.commands.answers import (
    load_moment,
    moment_json,
    moment_name,
    new_page,
    print_json,
    print_page,
)
from snapreport.commands.moments import MomentChoice, moment_options
from snapreport.commands.naming import keep_paths_option
from snapreport.commands.options import (
    device_option,
    full_option,
    json_option,
    quiet_option,
    source_argument,
    top_option,
)
from snapreport.ground.units import format_bytes


@click.command(short_help="Print bytes by source line.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Of this device")
@moment_options
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Count the innermost frame of a file that matches: a part of its name, a glob, /regex/.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Never count these files.")
@top_option(20)
@json_option
@full_option
@keep_paths_option
@quiet_option
def lines(
    source: Path,
    device: str | None,
    choice: MomentChoice,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    top: int,
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Print what each source line held at a moment of a SNAPSHOT or BUNDLE, the peak by default.

    Bytes, the running sum, the median allocation, the count, all that the line allocated in the
    recording, and the line: that of the call site, or with patterns the innermost frame in a
    matching file. Memory without frames is on a line named after the reason.

    \b
    Example:
      snapreport lines snap.zip --include model.py
    """  # fmt: skip
    moment = load_moment(source, device, choice, quiet)
    found = moment.lines(include, exclude)
    rows = moment.device.allocations
    sizes = rows.size if choice.curve == "requested" else rows.block_size
    ever = int(sizes.sum())
    if as_json:
        plain = [
            {"file" if key == "filename" else key: value for key, value in asdict(line).items()}
            for line in found
        ]
        print_json("lines", moment_json(moment, ever_allocated=ever, lines=plain))
        return
    from snapreport.reporters.terminal import answers_text
    from snapreport.reporters.words.summary_rows import lines_note

    page = new_page(full)
    page.say(f"{moment_name(moment).text}; {format_bytes(ever)} were ever allocated", "title")
    answers_text.lines(page, found, None if full else top)
    if note := lines_note(moment.device.file):
        page.say(note)
    print_page(page)

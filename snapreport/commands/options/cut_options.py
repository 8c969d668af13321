"""Options that say what is drawn: the same for ``render`` and ``convert``."""

from __future__ import annotations

import click

from snapreport.commands.options.shared_options import reads, together
from snapreport.model.cut import cut_size, make_cut, parse_bound

GITHUB_LIMIT = "25MB"
"""The largest file that GitHub accepts as an attachment."""

cut_options = together(
    "cut",
    make_cut,
    click.option(
        "--from",
        "from_",
        metavar="EVENT|TIME",
        callback=reads(parse_bound),
        help="Draw from this event or time after the first event on: 1200, 1.5s, 200ms.",
    ),
    click.option(
        "--to",
        metavar="EVENT|TIME",
        callback=reads(parse_bound),
        help="Draw up to this event or time.",
    ),
    click.option(
        "--min-size",
        metavar="SIZE",
        callback=reads(cut_size),
        help="Draw only allocations of at least this size: 1MiB, 64kB or bytes. The rest is drawn"
        " as one band, and every figure still counts it.",
    ),
)
fit_option = click.option(
    "--fit",
    metavar="SIZE",
    callback=reads(cut_size),
    help="Thin the page until it is at most this size, 25MB or bytes; it says what was left out. "
    "Peaks, failed requests, stages and call sites stay exact.",
)
for_option = click.option(
    "--for",
    "for_",
    type=click.Choice(["github"]),
    help=f"Fit the limit of this site: github means --fit {GITHUB_LIMIT}.",
)

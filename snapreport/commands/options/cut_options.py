"""Options that say what is drawn: the same for ``render`` and ``convert``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from snapreport.ground.errors import CutError
from snapreport.model.cut import cut_size, parse_bound

F = TypeVar("F", bound=Callable[..., Any])

GITHUB_LIMIT = "25MB"
"""The largest file that GitHub takes as an attachment."""


def _checked(parse: Callable[[str], object]) -> Callable[..., str | None]:
    """Check an option's text while it is still known which option it is."""

    def check(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
        if text is not None:
            try:
                parse(text)
            except CutError as error:
                raise click.BadParameter(str(error)) from None
        return text

    return check


_from = click.option(
    "--from",
    "from_",
    metavar="STEP|TIME",
    callback=_checked(parse_bound),
    help="Draw from this step on, or from a time after the first event: 1200, 1.5s, 200ms.",
)
_to = click.option(
    "--to", metavar="STEP|TIME", callback=_checked(parse_bound), help="Draw up to this one."
)
_min_size = click.option(
    "--min-size",
    metavar="SIZE",
    callback=_checked(cut_size),
    help="Draw no smaller allocations: 1MiB, 64kB or bytes. What is not drawn is drawn as one "
    "band, its sum: no figure changes.",
)


def cut_options(command: F) -> F:
    """``--from``, ``--to`` and ``--min-size``, in this order."""
    return _from(_to(_min_size(command)))


fit_option = click.option(
    "--fit",
    metavar="SIZE",
    callback=_checked(cut_size),
    help="Have a page of at most this size, 25MB or bytes: it is thinned until it fits, and says "
    "what was left out. Peaks, failed requests, stages and call sites stay exact.",
)
for_option = click.option(
    "--for",
    "for_",
    type=click.Choice(["github"]),
    help=f"Fit what takes the report: for github --fit {GITHUB_LIMIT}.",
)

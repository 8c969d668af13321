"""Options that say what is drawn: the same for ``render`` and ``convert``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from snapreport.commands.options.shared_options import reads
from snapreport.model.cut import Bound, cut_size, make_cut, parse_bound

F = TypeVar("F", bound=Callable[..., Any])

GITHUB_LIMIT = "25MB"
"""The largest file that GitHub takes as an attachment."""


_from = click.option(
    "--from",
    "from_",
    metavar="EVENT|TIME",
    callback=reads(parse_bound),
    help="Draw from this event on, or from a time after the first event: 1200, 1.5s, 200ms.",
)
_to = click.option(
    "--to", metavar="EVENT|TIME", callback=reads(parse_bound), help="Draw up to this one."
)
_min_size = click.option(
    "--min-size",
    metavar="SIZE",
    callback=reads(cut_size),
    help="Draw only allocations of at least this size: 1MiB, 64kB or bytes. The others are drawn "
    "as one band, and every figure still counts them.",
)


def cut_options(command: F) -> F:
    """``--from``, ``--to`` and ``--min-size``, in this order, as one argument ``cut``."""

    @_from
    @_to
    @_min_size
    @functools.wraps(command)
    def with_cut(
        *args: Any, from_: Bound | None, to: Bound | None, min_size: int | None, **values: Any
    ) -> Any:
        return command(*args, cut=make_cut(from_, to, min_size), **values)

    return with_cut  # type: ignore[return-value]


fit_option = click.option(
    "--fit",
    metavar="SIZE",
    callback=reads(cut_size),
    help="Have a page of at most this size, 25MB or bytes: it is thinned until it fits, and says "
    "what was left out. Peaks, failed requests, stages and call sites stay exact.",
)
for_option = click.option(
    "--for",
    "for_",
    type=click.Choice(["github"]),
    help=f"Fit what takes the report: for github --fit {GITHUB_LIMIT}.",
)

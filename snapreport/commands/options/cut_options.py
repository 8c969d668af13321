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
"""The largest file that GitHub accepts as an attachment."""


_from = click.option(
    "--from",
    "from_",
    metavar="EVENT|TIME",
    callback=reads(parse_bound),
    help="Draw from this event or time after the first event on: 1200, 1.5s, 200ms.",
)
_to = click.option(
    "--to", metavar="EVENT|TIME", callback=reads(parse_bound), help="Draw up to this event or time."
)
_min_size = click.option(
    "--min-size",
    metavar="SIZE",
    callback=reads(cut_size),
    help="Draw only allocations of at least this size: 1MiB, 64kB or bytes. The rest is drawn as "
    "one band, and every figure still counts it.",
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
    help="Thin the page until it is at most this size, 25MB or bytes; it says what was left out. "
    "Peaks, failed requests, stages and call sites stay exact.",
)
for_option = click.option(
    "--for",
    "for_",
    type=click.Choice(["github"]),
    help=f"Fit the limit of this site: github means --fit {GITHUB_LIMIT}.",
)

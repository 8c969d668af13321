"""Options that name a moment, shared by every command that answers about one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from snapreport.commands.options.shared_options import curve_option, reads
from snapreport.model.moment_wanted import MomentWanted, parse_address

F = TypeVar("F", bound=Callable[..., Any])


def moment_options(function: F) -> F:
    """Add the options; the command gets them as ``wanted``."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        names = ("event", "time_us", "stage", "between", "at", "curve")
        chosen = {name: values.pop(name) for name in names}
        given = [name for name in names[:5] if chosen[name] is not None]
        if len(given) > 1:
            options = " and ".join(f"--{name.replace('time_us', 'time')}" for name in given)
            raise click.UsageError(f"{options} each name a moment; give one of them.")
        if at := chosen.pop("at"):
            chosen[at[0]] = at[1]
        return function(wanted=MomentWanted(**chosen), **values)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


_OPTIONS = (
    click.option(
        "--event", type=int, metavar="N", help="At the state after event N; -1 is the start."
    ),
    click.option(
        "--time", "time_us", type=int, metavar="US",
        help="At a time in microseconds, since 1970 or since the first event.",
    ),
    click.option("--stage", metavar="NAME", help="At the peak within a stage, or NAME[2]."),
    click.option(
        "--between", type=int, nargs=2, metavar="A B", help="At the peak between two events."
    ),
    click.option(
        "--at", type=(click.Choice(["alloc", "free"]), str), metavar="alloc|free ADDRESS",
        callback=reads(lambda at: (at[0], parse_address(at[1]))),
        help="After the allocation or free of an address, or ADDRESS_VERSION.",
    ),
    curve_option(),
)  # fmt: skip

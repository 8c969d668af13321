"""Options that name a moment, shared by every command that answers about one."""

from __future__ import annotations

import click

from snapreport.commands.options.shared_options import curve_option, reads, together
from snapreport.model.moment_wanted import Address, MomentWanted, parse_address


def _moment(
    event: int | None,
    time_us: int | None,
    stage: str | None,
    between: tuple[int, int] | None,
    at: tuple[str, Address] | None,
    curve: str,
) -> MomentWanted:
    named = {"event": event, "time": time_us, "stage": stage, "between": between, "at": at}
    given = [f"--{name}" for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} each name a moment; give one of them.")
    by_address: dict[str, Address] = dict([at] if at else [])
    return MomentWanted(event, time_us, stage, between, **by_address, curve=curve)


moment_options = together(
    "wanted",
    _moment,
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

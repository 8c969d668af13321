"""Try hostile inputs by the thousand, and print a table; fail where something went wrong.

For `make hostile`. What takes no time is a test beside it, most of them by `cost.assert_within`.

Example: python -m tests.hostile --share 0.1
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import click

from tests.hostile import bundles, pickles
from tests.hostile.families import Family, table

FAMILIES: list[Callable[[float], Iterator[Family]]] = [
    pickles.families,
    bundles.families,
]
"""Each takes the share of its random inputs to try, 1 for all, and runs its families."""


@click.command()
@click.option("--share", type=click.FloatRange(min=0), default=1.0, help="Of the random inputs.")
@click.option("--only", default="", metavar="WORD", help="Modules with this word in their name.")
def main(share: float, only: str) -> None:
    """Try everything, and print a line for each family when it is done."""
    wrong = 0

    def run() -> Iterator[Family]:
        nonlocal wrong
        for families in FAMILIES:
            if only in families.__module__:
                for family in families(share):
                    wrong += family.crashes + family.code_run + family.left_over
                    yield family

    for line in table(run()):
        print(line, flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

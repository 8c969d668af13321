"""Make a report no larger than asked: find the least thinning that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Protocol, TypeVar

from snapreport.ground.errors import CutError
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import Findings
from snapreport.reporters.reporter import Reporter

MOST_TRIES = 8
"""Reports made to find how many allocations of a level have to go: to one in 256 of them."""


class Level(Protocol):
    """How much is left out; only how many allocations matters here."""

    @property
    def allocations(self) -> int:
        """How many allocations thinning leaves out."""


L = TypeVar("L", bound=Level)


def render_to_fit(
    reporter: Reporter,
    fit: int,
    levels: Sequence[tuple[L, L]],
    draw: Callable[[L], Findings],
    between: Callable[[L, int], L],
) -> bytes:
    """Render with the least thinning with which the report has at most ``fit`` bytes.

    Args:
        reporter: writes the report.
        fit: the most bytes.
        levels: the least and the most thinning of each level, in the order to try them.
        draw: the findings, with what is drawn of them with some thinning.
        between: the same level with another number of allocations left out.

    Raises:
        CutError: even with the most thinning it has more; the message says how many.
    """

    def made(level: L) -> bytes:
        out = BytesIO()
        reporter.render(draw(level), out)
        return out.getvalue()

    sizes = []
    for least, most in levels:
        page = made(most)
        sizes.append(len(page))
        if len(page) > fit:
            continue
        few, many = least.allocations, most.allocations
        for _ in range(MOST_TRIES):
            if many - few <= 1:
                break
            middle = (few + many) // 2
            smaller = made(between(most, middle))
            if len(smaller) <= fit:
                page, many = smaller, middle
            else:
                few = middle
        return page
    # Rounded up: a page names what it was made to fit, so its own size depends on that a little.
    enough = (min(sizes) + 100 + 999) // 1000 * 1000
    raise CutError(
        f"the report cannot be made to fit {format_count(fit)} bytes; it can have"
        f" {format_count(enough)} ({format_bytes(enough)}): --fit {enough}."
    )

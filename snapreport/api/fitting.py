"""Reports that do not draw everything: cut to a range, or thinned to fit a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO

from snapreport.figures.thinning import Cutter, Thinning
from snapreport.ground.errors import CutError
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.cut import Cut, Picture
from snapreport.model.findings import Findings
from snapreport.reporters.reporter import Reporter

MOST_TRIES = 8
"""Steps of the bisection for how many allocations to leave out: precise to one in 256."""


def render_cut(
    reporter: Reporter[Findings],
    findings: Findings,
    cut: Cut | None,
    fit: int | None,
    *,
    draws: bool,
) -> bytes:
    """Render with a cut, and with the least thinning that brings the report to ``fit`` bytes.

    Args:
        reporter: writes the report.
        findings: all of them.
        cut: what is drawn; None for everything.
        fit: the most bytes that the report may have; None for no limit.
        draws: whether the report draws at all: only then can it be thinned.

    Raises:
        CutError: it is larger even with the most thinning; the message says how large.
    """
    cutter = Cutter(findings.devices, cut)

    def made(thinning: Thinning) -> bytes:
        drawn = findings
        if not cutter.cut.nothing or thinning != Thinning():
            drawn = replace(findings, picture=Picture(cutter.cut, fit, cutter.drawn(thinning)))
        out = BytesIO()
        reporter.render(drawn, out)
        return out.getvalue()

    if fit is None:
        return made(Thinning())
    sizes = []
    for least, most in cutter.levels()[: None if draws else 1]:
        page = made(most)
        sizes.append(len(page))
        if len(page) > fit:
            continue
        few, many = least.allocations, most.allocations
        for _ in range(MOST_TRIES):
            if many - few <= 1:
                break
            middle = (few + many) // 2
            smaller = made(replace(most, allocations=middle))
            if len(smaller) <= fit:
                page, many = smaller, middle
            else:
                few = middle
        return page
    raise _too_large(sizes, fit)


def _too_large(sizes: Sequence[int], fit: int) -> CutError:
    # Rounded up: a page names its limit, so its own size depends on the limit a little.
    enough = (min(sizes) + 100 + 999) // 1000 * 1000
    return CutError(
        f"the report cannot be made to fit {format_count(fit)} bytes; it can be made to fit"
        f" {format_count(enough)} ({format_bytes(enough)}): --fit {enough}."
    )

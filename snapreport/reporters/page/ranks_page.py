"""The index of several reports as one HTML file that opens offline, without any script."""

from __future__ import annotations

from typing import BinaryIO

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.ranks import RankDevice, Run
from snapreport.reporters.page.static_page import write_static_page
from snapreport.reporters.words.ranks_words import (
    ODD,
    conclusion,
    deviation,
    deviation_text,
    facts,
    growth_text,
    heading,
    oom_text,
    peak_text,
    peak_title,
)


class RanksHtmlReporter:
    """Writes the list of several recordings as one self-contained HTML page."""

    def render(self, run: Run, out: BinaryIO) -> None:
        """Write the page as UTF-8; it links to the reports beside it."""
        kinds = list(dict.fromkeys(device.kind for _, device in run.rows))
        most = max((max(d.allocated, d.reserved or 0) for _, d in run.rows), default=0) or 1

        def part(count: int) -> str:
            return f"{100 * count / most:.2f}%"

        def odd(device: RankDevice) -> bool:
            return abs(deviation(run, device) or 0) >= ODD

        write_static_page(
            out,
            "ranks.html.j2",
            "ranks.css",
            run=run,
            title=heading(run),
            facts=facts(run),
            conclusion=conclusion(run),
            compared=any(len(run.of(kind)) > 1 for kind in kinds),
            failed=any(device.ooms for _, device in run.rows),
            grows=any(device.growth for _, device in run.rows),
            several=any(
                len(rank.devices) > 1 or device.device != run.rows[0][1].device
                for rank, device in run.rows
            ),
            largest=run.is_largest,
            part=part,
            middle=lambda device: run.middle(device.kind),
            middles=[(kind, run.middle(kind)) for kind in kinds if len(run.of(kind)) > 1],
            odd=odd,
            off=lambda device: deviation_text(deviation(run, device)),
            peak=peak_text,
            exact=peak_title,
            oom=oom_text,
            growth=growth_text,
            bytes=format_bytes,
            count=format_count,
        )

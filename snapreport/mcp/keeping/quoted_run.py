"""The texts in a run's zip marked as a stranger's, as those of recordings are."""

from __future__ import annotations

from dataclasses import replace

from snapreport.model.run.rank_facts import DeviceFacts, RankFacts, Run
from snapreport.names.quoted_strings import quoted


def quote_run(run: Run) -> Run:
    """Return a run whose texts cannot be taken for ours."""
    return replace(
        run,
        title=quoted(run.title),
        layout=tuple((quoted(name), size) for name, size in run.layout),
        ranks=tuple(_rank(each) for each in run.ranks),
    )


def _rank(rank: RankFacts) -> RankFacts:
    name = rank.name
    return replace(
        rank,
        source=quoted(rank.source),
        label=quoted(rank.label),
        name=replace(
            name,
            host=quoted(name.host),
            coordinates=tuple((quoted(each), place) for each, place in name.coordinates),
        ),
        devices=tuple(_device(each) for each in rank.devices),
        warnings=tuple(quoted(each) for each in rank.warnings),
        error=quoted(rank.error),
    )


def _device(device: DeviceFacts) -> DeviceFacts:
    return replace(
        device,
        device=quoted(device.device),
        kind=quoted(device.kind),
        holders=tuple(replace(each, key=quoted(each.key)) for each in device.holders),
        failed=tuple(replace(each, site=quoted(each.site)) for each in device.failed),
        findings=tuple(
            replace(each, code=quoted(each.code), title=quoted(each.title))
            for each in device.findings
        ),
    )

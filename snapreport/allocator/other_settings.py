"""Replay a recording under other settings and on other cards, if its own replay is exact."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.allocator.factual import ModelledDevice
from snapreport.allocator.replaying import Addresses, AllocatorModel
from snapreport.allocator.smallest_capacity import LONG, CapacitySearch, Fit
from snapreport.allocator.tape_variants import from_scratch, possible_tapes, scattered
from snapreport.ground.progress import Progress, silent
from snapreport.history.allocator_settings import AllocatorSettings, parse_settings
from snapreport.history.live_floor import live_floor
from snapreport.model.replay.replays import CAUSES, Between, OtherSettings, SettingOutcome
from snapreport.native.allocator_replay import ANYWHERE, ASCENDING, DESCENDING, FIRST_FIT

WAYS = (
    *(Addresses(ASCENDING), Addresses(DESCENDING), Addresses(FIRST_FIT)),
    *(Addresses(ANYWHERE, seed) for seed in range(1, 6)),
)
"""Where the driver may put new segments; which of these it would choose is not known."""
_FEW_WAYS = 3
TABLE = (
    "default",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:256",
    "roundup_power2_divisions:8",
)
"""The settings of the table besides the recorded ones."""


def replay_settings(
    modelled: ModelledDevice,
    wanted: Sequence[AllocatorSettings],
    capacity: int | None = None,
    progress: Progress = silent,
) -> OtherSettings:
    """Replay a recording under settings, each for its smallest capacity.

    Args:
        modelled: the device.
        wanted: the settings.
        capacity: bytes that the segments may have together; None if not asked for.
        progress: called with the work done.
    """
    divided = bool(modelled.settings.roundup_power2_divisions)
    least = live_floor(modelled.history, divided)
    floor = least.bytes
    refused = _refusal(modelled)
    hopeless = capacity is not None and floor > capacity
    ways = WAYS[:_FEW_WAYS] if len(modelled.tape) > LONG else WAYS
    outcomes = []
    if refused or hopeless:
        wanted = ()
    # Each start is as long as the recording, so none is built unless needed.
    starts, worst = _starts(modelled) if wanted else ([], [])
    from_tapes = len(starts) - len(worst)
    for done, settings in enumerate(wanted):
        fits: list[Fit] = []
        fitting: list[bool] = []
        for number, start in enumerate(starts):
            if number >= from_tapes and settings == modelled.settings:
                continue  # this setting made the recorded layout
            search = CapacitySearch(start, settings, floor)
            for each, way in enumerate(ways):
                share = (number + each / len(ways)) / len(starts)
                progress("Replaying under other settings", (done + share) / len(wanted))
                fits.append(search.find(way, fits[-1].capacity if fits else None))
                if capacity is not None:
                    serves = search.serves(capacity, way)
                    # A capacity below one that fails may still serve, but only by luck.
                    fitting += [serves, serves and capacity >= fits[-1].capacity]
        recorded = settings == modelled.settings
        if worst and capacity is not None and not recorded:
            # The initial layout under this setting is not known: so no setting is said to fail, and
            # one is said to serve only if it does so with every layout tried.
            for start in worst if all(fitting) else ():
                search = CapacitySearch(start, settings, floor)
                fitting += [search.serves(capacity, way) for way in ways]
            fitting = fitting if all(fitting) else []
        outcomes.append(_outcome(settings, recorded, fits, fitting))
    return OtherSettings(
        factual=modelled.factual,
        floor=floor,
        floor_event=least.event,
        capacity=capacity,
        refused=refused,
        outcomes=tuple(outcomes),
        tried=len(ways),
        starts=2 if modelled.tape.reserved else 1,
    )


def _starts(modelled: ModelledDevice) -> tuple[list[AllocatorModel], list[AllocatorModel]]:
    """Return the starts to replay from: as recorded, then, if it began late, as many tidy ones.

    The second list has as many untidy ones; it is empty if the recording did not begin late.
    """
    tapes = possible_tapes(modelled.tape, modelled.settings)
    recorded = [modelled.model, *map(AllocatorModel, tapes[1:])]
    if not modelled.tape.reserved:
        return recorded, []
    tidy = [AllocatorModel(from_scratch(tape)) for tape in tapes]
    return [*recorded, *tidy], [AllocatorModel(scattered(tape)) for tape in tapes]


def table_of_settings(recorded: AllocatorSettings) -> list[AllocatorSettings]:
    """Return the settings of the table, the recorded ones first."""
    others = [parse_settings(text) for text in TABLE]
    return [recorded, *(each for each in others if each != recorded)]


def _refusal(modelled: ModelledDevice) -> str:
    """Return a sentence that says why other settings are not replayed; ``""`` if they are."""
    factual = modelled.factual
    if factual.not_modelled:
        return f"Other settings are not replayed: {factual.not_modelled}."
    if factual.exact:
        return ""
    return (
        f"Other settings are not replayed: under the recorded one the model puts"
        f" {factual.placed:,} of {factual.allocations:,} allocations where they were, and"
        f" departs from the recording at event {factual.divergence:,}; the likely cause:"
        f" {CAUSES[factual.cause]}."
    )


def _outcome(
    settings: AllocatorSettings, recorded: bool, fits: list[Fit], fitting: list[bool]
) -> SettingOutcome:
    def between(name: str) -> Between:
        values = [getattr(fit, name) for fit in fits]
        return Between(min(values), max(values))

    serves = fitting[0] if fitting and len(set(fitting)) == 1 else None
    return SettingOutcome(
        settings=str(settings),
        recorded=recorded,
        capacity=between("capacity"),
        peak=between("peak"),
        retries=between("retries"),
        driver_calls=between("driver_calls"),
        serves=serves,
    )

"""Find the settings under which a failed request would have been served, by the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from snapreport.allocator.factual import ModelledDevice
from snapreport.allocator.replay_tape import DEFAULT_POOL, FAIL
from snapreport.allocator.replaying import Addresses, AllocatorModel, chosen_operations
from snapreport.allocator.tape_variants import from_scratch, possible_tapes, scattered
from snapreport.history.allocator_settings import MIB, UNLIMITED, AllocatorSettings
from snapreport.native.allocator_replay import ASCENDING, DESCENDING, FIRST_FIT

_WAYS = tuple(map(Addresses, (ASCENDING, DESCENDING, FIRST_FIT)))
"""Where the driver may put new segments."""
_MOST_WORK = 2_500_000
"""The most operations to replay, so that a report does not have to wait: about 0.3 s."""
_SPLIT_SIZES = tuple(size * MIB for size in (512, 256, 128, 64, 32))
"""For ``max_split_size_mb``: large ones first, as they cost least."""
_DIVISIONS = (8,) * 16


@dataclass(frozen=True)
class FailedSettings:
    """Other settings for a request that failed, as ``PYTORCH_ALLOC_CONF`` has them."""

    allocations: int
    """Allocations made in the recording, all at the addresses that the model predicts."""
    late: bool
    """Whether memory was allocated before the recording. Where it would be under other settings is
    not known, so both its recorded layout and a fresh one are tried."""
    serve: tuple[str, ...]
    """Settings that serve every request up to and including this one, wherever the driver puts
    segments; the least intrusive first."""
    fail: tuple[str, ...]
    """Settings under which it fails wherever the driver puts segments; ranges are in words."""


def settings_for_failed(
    modelled: ModelledDevice, event: int, capacity: int
) -> FailedSettings | None:
    """Replay a recording up to its first failed request under other settings.

    Args:
        modelled: the device.
        event: of the request.
        capacity: bytes that segments could have together when it failed.

    Returns:
        None where the model does not explain the recording and this failure, and nothing follows:
        the replay is not exact, another request failed before, the request was for a private pool,
        the process has a limit of its own or was recorded with rounded sizes, or the model would
        have served the request or refused an earlier one at this capacity. Likewise where it
        decides nothing.
    """
    tape, recorded = modelled.tape, modelled.settings
    failed = [int(op) for op in (tape.op == FAIL).nonzero()[0]]
    if not modelled.factual.explains or not failed or int(tape.event[failed[0]]) != event:
        return None
    if tape.limited or recorded.memory_fraction or recorded.roundup_power2_divisions:
        return None
    if tape.lanes[int(tape.failed_lane[failed[0]])][0] != DEFAULT_POOL:
        return None
    tape = chosen_operations(tape, slice(failed[0] + 1))
    model = AllocatorModel(tape)
    as_it_was = model.replay(recorded, capacity, room=tape.room, stop=True)
    if capacity < tape.reserved or as_it_was.failed_op != failed[0]:
        return None
    tapes = possible_tapes(tape, recorded)
    if tape.reserved:
        tapes += [*map(from_scratch, tapes), *map(scattered, tapes)]
    starts = [AllocatorModel(each) for each in tapes]
    left = _MOST_WORK
    serve, fail = [], []
    for name, group in _candidates(recorded):
        failed_too = 0
        for settings in group:
            answers: set[bool] = set()
            for start, way in product(starts, _WAYS):
                left -= len(start.tape)
                if len(answers) == 2 or left < 0:
                    answers.clear()
                    break
                found = start.replay(settings, capacity, way, stop=True)
                answers.add(found.failed_op < 0)
            if answers == {True}:
                serve.append(_text(settings))
                break
            failed_too += answers == {False}
        if failed_too == len(group):
            fail.append(name)
    if not (serve or fail):
        return None
    return FailedSettings(
        modelled.factual.allocations, bool(tape.reserved), tuple(serve), tuple(fail)
    )


def _candidates(recorded: AllocatorSettings) -> list[tuple[str, list[AllocatorSettings]]]:
    """Return groups, the least intrusive first; of each, the first that serves is enough."""
    other = replace(recorded, expandable_segments=not recorded.expandable_segments)
    rounded = replace(recorded, roundup_power2_divisions=_DIVISIONS)
    groups = [(_text(other), [other])]
    if recorded.max_split_size == UNLIMITED and recorded.large_segment_size <= _SPLIT_SIZES[0]:
        sizes = [size for size in _SPLIT_SIZES if size >= recorded.large_segment_size]
        name = f"max_split_size_mb from {min(sizes) // MIB} to {max(sizes) // MIB}"
        groups.append((name, [replace(recorded, max_split_size=size) for size in sizes]))
    return [*groups, (_text(rounded), [rounded])]


def _text(settings: AllocatorSettings) -> str:
    """Return what to set the environment variable to."""
    text = str(settings)
    return "expandable_segments:False" if text == "default" else text

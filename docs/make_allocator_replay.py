"""Make docs/allocator-replay.md: how exact the model of the allocator is, on real snapshots.

    SNAPREPORT_CORPUS=folder python -m docs.make_allocator_replay

Everything on the page is computed again: the replays of the files in the folder, complete and with
some of their first events lost, the same with each rule broken, and simulated programs.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from dev.simulator import Config, simulate
from docs.replay_answers import counterfactuals, published
from snapreport import read
from snapreport.figures.allocator.factual import ModelledDevice
from snapreport.figures.allocator.settings import replay_settings, table_of_settings
from snapreport.ground.units import format_bytes
from snapreport.history.allocator_settings import AllocatorSettings
from snapreport.history.block_sizes import round_sizes
from snapreport.history.build import build_history
from snapreport.model.history import START
from snapreport.model.replays import CAUSES, Between
from tests.corpus import corpus_files
from tests.property.test_allocator_model import SIMULATED, UNTOLD, own_stack_of_empty_cache
from tests.reference.allocator_parts import Rules
from tests.reference.replays import is_exact, modelled_devices, replay, without_first

PAGE = Path(__file__).with_name("allocator-replay.md")
SIMULATIONS = 60
BROKEN = {
    "none": Rules(),
    "of equal blocks the highest address wins": Rules(lowest_address_wins=False),
    "the lowest address instead of the best fit": Rules(best_fit=False),
    "no segments of 20 MiB": Rules(medium_segments=False),
    "large blocks are split from 512 bytes on": Rules(large_remainder=512),
    "the small pool ends below 1 MiB": Rules(small_up_to=(1 << 20) - 1),
}
HEAD = """\
# How exact the replay is

`snapreport whatif --allocator` replays a recording through a model of PyTorch's caching allocator.
This page says how far the model can be trusted. `python -m docs.make_allocator_replay` generates
it, with all its figures.

The input is the program's requests, frees and calls of `empty_cache()`, and the addresses that the
driver gave for new segments. The model decides which block serves a request, and which segments are
allocated and returned, and when; it is never corrected on the way. Every report says how exact the
model is on your own recording, as the check `Replay`. If it is not exact there, we say nothing
about other settings.
"""


def main() -> None:
    """Write the page."""
    files = [path for path in corpus_files() if path.suffix == ".pickle"]
    found = [
        (path, each)
        for path in files
        for each in modelled_devices(build_history(read.read_bytes(path.read_bytes(), path.name)))
    ]
    parts = [HEAD, _real(found), _cut(files), _broken(found), _blocks(files), _simulated()]
    parts += [counterfactuals(_table), published(_table), _settings(found)]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _named(path: Path, each: ModelledDevice) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"`{digest}` {each.history.device}"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|---" + "|---:" * (len(headings) - 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"


def _real(found: list[tuple[Path, ModelledDevice]]) -> str:
    rows = []
    for path, each in found:
        model = each.factual
        rows.append(
            (
                _named(path, each),
                f"{each.history.events:,}",
                f"{model.placed:,} of {model.allocations:,}",
                f"{model.segment_events_met:,} of {model.segment_events:,}",
                format_bytes(model.peak_reserved_model),
                "none" if model.exact else f"event {model.divergence:,}: {CAUSES[model.cause]}",
                _class(each),
            )
        )
    exact = sum(each.factual.exact for _, each in found)
    return (
        f"## Real recordings\n\n{exact} of {len(found)} device traces are exact: every allocation"
        " at its recorded address, every segment event the same in kind, address, size and order,"
        " and the reserved curve equal to the byte. The first column is the beginning of the file's"
        " SHA-256.\n\n"
        + _table(
            ("snapshot", "events", "at their address", "segment events", "peak reserved",
             "departs at", "what is in it"),
            rows,
        )
    )  # fmt: skip


def _class(each: ModelledDevice) -> str:
    tape, words = each.tape, [str(each.settings)]
    if len({pool for pool, _ in tape.lanes}) > 1:
        words.append("private pool")
    if len({stream for _, stream in tape.lanes}) > 1:
        words.append("streams")
    if len(tape.retried):
        words.append("retries")
    if tape.failed_size.any():
        words.append("failed request")
    if tape.reserved:
        words.append("late start")
    return ", ".join(words)


def _cut(files: list[Path]) -> str:
    rows = []
    for part, name in ((0.25, "1/4"), (0.5, "1/2"), (0.75, "3/4")):
        every = [each for path in files for each in modelled_devices(without_first(path, part))]
        rows.append((name, f"{sum(each.factual.exact for each in every)} of {len(every)}"))
    return (
        "## With the first events lost\n\nA ring buffer that overflowed lacks the oldest events."
        " These are the same recordings without some of their first events; recordings without any"
        " allocation left are not counted:\n\n" + _table(("lost", "exact traces"), rows)
    )


def _broken(found: list[tuple[Path, ModelledDevice]]) -> str:
    rows = []
    for name, rules in BROKEN.items():
        every = [(each, replay(each, rules)) for _, each in found]
        exact = sum(is_exact(*pair) for pair in every)
        peaks = sum(done.peak == each.factual.peak_reserved for each, done in every)
        rows.append((name, str(exact), str(peaks)))
    return (
        "## With a rule broken\n\nAddresses are a strict test, and peaks are not: with a wrong rule"
        " most peaks stay right.\n\n" + _table(("rule broken", "exact traces", "equal peaks"), rows)
    )


def _blocks(files: list[Path]) -> str:
    rows = []
    for path in files:
        for device in build_history(read.read_bytes(path.read_bytes(), path.name)).devices:
            each = device.allocations
            freed = (each.alloc_event == START) & (each.free_event < device.events)
            large = freed & (round_sizes(each.size, AllocatorSettings()) > 1 << 20)
            if large.any():
                open_ = large & (each.block_size < each.block_size_max)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                rows.append((f"`{digest}` {device.device}", f"{large.sum()}", f"{open_.sum()}"))
    return (
        "## Blocks from before the recording\n\nNo file has the size of a large block that was"
        " there at the start and is freed while recording. It follows from the blocks that are"
        " there, or are allocated later, within 1 MiB after its request.\n\n"
        + _table(("snapshot", "such blocks", "of them known only within a range"), rows)
    )


def _simulated() -> str:
    rows = []
    with own_stack_of_empty_cache(pytest.MonkeyPatch()):
        for name, options in (SIMULATED | UNTOLD).items():
            exact, every = 0, 0
            for seed in range(SIMULATIONS):
                simulator = simulate(Config(seed=seed, operations=400, **options))
                file = pickle.dumps(simulator.snapshot(), 4)
                for each in modelled_devices(build_history(read.read_bytes(file, "s.pickle"))):
                    every += 1
                    exact += each.factual.exact
            rows.append((name, f"{exact} of {every}"))
    return (
        "## Simulated programs\n\nCases that our real recordings lack, from a simulator that"
        " shares no code with the model. No file has the limit that a process set for itself: the"
        " model infers it from garbage collections and failures, or refuses. *Untold*: before torch"
        " 2.13 events name no pool, so we know only those segments of a private pool that are there"
        " at the end, and not which pool a failed request was for. A replay that is not exact is"
        " refused: we say nothing about other settings.\n\n" + _table(("programs", "exact"), rows)
    )


def _settings(found: list[tuple[Path, ModelledDevice]]) -> str:
    answers = [
        (path, each, replay_settings(each, table_of_settings(each.settings)[:2]))
        for path, each in found
    ]
    rows = [
        (
            _named(path, each),
            f"`{outcome.settings}`{' (recorded)' if outcome.recorded else ''}",
            format_bytes(answer.floor),
            _between(outcome.capacity),
            _between(outcome.peak),
        )
        for path, each, answer in answers
        for outcome in answer.outcomes
    ]
    return (
        "## What the model predicts for two settings\n\nNot measured: these programs ran only"
        " under the recorded settings.\n\n"
        + _table(("snapshot", "settings", "floor", "smallest capacity", "peak reserved"), rows)
    )


def _between(each: Between) -> str:
    least, most = format_bytes(each.least), format_bytes(each.most)
    return least if least == most else f"{least} to {most}"


if __name__ == "__main__":
    main()

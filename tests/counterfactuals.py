"""What the model says of other settings, beside what the simulator does when it really has them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

from dev.simulator import AllocatorSettings
from dev.simulator.settings import MIB
from snapreport import read
from snapreport.figures.allocator.settings import replay_settings
from snapreport.history.allocator_settings import UNLIMITED, parse_settings
from snapreport.history.allocator_settings import AllocatorSettings as Parsed
from snapreport.history.build import build_history
from snapreport.model.replays import OtherSettings, SettingOutcome
from tests.reference.replays import modelled_devices
from tests.scripts import AMPLE, Kind, Script, draw_script, run

UNIT = 2 * MIB
SETTINGS = (
    "default",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:20",
    "roundup_power2_divisions:8",
    "expandable_segments:True,max_split_size_mb:32",
)
GARBAGE = "garbage_collection_threshold:0.7,per_process_memory_fraction:1"


@dataclass(frozen=True)
class Question:
    """Which programs are recorded how."""

    kind: Kind
    tight: bool = False
    """Whether they are recorded on a card that is just large enough, so that requests retry."""
    fails: bool = False
    """Whether it is a little too small, so that a request fails in the end."""
    limited: bool = False
    """Whether the process has a limit of its own, a little above what it needs."""
    settings: tuple[str, ...] = SETTINGS


QUESTIONS = {
    "from the beginning": Question(Kind(empties=False)),
    "from the beginning, large": Question(Kind(empties=False, largest=200 * MIB, target=15)),
    "from the beginning, small": Question(Kind(empties=False, largest=4 * MIB, target=80)),
    "streams": Question(Kind(empties=False, streams=3)),
    "with empty_cache()": Question(Kind()),
    "with retries": Question(Kind(empties=False, streams=2), tight=True),
    "up to a failed request": Question(Kind(empties=False), fails=True),
    "garbage collection": Question(
        Kind(empties=False), settings=("default", GARBAGE), limited=True
    ),
    "private pools": Question(Kind(empties=False, pools=True)),
    "late": Question(Kind(empties=False, late=True)),
    "late, streams": Question(Kind(empties=False, late=True, streams=2)),
}


@dataclass(frozen=True)
class Answer:
    """One program, recorded under some settings and asked about others."""

    recorded: str
    wanted: str
    told: OtherSettings
    peak: int
    """Reserved at most under the other settings, from the start of the recording on."""
    served: bool | None
    """Whether they serve every request within the most that is told as the smallest capacity; None
    where the program does not get as far as to the start of the recording."""
    failed: bool | None
    """Whether they do not within a little less than the least."""
    retries: int
    """Within the most."""

    @property
    def outcome(self) -> SettingOutcome:
        """What is told."""
        (outcome,) = self.told.outcomes
        return outcome

    @property
    def peak_within(self) -> bool:
        """Whether the peak is in the range told."""
        return self.outcome.peak.least <= self.peak <= self.outcome.peak.most


def ask(question: Question, seed: int) -> Answer | None:
    """Draw a program, record it, ask about other settings, and really run it under those.

    Returns:
        None where nothing is told.
    """
    script = draw_script(seed, question.kind)
    recorded = question.settings[seed % len(question.settings)]
    wanted = question.settings[seed // len(question.settings) % len(question.settings)]
    capacity = AMPLE
    if question.tight or question.fails:
        capacity = smallest_capacity(script, recorded) - (6 * MIB if question.fails else 0)
    fraction = 0.0
    if question.limited:
        capacity, fraction = smallest_capacity(script, recorded) * 11 // 10, 1.0
    simulator = run(script, simulated(recorded), capacity, fraction).simulator
    file = pickle.dumps(simulator.snapshot(), 4)
    for modelled in modelled_devices(build_history(read.read_bytes(file, "snap.pickle"))):
        if modelled.factual.exact:
            told = replay_settings(modelled, [parse_settings(wanted)])
            if question.fails:
                script = _up_to_failure(script, recorded, capacity)
            return _beside_truth(script, recorded, wanted, told)
    return None


def _beside_truth(script: Script, recorded: str, wanted: str, told: OtherSettings) -> Answer:
    (outcome,) = told.outcomes
    settings = simulated(wanted)
    fraction = parse_settings(wanted).memory_fraction
    free = run(script, settings)
    most = run(script, settings, outcome.capacity.most, fraction)
    less = run(script, settings, outcome.capacity.least - UNIT, fraction)
    return Answer(
        recorded,
        wanted,
        told,
        peak=free.peak,
        served=None if most.failed and most.calls < script.record_from else not most.failed,
        failed=None if less.failed and less.calls < script.record_from else less.failed,
        retries=most.retries,
    )


def _up_to_failure(script: Script, recorded: str, capacity: int) -> Script:
    """Return the part of a program up to the request that failed, and with it."""
    done = run(script, simulated(recorded), capacity).calls
    return replace(script, calls=script.calls[: done + 1])


def smallest_capacity(script: Script, settings: str) -> int:
    """Return a capacity that serves every request where a little less does not."""
    given = simulated(settings)
    low, high = 0, -(-run(script, given).peak // UNIT) * UNIT
    while high - low > UNIT:
        middle = (low + high) // (2 * UNIT) * UNIT
        if run(script, given, middle, parse_settings(settings).memory_fraction).failed:
            low = middle
        else:
            high = middle
    return high


def simulated(settings: str) -> AllocatorSettings:
    """Return settings as the simulator takes them."""
    told: Parsed = parse_settings(settings)
    unlimited = told.max_split_size >= UNLIMITED
    return AllocatorSettings(
        expandable_segments=told.expandable_segments,
        max_split_size=-1 if unlimited else told.max_split_size,
        roundup_power2_divisions=told.roundup_power2_divisions or (0,) * 16,
        garbage_collection_threshold=told.garbage_collection_threshold,
    )

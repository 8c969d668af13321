"""What is drawn anew in each round: where memory lies, how large requests are, when things are.

Noise that no recording has would be as unfair as repetition. A real step asks for the same few
sizes again and again: real recordings of 900 to 8,000 allocations have 11 to 93 distinct sizes,
and 78 to 97 % of all allocations have a size that their stack asked for before. So all
requests of a round that were equal stay equal, and are others than in the next round, as with
batches of another length; drawn one by one they were 7,000 sizes, and 80%. Likewise
an allocation lies where the last of its stack and size did as often as in the recording repeated
(24 % and 26 %), and at an address seen before in 93 % of all cases (52 to 92 % in real ones).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dev.benchmarks.workloads.regions import GRANULE
from dev.benchmarks.workloads.rounds import Round

FIRST_ADDRESS = 1 << 44
DEVICE_ADDRESSES = 1 << 40
"""How far the devices' addresses lie apart: no device has a TiB."""
PAUSE_US = 1000
"""Between two rounds."""


class Times:
    """The clock of all rounds: each plays the recorded times with gaps that jitter.

    Args:
        recorded: the times of the recording, µs; the rest gets its times from them.
        rounds: how many.
        seed: of the jitter.
    """

    def __init__(self, recorded: set[int], rounds: int, seed: int) -> None:
        self.rows = {time: row for row, time in enumerate(sorted(recorded))}
        """Row in what ``of()`` returns, by recorded time."""
        ordered = np.array(sorted(recorded), np.int64)
        self._gaps = np.diff(ordered)
        self._seed = seed
        self._starts = [int(ordered[0]) if len(ordered) else 0]
        for number in range(rounds - 1):
            spent = int(self._played(number).sum())
            self._starts.append(self._starts[-1] + spent + PAUSE_US)

    def of(self, number: int) -> NDArray[np.int64]:
        """Return the times in a round, int64, µs, never falling."""
        if not self.rows:
            return np.zeros(0, np.int64)
        passed = np.concatenate(([0], np.cumsum(self._played(number))))
        times: NDArray[np.int64] = self._starts[number] + passed
        return times

    def _played(self, number: int) -> NDArray[np.int64]:
        random = np.random.default_rng([self._seed, number])
        factors = random.uniform(0.8, 1.2, len(self._gaps))
        return np.rint(self._gaps * factors).astype(np.int64)


class Layout:
    """Where everything lies in one round, and how large it is there."""

    def __init__(self, played: Round, number: int, seed: int) -> None:
        random = np.random.default_rng([seed, number, played.device + 1])
        sizes = np.array(played.sizes, np.int64)
        slack = np.array(played.slack, np.int64)
        # A step asks for the same few sizes again and again: one draw for each of them.
        kinds, kind = np.unique(np.stack([sizes, slack]), axis=1, return_inverse=True)
        drawn = kinds[0] - random.integers(0, kinds[1] + 1)
        self.sizes: NDArray[np.int64] = drawn[kind.reshape(-1)]
        """Bytes, for each row of ``Round.sizes``: less by up to the slack."""
        self._regions = played.regions
        self._moved = self._move(random, FIRST_ADDRESS + played.device * DEVICE_ADDRESSES)

    def addresses(self, places: list[tuple[int, int]]) -> list[int]:
        """Return the address of each place; a place in no region is at address 0."""
        moved = self._moved
        return [moved[region] + offset if region >= 0 else 0 for region, offset in places]

    def address(self, recorded: int) -> int:
        """Return where a recorded address lies in this round."""
        region, offset = self._regions.find(recorded)
        return self._moved[region] + offset if region >= 0 else recorded

    def _move(self, random: np.random.Generator, base: int) -> list[int]:
        """Lay the regions out in another order with other gaps, and return their starts."""
        count = len(self._regions.starts)
        moved = [0] * count
        cursor = base + int(random.integers(0, 1 << 12)) * GRANULE
        gaps = random.integers(0, 4, count).tolist()
        for region, gap in zip(random.permutation(count).tolist(), gaps, strict=True):
            start = cursor + gap * GRANULE + self._regions.starts[region] % GRANULE
            moved[region] = start
            end = start + self._regions.sizes[region]
            cursor = end + -end % GRANULE
        return moved

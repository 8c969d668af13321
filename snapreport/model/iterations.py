"""The repeating step of a program, as far as a recording shows one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Source = Literal["profiler", "optimizer", "stages", "pattern"]
"""``ProfilerStep#N`` stages; ``Optimizer.step`` stages; other stages that come again and again;
allocations that come again and again."""


@dataclass(frozen=True, eq=False)
class Iterations:
    """Where each complete turn of the program's outer loop begins, in events of the trace."""

    source: Source
    confidence: float
    """0 to 1, see ``roles.repeating_step``: 1 where the file names the steps."""
    starts: NDArray[np.int64]
    """int64, shape (n,), ascending; the first event of each complete turn."""
    end: int
    """The first event after the last complete turn."""
    names: tuple[str, ...]
    """``ProfilerStep#3`` where the file says so, else ``iteration 3``, counted from 1."""
    how: str
    """How they were found, as a half-sentence: ``by the stages ProfilerStep#N``."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The starts and the end; int64, shape (n + 1,)."""
        return np.append(self.starts, np.int64(self.end))

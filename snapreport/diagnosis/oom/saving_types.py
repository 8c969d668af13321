"""What changes to a program or to the allocator's settings would free in a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Change = Literal[
    "site",
    "checkpointing",
    "inference",
    "batch",
    "gradients",
    "foreach",
    "expandable",
    "max-split",
    "roundup",
    "return-cache",
    "record-stream",
    "private-pools",
]


@dataclass(frozen=True)
class Saving:
    """What one change would free, in bytes; of what, is for the words to say."""

    change: Change
    frees: int | None
    """None where only the most is known."""
    most: int | None = None
    enough: bool = False
    """Whether that, at the most, would have served the request that failed."""
    about: str = ""
    """A call site for ``site``; for ``max-split`` the size in MiB."""
    peak: int | None = None
    """The peak that would be left, exactly, if all of it were gone."""
    peak_event: int | None = None

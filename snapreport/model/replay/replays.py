"""What replays of a recording through the model of PyTorch's allocator came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FactualReplay:
    """The recording under its own settings, compared with what the allocator did."""

    settings: str
    """Those of the recording, as the environment variable would have them."""
    allocations: int
    """Made while it was recorded."""
    placed: int
    """Of them, those that the model puts on their recorded address."""
    segment_events: int
    """Segments that came, went, grew or shrank."""
    segment_events_met: int
    """Of them, those that the model has at the same place in their order, with the same address and
    size."""
    reserved_equal: bool
    """Whether the model's reserved curve is the recorded one, to the byte."""
    peak_reserved: int
    peak_reserved_model: int
    capacity: int | None
    """Bytes that the model let segments have together; None where no request needed a limit."""
    retries: int
    """Requests that gave segments back before they were served, or failed."""
    undecided: int
    """Runs of segments given back that nothing tells apart from calls of ``empty_cache()``."""
    divergence: int | None
    """The first event at which the model did something else; None for none."""
    cause: str
    """The likely cause of that, as a code of ``CAUSES``; "" without one."""

    @property
    def exact(self) -> bool:
        """Whether the model did everything as the allocator did."""
        return self.divergence is None


CAUSES = {
    "events-missing": "segment or allocation events are missing from the recording",
    "block-range": "the size of a block from before the recording is not known exactly",
    "settings-changed": "the setting of expandable segments changed while the program ran",
    "private-pool": "a private pool (CUDA graphs, MemPool) did what no event tells of",
    "other-memory": "the memory left for the allocator changed, as other users of the card do",
    "unknown": "the allocator followed a rule that is not modelled",
}
"""Why a replay diverges, by code: the end of a sentence."""

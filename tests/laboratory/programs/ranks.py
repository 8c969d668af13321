"""Programs that train on two ranks, each with a batch of its own; one of them is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests.laboratory.programs import all_programs
from tests.laboratory.programs.language import LanguageTraining
from tests.laboratory.truth import Watch

_OTHER = "import sys; from tests.laboratory.programs.ranks import follow; follow(*sys.argv[1:])"


class OnTwoRanks(LanguageTraining):
    """Gradients are added up over the ranks, in memory that they share with the buckets."""

    rank = 0
    place = ""
    """Where the ranks meet: a file that is not there yet."""

    def __init__(self, variant: str = "", watch: Watch | None = None) -> None:
        super().__init__(variant, watch)
        self.variant = variant

    def build(self) -> None:
        if not self.rank:
            self.folder = tempfile.TemporaryDirectory()
            self.place = str(Path(self.folder.name, "meet"))
            command = [sys.executable, "-c", _OTHER, self.name, self.variant, self.place]
            self.other = subprocess.Popen(command)
        distributed.init_process_group(
            "gloo", init_method=f"file://{self.place}", rank=self.rank, world_size=2
        )
        super().build()

    def make_model(self) -> Any:
        self.inner = super().make_model()
        # Without the first broadcast, whose buffers a thread of Gloo's lets go some time later.
        return DistributedDataParallel(self.inner, gradient_as_bucket_view=True, init_sync=False)

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        if self.on("shard-state"):
            from torch.distributed.optim import ZeroRedundancyOptimizer  # it warns of itself

            return ZeroRedundancyOptimizer(
                parameters, optimizer_class=torch.optim.AdamW, lr=self.rate, foreach=True
            )
        return super().make_optimizer(parameters)

    def run(self, steps: int, begins: Callable[[int], None]) -> None:
        """Do all steps; the other rank does as many as this one asks of it."""
        super().run(steps, begins)
        if not self.rank:
            self.other.kill()
            self.other.wait()
            distributed.destroy_process_group()


def follow(name: str, variant: str, place: str) -> None:
    """Be the second rank of a program until the first one ends."""
    os.environ["GLOO_LOG_LEVEL"] = "ERROR"
    torch.set_num_threads(1)
    program = all_programs()[name](variant)
    program.rank, program.place = 1, place
    program.build()
    program.run(1 << 30, lambda _: None)


class ParallelTransformer(OnTwoRanks):
    """Activations are most of it."""

    name = "two-ranks"
    variants = ("shard-state:2", "smaller-batch:2", "low-bit-state")
    batch = 4


class ParallelWide(OnTwoRanks):
    """The peak is in the optimizer's step."""

    name = "two-wide-ranks"
    variants = ("shard-state:2", "fused-optimizer")
    batch = 1
    length = 32
    shape = {"layers": 4, "width": 256}  # noqa: RUF012


PROGRAMS = (ParallelTransformer, ParallelWide)

"""Objects that refer to themselves, and stay until Python's garbage collector looks."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch.nn import functional

from tests.laboratory.programs.language import LanguageTraining


class Record:
    """What a step keeps to look at, with a function that refers to it."""

    def __init__(self, logits: torch.Tensor, *, refers_to_itself: bool) -> None:
        self.logits = logits
        if refers_to_itself:
            self.largest = lambda: self.logits.max()


class SelfReferences(LanguageTraining):
    """Every step drops a record that refers to itself, with the logits in it.

    Python's collector runs when enough objects have been made, so anywhere. Here it comes with
    every so many calls of modules, in whichever layer that is: the same in each run.
    """

    name = "reference-cycles"
    variants = ("break-cycle", "smaller-batch:2")
    batch = 4
    shape = {"layers": 3, "width": 96}  # noqa: RUF012
    turns = 4
    """Steps of training in one of the laboratory's."""
    often = 151
    """Calls of modules from one collection to the next, in more than four steps."""

    def build(self) -> None:
        super().build()
        self.calls = 0
        for module in self.model.modules():
            module.register_forward_hook(self.called)

    def called(self, *_: Any) -> None:
        """Collect garbage now and then."""
        self.calls += 1
        if self.calls % self.often == 0:
            gc.collect()

    def step(self, i: int) -> None:
        for _ in range(self.turns):
            super().step(i)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        ids, targets = batch
        logits = self.model(ids)
        Record(logits.detach(), refers_to_itself=not self.on("break-cycle"))
        return functional.cross_entropy(logits.view(-1, self.vocabulary), targets.reshape(-1))


PROGRAMS = (SelfReferences,)

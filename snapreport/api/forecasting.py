"""Forecast a program's memory on a card that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from snapreport.api.loading import PathLike
from snapreport.api.recording import Recording, record
from snapreport.ground.cards import find_card
from snapreport.ground.errors import RecordingError
from snapreport.history.allocator_settings import parse_settings
from snapreport.recorders.system import allocator_variable, program_name, require_torch

CARDS_OF_A_MACHINE = 8
"""So many a machine has unless ``devices`` says otherwise."""


def no_such_rank(rank: int, ranks: int) -> str:
    """Return a sentence on a rank that is not among those of the run."""
    return f"There is no rank {rank} of {ranks}; they are 0 to {ranks - 1}."


@contextmanager
def ready(
    path: PathLike,
    *,
    card: str,
    devices: int | None = None,
    ranks: int | None = None,
    rank: int = 0,
    allocator: str | None = None,
    steps: int | None = None,
    assume: Mapping[str, float] | None = None,
    **recording: Any,
) -> Iterator[tuple[Recording, Callable[[], str]]]:
    """Let the body believe that it has a card, and give it a recording that is not started yet.

    Also a function that says in a sentence how far the program ran. Arguments and errors are those
    of ``forecast()``.
    """
    found = find_card(card)
    settings = parse_settings(allocator_variable() if allocator is None else allocator)
    require_torch()
    from snapreport.recorders.forecast.forecasting import Forecasting, Wanted
    from snapreport.recorders.forecast.ranks import Rank

    if ranks is not None and not 0 <= rank < ranks:
        raise RecordingError(no_such_rank(rank, ranks))
    if devices is None:
        devices = min(ranks or 1, CARDS_OF_A_MACHINE)
    one = None if ranks is None else Rank(rank, ranks, devices)
    running = Forecasting(Wanted(found, devices, settings, steps, dict(assume or {}), one))
    with running.there():
        yield record(path, **recording), running.how_far


@contextmanager
def forecast(
    path: PathLike | None = None,
    *,
    card: str,
    devices: int | None = None,
    ranks: int | None = None,
    rank: int = 0,
    allocator: str | None = None,
    steps: int | None = None,
    assume: Mapping[str, float] | None = None,
    **recording: Any,
) -> Iterator[Recording]:
    """Let the body believe that it has a card, and record what it would allocate there.

    Nothing is computed: tensors on the card have shapes but no values, and so has a model on the
    CPU before it is moved there. Data on the CPU stays real. What the body asks of values that do
    not exist is assumed, counted and told. It ends by itself once a step of its optimizer
    allocates exactly what the one before did, and reserves nothing new.

    Args:
        path: the folder for the recordings; by default named after the program.
        card: its name, such as ``h100-80``, or its size, such as ``24GB``.
        devices: how many there are, on one machine; by default one for each rank, and 8 at most.
        ranks: how many processes the program has, each with a card of its own, as under
            ``torchrun``; this is one of them, and the others do not exist.
        rank: which of them this is.
        allocator: settings as ``PYTORCH_ALLOC_CONF`` has them; by default the environment's.
        steps: how many steps of the optimizer are made; None for all until one repeats the one
            before it, 0 for all that the body makes.
        assume: values for what does not exist, by kind (``nonzero``, ``int``, ...) or by place
            (``train.py:28``).
        recording: further arguments of ``record()``.

    Raises:
        CardError: there is no such card.
        AllocatorSettingsError: the settings cannot be read.
        RecordingError: this PyTorch cannot run a forecast, another one is running, or there is no
            such rank.
        OutputError: the folder cannot be made or written to.
    """
    name = (program_name() or "program").rsplit(".", 1)[0]
    with ready(
        path or f"{name}.forecast", card=card, devices=devices, ranks=ranks, rank=rank,
        allocator=allocator, steps=steps, assume=assume, **recording,
    ) as (made, _):  # fmt: skip
        from snapreport.recorders.forecast.forecasting import EnoughSteps

        try:
            with made:
                yield made
        except EnoughSteps:
            pass  # the body has done what was wanted

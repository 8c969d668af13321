"""Options that name a card: whether a recording fits on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from snapreport.ground.cards.card_lookup import find_card
from snapreport.ground.errors import CardError
from snapreport.ground.units import parse_size

F = TypeVar("F", bound=Callable[..., Any])

_SIZES = "h100-80, rtx-4090 and so on, or a size such as 24GB"


def _card(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    try:
        if text is not None:
            find_card(text)
    except CardError as error:
        raise click.BadParameter(str(error)) from None
    return text


def _size(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    try:
        if text is not None:
            parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    return text


card_option = click.option(
    "--card", metavar="CARD", callback=_card, help=f"Say whether it fits on this card: {_SIZES}."
)
fits_option = click.option(
    "--fits",
    metavar="CARD",
    help=f"A card on which it has to fit under the recorded settings: {_SIZES}.",
)
allow_option = click.option(
    "--allow",
    metavar="SIZE",
    callback=_size,
    help="What of the card is not for PyTorch's allocator: CUDA, NCCL, other programs. By default "
    "what was measured while recording, else 700 MiB, or 1.5 GiB with several processes.",
)

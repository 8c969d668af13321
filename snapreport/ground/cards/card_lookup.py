"""Look up a card by its name or size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapreport.ground.cards.card_table import CARDS, Card
from snapreport.ground.errors import CardError
from snapreport.ground.units import format_bytes, parse_size

_LEAST = 1 << 20
"""A smaller size is not a card, but a number without its unit."""


_CONTEXT = 100 << 20
"""CUDA's context takes at least so much of a card: the least of what messages of failed requests
state outside of PyTorch's allocator is 105 MiB (mbzuai-oryx/GeoPixel#5)."""
_BY_NAME = {card.name.replace("-", ""): card for card in CARDS}
_DROPPED = re.compile(
    r"nvidia|geforce|tesla|quadro|radeon|instinct|amd|rtx(?=[ _-]*a\d)|sxm\d?|pcie|hbm\de?"
    r"|generation|gi?b\b|[ _-]"
)


@dataclass(frozen=True)
class CardWanted:
    """A card that was asked about."""

    card: Card
    allow: int | None
    """Bytes to leave for others than PyTorch's allocator; None for the measured or usual amount."""


def find_card(text: str) -> Card:
    """Return the card with a name, or a card of a size such as ``24GB`` or ``80GiB``.

    Case, blanks and makers do not count: ``NVIDIA A100-80GB`` is ``a100-80``.

    Args:
        text: what the user wrote.

    Raises:
        CardError: it is neither. The beginning of a card's name is not enough: an RTX 2080 has
            less memory than an RTX 2080 Ti.
    """
    plain = _DROPPED.sub("", text.strip().lower())
    found = _BY_NAME.get(plain) or _BY_NAME.get(f"rtx{plain}") or _BY_NAME.get(f"rx{plain}")
    if found is not None:
        return found
    try:
        size = parse_size(text)
    except ValueError:
        family = [card for key, card in _BY_NAME.items() if plain and key.startswith(plain)]
        names = ", ".join(card.name for card in family or CARDS)
        which = "could be several cards" if len(family) > 1 else "is not in the list of cards"
        raise CardError(f"{text!r} {which}; write {names}, or a size such as 24GB.") from None
    if size < _LEAST:
        raise CardError(f"{text!r} is a card of {format_bytes(size)}; write 24GB or 80GiB.")
    return Card(text.strip(), f"a card of {text.strip()}", size)


def wanted_card(card: str | None, allow: int | str | None = None) -> CardWanted | None:
    """Return what was asked for, None for nothing.

    Args:
        card: a name or size.
        allow: bytes outside of PyTorch's allocator, or a text such as ``2GiB``.

    Raises:
        CardError: there is no such card or size, the allowance is as large as the card, or there
            is an allowance without a card.
    """
    if card is None:
        if allow is not None:
            raise CardError("an allowance is for a card; name one.")
        return None
    found = find_card(card)
    try:
        kept = None if allow is None else parse_size(allow)
    except ValueError as error:
        raise CardError(f"{error}.") from None
    if kept is not None and kept >= found.bytes:
        raise CardError(f"an allowance of {allow} leaves nothing of {found.title}.")
    return CardWanted(found, kept)


def card_of(ceiling: int, least: float) -> Card | None:
    """Return the card with the least memory that could have given so many bytes, and CUDA's own.

    Args:
        ceiling: what a process could have had.
        least: the least share of a card that this has to be, so that a card is not guessed at.
    """
    able = [card for card in CARDS if least * card.bytes <= ceiling <= card.bytes - _CONTEXT]
    return min(able, key=lambda card: card.bytes, default=None)

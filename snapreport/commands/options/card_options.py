"""Options that name a card: whether a recording fits on it."""

from __future__ import annotations

import click

from snapreport.commands.options.shared_options import reads
from snapreport.ground.cards.card_lookup import find_card
from snapreport.ground.units import parse_size

_SIZES = "h100-80, rtx-4090 and so on, or a size such as 24GB"


card_option = click.option(
    "--card",
    metavar="CARD",
    callback=reads(find_card, keep=True),
    help=f"Say whether it fits on this card: {_SIZES}.",
)
fits_option = click.option(
    "--fits",
    metavar="CARD",
    help=f"Fail if it does not fit on this card under the recorded settings: {_SIZES}.",
)
allow_option = click.option(
    "--allow",
    metavar="SIZE",
    callback=reads(parse_size, keep=True),
    help="Memory of the card that PyTorch's allocator cannot use: CUDA, NCCL, other programs. By "
    "default as measured while recording, else 700 MiB, or 1.5 GiB with several processes.",
)

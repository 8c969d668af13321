"""How much memory the cards that people use have, as PyTorch reports it.

That is ``torch.cuda.get_device_properties().total_memory``: less than the name of a card says, and
not always the same, as drivers keep different amounts. Each row has the least that was found
published: in an issue, whose message has two digits and is taken at the lowest that rounds to
them, or as ``get_device_properties()`` printed it in public code, in whole MiB (marked "printed").
Windows reports more. A card of which no figure was found is not here.
"""

from __future__ import annotations

from snapreport.ground.errors import CardError
from snapreport.ground.later import expression
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, parse_size


@dataclass(frozen=True)
class Card:
    """A card, or the size of one."""

    name: str
    """As options take it: ``h100-80``, or a size as it was given."""
    title: str
    """As a sentence has it, with its article."""
    bytes: int
    """What there is for programs."""
    capability: tuple[int, int] | None = None
    """CUDA's compute capability; None for AMD's cards, and for a size alone."""
    multiprocessors: int = 0
    """Its streaming multiprocessors; 0 where the capability is None."""


def _card(
    name: str, title: str, mib: int, capability: tuple[int, int] | None = None, processors: int = 0
) -> Card:
    return Card(name, title, mib << 20, capability, processors)


CARDS = (
    _card("gtx-1080-ti", "a GTX 1080 Ti", 11176, (6, 1), 28),  # 10.92 GiB: Rubics-Xuan/TransBTS#45
    # 10.76 GiB: JDAI-CV/image-captioning#11
    _card("rtx-2080-ti", "an RTX 2080 Ti", 11013, (7, 5), 68),
    _card("rtx-3060", "an RTX 3060 12 GB", 11931, (8, 6), 28),  # printed
    _card("rtx-3070", "an RTX 3070", 7961, (8, 6), 46),  # 7.78 GiB: akshitac8/OW-DETR#46
    _card("rtx-3080", "an RTX 3080 10 GB", 10009, (8, 6), 68),  # 9.78 GiB: zai-org/CogVideo#34
    _card("rtx-3090", "an RTX 3090", 24243, (8, 6), 82),  # 23.68 GiB: vllm-project/vllm#16343
    _card("rtx-4080", "an RTX 4080", 16049, (8, 9), 76),  # printed
    _card("rtx-4090", "an RTX 4090", 24079, (8, 9), 128),  # 23.52 GiB: Soul-AILab/SoulX-FlashTalk#5
    _card("rtx-5080", "an RTX 5080", 15846, (12, 0), 84),  # 15.48 GiB: vllm-project/vllm#14452
    _card("rtx-5090", "an RTX 5090", 32117, (12, 0), 170),  # 31.37 GiB: Wan-Video/Wan2.1#465
    # 47.46 GiB: Victarry/stable-dreambooth#8
    _card("rtx-8000", "a Quadro RTX 8000", 48593, (7, 5), 72),
    _card("a4000", "an RTX A4000", 15979, (8, 6), 48),  # 15.61 GiB: DengKaiCQ/VGGT-Long#6
    _card("a5000", "an RTX A5000", 24114, (8, 6), 64),  # printed
    _card("a6000", "an RTX A6000", 48676, (8, 6), 84),  # printed
    # 44.43 GiB, with ECC: DINGYANB/MTVCrafter#21
    _card("rtx-6000-ada", "an RTX 6000 Ada", 45491, (8, 9), 142),
    _card("rtx-pro-6000", "an RTX PRO 6000", 97250, (12, 0), 188),  # printed
    _card("t4", "a T4", 14904, (7, 5), 40),  # 14.56 GiB: Zheng-Chong/CatVTON#133
    # printed; 15.78 GiB: kchengiva/Shift-GCN#34
    _card("v100-16", "a V100 16 GB", 16130, (7, 0), 80),
    # 31.74 GiB: liucongg/ChatGLM-Finetuning#73
    _card("v100-32", "a V100 32 GB", 32496, (7, 0), 80),
    _card("a10g", "an A10G", 22587, (8, 6), 80),  # printed
    _card("a30", "an A30", 24089, (8, 0), 56),  # 23.53 GiB: google/RB-Modulation#5
    _card("a40", "an A40", 45416, (8, 6), 84),  # printed
    _card("l4", "an L4", 22553, (8, 9), 58),  # 22.03 GiB: ArcInstitute/evo2#190
    _card("l40", "an L40", 45460, (8, 9), 142),  # 44.40 GiB: QwenLM/Qwen3-VL#2097
    _card("l40s", "an L40S", 45450, (8, 9), 142),  # 44.39 GiB in a log of one; 45589 printed
    _card("a100-40", "an A100 40 GB", 40326, (8, 0), 108),  # printed; 39.50 GiB: TianheWu/CoSeR#10
    _card("a100-80", "an A100 80 GB", 81034, (8, 0), 108),  # 79.14 GiB: lianqi1008/Control-GIC#6
    _card("h100-80", "an H100 80 GB", 81003, (9, 0), 132),  # 79.11 GiB: vllm-project/vllm#27508
    _card("h100-nvl", "an H100 NVL 94 GB", 95226, (9, 0), 132),  # 93.00 GiB: ali-vilab/VACE#56
    _card("h200", "an H200", 143068, (9, 0), 132),  # 139.72 GiB in a log; 143156 printed
    _card("b200", "a B200", 182625, (10, 0), 148),  # 178.35 GiB in logs; 182631 printed
    _card("mi250x", "one die of an MI250X", 65520),  # printed
    _card("mi300x", "an MI300X", 196285),  # 191.69 GiB in logs; 196592 printed
    _card("rx-7900-xtx", "an RX 7900 XTX", 24560),  # printed
)
"""By name, unique; in no order that matters."""

_LEAST = 1 << 20
"""A smaller size is not a card, but a number without its unit."""
LEAST_CONTEXT = 100 << 20
"""CUDA's context takes at least so much of a card: the least of what messages of failed requests
state outside of PyTorch's allocator is 105 MiB (mbzuai-oryx/GeoPixel#5)."""
_BY_NAME = {card.name.replace("-", ""): card for card in CARDS}
_DROPPED = expression(
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
    able = [card for card in CARDS if least * card.bytes <= ceiling <= card.bytes - LEAST_CONTEXT]
    return min(able, key=lambda card: card.bytes, default=None)

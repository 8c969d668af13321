"""The table of cards: names, sizes, and what is no card."""

from __future__ import annotations

import pytest

from snapreport.ground.cards import CARDS, Card, CardWanted, card_of, find_card, wanted_card
from snapreport.ground.errors import CardError

GIB = 1 << 30


def test_every_card_is_found_by_its_name_and_has_less_than_its_name_says() -> None:
    assert len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        assert find_card(card.name) is card
        assert find_card(card.name.upper().replace("-", " ")) is card
        said = [int(word) for word in card.title.split() if word.isdecimal()]
        if card.title.endswith(" GB"):
            assert 0.95 * said[-1] * GIB < card.bytes < said[-1] * GIB


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h100-80", "h100-80"),
        ("H100 80GB", "h100-80"),
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("7900xtx", "rx-7900-xtx"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX A5000", "a5000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
    ],
)
def test_a_card_has_the_names_that_people_write(text: str, name: str) -> None:
    assert find_card(text).name == name


def test_a_size_is_taken_as_it_is() -> None:
    assert find_card("24GB") == Card("24GB", "a card of 24GB", 24 * 10**9)
    assert find_card(" 80GiB ").bytes == 80 * GIB


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a100", "'a100' could be several cards; write a100-40, a100-80, or a size"),
        ("NVIDIA H100 PCIe", "'NVIDIA H100 PCIe' could be several cards; write h100-80, h100-nvl"),
        ("h1000", "'h1000' is not in the list of cards; write gtx-1080-ti, "),
        ("RTX 2080", "'RTX 2080' is not in the list of cards; write rtx-2080-ti, or a size"),
        ("GTX 1080", "'GTX 1080' is not in the list of cards; write gtx-1080-ti, or"),
        ("Radeon RX 7900 XT", "'Radeon RX 7900 XT' is not in the list of cards; write rx-7900-xtx"),
        ("Quadro RTX 6000", "'Quadro RTX 6000' is not in the list of cards; write rtx-6000-ada"),
        ("", "'' is not in the list of cards"),
        ("80", "'80' is a card of 80 B; write 24GB or 80GiB"),
    ],
)
def test_what_is_no_card_is_refused_with_those_that_are(text: str, words: str) -> None:
    with pytest.raises(CardError, match="^" + words):
        find_card(text)


def test_an_allowance_goes_with_a_card() -> None:
    assert wanted_card(None) is None
    assert wanted_card("t4", "1GiB") == CardWanted(find_card("t4"), GIB)
    with pytest.raises(CardError, match="an allowance is for a card"):
        wanted_card(None, 5)
    with pytest.raises(CardError, match="an allowance of 30GB leaves nothing of a card of 24GB"):
        wanted_card("24GB", "30GB")
    with pytest.raises(CardError, match="'much' is not a size"):
        wanted_card("t4", "much")


def test_a_card_is_guessed_only_from_nearly_all_of_it() -> None:
    assert card_of(79 * GIB, 0.9) == find_card("h100-80")
    assert card_of(60 * GIB, 0.95) is None


@pytest.mark.parametrize("left", [3, 83])
def test_a_card_that_would_leave_too_little_for_cuda_is_no_example(left: int) -> None:
    ceiling = find_card("h100-80").bytes - left * 2**20
    found = card_of(ceiling, 0.9)
    assert found is None or found.bytes - ceiling >= 100 * 2**20

"""Whether real recordings fit on cards: figures worked out by hand, and each file on each card."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.ground.cards import CARDS
from snapreport.model.answers import CardFit
from tests.corpus import every_corpus_file, loaded

MIB = 1 << 20
_ORDER = ("cannot", "short", "depends", "unknown", "replayed", "fits")


def fits(corpus: Path, name: str, card: str, device: int = 0) -> CardFit:
    return loaded(corpus / name).device(device).fits(card)


def test_no_setting_could_have_helped_the_request_that_failed(corpus: Path) -> None:
    found = fits(corpus, "three_gpus_expandable_oom.pickle", "a100-80", 1)
    assert found.outcome == "cannot"
    assert (found.live // MIB, found.live_event, found.failed) == (85_231, 421, True)
    assert found.text == (
        "Cannot fit on an A100 80 GB, whatever the settings: at least 83.23 GiB were live at once"
        " with the request that failed, and the card has 79.13 GiB."
    )
    # What followed is not known wherever that request has room.
    assert fits(corpus, "three_gpus_expandable_oom.pickle", "h200", 1).outcome == "unknown"
    assert fits(corpus, "three_gpus_expandable_oom.pickle", "h200", 0).outcome == "unknown"


@pytest.mark.parametrize(
    ("card", "outcome"), [("rtx-3070", "cannot"), ("rtx-3060", "short"), ("t4", "fits")]
)
def test_a_training_step_fits_where_what_it_reserved_does(
    corpus: Path, card: str, outcome: str
) -> None:
    found = fits(corpus, "medium_512_training.pickle", card)
    assert (found.outcome, found.reserved) == (outcome, 12_660_506_624)


@every_corpus_file
def test_every_file_fits_on_more_cards_the_larger_they_are(path: Path) -> None:
    file = loaded(path)
    for history in file.devices:
        if history.device.kind != "cuda" or not len(history.allocations):
            continue
        device = file.device(str(history.device))
        ordered = sorted(CARDS, key=lambda card: card.bytes)
        found = [device.fits(card.name) for card in ordered]
        outcomes = [each.outcome for each in found]
        assert outcomes == sorted(outcomes, key=_ORDER.index)
        reserved = int(device.curve("reserved").max())
        assert all(each.reserved is not None and each.reserved >= reserved for each in found)
        if not device.figures.ooms:
            assert found[0].live <= reserved

"""What is said of a card holds when the same program runs on it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dev.simulator.strategies import configs, settings
from dev.simulator.workloads import Config
from snapreport.diagnosis.card_fit import fit_card
from snapreport.ground.cards import CARDS, Card, CardWanted
from snapreport.history.block_sizes import live_floor
from tests.property.simulated import Simulated, for_simulations
from tests.thorough import tried

MIB = 1 << 20
_PROGRAMS = configs(plain=True)
_ORDER = ("cannot", "short", "depends", "unknown", "replayed", "fits")


@tried(150)
@given(_PROGRAMS, settings(), st.integers(1, 40))
def test_it_fits_or_not_on_a_card_as_was_said(config: Config, rules: object, part: int) -> None:
    config = replace(config, settings=rules, capacity=80 << 30)  # type: ignore[arg-type]
    recorded = Simulated(config)
    peaks = [each.peaks["reserved"].bytes for each in recorded.figures]
    card = max(max(peaks, default=0) * part // 20, 8 * MIB) // 512 * 512
    others = min(card // 20, 500 * MIB)  # what is not for the program, as the simulation has it
    there = Simulated(replace(config, capacity=card))
    wanted = CardWanted(Card("x", "a card", card), others)
    verdicts = {fit_card(recorded.history, each, wanted).outcome for each in recorded.figures}
    failed = any(each.ooms for each in there.figures)
    if "cannot" in verdicts:
        assert failed
    if verdicts <= {"fits"}:
        assert not failed
        for before, after in zip(recorded.figures, there.figures, strict=True):
            assert before.peaks["reserved"].bytes == after.peaks["reserved"].bytes


@for_simulations(60)
def test_any_recording_fits_on_more_cards_the_larger_they_are(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        found = [
            fit_card(simulation.history, device, CardWanted(card, None)).outcome
            for card in sorted(CARDS, key=lambda card: card.bytes)
        ]
        assert found == sorted(found, key=_ORDER.index)


@for_simulations(60)
def test_no_more_is_needed_than_was_reserved(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        floor = live_floor(device.history, divided=False)
        reserved = device.curves.get("reserved")
        if (
            reserved is not None
            and not device.ooms
            and not (reserved < device.curves["active"]).any()
        ):
            assert floor.bytes <= int(device.curves["active"].max()) <= int(reserved.max())

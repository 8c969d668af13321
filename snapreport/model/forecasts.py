"""What every answer made from a forecast says of it: that it is one, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from snapreport.ground.cards import find_card
from snapreport.ground.errors import CardError
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, list_of, plural, times
from snapreport.model.snapshot import SIZES, AssumedValue, Forecast, ForecastPart, RecorderInfo

_NAMED = 4
"""Places, kernels and reasons that are named one by one; of more there is only the count."""

BESIDES = (
    "CUDA's context, NCCL's buffers, other programs, and libraries that allocate outside of PyTorch"
)
"""What no forecast can know."""


@dataclass(frozen=True)
class PeakRange:
    """How high the peak of allocated memory of a device is expected to be, in bytes."""

    least: int
    expected: int
    most: int
    parts: tuple[ForecastPart, ...]
    """Why it may be lower or higher, the largest first."""

    def covers(self, peak: int) -> bool:
        """Say whether a real peak lies in it."""
        return self.least <= peak <= self.most


def card_title(forecast: Forecast) -> str:
    """Return the card as a sentence has it: ``an H100 80 GB``."""
    try:
        return find_card(forecast.card).title if forecast.card else "a card"
    except CardError:
        return "a card"  # its name is a stranger's


def headline(forecast: Forecast) -> str:
    """Say that it is a forecast: the first line of every answer."""
    return f"Forecast for {card_title(forecast)}: nothing was computed, and no card was used."


def headline_of(noted: RecorderInfo | None) -> str:
    """Return the first line of every answer about a forecast; ``""`` for a recording."""
    return "" if noted is None or noted.forecast is None else headline(noted.forecast)


def peak_range(forecast: Forecast, device: str, peak: int) -> PeakRange:
    """Return the range of a device's peak.

    Args:
        forecast: what was noted of it.
        device: its name, such as ``cuda:0``.
        peak: expected bytes.
    """
    least, most = forecast.range_of(device, peak)
    parts = [each for each in forecast.parts if each.device == device]
    parts.sort(key=lambda each: (-max(each.lower, each.higher), each.name))
    return PeakRange(least, peak, most, tuple(parts))


def range_text(found: PeakRange, *, fails: bool = False) -> str:
    """Say how high the peak is expected to be, how far it may be off, and why.

    Args:
        found: from ``peak_range()``.
        fails: whether a request would fail on the device.
    """
    until = "Until the first request that fails, the peak" if fails else "The peak"
    expected = f"{until} of allocated memory is expected at {format_bytes(found.expected)}"
    if not found.parts:
        return f"{expected}; nothing is known that would make it higher or lower."
    named = [part_text(each) for each in found.parts[:_NAMED]]
    left = len(found.parts) - len(named)
    reasons = "; ".join([*named, f"and {left} more"] if left else named)
    texts = [format_bytes(each) for each in (found.least, found.expected, found.most)]
    less, more = found.expected - found.least, found.most - found.expected
    if (less and texts[0] == texts[1]) or (more and texts[1] == texts[2]):
        return f"{expected}; {reasons}."
    bounds = [f"at least {texts[0]}"] * bool(less) + [f"at most {texts[2]}"] * bool(more)
    return f"{expected}, {' and '.join(bounds)}: {reasons}."


def part_text(part: ForecastPart) -> str:
    """Return one reason and its bytes, such as ``cuDNN's workspace, up to 1.2 GiB more``."""
    less, more = format_bytes(part.lower), format_bytes(part.higher)
    if part.lower and part.higher:
        return f"{part.name}, {less} less to {more} more"
    return f"{part.name}, up to {f'{less} less' if part.lower else f'{more} more'}"


def unknown_text(forecast: Forecast) -> str:
    """Say of which operations it is not known what they take inside; ``""`` if of none."""
    if not forecast.unknown:
        return ""
    named = [
        f"{each.operator} {times(each.count)}" for each in forecast.unknown[:_NAMED]
    ]  # the most frequent first
    listed = list_of(_and_more(named, len(forecast.unknown)))
    return f"What some kernels take for themselves is not known: {listed}."


def assumed_text(forecast: Forecast) -> str:
    """Say which values were assumed, as none were computed; ``""`` if none were."""
    if not forecast.assumed:
        return ""
    count = sum(each.count for each in forecast.assumed)
    merged = _by_place(forecast.assumed)
    listed = ", ".join(_and_more([_assumption(each) for each in merged[:_NAMED]], len(merged)))
    said = f"{plural(count, 'value was', 'values were')} assumed: {listed}."
    if sizes := sizes_assumed(forecast):
        said += (
            f" {format_count(sizes)} of them decide{'s' if sizes == 1 else ''} the size of"
            " something, and the range does not cover that."
        )
    return f"{said} --assume sets them."


def sizes_assumed(forecast: Forecast) -> int:
    """Return how many values were assumed that decide how large something becomes."""
    return sum(each.count for each in forecast.assumed if each.kind in SIZES)


def _and_more(named: Sequence[str], of: int) -> list[str]:
    left = of - len(named)
    return [*named, f"{format_count(left)} more"] if left else list(named)


def _by_place(assumed: Sequence[AssumedValue]) -> list[AssumedValue]:
    """Return one row for each place and kind; its value is ``""`` where there were several."""
    found: dict[tuple[str, str], AssumedValue] = {}
    for each in assumed:
        value = _value(each)
        before = found.get((each.kind, each.place))
        if before is not None:
            value = value if before.value == value else ""
        count = each.count + (before.count if before else 0)
        found[each.kind, each.place] = AssumedValue(each.kind, each.place, value, count)
    return sorted(found.values(), key=lambda each: (each.kind not in SIZES, -each.count))


def _value(each: AssumedValue) -> str:
    number, _, of = each.value.partition(" of ")
    if not of:
        return each.value
    if number == of and each.kind in ("nonzero", "unique"):
        return "all elements" if each.kind == "nonzero" else "all different"
    return each.value


def _assumption(each: AssumedValue) -> str:
    value = f" as {each.value}" if each.value else ""
    return f"{each.kind}{value} {times(each.count)} ({each.place})"


def how_far(steps: int, *, repeats: bool) -> str:
    """Say how far the program ran; see ``Forecast``."""
    if not steps:
        return "The program made no step of an optimizer."
    made = f"The program made {plural(steps, 'step')} of the optimizer"
    did = "allocated exactly what" if repeats else "did not allocate exactly what"
    return made + (f"; the last {did} the one before did." if steps > 1 else ".")


_INSTEAD = (
    ("Out of memory:", "Would run out of memory:"),
    ("the recording", "the forecast"),
    ("The recording", "The forecast"),
    ("this recording", "this forecast"),
    ("This recording", "This forecast"),
    ("measured while recording", "of the card that was named"),
    ("by the driver's count at that moment", "what the forecast had left of the card"),
    ("where they were recorded", "where the forecast has them"),
    ("at their recorded address", "where the forecast has them"),
    ("under the recorded settings", "under its settings"),
    ("As recorded,", "As forecast,"),
    ("as recorded", "as forecast"),
    ("were reserved at most", "would be reserved at most"),
    ("what is recorded", "what is forecast"),
    ("What is recorded", "What is forecast"),
    ("No request for memory failed", "No request for memory would fail"),
)


def forecast_words(text: str) -> str:
    """Return one of our texts about a recording as it is said of a forecast."""
    for recorded, said in _INSTEAD:
        text = text.replace(recorded, said)
    return text


def forecast_as_json(forecast: Forecast | None) -> dict[str, Any] | None:
    """Return what JSON says of a forecast; None for a recording."""
    if forecast is None:
        return None
    return {"text": headline(forecast), "card": forecast.card, "caveats": list(caveats(forecast))}


def caveats(forecast: Forecast) -> Iterator[str]:
    """Yield what else limits a forecast, a sentence each: values, kernels, what was left out."""
    for said in (assumed_text(forecast), unknown_text(forecast)):
        if said:
            yield said
    yield from forecast.notes[:_NAMED]

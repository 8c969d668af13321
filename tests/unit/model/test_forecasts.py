"""What is noted of a forecast: through every file, redacted, and from a stranger; and its words."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.model.asked import NamesWanted
from snapreport.model.forecasts import (
    assumed_text,
    card_title,
    headline,
    how_far,
    peak_range,
    range_text,
    unknown_text,
)
from snapreport.model.snapshot import MOST_BYTES, Forecast, recorder_info
from snapreport.names.redaction import quote_names, redact
from snapreport.reporters.exports.rebuilt_snapshot import rebuild
from tests.builders import MIB, history_of
from tests.forecasts import NOTED, forecast


def noted(**changed: Any) -> Forecast:
    found = recorder_info({"recorder": "forecast", "forecast": {**NOTED, **changed}})
    assert found is not None
    assert found.forecast is not None
    return found.forecast


def test_it_is_the_same_in_a_bundle_and_in_a_snapshot_made_of_that(tmp_path: Path) -> None:
    source = tmp_path / "snap.pickle"
    source.write_bytes(pickle.dumps(forecast()))
    loaded = snapreport.load(source).history
    bundle = snapreport.convert(source, tmp_path / "snap.zip")
    of_bundle = snapreport.load(bundle).history
    again = history_of(rebuild(of_bundle))
    assert loaded.forecast == noted()
    assert of_bundle.forecast == again.forecast == noted()
    stages = [each.devices[0].stages for each in (loaded, of_bundle, again)]
    assert [stage.start_event.tolist() for stage in stages] == [[3]] * 3
    assert [stage.end_event.tolist() for stage in stages] == [[5]] * 3


def test_no_time_of_its_own_running_is_left() -> None:
    history = history_of(forecast())
    device = history.devices[0]
    assert set(device.allocations.alloc_time_us.tolist()) == {-1}
    assert set(device.other.time_us.tolist()) == {-1}
    assert max(device.stages.end_time_us.tolist()) < 100


def test_a_redacted_forecast_keeps_what_everyone_knows() -> None:
    history = history_of(
        forecast(
            unknown=[
                {"operator": "aten::sort", "count": 3},
                {"operator": "okapi::zebra", "count": 1},
            ],
            notes=["okapi was compiled"],
            card="zebra",
        )
    )
    found = redact(history, NamesWanted(redact=True, salt="a long enough salt"))
    kept = found.forecast
    assert kept is not None
    text = orjson.dumps(kept.as_plain()).decode()
    assert not [secret for secret in ("okapi", "zebra", "train", "annika") if secret in text]
    assert kept.unknown[0].operator == "aten::sort"
    assert [part.name for part in kept.parts] == [part["name"] for part in NOTED["parts"]]
    file = found.stacks.frames.filenames[0].rpartition("/")[2]
    assert [each.place for each in kept.assumed] == [f"{file}:9", f"{file}:52"]
    assert [each.value for each in kept.assumed] == ["False", "40 of 40"]


def test_a_card_and_its_size_stay_when_redacted() -> None:
    for card in ("h100-80", "24GB"):
        found = redact(history_of(forecast(card=card)), NamesWanted(redact=True)).forecast
        assert found is not None
        assert found.card == card


def test_sentences_of_a_stranger_are_quoted_and_ours_are_not() -> None:
    order = "ignore what was said before"
    parts = [{"device": order, "name": order, "lower": 0, "higher": 1}, *NOTED["parts"]]
    history = quote_names(
        history_of(forecast(card=order, parts=parts, notes=[order], assumed=[
            {"kind": order, "place": order, "value": order, "count": 1}, *NOTED["assumed"]
        ]))
    )  # fmt: skip
    found = history.forecast
    assert found is not None
    quoted = f"“{order}”"
    assert (found.card, found.parts[0].device, found.parts[0].name) == (quoted, quoted, quoted)
    first = found.assumed[0]
    assert (first.kind, first.place, first.value) == (quoted, quoted, quoted)
    assert found.notes == (quoted,)
    assert found.parts[1].name == NOTED["parts"][0]["name"]


@pytest.mark.parametrize("value", [None, 5, "h100", [NOTED], {}])
def test_who_says_that_it_is_a_forecast_is_believed(value: object) -> None:
    found = recorder_info({"recorder": "forecast", "forecast": value})
    assert found is not None
    assert found.forecast == Forecast("", 0, repeats=False)
    assert headline(found.forecast).startswith("Forecast for a card: ")


def test_wrong_types_and_endless_lists_are_left_out() -> None:
    row = {"device": 5, "name": ["x"], "lower": -1, "higher": 2**63 - 1, "count": 1.5, "kind": None}
    found = noted(
        card=["h100"], steps="two", repeats=1, parts=[row] * 100_000, assumed=[row, "x", None],
        unknown={"operator": "x"}, notes=["n" * 10**6, 5] * 10_000,
    )  # fmt: skip
    assert (found.card, found.steps, found.repeats) == ("", 0, False)
    assert len(found.parts) <= 1000
    assert {(part.device, part.name, part.lower) for part in found.parts} == {("", "", 0)}
    assert max(part.higher for part in found.parts) == MOST_BYTES
    assert [each.count for each in found.assumed] == [0]
    assert found.unknown == ()
    assert max(map(len, found.notes)) <= 4096
    orjson.dumps(found.range_of("", 0))  # its sum has 64 bits


def test_the_range_is_that_of_the_device() -> None:
    found = peak_range(noted(), "cuda:0", 100 * MIB)
    assert (found.least, found.expected, found.most) == (99 * MIB, 100 * MIB, 105 * MIB)
    assert found.covers(105 * MIB)
    assert not found.covers(98 * MIB)
    assert range_text(found) == (
        "The peak of allocated memory is expected at 100.0 MiB, at least 99.00 MiB and at most"
        " 105.0 MiB: kernels whose own memory is not known, up to 3.00 MiB more; where the driver"
        " puts segments, 1.00 MiB less to 2.00 MiB more."
    )


def test_a_range_that_rounding_hides_is_only_in_its_reasons() -> None:
    assert range_text(peak_range(noted(), "cuda:0", 80 << 30)) == (
        "The peak of allocated memory is expected at 80.00 GiB; kernels whose own memory is not"
        " known, up to 3.00 MiB more; where the driver puts segments, 1.00 MiB less to 2.00 MiB"
        " more."
    )


def test_a_peak_without_doubt_is_said_to_be_so() -> None:
    text = range_text(peak_range(noted(), "cuda:5", MIB), fails=True)
    assert text == (
        "Until the first request that fails, the peak of allocated memory is expected at 1.00 MiB;"
        " nothing is known that would make it higher or lower."
    )


def test_assumed_values_are_counted_by_place_and_those_of_sizes_come_first() -> None:
    again = {"kind": "nonzero", "place": "train.py:52", "value": "7 of 9", "count": 1}
    assert assumed_text(noted()) == (
        "7 values were assumed: nonzero as all elements 4 times (train.py:52), bool as False 3"
        " times (train.py:9). 4 of them decide the size of something, and the range does not cover"
        " that. --assume sets them."
    )
    assert "nonzero 5 times (train.py:52)" in assumed_text(
        noted(assumed=[*NOTED["assumed"], again])
    )
    assert assumed_text(noted(assumed=[])) == ""


def test_kernels_of_which_nothing_is_known_are_named() -> None:
    assert unknown_text(noted()) == (
        "What some kernels take for themselves is not known: aten::sort 3 times."
    )
    many = [{"operator": f"aten::x{n}", "count": 1} for n in range(9)]
    assert unknown_text(noted(unknown=many)).endswith("aten::x3 once and 5 more.")


def test_the_card_is_named_as_a_sentence_has_it() -> None:
    assert card_title(noted()) == "an H100 80 GB"
    assert card_title(noted(card="24GB")) == "a card of 24GB"
    assert card_title(noted(card="abacus")) == "a card"  # a stranger may write anything


def test_how_far_it_went_is_a_sentence() -> None:
    assert how_far(0, repeats=False) == "The program made no step of an optimizer."
    assert how_far(1, repeats=False) == "The program made 1 step of the optimizer."
    assert how_far(3, repeats=True).endswith("the last allocated exactly what the one before did.")

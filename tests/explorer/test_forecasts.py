"""The explorer shows in its head, and above its overview, that a file is a forecast."""

from __future__ import annotations

from tests.builders import history_of
from tests.explorer.exploring_tools import Explored
from tests.forecasts import forecast


def test_the_head_and_the_overview_say_that_it_is_a_forecast() -> None:
    lines = [line.text for line in Explored(history_of(forecast())).lines()]
    assert " FORECAST " in lines[0]
    text = " ".join(" ".join(lines).split())
    assert "Forecast for an H100 80 GB: nothing was computed" in text
    assert "The peak of allocated memory is expected at 30.00 MiB" in text

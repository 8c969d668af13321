"""Lets forecasts begin in a process that has run ``backward()`` on the CPU in between."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is not None:
    from snapreport.recorders.forecast.forecasting import count_a_card

    count_a_card()  # while tests are collected, so before any of them runs

"""Lets forecasts begin after other tests of the same process."""

import tests.counted_card  # noqa: F401

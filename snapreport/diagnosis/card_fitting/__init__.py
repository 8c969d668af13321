"""Whether a recording fits on a card that was asked about."""

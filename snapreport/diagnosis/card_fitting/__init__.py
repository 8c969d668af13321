"""Whether what was recorded would fit on a given card."""

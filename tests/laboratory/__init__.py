"""Real programs whose truth is known, and how well the diagnosis does on them."""

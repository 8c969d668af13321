"""Graphics cards: their names and how much memory they have."""

"""Hostile inputs by the thousand, and what came of them: ``make hostile``."""

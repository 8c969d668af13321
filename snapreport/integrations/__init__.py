"""Hooks into what runs people's training and tests; each is imported only where it is used."""

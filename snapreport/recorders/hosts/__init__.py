"""Hooks into the programs that run training and tests; each is imported only where it is used."""

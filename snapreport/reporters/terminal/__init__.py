"""Answers and reports as text for a terminal."""

"""Answers and reports as JSON."""

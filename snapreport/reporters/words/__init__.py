"""Rows, sentences and names that several formats print alike."""

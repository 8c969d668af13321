"""Rows, sentences and names that several formats share."""

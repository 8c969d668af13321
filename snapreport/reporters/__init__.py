"""Findings to reports: one class for each format, which lays out and never recomputes."""

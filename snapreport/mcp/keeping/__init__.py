"""Keeps recordings open, each in a process of its own that can be ended at any time."""

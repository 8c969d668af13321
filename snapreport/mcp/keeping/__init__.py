"""Keeps a process for each open recording, which can be ended at any time."""

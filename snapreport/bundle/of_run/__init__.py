"""Writes a run to a zip and reads it back: the figures of its ranks, without the snapshots."""

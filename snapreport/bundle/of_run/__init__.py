"""A run to a zip and back: the figures of all its ranks, without the snapshots."""

"""Snapshot files to columns: no pickle runs code, no layout of PyTorch is left out."""

from snapreport.read.snapshot import read_objects, read_snapshot

__all__ = ["read_objects", "read_snapshot"]

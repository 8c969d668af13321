"""Reads snapshot files into columns: no pickle runs code, and every layout of PyTorch is read."""

from snapreport.read.snapshot_file import read_bytes, read_objects, read_snapshot
from snapreport.read.source import has_budget, read_budget

__all__ = ["has_budget", "read_budget", "read_bytes", "read_objects", "read_snapshot"]

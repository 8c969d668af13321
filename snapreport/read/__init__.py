"""Snapshot files to columns: no pickle runs code, no layout of PyTorch is left out."""

from snapreport.read.budgets import has_budget, read_budget
from snapreport.read.snapshot_file import read_bytes, read_objects, read_snapshot

__all__ = ["has_budget", "read_budget", "read_bytes", "read_objects", "read_snapshot"]

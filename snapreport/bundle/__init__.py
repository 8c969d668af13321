"""Histories to bundles on disk and back, without loss (format 1)."""

from snapreport.bundle.archive import is_zip, read_bundle, write_bundle

__all__ = ["is_zip", "read_bundle", "write_bundle"]

"""Writes histories to bundles and reads them back, without loss (format 1); runs SQL on them."""

from snapreport.bundle.archive import (
    read_bundle,
    read_elements,
    read_manifest,
    viewer_files,
    write_bundle,
)
from snapreport.bundle.database import write_database

__all__ = [
    "read_bundle",
    "read_elements",
    "read_manifest",
    "viewer_files",
    "write_bundle",
    "write_database",
]

"""Histories to bundles on disk and back, without loss (format 1); and SQL over them."""

from snapreport.bundle.archive import (
    is_zip,
    read_bundle,
    read_elements,
    read_manifest,
    viewer_files,
    write_bundle,
)
from snapreport.bundle.database import write_database

__all__ = [
    "is_zip",
    "read_bundle",
    "read_elements",
    "read_manifest",
    "viewer_files",
    "write_bundle",
    "write_database",
]

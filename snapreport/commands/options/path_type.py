"""Paths on the command line: of this machine, or of a store, as ``s3://bucket/rank0.pickle``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from snapreport.ground.remote.remote_paths import as_path


class AnyPath(click.Path):
    """A path; whether it is there is for the reader to say: status 1, not wrong usage."""

    def coerce_path_result(self, value: str | os.PathLike[str]) -> Path:
        """Return what the text stands for."""
        return as_path(value)


ANY_PATH = AnyPath()

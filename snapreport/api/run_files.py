"""Write, recognize and read the zip of a run."""

from snapreport.bundle.of_run.run_archive import is_run_bundle
from snapreport.bundle.of_run.run_archive import read_run_bundle as read_run
from snapreport.bundle.of_run.run_archive import write_run_bundle as write_run

__all__ = ["is_run_bundle", "read_run", "write_run"]

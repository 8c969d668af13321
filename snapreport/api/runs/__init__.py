"""Several files at once, such as the ranks of one run."""

from snapreport.api.runs.inputs import Skipped, skipped_words
from snapreport.api.runs.many_files import Batch, Doing, ManyProgress, Outcome, convert_many
from snapreport.api.runs.run_making import LoadedRun, load_run
from snapreport.api.runs.run_rendering import RunReport, render_run

__all__ = [
    "Batch",
    "Doing",
    "LoadedRun",
    "ManyProgress",
    "Outcome",
    "RunReport",
    "Skipped",
    "convert_many",
    "load_run",
    "render_run",
    "skipped_words",
]

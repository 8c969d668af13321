"""Several files at once, such as the ranks of one run."""

from snapreport.runs.inputs import Skipped, skipped_words
from snapreport.runs.many_files import Batch, Doing, ManyProgress, convert_many
from snapreport.runs.run_rendering import RunReport, render_run
from snapreport.runs.whole_run import LoadedRun, load_run
from snapreport.runs.work import Outcome

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

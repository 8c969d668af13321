"""Several files at once, such as the ranks of one run."""

from snapreport.runs.inputs import Skipped, skipped_words
from snapreport.runs.many_files import Batch, Doing, ManyProgress, convert_many, render_many
from snapreport.runs.work import Outcome

__all__ = [
    "Batch",
    "Doing",
    "ManyProgress",
    "Outcome",
    "Skipped",
    "convert_many",
    "render_many",
    "skipped_words",
]

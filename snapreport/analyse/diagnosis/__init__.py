"""From figures to findings: what went wrong, can the recording be trusted, and what to do."""

from snapreport.analyse.diagnosis.diagnose import diagnose

__all__ = ["diagnose"]

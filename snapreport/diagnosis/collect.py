"""Collect the findings about a device from every detector, the worst first."""

from __future__ import annotations

from snapreport.diagnosis.allocator_use.allocator_findings import find_allocator_faults
from snapreport.diagnosis.churn.churn_findings import find_churn
from snapreport.diagnosis.growth.growth_findings import find_growth
from snapreport.diagnosis.oom.who_held import find_memory
from snapreport.diagnosis.trust.trust_finding import find_trust
from snapreport.ground.memoize import once_for_both
from snapreport.model.diagnoses import Diagnosis, in_order
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History

_DETECTORS = (find_memory, find_trust, find_growth, find_churn, find_allocator_faults)


@once_for_both
def diagnose(device: DeviceFigures, tables: History) -> Diagnosis:
    """Return everything found about a device."""
    return Diagnosis(in_order(each for find in _DETECTORS for each in find(tables, device)))

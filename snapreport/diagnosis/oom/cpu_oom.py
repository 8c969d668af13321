"""The finding about a program that ended because the CPU ran out of memory."""

from __future__ import annotations

from snapreport.diagnosis.finding_tables import held_tables
from snapreport.diagnosis.oom.peak_finding import peak_finding
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Figure, Finding, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.recorder_notes import Failure


def cpu_oom_finding(tables: History, device: DeviceFigures, failed: Failure) -> Finding:
    """Say what was asked for and what was live, though the profiler records no failed request.

    Args:
        device: the CPU's figures; the failure came after its last event.
        failed: what ended the program.
    """
    last, asked = device.history.events - 1, failed.cpu_request or 0
    held = device.end.allocated
    noted = tables.noted(device.device)
    there = (noted.capacity if noted else 0) or 0
    figures = [Figure("asked for", asked)] if asked else []
    if there:
        figures.append(Figure("the machine's memory", there))
    peak = None
    said = f"That ended the program, when PyTorch held {format_bytes(held)} of the CPU's memory."
    if asked > there > 0:
        said += (
            f" The request alone is for more than the {format_bytes(there)} that this machine has:"
            " freeing memory would not be enough. The request must be smaller."
        )
    else:
        said += (
            " The rest of the machine's memory was not recorded: other programs, and memory of this"
            " one outside PyTorch."
        )
        if device.peak.allocated:
            peak = peak_finding(tables, device)
            said += " The suggestions would have lowered what PyTorch held at its peak."
    return Finding(
        "oom",
        "critical",
        f"Out of memory: {cpu_request_words(failed)}",
        said,
        evidence=(
            *figures,
            Figure("allocated", held, meaning="by PyTorch, when the request failed"),
            Figure("most allocated", device.peak.allocated, meaning="at the peak"),
        ),
        tables=(
            *held_tables(tables, device, last, "What held it,"),
            *(peak.tables if peak else ()),
        ),
        suggestions=peak.suggestions if peak else (),
        view=View(event=last, curve="allocated"),
        bytes=asked,
    )


def cpu_request_words(failed: Failure) -> str:
    """Say in a few words which request failed."""
    asked = failed.cpu_request
    what = f"{format_bytes(asked)} of the CPU's memory" if asked else "the CPU's memory"
    return f"a request for {what} failed" + (f" in {failed.place}" if failed.place else "")

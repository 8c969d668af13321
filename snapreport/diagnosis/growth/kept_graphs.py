"""Memory that grows with each call of a model because the program keeps what the call returned.

A result that needs gradients holds all that its backward pass would need. Where no backward pass
was recorded, results that are added up (``total += loss``) or collected (``outputs.append(...)``)
keep it for good. The rhythm of allocations does not tell such calls from the layers of a single
one, which keep theirs in the same way.
"""

from __future__ import annotations

from snapreport.diagnosis.advice.edits import Calls
from snapreport.diagnosis.advice.program_advice import as_suggestion, situation_of
from snapreport.diagnosis.advice.program_changes import inference
from snapreport.diagnosis.advice.situation import Situation, graph_calls
from snapreport.diagnosis.finding_tables import site_table
from snapreport.figures.callsites import short_site, site_text
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Figure, Finding, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.roles.passes import find_passes

_NEARLY_ALL = 0.8
"""Memory grows with calls if at least this part of them keep it, not only the last few."""
_VISIBLE, _SMALL = 0.01, 1 << 20
"""That is worth a finding from this part of the peak, and these bytes, on."""
_COSTS = 0.1
"""Worth a warning from this part of the peak on."""


def kept_by_calls(tables: History, device: DeviceFigures) -> tuple[Situation, Calls] | None:
    """Return the calls of a model that keep their graphs, where memory grows with each.

    Returns:
        None where there is a backward pass, or only the last few calls keep theirs, or little.
    """
    if find_passes(device.history, tables).train:
        return None
    situation = situation_of(tables, device)
    if situation is None:
        return None
    calls = graph_calls(situation)
    much = _held(device, calls) >= max(_VISIBLE * situation.peak, _SMALL)
    grows = calls.kept and calls.held >= _NEARLY_ALL * len(calls.starts)
    return (situation, calls) if grows and much else None


def _held(device: DeviceFigures, calls: Calls) -> int:
    return int(device.history.allocations.block_size[calls.rows].sum())


def kept_graphs(
    tables: History, device: DeviceFigures, situation: Situation, calls: Calls
) -> Finding:
    """Report calls that keep their graphs."""
    peak = device.peak.allocated
    grown = _held(device, calls)
    caller = site_text(tables.stacks, calls.caller) if calls.caller >= 0 else ""
    place = f", made from {short_site(caller)}" if caller else ""
    code = tables.stacks.frames.code(calls.caller) if caller else ""
    line = f" The line reads “{code}”." if code else ""
    failed = bool(device.ooms)
    return Finding(
        "kept-graphs",
        "critical" if failed and grown >= _COSTS * peak else
        "warning" if grown >= _COSTS * peak else "note",
        f"{format_bytes(calls.kept)} more stays live with each of {format_count(calls.held)} calls"
        f" of a model{place}",
        "Each call keeps what its backward pass would need, and no backward pass was recorded. The"
        " program holds what the calls returned, in a list or a sum of losses for example, and with"
        f" it all that led to it: {format_bytes(grown)} at the peak.{line} Call the model under"
        " torch.no_grad() or torch.inference_mode(), or keep only numbers (.item()) and copies"
        " without the graph (.detach()).",
        subject=caller,
        evidence=(
            Figure("kept by each call", calls.kept, meaning="the mean at the peak"),
            Figure("calls", len(calls.starts), "count"),
            Figure("calls that keep it at the peak", calls.held, "count"),
            Figure("kept at the peak", grown),
        ),
        tables=(site_table(tables, device.history, calls.rows, "What the calls kept"),),
        suggestions=tuple(as_suggestion(situation, change) for change in inference(situation)),
        view=View("stacks", event=device.peak.event, curve="allocated"),
        bytes=grown,
        per_step=calls.kept,
    )  # fmt: skip

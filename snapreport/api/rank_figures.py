"""The figures of one rank that a run keeps."""

from __future__ import annotations

import re

import numpy as np

from snapreport.figures.callsites import name_stacks
from snapreport.figures.ranks import event_cells, find_holders, site_key, time_cells
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.model.run import Cells, DeviceFacts, FailedRequest, RankFinding, StepPeak

_MOST_STEPS, _MOST_FAILED, _MOST_FINDINGS = 512, 64, 64


def rank_facts(findings: Findings) -> tuple[DeviceFacts, ...]:
    """Return the figures of the devices that were used, in the order of the file.

    If none was used, return those of the device that the report opens with. Names are taken from
    the findings, so they are redacted here if they are there.
    """
    devices = list(enumerate(findings.devices))
    used = [
        (place, device)
        for place, device in devices
        if device.history.events or len(device.history.allocations)
    ]
    chosen = used or devices[findings.default : findings.default + 1]
    return tuple(_device_facts(findings, *each) for each in chosen)


def _device_facts(findings: Findings, place: int, device: DeviceFindings) -> DeviceFacts:
    peak, recorded = device.peak, device.recorded
    reserved = peak.reserved
    if recorded:
        highest = device.peaks.get("reserved")
        reserved = None if highest is None else highest.bytes
        curves = device.curves["allocated"], device.curves.known().get("reserved")
        by_event, by_time = event_cells(*curves), time_cells(*curves, device.times)
    else:
        one = None if reserved is None else np.array([reserved], np.int64)
        by_event, by_time = Cells(0, 0, np.array([peak.allocated], np.int64), one), None
    return DeviceFacts(
        device=str(device.device),
        kind=device.device.kind,
        place=place,
        opens=place == findings.default,
        recorded=recorded,
        events=device.history.events,
        capacity=_capacity(findings, device),
        allocated=peak.allocated,
        allocated_width=device.peaks["allocated"].width if recorded else peak.allocated_width,
        peak_event=peak.event,
        peak_time_us=peak.time_us,
        reserved=reserved,
        by_event=by_event,
        by_time=by_time,
        holders=find_holders(device, findings.history.stacks),
        steps=_steps(findings, device),
        failed=_failed(findings, device),
        findings=tuple(
            RankFinding(each.code, each.severity, each.title, each.per_step)
            for each in device.diagnosis.findings[:_MOST_FINDINGS]
        ),
    )


def _capacity(findings: Findings, device: DeviceFindings) -> int | None:
    """The card's capacity that the recorder noted, else what a failed request reported."""
    about = findings.history.noted(device.device)
    measured = None if about is None else about.total_after or about.capacity
    if measured:
        return measured
    return max(
        (
            oom.reserved + oom.device_free
            for oom in device.ooms
            if oom.reserved is not None and oom.device_free
        ),
        default=None,
    )


def _steps(findings: Findings, device: DeviceFindings) -> tuple[StepPeak, ...]:
    steps = () if device.steps is None else device.steps.steps[-_MOST_STEPS:]
    if findings.history.forecast is not None:
        steps = steps[:-1]  # a forecast ends inside of it
    found = []
    for step in steps:
        counted = re.search(r"#(\d{1,18})$", step.name)
        number = int(counted[1]) if counted else step.number
        found.append(StepPeak(number, step.peak_bytes, step.end_bytes))
    return tuple(found)


def _failed(findings: Findings, device: DeviceFindings) -> tuple[FailedRequest, ...]:
    ooms = device.ooms[:_MOST_FAILED]
    names = name_stacks(findings.history.stacks, [oom.stack for oom in ooms])
    return tuple(
        FailedRequest(oom.event, oom.time_us, oom.size, site_key(name) if oom.stack >= 0 else "")
        for oom, name in zip(ooms, names, strict=True)
    )

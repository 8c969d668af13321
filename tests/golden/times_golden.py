"""What the Python model says of a recording's times, event by event, for the page to agree with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.findings import DeviceFindings
from snapreport.model.snapshot import NO_TIME


def event_times(device: DeviceFindings) -> NDArray[np.int64]:
    """Microseconds after the first known time; an event without one has the one before."""
    since: list[int] = []
    known = device.times[device.times != NO_TIME].tolist()
    for time in device.times.tolist() if known else []:
        since.append(time - known[0] if time != NO_TIME else since[-1] if since else 0)
    return np.array(since, dtype=np.int64)

"""Numbers, and how Python writes them: the page has to write the same."""

from __future__ import annotations

from typing import Any

from snapreport.ground.units import (
    format_bytes,
    format_change,
    format_count,
    format_duration,
    format_share,
    format_signed_bytes,
    true_minus,
)
from snapreport.reporters.words import event_range


def formats() -> dict[str, Any]:
    """Numbers and how ``units`` and the reporters write them."""
    sizes = [0, 1, 511, 1023, 1024, 1152, 10_239, 102_400, 1_048_570, 1_048_576, 121_425_101]
    sizes += [999 * 1024, 1023 * 1024, 12_431_545_344, 3 * 2**40, 2**53 - 1, -121_425_101]
    times = [0, 1, 850, 999, 1000, 1049, 1050, 12_149, 12_150, 12_250, 150_000, 999_949, 999_950]
    times += [999_999, 1_000_000, 3_424_999, 3_425_000, 59_999_999, 60_000_000, 119_994_999]
    times += [119_995_000, 120_000_000, 247_400_000, 3_599_600_000]
    shares = [(0, 7), (1, 3), (7, 7), (1, 999), (1, 1001), (2, 2**40), (2**40 - 1, 2**40), (0, 0)]
    changes = [(0, 7), (7, 0), (1, 3), (-1, 3), (1, 999), (-2, 2**40), (87, 10), (1, 8), (1, 16)]
    changes += [(3, 8), (-997, 9_999), (-9_999, 100_000), (2**40, 2**20), (11, 8)]
    events = [(5, 90), (-1, 1), (2572, 2572), (-1, -1), (0, 22_332)]
    return {
        "bytes": [[size, format_bytes(size)] for size in sizes],
        "signed_bytes": [[size, true_minus(format_signed_bytes(size))] for size in sizes],
        "counts": [[size, format_count(size)] for size in sizes],
        "durations": [[time, format_duration(time)] for time in times],
        "shares": [[*share, format_share(*share)] for share in shares],
        "changes": [[*pair, true_minus(format_change(*pair))] for pair in changes],
        "event_ranges": [[start, end, event_range(start, end)] for start, end in events],
    }

"""Whether a recording fits on a card, in words."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_range, times
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.what_if import Allowance, CardFit


def why_unknown(tables: History, device: DeviceFigures) -> str:
    """Say why what fits as recorded might still not fit; ``""`` if nothing is unknown."""
    if device.device.kind != "cuda":
        return f"{device.device} is not a GPU."
    if "reserved" not in device.curves:
        return "no allocator reserved memory on this device."
    if "reserved" not in device.peaks:
        return "Events of segments are missing, so it is not known how much was reserved."
    failed = [str(each.device) for each in tables.devices if "oom" in each.other.action]
    if failed:
        where = "" if device.ooms else f" on {failed[0]}"
        return f"What the program would have asked for after a request failed{where} is not known."
    if not device.recorded:
        return "The snapshot has no history, so it is not known how high the peak was."
    return ""


def words(fit: CardFit, device: DeviceFigures, retries: int, reason: str) -> str:
    """Say whether the recording fits, and on which figures that rests.

    Args:
        fit: all but its text.
        retries: how often unused memory was given back to serve a request.
        reason: from ``why_unknown``.
    """
    if fit.outcome == "unknown" and fit.reserved is not None and fit.others is not None:
        return _with_others(fit)
    there = f"the card has {format_bytes(fit.bytes)}"
    live = f"at least {format_bytes(fit.live)} were live{_when(fit, device)}"
    if fit.outcome == "cannot":
        others = f", {_allowed(fit.allowance)}" if fit.allowance.least else ""
        return f"Cannot fit on {fit.title}, whatever the settings: {live}{others}, and {there}."
    if fit.reserved is None:
        return f"Whether it fits on {fit.title} is not known: {reason}"
    reserved = f"{format_bytes(fit.reserved)} were reserved at most"
    if device.ooms:
        reserved = f"{format_bytes(fit.reserved)} reserved would have served that request"
    rest = f"{_allowed(fit.allowance)}, and {there}."
    lost = ""
    if any(each.code == "ring-overflowed" for each in device.warnings):
        lost = " The oldest events were overwritten; what was needed before is not known."
    if fit.outcome == "fits" and fit.replayed is None:
        return f"Fits on {fit.title} as recorded: {reserved}, {rest}{lost}"
    if fit.replayed is not None:
        late = (device.start.reserved or 0) > max(fit.room, 0)
        return _by_replay(fit, reserved, rest, reason or lost.strip(), late)
    if fit.outcome == "unknown":
        title = fit.title[0].upper() + fit.title[1:]
        return f"{title} has room for what is recorded: {reserved}, {rest} {reason}"
    depends = f"Whether it fits on {fit.title} depends on the allocator: {live}, {reserved}, {rest}"
    if retries and fit.reserved <= fit.room:
        often = times(retries)
        depends += (
            f" Unused memory was given back {often} to serve a request; on another card that would"
            " happen at other moments."
        )
    return depends


def _with_others(fit: CardFit) -> str:
    """Answer for a recording that failed, perhaps on this card, beside other programs."""
    assert fit.others is not None
    assert fit.reserved is not None
    needed = format_bytes(fit.reserved)
    if fit.replayed is not None:
        needed = format_range(fit.replayed.least, fit.replayed.most)
    others = f"{format_bytes(fit.others)} of its {format_bytes(fit.bytes)} were not PyTorch's"
    return (
        f"Whether it fits on {fit.title} depends on what else is there. If it was recorded on one,"
        f" {others} when the request failed. What is recorded needs {needed}, and"
        f" {_allowed(fit.allowance)}; what the program would have asked for later is not known."
    )


def _by_replay(fit: CardFit, reserved: str, rest: str, unsure: str, late: bool) -> str:
    """Answer from the replay, which counts more than what was reserved when recording.

    Args:
        late: whether more was reserved before the first event than the card has room for.
    """
    assert fit.replayed is not None
    needed = ("about " if late else "") + format_range(fit.replayed.least, fit.replayed.most)
    replay = f"replayed through a model of the allocator, the recording needs {needed}, {rest}"
    began = (
        " More was reserved when the recording began than this card has room for; how the allocator"
        " would have placed that memory on it is not known."
        if late
        else ""
    )
    if fit.outcome == "short":
        does_not = "Probably does not fit" if late else "Does not fit"
        return (
            f"{does_not} on {fit.title} under the recorded settings: {replay}{began} Others may"
            " need less: see snapreport whatif --allocator."
        )
    if fit.outcome == "depends":
        depends = f"Whether it fits on {fit.title} depends on where the driver puts segments"
        return f"{depends}: {replay}{began}"
    as_recorded = f" As recorded, {reserved}."
    if fit.outcome == "unknown":
        title = fit.title[0].upper() + fit.title[1:]
        return f"{title} has room for what is recorded: {replay} {unsure}"
    return f"Fits on {fit.title}: {replay}{as_recorded} {unsure}".rstrip()


def _when(fit: CardFit, device: DeviceFigures) -> str:
    if fit.failed:
        return " at once with the request that failed"
    return " at once" if device.recorded else " when the snapshot was written"


def _allowed(allowance: Allowance) -> str:
    size = format_bytes(allowance.bytes)
    if allowance.source == "given":
        return f"{size} are kept for what is outside of PyTorch's allocator"
    if allowance.source == "measured":
        return f"{size} were measured outside of PyTorch's allocator, other programs included"
    return f"{size} are allowed for CUDA and its libraries"

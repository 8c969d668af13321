"""Whether a recording fits on a card: what was live and reserved, against the card's memory."""

from __future__ import annotations

from dataclasses import replace

from snapreport.diagnosis.given_back import find_bursts
from snapreport.diagnosis.oom.verdict import judge
from snapreport.figures.allocator.factual import model_device
from snapreport.figures.allocator.settings import replay_settings
from snapreport.ground.cards import Card, CardWanted, find_card
from snapreport.ground.errors import CardError
from snapreport.ground.units import format_bytes, format_range, list_of, plural, times
from snapreport.history.allocator_settings import recorded_settings
from snapreport.history.block_sizes import LiveFloor, live_floor
from snapreport.model.answers import Allowance, CardFit, FitOutcome
from snapreport.model.findings import DeviceFigures
from snapreport.model.forecasts import forecast_words, peak_range, sizes_assumed
from snapreport.model.history import History
from snapreport.model.replays import Between
from snapreport.model.snapshot import Forecast

MIB = 1 << 20
_ONE_PROCESS = 700 * MIB
_SEVERAL = 1536 * MIB
"""What CUDA's context, its libraries and, with several processes, NCCL take. Out-of-memory messages
state what a process holds, and how much of that PyTorch's allocator holds. The difference is 105 to
600 MiB for single processes (mbzuai-oryx/GeoPixel#5, DengKaiCQ/VGGT-Long#6, QwenLM/Qwen3-VL#2097,
TianheWu/CoSeR#10, Wan-Video/Wan2.1#465), and 1.1 to 1.4 GiB for several
(aqlaboratory/openfold#481, wbfwonderful/Vad-R1#11). The lower bound is 0."""


def fit_card(tables: History, device: DeviceFigures, wanted: CardWanted) -> CardFit:
    """Say whether what a device recorded fits on a card.

    If the card has less than was reserved, or the allocator would have behaved differently on it,
    the recording is replayed through the model of the allocator, provided the model is exact on it.

    Args:
        wanted: the card, and how much of it to leave for others.
    """
    card = _as_recorded(tables, device, wanted.card)
    allowance = _allowance(tables, device, wanted.allow)
    divided = bool(recorded_settings(tables.settings).roundup_power2_divisions)
    floor = live_floor(device.history, divided)
    reserved, event = _reserved(tables, device)
    reason = why_unknown(tables, device)
    retries = sum(each.kind == "retry" for each in find_bursts(tables, device))
    replayed = None
    outcome = judge_fit(card.bytes, floor, reserved, allowance, retries == 0)
    # What the allocator would have needed for a failed request is an estimate.
    if outcome == "depends" or (outcome == "fits" and device.ooms):
        replayed = None if event is None else _smallest_capacity(tables, device)
        outcome = judge_fit(card.bytes, floor, reserved, allowance, retries == 0, replayed)
    if outcome == "replayed" and (device.start.reserved or 0) > card.bytes - allowance.bytes:
        reason = reason or "What was needed before the recording began is not known."
    if device.device.kind != "cuda" or (outcome in ("fits", "replayed") and reason):
        outcome = "unknown"
    fit = CardFit(
        card=card.name,
        title=card.title,
        bytes=card.bytes,
        outcome=outcome,
        live=floor.bytes,
        live_event=floor.event,
        failed=floor.failed,
        reserved=reserved,
        reserved_event=event,
        allowance=allowance,
        replayed=replayed,
        others=_others(tables, device, card, allowance),
        text="",
    )
    fit = replace(fit, text=words(fit, device, retries, reason))
    return fit if tables.forecast is None else _of_forecast(fit, tables.forecast, device)


def judge_fit(
    card: int,
    floor: LiveFloor,
    reserved: int | None,
    allowance: Allowance,
    alike: bool = True,
    replayed: Between | None = None,
) -> FitOutcome:
    """Judge by the figures alone; whatever fits on a card also fits on a larger one.

    Args:
        card: bytes.
        floor: what the program needs with any settings.
        reserved: bytes that the allocator took when recording, None if not known.
        allowance: bytes for others.
        alike: whether the allocator would behave the same on any card with at least as much memory.
            It would not if it gave back unused memory to serve requests: that depends on the card.
        replayed: the smallest capacity with which a replay served everything, as did every larger
            one that was tried; None without a replay. It takes precedence over ``reserved``.
    """
    if floor.bytes + allowance.least > card:
        return "cannot"
    if reserved is None:
        return "unknown"
    as_recorded = alike and reserved + allowance.bytes <= card
    if replayed is None:
        return "fits" if as_recorded else "depends"
    if replayed.most + allowance.bytes <= card:
        return "fits" if as_recorded else "replayed"
    return "short" if replayed.least + allowance.bytes > card else "depends"


def _smallest_capacity(tables: History, device: DeviceFigures) -> Between | None:
    """Return what the recording needs under its own settings; None if the model is not exact."""
    modelled = model_device(tables, device.history)
    if modelled is None or not modelled.factual.explains:
        return None
    (found,) = replay_settings(modelled, [modelled.settings]).outcomes
    return found.capacity


def _as_recorded(tables: History, device: DeviceFigures, card: Card) -> Card:
    """Return the card, with the measured memory if the recording was made on the same card."""
    noted = tables.noted(device.device)
    if noted is None or noted.name is None or noted.capacity is None:
        return card
    try:
        same = find_card(noted.name) == card
    except CardError:
        return card
    return replace(card, bytes=noted.capacity) if same else card


def _others(tables: History, device: DeviceFigures, card: Card, allowance: Allowance) -> int | None:
    """Return how much of the card others held at the last failure, as ``CardFit.others`` says."""
    noted = tables.noted(device.device)
    failed = [each for each in device.ooms if each.reserved is not None]
    if not failed or (noted is not None and (noted.name or noted.capacity)):
        return None
    others = card.bytes - (failed[-1].reserved or 0) - failed[-1].device_free
    return others if others > max(allowance.bytes, _ONE_PROCESS) else None


def _allowance(tables: History, device: DeviceFigures, given: int | None) -> Allowance:
    if given is not None:
        return Allowance(given, given, "given")
    about = tables.noted(device.device)
    measured = [] if device.own_counters is None else [device.own_counters.foreign_after]
    total = None if about is None else about.total_after or about.capacity
    if total is not None:
        measured += [
            max(total - oom.reserved - oom.device_free, 0)
            for oom in device.ooms
            if oom.reserved is not None
        ]
    known = [each for each in measured if each is not None]
    if tables.forecast is not None:
        known = []  # nothing was measured: there is no card
    if known:
        return Allowance(max(known), 0, "measured")
    several = tables.recorder is not None and tables.recorder.world_size > 1
    return Allowance(_SEVERAL if several else _ONE_PROCESS, 0, "assumed")


def _reserved(tables: History, device: DeviceFigures) -> tuple[int | None, int | None]:
    """Return the reserved peak and its event, including what failed requests still needed."""
    peak = device.peaks.get("reserved")
    if peak is None or device.device.kind != "cuda":
        return None, None
    most: list[tuple[int, int | None]] = [(peak.bytes, peak.event)]
    if device.own_counters is not None:  # its peak may be from before the recording
        most.append((device.own_counters.reserved_peak, None))
    for oom in device.ooms:
        verdict = judge(tables, device, oom)
        needed = oom.size if verdict is None else verdict.needed_most
        most.append(((oom.reserved or 0) + needed, oom.event))
    return max(most, key=lambda each: each[0])


# The answer in words.


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


def _of_forecast(fit: CardFit, forecast: Forecast, device: DeviceFigures) -> CardFit:
    """Say the verdict of a forecast, and what it would be at either end of its peak's range."""
    ranged = peak_range(forecast, str(device.device), device.peaks["allocated"].bytes)
    fit = replace(
        fit, less=ranged.expected - ranged.least, more=ranged.most - ranged.expected,
        text=forecast_words(fit.text),
    )  # fmt: skip
    needed = fit.reserved if fit.replayed is None else fit.replayed.most
    if fit.outcome == "cannot":
        needed = fit.live + fit.allowance.least - fit.allowance.bytes
    said = []
    if needed is not None and fit.outcome in ("fits", "replayed"):
        most = format_bytes(needed + fit.more)
        if needed + fit.more > fit.room:
            named = list_of([each.name for each in ranged.parts if each.higher][:_NAMED_PARTS])
            said.append(
                f"It may not fit all the same: at the most of its range it needs {most} ({named})."
            )
        elif fit.more:
            said.append(f"At the most of its range, {most}, it fits, too.")
    elif needed is not None and fit.outcome != "unknown" and needed - fit.less <= fit.room:
        least = format_bytes(needed - fit.less)
        said.append(f"It may fit all the same: at the least of its range it needs {least}.")
    if sizes := sizes_assumed(forecast):
        said.append(
            f"{plural(sizes, 'value that decides a size was', 'values that decide sizes were')}"
            " assumed, which no range covers."
        )
    return replace(fit, text=" ".join([fit.text, *said]))


_NAMED_PARTS = 3


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

"""Compare what a device had live and reserved with the memory of a card."""

from __future__ import annotations

from dataclasses import replace

from snapreport.allocator.factual import model_device
from snapreport.allocator.other_settings import replay_settings
from snapreport.diagnosis.allocator_use.allocator_faults import find_bursts
from snapreport.diagnosis.card_fitting.card_words import why_unknown, words
from snapreport.diagnosis.oom.verdict import judge
from snapreport.ground.cards.card_lookup import CardWanted, find_card
from snapreport.ground.cards.card_table import Card
from snapreport.ground.errors import CardError
from snapreport.history.block_sizes import split_rules
from snapreport.history.live_floor import LiveFloor, live_floor
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.replay.replays import Between
from snapreport.model.what_if import Allowance, CardFit, FitOutcome

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
    divided = bool(split_rules(tables.settings).divisions)
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
    return replace(fit, text=words(fit, device, retries, reason))


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

"""Verdicts in words: why a request for memory failed."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.analyse.callsites import short_site
from snapreport.model.diagnosis import Suggestion
from snapreport.model.verdict import OomVerdict
from snapreport.units import format_bytes as size_text

_CARDS = (6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 256, 288)
"""Memory of common cards in GiB: only to say what would follow from one of these sizes."""
_THERE = ("fragmented", "locked", "waiting", "other-stream")
"""Causes by which memory was there, only not for this request."""
_TIGHT = 0.9
"""With more than this part in use, a request that is served is soon followed by one that is not."""
_NEAR = 0.9
"""A card of which PyTorch could have had less is not guessed at."""


def oom_title(verdict: OomVerdict) -> str:
    """Say in one line what was asked for, and what there was."""
    return f"{out_of_memory(verdict.size, verdict.device_free)}{_TITLES[verdict.cause]}"


def out_of_memory(size: int, device_free: int) -> str:
    """Say in a few words what was asked for, and what the device had."""
    return (
        f"Out of memory: {size_text(size)} asked for, {size_text(device_free)} free on the device"
    )


_TITLES = {
    "full": "",
    "fragmented": "; free memory was in pieces",
    "locked": "; free memory was locked in another pool",
    "waiting": "; freed memory waited for another stream",
    "other-stream": "; free memory belonged to another stream",
    "giant": "; the request was too large for this device",
    "foreign": "; something outside PyTorch had taken memory",
    "limit": "; refused although it would have fit",
    "unclear": "",
}


def why(verdict: OomVerdict) -> str:
    """Say the cause, in a sentence or two."""
    text = _CAUSES[verdict.cause](verdict)
    if not verdict.alone and verdict.cause != "unclear":
        text += " That alone was not enough: other free memory that could not be used adds to it."
    if verdict.cause in _THERE and verdict.allocated >= _TIGHT * verdict.ceiling:
        share = verdict.allocated / verdict.ceiling
        text += f" Even so {share:.0%} of all that PyTorch could have had was in use: little room."
    return text


def _full(of: OomVerdict) -> str:
    used, reserved = size_text(of.allocated), size_text(of.reserved)
    part = f"all of the {reserved}" if used == reserved else f"{used} of the {reserved}"
    return (
        f"The memory was truly full: {part} that PyTorch had reserved were in use."
        f" {size_text(of.missing)} were missing, more than was free in any form."
    )


def _fragmented(of: OomVerdict) -> str:
    text = (
        f"The memory was there, but in pieces: {size_text(of.pieces)} of what PyTorch had reserved"
        f" were free, the largest hole {size_text(of.hole)}, in segments that are partly in use and"
        f" so could not go back to the driver. {size_text(of.missing)} were missing."
    )
    if of.hole >= of.size:
        text += " That hole is large enough, but max_split_size_mb forbids to split it."
    return text


def _locked(of: OomVerdict) -> str:
    if of.pool != "default":
        return (
            "The request was, as far as the recording shows, for a private pool"
            f" ({of.pool.removeprefix('private ')}), as while a CUDA graph is captured: then the"
            f" {size_text(of.locked)} that were free in other pools can neither serve it nor go"
            f" back to the driver. {size_text(of.missing)} were missing."
        )
    return (
        f"{size_text(of.locked)} were free, but in private pools (of CUDA graphs or a MemPool)"
        f" which serve nothing else and keep their memory. {size_text(of.missing)} were missing."
    )


def _waiting(of: OomVerdict) -> str:
    return (
        f"{size_text(of.pending)} were freed already, but held back because another stream may"
        f" still use them. {size_text(of.missing)} were missing."
    )


def _other_stream(of: OomVerdict) -> str:
    return (
        f"{size_text(of.other_streams)} were free, but of other streams, and in segments partly in"
        " use: a block is only used again on the stream that it was made on."
        f" {size_text(of.missing)} were missing."
    )


def _giant(of: OomVerdict) -> str:
    if of.size > of.ceiling:
        return (
            "The request is larger than all that PyTorch could have had here:"
            f" {size_text(of.ceiling)}, with everything of its own freed. No setting helps; it has"
            " to ask for less."
        )
    return (
        f"One giant request: it asked for over half of the {size_text(of.ceiling)} that PyTorch"
        f" could have had at that moment, when {size_text(of.allocated)} were in use."
    )


def _foreign(of: OomVerdict) -> str:
    return (
        f"At least {size_text(of.foreign)} had been taken by something outside of PyTorch's"
        " allocator (another process, NCCL, another library): earlier in this recording PyTorch"
        f" could have had that much more. {size_text(of.missing)} were missing."
    )


def _limit(of: OomVerdict) -> str:
    low, high = size_text(of.most_reserved), size_text(of.reserved + of.needed)
    return (
        f"The device had room: {size_text(of.needed)} were needed. So the process is probably"
        f" limited, as by set_per_process_memory_fraction(), to between {low} and {high}; or the"
        " device's memory became free just then."
    )


def _unclear(of: OomVerdict) -> str:
    return (
        f"The recording does not show why: a hole of {size_text(of.hole)} and"
        f" {size_text(of.returnable)} that could go back to the driver would have been enough for"
        " an ordinary request. It may have been for a private pool, as while a CUDA graph is"
        " captured."
    )


_CAUSES = {
    "full": _full,
    "fragmented": _fragmented,
    "locked": _locked,
    "waiting": _waiting,
    "other-stream": _other_stream,
    "giant": _giant,
    "foreign": _foreign,
    "limit": _limit,
    "unclear": _unclear,
}


def outside(verdict: OomVerdict) -> str:
    """Say what lies outside of PyTorch's allocator, as far as it can be known."""
    text = (
        "How large the device is and what others hold of it is not recorded; what PyTorch had"
        f" reserved and what was free make {size_text(verdict.ceiling)}"
    )
    for card in _CARDS:
        if _NEAR * (card << 30) <= verdict.ceiling <= card << 30:
            rest = size_text((card << 30) - verdict.ceiling)
            return (
                f"{text}. On a card of {card} GiB, {rest} would be held by others and the driver."
            )
    return f"{text}."


def make_room(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield the least that the program could have done without."""
    for least in verdict.removals[:1]:
        which = " and ".join(map(short_site, least.sites))
        yield Suggestion(
            f"Let {which} hold less: {size_text(least.bytes)} were live from there. Without them,"
            " and with all else in its place, the request would have been served.",
            frees=least.bytes,
        )


def remedies(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield what the cause itself asks for."""
    if verdict.cause == "giant":
        served = max(verdict.hole, verdict.device_free + verdict.returnable)
        yield Suggestion(
            "Ask for less at a time, in several requests or with smaller tensors: up to"
            f" {size_text(served)} could have been served then."
        )
    if verdict.cause == "limit":
        yield Suggestion(
            "Raise the limit of the process, if it has one: the device had"
            f" {size_text(verdict.device_free)} free.",
            "torch.cuda.set_per_process_memory_fraction(1.0)",
            verdict.device_free,
        )
    if verdict.foreign:
        yield Suggestion(
            "Find what else uses the device: nvidia-smi lists its processes. What it had taken is"
            " known because PyTorch had that much more reserved or free earlier.",
            "nvidia-smi",
            verdict.foreign,
        )

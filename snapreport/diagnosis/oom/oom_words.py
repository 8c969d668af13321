"""Put verdicts in words: why a request for memory failed."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.diagnosis.oom.verdict_types import Cause, OomVerdict
from snapreport.figures.callsites import short_site
from snapreport.ground.cards.card_lookup import card_of
from snapreport.ground.units import format_bytes as size_text
from snapreport.ground.units import list_of, rounded_share
from snapreport.model.diagnoses import Frees, Suggestion

_THERE = ("fragmented", "stranded", "locked", "waiting", "other-stream")
"""Causes where free memory existed, but not for this request."""
_TIGHT = 0.9
"""With at least this part in use, even if this request were served, another would soon fail."""
_NEAR = 0.9
"""A card is only guessed if PyTorch could have had at least this part of its memory."""


def oom_title(verdict: OomVerdict) -> str:
    """Say in one line what was asked for, and what was free."""
    return f"{out_of_memory(verdict.size, verdict.device_free)}{_TITLES[verdict.cause]}"


def out_of_memory(size: int, device_free: int) -> str:
    """Say in a few words what was asked for, and what the device had free."""
    return (
        f"Out of memory: {size_text(size)} asked for, {size_text(device_free)} free on the device"
    )


_TITLES = {
    "full": "",
    "fragmented": "; free memory was in pieces",
    "stranded": "; a private pool kept its free memory",
    "locked": "; free memory was locked in another pool",
    "waiting": "; freed memory waited for another stream",
    "other-stream": "; free memory belonged to another stream",
    "giant": "; the request was too large for this device",
    "foreign": "; something outside PyTorch had taken memory",
    "limit": "; refused although it would have fit",
    "unclear": "",
}


def why(verdict: OomVerdict) -> str:
    """Return the cause, in a sentence or two."""
    text = _cause_texts(verdict)[verdict.cause]
    if not verdict.alone and verdict.cause != "unclear":
        text += (
            " That alone would not have been enough; more was free that could not be used either."
        )
    if verdict.cause in _THERE and verdict.allocated >= _TIGHT * verdict.ceiling:
        share = rounded_share(verdict.allocated, verdict.ceiling)
        text += f" Even so, {share} of all that PyTorch could have had was in use."
    return text


def _cause_texts(of: OomVerdict) -> dict[Cause, str]:
    """Return the text for each cause, with the verdict's figures."""
    used, reserved = size_text(of.allocated), size_text(of.reserved)
    limits = f" It was recorded with {list_of(of.limits)}." if of.limits else ""
    part = f"all of the {reserved}" if used == reserved else f"{used} of the {reserved}"
    hole, locked, ceiling = size_text(of.hole), size_text(of.locked), size_text(of.ceiling)
    missing = f"{size_text(of.missing)} were missing"
    return {
        "full": (
            f"The memory was truly full: {part} that PyTorch had reserved were in use. {missing}:"
            " more than all free memory of PyTorch put together."
        ),
        "fragmented": (
            f"The memory was there, but in pieces: {size_text(of.pieces)} of what PyTorch had"
            f" reserved were free, and the largest hole was {hole}. The pieces were in segments"
            f" partly in use, so they could not go back to the driver. {missing}."
            + (
                " That hole is large enough, but max_split_size_mb forbids splitting it."
                if of.hole >= of.size
                else ""
            )
        ),
        "stranded": (
            f"{_pool_sentence(of, of.pool)} Such a pool, of a MemPool or a CUDA graph, gives no"
            f" segment back while it lives, and its largest hole was {hole}. {missing}."
        ),
        "locked": (
            f"{locked} were free, but in private pools (of CUDA graphs or a MemPool). These serve"
            f" nothing else and keep their memory. {_fullest_pool(of)}{missing}."
            if of.pool == "default"
            else "As far as the recording shows, the request was for a private pool"
            f" ({of.pool.removeprefix('private ')}), as while a CUDA graph is captured. The"
            f" {locked} that were free in other pools could not serve it, nor go back to the driver"
            f" meanwhile. {missing}."
        ),
        "waiting": (
            f"{size_text(of.pending)} were freed already, but could not be used again yet: another"
            f" stream might still be using them. {missing}."
        ),
        "other-stream": (
            f"{size_text(of.other_streams)} were free, but for other streams: a block is only used"
            " again on the stream that it was made on. They were in segments partly in use, so they"
            f" could not go back to the driver either. {missing}."
        ),
        "giant": (
            f"The request is larger than the {ceiling} that PyTorch could have had here with"
            " everything of its own freed: the program must ask for less."
            if of.size > of.ceiling
            else f"One giant request: it asked for more than half of the {ceiling} that PyTorch"
            f" could have had at that moment, and {used} were in use."
        ),
        "foreign": (
            f"At least {size_text(of.foreign)} had been taken by something outside PyTorch's"
            " allocator (another process, NCCL, another library): earlier in this recording"
            f" PyTorch could have had that much more. {missing}."
        ),
        "limit": (
            f"The device had room: only {size_text(of.needed)} were needed. So the process is"
            f" probably limited to between {size_text(of.most_reserved)} and"
            f" {size_text(of.reserved + of.needed)}, as by set_per_process_memory_fraction(); or"
            f" the device's memory became free just after the request.{limits}"
        ),
        "unclear": (
            f"The recording does not show why. The largest hole was {hole}, and"
            f" {size_text(of.returnable)} could go back to the driver: enough for a normal"
            " request. This one may have been for a private pool, as while a CUDA graph is"
            f" captured.{limits}"
        ),
    }


def _pool_sentence(of: OomVerdict, name: str) -> str:
    """Say how much of a private pool is in use and free, and how much of that in whole segments."""
    parts = [each for each in of.pools if each.pool == name]
    free, whole = sum(each.inactive for each in parts), sum(each.whole for each in parts)
    segments = "all of it" if whole == free else size_text(whole)
    return (
        f"Private pool {name.removeprefix('private ')} held"
        f" {size_text(sum(each.reserved for each in parts))}, of which {size_text(free)} were free,"
        f" {segments} in whole segments that nothing used."
    )


def _fullest_pool(of: OomVerdict) -> str:
    """Describe the private pool with the most free memory, as a sentence with a space after it."""
    private = [each for each in of.pools if each.pool != "default"]
    if not private:
        return ""
    return f"{_pool_sentence(of, max(private, key=lambda each: each.inactive).pool)} "


def outside(verdict: OomVerdict, capacity: int | None) -> str:
    """Say what is held outside PyTorch's allocator, as far as that is known.

    Args:
        capacity: all memory of the device in bytes, None if it was not recorded.
    """
    text = (
        f"PyTorch could have had {size_text(verdict.ceiling)} in all: what it had reserved, and"
        " what was free."
    )
    if capacity is not None:
        others = size_text(max(capacity - verdict.ceiling, 0))
        return f"{text} Of the device's {size_text(capacity)}, {others} were not PyTorch's."
    text += " The file does not say how large the device is"
    card = card_of(verdict.ceiling, _NEAR)
    if card is None:
        return f"{text}."
    rest = size_text(card.bytes - verdict.ceiling)
    return (
        f"{text}. Of {card.title}, for example, with {size_text(card.bytes)}, {rest} would have"
        " been held by others and by CUDA itself."
    )


def make_room(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield the smallest removal with which the request would have been served."""
    for least in verdict.removals[:1]:
        which = list_of([short_site(site) for site in least.sites])
        keep = "keep" if len(least.sites) > 1 else "keeps"
        yield Suggestion(
            "make-room",
            f"Reduce what {which} {keep}: {size_text(least.bytes)} made there was live. Without it,"
            " all else unchanged, the request would have been served.",
            frees=Frees.exactly(least.bytes),
            sites=least.sites,
        )


def remedies(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield suggestions that follow from the cause itself."""
    if verdict.cause == "giant":
        served = max(verdict.hole, verdict.device_free + verdict.returnable)
        yield Suggestion(
            "ask-for-less",
            "Ask for less at a time, in several requests or with smaller tensors: a request of up"
            f" to {size_text(served)} could have been served at that moment.",
        )
    if verdict.cause == "stranded":
        yield Suggestion(
            "release-pool",
            "Begin with the pool. Make what is soon freed outside of it, so that only what stays is"
            " made under torch.cuda.use_mem_pool(). Or let the whole pool go: once its last tensor"
            f" and the MemPool itself (or the graph) are deleted, {size_text(verdict.stranded)} can"
            " go back to the driver.",
            "del tensors, pool; torch.cuda.empty_cache()",
        )
    usable = [
        each.largest_hole
        for each in verdict.pools
        if each.pool not in ("default", verdict.pool) and each.largest_hole >= verdict.size
    ]
    if verdict.cause == "locked" and verdict.pool == "default" and usable:
        yield Suggestion(
            "release-pool",
            f"A private pool had a hole of {size_text(max(usable))}, enough for this request. If it"
            " is a MemPool, let other requests use it before they fail, where your PyTorch has this"
            " option; or delete its last tensor and the MemPool itself, so that its segments can go"
            " back to the driver.",
            "pool = torch.cuda.MemPool(use_on_oom=True)",
        )
    if verdict.cause == "limit":
        yield Suggestion(
            "raise-limit",
            "Raise the limit of the process, if it has one: the device had"
            f" {size_text(verdict.device_free)} free.",
            "torch.cuda.set_per_process_memory_fraction(1.0)",
            Frees.exactly(verdict.device_free),
        )
    if verdict.foreign:
        yield Suggestion(
            "other-programs",
            "Find out what else uses the device: nvidia-smi lists its processes. Earlier in the"
            f" recording PyTorch had {size_text(verdict.foreign)} more, reserved or free.",
            "nvidia-smi",
        )

"""Savings in words: what to change, what that would free, and how the number is got."""

from __future__ import annotations

from collections.abc import Iterable

from snapreport.diagnosis.oom.saving_types import Change, Saving
from snapreport.figures.callsites import short_site
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Suggestion

_CHANGES: dict[Change, str] = {
    "checkpointing": "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
    "inference": "with torch.inference_mode():",
    "gradients": "optimizer.zero_grad(set_to_none=True)  # before the forward pass",
    "foreach": "torch.optim.AdamW(parameters, fused=True)  # or foreach=False",
    "expandable": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "roundup": "PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:8",
    "return-cache": "torch.cuda.empty_cache()  # before the capture",
}


def advise_on_peak(savings: Iterable[Saving]) -> tuple[Suggestion, ...]:
    """Write what would lower the peak, in the order given."""
    return tuple(
        Suggestion(f"{_peak_text(each)}{_left(each)}", _change(each), each.frees, each.most)
        for each in savings
    )


def advise_on_oom(savings: Iterable[Saving]) -> tuple[Suggestion, ...]:
    """Write what would have freed memory for a failed request, in the order given."""
    return tuple(
        Suggestion(
            f"{_oom_text(each)}{_is_enough(each)}",
            _change(each),
            each.frees,
            each.most,
        )
        for each in savings
    )


def _is_enough(saving: Saving) -> str:
    if not saving.enough:
        return " By itself not enough for this request."
    return " That alone would have been enough for this request." if saving.frees else ""


def _change(saving: Saving) -> str:
    if saving.change == "max-split":
        return f"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:{saving.about}"
    return _CHANGES.get(saving.change, "")


def _left(saving: Saving) -> str:
    """Say what the peak would be then, and where."""
    if saving.peak is None or saving.peak_event is None:
        return ""
    event = (
        "at the start" if saving.peak_event < 0 else f"at event {format_count(saving.peak_event)}"
    )
    least = "" if saving.frees is not None else "no less than "
    return f" The peak would then be {least}{format_bytes(saving.peak)}, {event}."


def _peak_text(saving: Saving) -> str:
    most = format_bytes(saving.most or 0)
    match saving.change:
        case "site":
            return (
                f"Begin with {short_site(saving.about)}: without it the peak falls more than"
                " without any other call site."
            )
        case "checkpointing":
            return (
                "Checkpoint activations: compute them again in the backward pass instead of keeping"
                f" them. Without any activations the peak would be {most} lower. It will be less,"
                " as the inputs of the checkpointed parts stay."
            )
        case "inference":
            return (
                "If this is inference, run it in inference mode: nothing is then kept for a"
                " backward pass, and this recording has none. If it is training, checkpoint"
                f" activations. Without any activations the peak would be {most} lower."
            )
        case "batch":
            return (
                "Use a smaller batch, and accumulate gradients if its size matters. With half of"
                " the activations and inputs, which grow with the batch, the peak would be"
                f" {most} lower."
            )
        case "gradients":
            return (
                f"Release gradients before the forward pass: {most} of memory made in a backward"
                " pass is live at the peak, which is in a forward pass. Not possible where"
                " gradients are accumulated over several passes."
            )
        case _:
            return (
                "Let the optimizer work on fewer parameters at a time: its temporary tensors are"
                f" part of the peak. Without them it would be {most} lower."
            )


def _oom_text(saving: Saving) -> str:
    size = format_bytes(saving.frees if saving.frees is not None else saving.most or 0)
    match saving.change:
        case "checkpointing":
            return (
                "Checkpoint activations: compute them again in the backward pass instead of keeping"
                f" them. {size} of activations were live; the inputs of the checkpointed parts"
                " would stay."
            )
        case "inference":
            return (
                "If this is inference, run it in inference mode: nothing is then kept for a"
                " backward pass, and this recording has none. If it is training, checkpoint"
                f" activations. {size} of activations were live."
            )
        case "batch":
            return (
                "Use a smaller batch, and accumulate gradients if its size matters. Half of the"
                f" activations and inputs that were live is {size}. They grow with the batch, as"
                " may the request itself."
            )
        case "gradients":
            return (
                f"Release gradients before the forward pass: {size} of memory made in a backward"
                " pass was live while a forward pass asked for more. Not possible where gradients"
                " are accumulated over several passes."
            )
        case "foreach":
            return (
                "Let the optimizer work on fewer parameters at a time: its temporary tensors held"
                f" {size}."
            )
        case "expandable":
            return (
                "Switch on expandable segments, which grow and shrink in place: with blocks side by"
                f" side, up to {size} of what was free in pieces could have served this request."
            )
        case "max-split":
            return (
                f"Keep large segments for large requests: {size} were free in segments of at least"
                f" {saving.about} MiB that only smaller blocks kept in use."
            )
        case "roundup":
            return (
                "Round sizes up further, so that blocks of slightly different sizes can take each"
                f" other's place: sizes vary a lot here. {size} were free in pieces; what the"
                " rounding would cost is taken off."
            )
        case "return-cache":
            return (
                "Give unused segments back before a graph is captured: the allocator cannot do that"
                f" meanwhile. {size} could have gone back."
            )
        case "record-stream":
            return (
                f"Make streams wait instead of calling record_stream(): {size} were freed already,"
                " but held back because another stream might still use them. Where the freeing"
                " stream waits for the other, they are free at once."
            )
        case _:
            return (
                "Let captured graphs share one pool (torch.cuda.graph_pool_handle()), or drop those"
                f" that are no longer replayed: {size} were free in pools that serve nothing else."
                " A graph may use such memory when it is replayed, which no recording shows."
            )

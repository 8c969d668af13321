"""What our words mean, for who meets them for the first time: shown where a report uses them."""

from __future__ import annotations

from types import MappingProxyType

GLOSSARY = MappingProxyType(
    {
        "allocated": (
            "Bytes of the blocks that live tensors hold, as torch.cuda.memory_allocated() counts."
        ),
        "requested": "Bytes that tensors asked for, before the allocator rounds them up.",
        "reserved": (
            "Bytes that PyTorch got from the driver and holds, in use or not, as"
            " torch.cuda.memory_reserved() counts."
        ),
        "slack": (
            "The part of live blocks that nobody asked for: rounding, and larger free blocks"
            " handed out whole."
        ),
        "inactive": "Reserved memory that no tensor uses: PyTorch keeps it for later requests.",
        "fragmentation": (
            "Inactive memory in segments that are still partly in use, so that it cannot be"
            " returned to the driver."
        ),
        "fragmented": (
            "Free memory in pieces between blocks that are in use: each too small for the request."
        ),
        "segment": (
            "A piece of memory that PyTorch got from the driver at once, and cuts into blocks."
        ),
        "block": "The slice of a segment that one tensor's memory lies in.",
        "hole": "A free piece of a segment, between blocks that are in use.",
        "private pool": (
            "Segments set apart, as for a CUDA graph: what is free in them serves nobody else."
        ),
        "pool": "A group of segments that serve the same kind of request.",
        "stream": (
            "A queue of GPU work. Freed memory is used again on the stream that it was made for."
        ),
        "awaiting free": (
            "Freed by the program, but another stream may still use it, so it cannot be used again"
            " yet."
        ),
        "call site": "The line of your code that made an allocation.",
        "call stack": "The chain of calls that led to an allocation.",
        "baseline": "What was live before the recording began.",
        "step": (
            "The number of an event in the recording, counted from 0; the timeline's horizontal"
            " axis."
        ),
        "stage": (
            "A named part of the program, as torch.profiler.record_function() marks; optimizer"
            " steps are marked by themselves."
        ),
        "ring": (
            "PyTorch keeps the last max_entries events; when the ring is full the oldest are"
            " overwritten."
        ),
        "closing law": (
            "Replayed to its end, the recording must give exactly the final state that the file"
            " also holds."
        ),
        "driver": "NVIDIA's software below PyTorch, which owns the GPU's memory.",
        "transient": "Memory that is freed soon after it was made.",
        "activation": "A result of the forward pass that is kept until backward has used it.",
        "gradient": "The derivative of the loss by a parameter, as large as the parameter.",
        "optimizer state": (
            "What an optimizer keeps for each parameter: for Adam two numbers per parameter."
        ),
        "checkpointing": (
            "Dropping activations in forward and computing them again in backward: less memory,"
            " more time (torch.utils.checkpoint)."
        ),
        "expandable segment": (
            "A segment that grows and shrinks in place, so that free memory is not cut in pieces."
        ),
        "allocator": "The part of PyTorch that hands out GPU memory and keeps what is freed.",
    }
)
"""Terms in the singular and lower case, each with one or two sentences."""

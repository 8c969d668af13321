"""The glossary: definitions that reports show where they use a term."""

from __future__ import annotations

from types import MappingProxyType

_MODEL = (
    "The allocator's rules, implemented again: given what a program asked for, it predicts where"
    " each block is placed and which segments come and go."
)
_CHECKPOINT = (
    "Dropping activations in the forward pass and computing them again in the backward pass: less"
    " memory, more time (torch.utils.checkpoint)."
)
ROLE_MEANINGS = MappingProxyType(
    {
        "parameter": "A weight of the model, which training changes.",
        "buffer": "A tensor of the model that training does not change, such as a running mean.",
        "gradient": "The derivative of the loss by a parameter, as large as the parameter.",
        "optimizer state": (
            "What an optimizer keeps for each parameter: for Adam two numbers per parameter."
        ),
        "activation": (
            "A result of the forward pass that is kept until the backward pass has used it."
        ),
        "autocast weight copy": (
            "A copy of a weight that torch.autocast made in half precision, kept until the autocast"
            " block ends or the backward pass has used it. The batch size does not change its size."
        ),
        "temporary of forward": "Made in a forward pass, and not kept for backward.",
        "temporary of backward": "Made in a backward pass, and freed in it.",
        "temporary of optimizer": "Made in an optimizer step, and freed in it.",
        "communication buffer": "What is sent to other GPUs, or comes from them.",
        "KV cache": (
            "Keys and values of earlier tokens, or the state that a recurrent model carries on."
        ),
        "input": "A batch of data, before the model works on it.",
        "compiled-graph pool": (
            "Memory set apart for a CUDA graph or a pool of the program's own; what is in it is not"
            " told apart."
        ),
        "workspace": "Memory that a library such as cuBLAS works in.",
        "unknown": "Nothing in the recording shows what this memory is for.",
    }
)
"""What memory of each role is; in the order of ``model.roles.ROLES``."""
_OTHER_WORDS = ("buffer", "input", "unknown")
"""Roles whose names our texts also use in another sense."""

GLOSSARY = MappingProxyType(
    {
        "live": "Allocated, and not freed yet at that moment.",
        "active": "Bytes of blocks that are allocated or awaiting free: not to be used again yet.",
        "allocation": "One piece of memory, from when a tensor gets it until it is freed.",
        "peak": "The most of one figure over the recording, and where that was first reached.",
        "allocated": (
            "Bytes of the blocks that live tensors hold, as torch.cuda.memory_allocated() counts."
        ),
        "requested": (
            "Bytes that tensors asked for, before the allocator rounds them up, until the memory"
            " can be used again."
        ),
        "reserved": (
            "Bytes that PyTorch got from the driver and holds, in use or not, as"
            " torch.cuda.memory_reserved() counts."
        ),
        "slack": (
            "The part of live blocks that was not requested: rounding, and larger free blocks"
            " handed out whole."
        ),
        "inactive": "Reserved memory that no tensor uses: PyTorch keeps it for later requests.",
        "fragmentation": (
            "Inactive memory in segments that are still partly in use. It cannot be returned to the"
            " driver, except for entire free pages of expandable segments."
        ),
        "fragmented": (
            "Free in pieces between blocks that are in use: only a request that fits into one piece"
            " can use it."
        ),
        "segment": (
            "A piece of memory that PyTorch got from the driver at once, and cuts into blocks."
        ),
        "block": "The slice of a segment that holds one tensor's memory.",
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
        "frame": "One entry of a call stack: a function, its file and the line.",
        "role": (
            "What an allocation is for, such as parameter or activation: inferred from when it was"
            " made and freed, and from what ran then."
        ),
        "category": "The kind of memory that a rule, built-in or your own, finds in a call stack.",
        **{role: text for role, text in ROLE_MEANINGS.items() if role not in _OTHER_WORDS},
        "baseline": "What was live before the recording began.",
        "event": (
            "One entry of the recording, such as an allocation, a free or a failed request. Events"
            " are counted from 0 along the timeline."
        ),
        "step": "One turn of the program's main loop, such as one iteration of training.",
        "stage": (
            "A named part of the program, as torch.profiler.record_function() marks; optimizer"
            " steps are marked by themselves."
        ),
        "optimizer step": "A call of optimizer.step(), which changes the parameters.",
        "ring": (
            "PyTorch keeps the last max_entries events; when the ring is full the oldest are"
            " overwritten."
        ),
        "final state": (
            "What was in memory when the file was written. The file lists it beside the events."
        ),
        "driver": "NVIDIA's software below PyTorch, which owns the GPU's memory.",
        "forward pass": "Computing the model's outputs from a batch.",
        "backward pass": "Computing the gradients, by loss.backward().",
        "checkpoint": _CHECKPOINT,
        "checkpointed": _CHECKPOINT,
        "checkpointing": _CHECKPOINT,
        "in-place": "Writing the result over an input, so that it needs no memory of its own.",
        "fused": "Doing several operations in one, so that results between them need no memory.",
        "inference mode": "Running a model without keeping anything for a backward pass.",
        "expandable segment": (
            "A segment that grows and shrinks in place, so that free memory is not cut in pieces."
        ),
        "returnable": "In segments that nothing uses: it could be given back to the driver.",
        "CUDA graph": (
            "GPU work that is captured once and then replayed as a whole, always in the same"
            " memory."
        ),
        "MemPool": "torch.cuda.MemPool: a private pool that the program made itself.",
        "NCCL": "NVIDIA's library for exchange between GPUs. Its memory is not PyTorch's.",
        "max_entries": (
            "How many events a recording keeps, an argument of _record_memory_history(). All, where"
            " it is left out."
        ),
        "max_split_size_mb": "A setting of the allocator: blocks larger than this are not split.",
        "roundup_power2_divisions": (
            "A setting of the allocator: sizes are rounded up to so many parts of a power of two."
        ),
        "model of PyTorch's allocator": _MODEL,
        "model of the allocator": _MODEL,
        "smallest capacity": (
            "The least memory for all of PyTorch's segments together with which every request is"
            " served, by a model of the allocator."
        ),
        "allocator": "The part of PyTorch that hands out GPU memory and keeps what is freed.",
    }
)
"""Terms in the singular, each with one or two sentences."""

FIGURES = ("requested", "allocated", "active", "reserved", "slack", "inactive", "fragmentation")
"""The terms that are figures of every report."""

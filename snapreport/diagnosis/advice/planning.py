"""The cheapest combination of changes that keeps the peak below a target.

A combination is tried on the history, as a single change is; the shares that several changes take
from one block multiply. A combination sure to reach the target is preferred to one expected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from snapreport.diagnosis.advice.changes import find_changes
from snapreport.diagnosis.advice.edits import sizes_left
from snapreport.diagnosis.advice.layers import Blocks, keep_much, name_caller
from snapreport.diagnosis.advice.situation import Change, Situation, look_at, only_at
from snapreport.diagnosis.block_room import WHYS
from snapreport.figures.callsites import label_sites, short_site, site_text
from snapreport.ground.memoize import once_for_each
from snapreport.ground.native.columns import sum_groups
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.answers import MOST_CHANGES, Plan, PlanStep, RoleLeft
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import FrameTable

_PARTS, _CHUNKS = (2, 4, 8, 16), (8,)
_WORTH_A_PLAN = 0.01
"""A change that lowers the peak by less than this part of it is left out of a plan."""
_COMPARED = 8
"""If no combination reaches the target, how many of them are tried over all events."""
_EFFORT = {
    "leak": 1,
    "free-earlier": 1,
    "inference-mode": 1,
    "fused-optimizer": 1,
    "autocast-cache": 1,
    "low-precision-weights": 4,
    "attention-kernel": 2,
    "chunked-loss": 4,
    "checkpoint": 8,
    "accumulate": 8,
    "shard-state": 6,
    "offload-activations": 10,
    "low-bit-state": 12,
    "offload": 12,
    "smaller-batch": 16,
}
"""What a change costs in work, time and accuracy, only to rank the changes; no unit."""
_INSTEAD = {
    "accumulate": "smaller-batch",
    "offload-activations": "checkpoint",
    "offload": "low-bit-state",
    "low-precision-weights": "autocast-cache",
}
"""Changes that exclude another: a batch is cut in only one way."""


def make_plan(situation: Situation, target: int) -> Plan:
    """Find the cheapest changes that bring the allocated peak down to a target.

    Where no combination reaches it, the plan is the one with the lowest peak.

    Args:
        target: in bytes.
    """
    peak = situation.peak
    if peak <= target:
        return _plan(situation, target, (), "yes")
    found = [
        change
        for change in find_changes(situation, _PARTS, _CHUNKS)
        if peak - situation.left(change.expected) >= _WORTH_A_PLAN * peak
    ]
    # Trying a combination at the recorded peak alone is quick, and what exceeds the target there
    # exceeds it.
    there = only_at(situation, situation.event)
    expected: Sequence[Change] | None = None
    too_much: list[tuple[int, Sequence[Change]]] = []
    for chosen in sorted(_combinations(found), key=_cost):
        if expected is None:
            edits = [each.expected for each in chosen]
            left = there.left(*edits)
            if left <= target:
                left = situation.left(*edits)
            if left > target:
                too_much.append((left, chosen))
                continue
            expected = chosen
        if situation.at_most(chosen) <= target:
            return _plan(situation, target, chosen, "yes")
    if expected is not None:
        return _plan(situation, target, expected, "expected")
    lowest = sorted(too_much, key=lambda each: each[0])[:_COMPARED]
    tried = [(situation.left(*(each.expected for each in chosen)), chosen) for _, chosen in lowest]
    best = min(tried, key=lambda each: each[0], default=(peak, ()))[1]
    return _plan(situation, target, best, "no")


def _combinations(found: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Yield all combinations of at most MOST_CHANGES changes, with at most one of each kind."""
    kinds: dict[str, list[Change | None]] = {}
    for change in found:
        kind = _INSTEAD.get(change.code, change.code)
        kinds.setdefault(f"{kind} {change.about}", [None]).append(change)
    for choice in product(*kinds.values()):
        chosen = tuple(each for each in choice if each is not None)
        if 0 < len(chosen) <= MOST_CHANGES:
            yield chosen


def _cost(chosen: Sequence[Change]) -> tuple[int, int]:
    effort = sum(_EFFORT[each.code] + each.number.bit_length() for each in chosen)
    return effort, len(chosen)


def _plan(situation: Situation, target: int, chosen: Sequence[Change], reached: str) -> Plan:
    edits = [edit for each in chosen for edit in each.expected]
    event = situation.edited(edits)[1]
    sizes = sizes_left(situation.history, edits, event)
    held = sum_groups(situation.roles.role, sizes, len(ROLES))
    left = sorted(zip(held.tolist(), ROLES, strict=True), reverse=True)
    return Plan(
        target,
        situation.peak,
        _steps(situation, chosen),
        reached,
        tuple(RoleLeft(role, size) for size, role in left if size),
    )


def _steps(situation: Situation, chosen: Sequence[Change]) -> tuple[PlanStep, ...]:
    in_order = sorted(chosen, key=lambda each: situation.left(each.expected))
    steps = []
    for i, change in enumerate(in_order):
        so_far = in_order[: i + 1]
        expected = situation.left(*(each.expected for each in so_far))
        most = max(situation.at_most(so_far), expected)
        steps.append(PlanStep(as_suggestion(situation, change), expected, most))
    return tuple(steps)


# A change as a suggestion: what it would free, what it costs, when not to.


_WORTH = 0.02
"""A change expected to free less than this part of the peak is not worth the work."""
_LAST = ("offload", "offload-activations")
"""Copying memory to the host and back in each step is the last resort."""
_DOUBTFUL = "first"
"""``Change.about`` where the program may still need what the change takes away."""
_SITES = 5
_SHARES = {2: "half", 4: "a quarter", 8: "an eighth", 16: "a sixteenth"}


def situation_of(tables: History, device: DeviceFigures) -> Situation | None:
    """Return the situation that advice is drawn from, None if nothing was recorded."""
    if not device.recorded or not len(device.history.allocations):
        return None
    return look_at(tables, device.history)


def suggest(
    situation: Situation, parts: Sequence[int] = (2,), chunks: Sequence[int] = (8,)
) -> tuple[Suggestion, ...]:
    """Return the changes worth making: those that free most first, but the slowest last.

    Each is tried on the recording: what it would save is taken from the history, and the peak over
    all events is computed again.

    Args:
        parts: into how many the batch may be cut.
        chunks: into how many the loss may be cut.
    """
    peak = situation.peak
    found = [
        (each.code in _LAST or each.about == _DOUBTFUL, as_suggestion(situation, each))
        for each in find_changes(situation, parts, chunks)
        if peak - situation.left(each.expected) >= _WORTH * peak
    ]
    found.sort(key=lambda each: (each[0], -each[1].expected))
    return tuple(suggestion for _, suggestion in found)


def as_suggestion(situation: Situation, change: Change) -> Suggestion:
    """Put a change in words, with what it frees by itself."""
    words = WORDS[f"{change.code} {change.about}".strip()]
    peak = situation.peak
    expected = max(peak - situation.left(change.expected), 0)
    least = max(min(peak - situation.at_most([change]), expected), 0)
    most = max(peak - situation.at_least([change]), expected)
    whys = words.whys if any(words.whys) else WHYS
    live = np.flatnonzero(change.acts_on & situation.live())
    weights = situation.history.allocations.block_size[live]
    number, names = label_sites(situation.history, situation.tables.stacks)
    held = np.bincount(number[live], weights=weights, minlength=len(names))
    largest = [i for i in np.argsort(-held, kind="stable")[:_SITES].tolist() if held[i]]
    roles = np.bincount(situation.roles.role[live], weights=weights, minlength=len(ROLES))
    share = _SHARES.get(change.number, f"1/{change.number}")
    blanks = {"number": str(change.number), "share": share}
    if change.blocks is not None:
        blanks["caller"] = name_caller(situation.tables.stacks, change.blocks)
        blanks["count"] = format_count(_count(situation, change, change.blocks))
    if change.calls is not None:
        blanks["count"] = format_count(len(change.calls.starts))
        blanks["each"] = format_bytes(change.calls.kept)
        caller = change.calls.caller
        place = short_site(site_text(situation.tables.stacks, caller)) if caller >= 0 else ""
        blanks["from"] = f" from {place}" if place else ""
    framework = framework_of(situation.tables.stacks.frames)
    code = _IN_FRAMEWORKS.get((change.code, framework)) or words.code
    return Suggestion(
        change.code,
        _filled(words.text, blanks),
        _filled(code, blanks),
        Frees(least, expected, most, *(whys if least < most else ("", "", ""))),
        ROLES[int(roles.argmax())] if len(live) else "",
        tuple(names[i] for i in largest),
        words.costs,
        words.unless,
        change.number,
    )


def _count(situation: Situation, change: Change, blocks: Blocks) -> int:
    """Count the calls of a forward pass that keep much, such as layers, not embeddings."""
    size = situation.history.allocations.block_size[blocks.rows]
    kept = np.bincount(blocks.instance, weights=size * change.acts_on[blocks.rows])
    much = blocks.meant & keep_much(kept)
    return int(np.bincount(blocks.turn[much]).max(initial=0))


def _filled(text: str, blanks: dict[str, str]) -> str:
    """Fill in the names in braces; not ``str.format``, as code has braces of its own."""
    for name, value in blanks.items():
        text = text.replace(f"{{{name}}}", value)
    return text


# The words for each change: the advice, the code, the cost, and when not to.


_FRAMEWORKS = (
    ("huggingface", re.compile(r"transformers[/\\]trainer\.py")),
    ("lightning", re.compile(r"(pytorch_)?lightning[/\\](pytorch[/\\])?trainer[/\\]")),
    ("deepspeed", re.compile(r"deepspeed[/\\]runtime[/\\]engine\.py")),
    ("fsdp", re.compile(r"torch[/\\]distributed[/\\]fsdp[/\\]")),
)


@dataclass(frozen=True)
class ChangeWords:
    """The words for one kind of change; names in braces are filled in."""

    text: str
    code: str = ""
    costs: str = ""
    unless: str = ""
    whys: tuple[str, str, str] = ("", "", "")
    """What the lower bound, the estimate and the upper bound rest on."""


_LATER = "Not possible where gradients are wanted later."
_AFTER_ITS_CALL = (
    "memory is freed when the call that made it has ended",
    "memory is freed when the call that made it has ended",
    "nothing is kept beyond the operation that reads it",
)
WORDS = {
    "checkpoint": ChangeWords(
        "Checkpoint the {count} calls of layers from {caller} in each forward pass: keep only each"
        " layer's input, and compute the rest again in the backward pass.",
        "x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
        "Each step computes these layers' forward pass twice.",
        "A layer must give the same result when it runs again.",
        (
            "each layer also keeps its largest tensor, and one layer at a time is computed again",
            "each layer keeps only its output, until its backward pass begins",
            "these layers keep nothing at all for the backward pass",
        ),
    ),
    "checkpoint whole": ChangeWords(
        "Checkpoint each of the {count} layers called from {caller} as a whole, in place of the"
        " parts that are checkpointed now: keep only each layer's input, not what lies between its"
        " parts.",
        "x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
        "Each step also computes the rest of these layers' forward pass twice.",
        "A layer must give the same result when it runs again.",
        (
            "each layer also keeps its largest tensor, and one layer at a time is computed again",
            "each layer keeps only its output, until its backward pass begins",
            "these layers keep nothing at all for the backward pass",
        ),
    ),
    "checkpoint calls": ChangeWords(
        "Checkpoint the {count} calls from {caller} in each forward pass: keep only each call's"
        " input, and compute the rest again in the backward pass.",
        "x = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)",
        "Each step computes the forward pass of these calls twice.",
        "A call must give the same result when it runs again.",
        (
            "each call also keeps its largest tensor, and one call at a time is computed again",
            "each call keeps only its output, until its backward pass begins",
            "these calls keep nothing at all for the backward pass",
        ),
    ),
    "smaller-batch": ChangeWords(
        "Use a batch of {share} the size.",
        costs="A step learns from fewer samples, and each sample takes more time.",
        unless="Not possible where the batch cannot be divided.",
        whys=(
            "only what is kept for the backward pass shrinks",
            "what is kept for the backward pass, inputs and temporary tensors shrink",
            "everything but parameters, gradients and optimizer state shrinks quadratically",
        ),
    ),
    "accumulate": ChangeWords(
        "Compute the batch in {number} parts, and add up their gradients before the optimizer's"
        " step.",
        "for part in batch.chunk({number}):\n    (loss_of(part) / {number}).backward()",
        "A step takes more, smaller operations. Gradients stay during the forward passes.",
        "The result differs where layers look at the whole batch, as batch normalization does.",
        (
            "only what is kept for the backward pass shrinks, and gradients stay",
            "only activations, inputs and temporary tensors shrink, and gradients stay",
            "everything but parameters, gradients and optimizer state shrinks quadratically",
        ),
    ),
    "chunked-loss": ChangeWords(
        "Compute logits and loss for {share} of the tokens at a time, and recompute each part in"
        " the backward pass.",
        "for part, target in zip(hidden.chunk({number}), targets.chunk({number})):\n"
        "    loss += checkpoint(loss_of, part, target, use_reentrant=False)",
        "The last layer is computed twice.",
        "The loss must be a sum or a mean over tokens.",
        (
            "only the loss's own tensors shrink",
            "the logits shrink with them",
            "logits and the loss's tensors take no memory at all",
        ),
    ),
    "attention-kernel": ChangeWords(
        "Use an attention kernel that never holds all attention weights at once.",
        "torch.nn.functional.scaled_dot_product_attention(q, k, v)  # is_causal=True if so",
        "",
        "Not possible where the program reads the weights themselves.",
        (
            "only the softmax's results are no longer kept",
            "other tensors of their size are no longer kept either",
            "the model keeps nothing for the backward pass",
        ),
    ),
    "fused-optimizer": ChangeWords(
        "Let the optimizer update parameters in one fused operation: its temporary tensors are part"
        " of the peak.",
        "torch.optim.AdamW(parameters, fused=True)",
        "",
        "Not every optimizer has a fused form.",
    ),
    "low-bit-state": ChangeWords(
        "Keep the optimizer's state in half as many bits, such as bfloat16 in place of float32.",
        costs="Updates are less accurate, and the optimizer must support it.",
        unless="Not possible where the state has few bits already.",
        whys=(
            "large state tensors halve, and updates make a few in full precision",
            "large state tensors halve, and parameters are updated one by one",
            "small state tensors and the optimizer's temporary tensors take no memory at all",
        ),
    ),
    "shard-state": ChangeWords(
        "Spread the optimizer's state over the {number} ranks: each keeps it for its own share of"
        " the parameters, and updates only these.",
        "torch.distributed.optim.ZeroRedundancyOptimizer(\n"
        "    model.parameters(), optimizer_class=torch.optim.AdamW, lr=LR)",
        "After each step the ranks exchange the parameters that they updated.",
        "Only where all ranks train the same parameters.",
        (
            "each rank has its share, one parameter more, and as many temporary tensors as before",
            "each rank has its share, and temporary tensors for it",
            "each rank has its share less one parameter, and no temporary tensors",
        ),
    ),
    "offload": ChangeWords(
        "Keep the optimizer's state in the host's memory, and update the parameters there.",
        "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True)",
        "Each step takes longer: gradients go to the host, and parameters come back.",
        "The host must have enough free memory.",
        (
            "large state tensors go, and a few come back for one parameter at a time",
            "the state and the optimizer's temporary tensors go",
            "the state and the optimizer's temporary tensors go",
        ),
    ),
    "offload-activations": ChangeWords(
        "Keep what is saved for the backward pass in the host's memory until then.",
        "with torch.autograd.graph.save_on_cpu(pin_memory=True):  # around the forward pass",
        "Each step takes longer: all of it is copied to the host and back.",
        "The host must have enough free memory. What the program itself refers to stays.",
        (
            "each layer keeps its input and largest tensor; one layer comes back at a time",
            "a tensor goes when the next is made, and comes back for its own operation's backward",
            "what is saved takes no memory at all",
        ),
    ),
    "free-earlier gradients": ChangeWords(
        "Release gradients right after the optimizer's step: they are kept during the next forward"
        " pass.",
        "optimizer.step()\noptimizer.zero_grad(set_to_none=True)",
        "",
        "Not possible where gradients are added up over several passes.",
    ),
    "free-earlier outputs": ChangeWords(
        "Delete results of the forward pass before the backward pass: variables keep them alive"
        " until after it.",
        "del outputs  # before loss.backward()",
        "",
        "It frees nothing where the backward pass itself needs them.",
        (
            "the backward pass itself may need them",
            "they go before the backward pass",
            "they go before the backward pass",
        ),
    ),
    "autocast-cache": ChangeWords(
        "Stop autocast from keeping copies of weights: it casts each weight to half precision, and"
        " keeps the copy until its block ends.",
        "with torch.autocast(device_type, dtype, cache_enabled=False):",
        "Every operation casts its weights again.",
        "It frees nothing where gradients are recorded: the graph keeps the copies.",
        (
            "copies go with their operation, and those of the largest are live at the new peak",
            "copies go with their operation",
            "no weight is ever copied",
        ),
    ),
    "low-precision-weights": ChangeWords(
        "Keep the weights in half precision and leave autocast out: at present each is held twice,"
        " in full precision and as autocast's copy.",
        "model = model.to(torch.bfloat16)  # and its inputs",
        "All operations run in half precision, including those that autocast keeps in float32.",
        "Not for weights that are to be trained.",
        (
            "weights that were copied halve, and no copy is made",
            "weights that were copied halve, and no copy is made",
            "inputs and results halve, too",
        ),
    ),
    "inference-mode": ChangeWords(
        "Run it in inference mode: memory is kept for a backward pass that never comes.",
        "with torch.inference_mode():",
        unless=_LATER,
        whys=_AFTER_ITS_CALL,
    ),
    "inference-mode calls": ChangeWords(
        "Run the {count} calls{from} in inference mode: each keeps {each} for a backward pass that"
        " never comes, because the program holds what the call returned.",
        "with torch.inference_mode():  # or keep only loss.item(), output.detach()",
        unless=_LATER,
        whys=_AFTER_ITS_CALL,
    ),
    "inference-mode first": ChangeWords(
        "Unless a backward pass is to follow, run it in inference mode: memory is kept for one.",
        "with torch.inference_mode():",
        unless="Not possible in training.",
        whys=_AFTER_ITS_CALL,
    ),
    "inference-mode evaluation": ChangeWords(
        "Evaluate in inference mode: some forward passes keep memory for a backward pass that"
        " never comes.",
        "with torch.inference_mode():  # around the evaluation",
        unless=_LATER,
        whys=_AFTER_ITS_CALL,
    ),
    "leak": ChangeWords(
        "Do not keep tensors of every step: they are never freed.",
        "losses.append(loss.item())  # or .detach(); and empty lists and caches",
        "",
        "Not a fault where the program needs all of it later.",
        (
            "each step's tensor is freed when the next step makes its own",
            "no step keeps any",
            "no step keeps any",
        ),
    ),
}
"""Keyed by the code; where a code has several texts, by the code and what it is about."""
_IN_FRAMEWORKS = {
    ("checkpoint", "huggingface"): (
        'TrainingArguments(..., gradient_checkpointing=True,\n'
        '    gradient_checkpointing_kwargs={"use_reentrant": False})'
    ),
    ("checkpoint", "deepspeed"): "x = deepspeed.checkpointing.checkpoint(layer, x)",
    ("checkpoint", "fsdp"): (
        "apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, Layer))"
    ),
    ("accumulate", "huggingface"): (
        "TrainingArguments(..., per_device_train_batch_size=BATCH // {number},\n"
        "    gradient_accumulation_steps={number})"
    ),
    ("accumulate", "lightning"): "Trainer(accumulate_grad_batches={number})  # and a smaller batch",
    ("accumulate", "deepspeed"): '"gradient_accumulation_steps": {number}  # in the configuration',
    ("smaller-batch", "huggingface"): (
        "TrainingArguments(..., per_device_train_batch_size=BATCH // {number})"
    ),
    ("attention-kernel", "huggingface"): (
        'AutoModel.from_pretrained(name, attn_implementation="sdpa")'
    ),
    ("shard-state", "deepspeed"): '"zero_optimization": {"stage": 1}  # in the configuration',
    ("shard-state", "lightning"): 'Trainer(strategy="deepspeed_stage_1")',
    ("offload", "deepspeed"): (
        '"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}'
    ),
    ("offload", "lightning"): 'Trainer(strategy="deepspeed_stage_2_offload")',
    ("fused-optimizer", "huggingface"): 'TrainingArguments(..., optim="adamw_torch_fused")',
}  # fmt: skip


@once_for_each
def framework_of(frames: FrameTable) -> str:
    """Return the framework whose trainer runs the program, ``""`` for none."""
    files = set(frames.filenames)
    for name, pattern in _FRAMEWORKS:
        if any(pattern.search(file[-200:]) for file in files):
            return name
    return ""

"""The words for each change to a program: the advice, the code, the cost, and when not to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapreport.ground.memoize import once_for_each
from snapreport.model.stacks import FrameTable

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


def code_for(code: str, about: str, framework: str) -> str:
    """Return the change as code for a framework, with the names in braces still to be filled."""
    return _IN_FRAMEWORKS.get((code, framework)) or WORDS[f"{code} {about}".strip()].code

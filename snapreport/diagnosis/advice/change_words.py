"""What is said of each change to a program: the sentence, the code, the cost, when not."""

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
    """What is said of one kind of change; names in braces are filled in."""

    text: str
    code: str = ""
    costs: str = ""
    unless: str = ""
    whys: tuple[str, str, str] = ("", "", "")
    """Why no less, why this, and why no more."""


_LATER = "Not possible where gradients are wanted later."
_AFTER_ITS_CALL = (
    "memory goes when the call that made it has ended",
    "memory goes when the call that made it has ended",
    "nothing is kept beyond the operation that reads it",
)
WORDS = {
    "checkpoint": ChangeWords(
        "Checkpoint the {count} calls of layers from {caller} in each forward pass: keep what each"
        " is given, and compute the rest again in the backward pass.",
        "x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
        "Each step computes these layers' forward pass twice.",
        "A layer has to give the same result when it runs again.",
        (
            "each layer keeps its largest tensor, too, and one layer at a time is computed again",
            "each layer keeps what the next one is given, until its backward pass begins",
            "these layers keep nothing at all for the backward pass",
        ),
    ),
    "smaller-batch": ChangeWords(
        "Use a batch of {share} the size.",
        costs="A step learns from fewer samples, and each sample takes more time.",
        unless="Not possible where the batch cannot be divided.",
        whys=(
            "only what is kept for the backward pass shrinks",
            "what is kept for it, inputs and temporary tensors shrink",
            "everything but parameters, gradients and optimizer state shrinks quadratically",
        ),
    ),
    "accumulate": ChangeWords(
        "Compute the batch in {number} parts, and add up their gradients before the optimizer's"
        " step.",
        "for part in batch.chunk({number}):\n    (loss_of(part) / {number}).backward()",
        "A step takes more, smaller operations. Gradients stay through the forward passes.",
        "Not the same where layers look at the whole batch, as batch normalization does.",
        (
            "only what is kept for the backward pass shrinks, and gradients stay",
            "what is kept for it, inputs and temporary tensors shrink, and gradients stay",
            "everything but parameters, gradients and optimizer state shrinks quadratically",
        ),
    ),
    "chunked-loss": ChangeWords(
        "Compute logits and loss for {share} of the tokens at a time, and recompute each part in"
        " the backward pass.",
        "for part, target in zip(hidden.chunk({number}), targets.chunk({number})):\n"
        "    loss += checkpoint(loss_of, part, target, use_reentrant=False)",
        "The last layer is computed twice.",
        "The loss has to be a sum or a mean over tokens.",
        (
            "only what the loss itself makes shrinks",
            "logits shrink with it",
            "logits and what the loss makes of them take no memory at all",
        ),
    ),
    "attention-kernel": ChangeWords(
        "Use a kernel that never holds attention's weights as a whole.",
        "torch.nn.functional.scaled_dot_product_attention(q, k, v)  # is_causal=True if so",
        "",
        "Not possible where the program reads the weights themselves.",
        (
            "only the softmax's results go",
            "what has their size goes with them",
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
        costs="Updates are less accurate, and the optimizer has to support it.",
        unless="Not possible where the state has few bits already.",
        whys=(
            "large tensors of the state halve, and updates make a few in full precision",
            "they halve, and updates go from one parameter to the next",
            "small ones go altogether, and the optimizer's temporary tensors with them",
        ),
    ),
    "shard-state": ChangeWords(
        "Spread the optimizer's state over the {number} ranks: each keeps it for its own share of"
        " the parameters, and updates these alone.",
        "torch.distributed.optim.ZeroRedundancyOptimizer(\n"
        "    model.parameters(), optimizer_class=torch.optim.AdamW, lr=LR)",
        "After each step the ranks send one another the parameters that they updated.",
        "Only where all ranks train the same parameters.",
        (
            "a rank has its share and one parameter more, and its updates make as many tensors",
            "a rank keeps and updates one part of {number}",
            "a rank has one parameter less than its share, and updates it without more memory",
        ),
    ),
    "offload": ChangeWords(
        "Keep the optimizer's state in the host's memory, and update the parameters there.",
        "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True)",
        "Each step takes longer: gradients go to the host, and parameters come back.",
        "The host has to have the room.",
        (
            "large tensors of the state go, and a few come back for one parameter at a time",
            "the state goes, and with it the optimizer's temporary tensors",
            "the state goes, and with it the optimizer's temporary tensors",
        ),
    ),
    "offload-activations": ChangeWords(
        "Keep what is saved for the backward pass in the host's memory until then.",
        "with torch.autograd.graph.save_on_cpu(pin_memory=True):  # around the forward pass",
        "Each step takes longer: all of it is copied to the host and back.",
        "The host has to have the room. What the program itself holds on to stays.",
        (
            "layers keep what they are given and their largest tensor; one comes back at a time",
            "a tensor goes when the next is made, and comes back for its own operation",
            "what is saved takes no memory at all",
        ),
    ),
    "free-earlier gradients": ChangeWords(
        "Release gradients right after the optimizer's step: they are kept through the forward"
        " pass that follows.",
        "optimizer.step()\noptimizer.zero_grad(set_to_none=True)",
        "",
        "Not possible where gradients are added up over several passes.",
    ),
    "free-earlier outputs": ChangeWords(
        "Let go of results of the forward pass before the backward pass: variables keep them beyond"
        " it.",
        "del outputs  # before loss.backward()",
        "",
        "It frees nothing where the backward pass needs them itself.",
        (
            "the backward pass may need them itself",
            "they go before the backward pass",
            "they go before the backward pass",
        ),
    ),
    "inference-mode": ChangeWords(
        "Run it in inference mode: what is kept for a backward pass is never used.",
        "with torch.inference_mode():",
        unless=_LATER,
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
        "Do not keep what each step makes: it is never freed.",
        "losses.append(loss.item())  # or .detach(); and empty lists and caches",
        "",
        "Not a fault where the program needs all of it later.",
        (
            "each step lets go of it when the next one comes there",
            "no step keeps it",
            "no step keeps it",
        ),
    ),
}
"""By code, with what it is about where there are several of a code."""

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
    """Return the change as code in a framework, with what is to be filled in."""
    return _IN_FRAMEWORKS.get((code, framework)) or WORDS[f"{code} {about}".strip()].code

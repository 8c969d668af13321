"""What a maintainer says of the first two suggestions for each snapshot, having looked at it."""

from __future__ import annotations

REMARKS = {
    ("cpu_profile.pickle", "cpu:0"): (
        "Right: half of the peak is what two layers keep for backward; nobody would bother about"
        " 2 MiB."
    ),
    ("expandable_segments.pickle.zst", "cuda:0"): (
        "Right, and in this order: the logits and what the loss computes from them are three"
        " quarters of it."
    ),
    ("out_of_memory.pickle.gz", "cuda:0"): (
        "Right: one longer batch did not fit, and what three layers keep is three quarters of"
        " what was live; checkpoints make room without changing what is learned."
    ),
    ("private_pool.json", "cuda:0"): (
        "True and of little help: the pool of a captured graph is as large as what was captured."
    ),
    ("state_only.pickle", "cuda:0"): "Right: there is no history to suggest anything from.",
    ("three_devices.pickle", "cuda:0"): "Right, as above: the vocabulary is large for the model.",
    ("three_devices.pickle", "cuda:1"): "Also right, with a batch half as large again.",
    ("training_step.pickle", "cuda:0"): (
        "Right, but I would begin with the second: it frees nearly as much, and the batch stays."
    ),
    ("truncated_ring.pickle", "cuda:0"): (
        "Also right, though half of the first step is lost from the recording."
    ),
    ("two_streams.pickle", "cuda:0"): (
        "The second is the fix: memory waits for another stream. The first only names the weights."
    ),
    ("bare_segments_list.pkl", "cuda:1"): "The first is right: a list of segments without history.",
    ("compiled_2.7b_forward.pickle", "cuda:0"): (
        "Of little help: parameters and gradients from before the recording are 28 of 32 GiB,"
        " which neither changes. Checkpoints take most of the rest."
    ),
    ("compiled_lone_end.pickle", "cuda:0"): "Right: the history is one event, and no allocation.",
    ("medium_512_training.pickle", "cuda:0"): (
        "Right: 24 layers keep 6.5 of 11.6 GiB, and checkpoints are the usual answer to that."
    ),
    ("mem_snapshot.pickle", "cuda:0"): (
        "A softmax written out by hand: the second names it. An attention kernel would be"
        " the fix, but is not suggested, because PyTorch calls nothing here softmax."
    ),
    ("memory_ctx128_forward_.pickle", "cuda:0"): (
        "Right as far as it goes: the file was written with the graph of a forward pass still"
        " live. It needs no_grad(), or a recording that goes on."
    ),
    ("memory_forward_bf16_128.pickle", "cuda:0"): (
        "Right: weights in full precision and autocast's copies of them are nearly all of it, and"
        " nothing else is kept."
    ),
    ("no_times_torch21.pickle", "cuda:0"): (
        "Right: QLoRA on 22 layers, whose activations are most of it; Transformers has a switch"
        " for it."
    ),
    ("one_event_ring.pickle", "cuda:0"): "Right: the ring had room for one event.",
    ("oom_snapshot_torch20.pickle", "cuda:0"): (
        "Right: the failed request is noted, and nothing before it."
    ),
    ("private_pools_eight_devices.pickle", "cuda:1"): (
        "True: these are Megatron's buffers of parameters and gradients, which only more ranks"
        " share."
    ),
    ("sgd_annotated.pickle", "cuda:0"): (
        "I would begin with the second: two copies of the weights are needed, and an optimizer"
        " written by hand makes several tensors of the size of each parameter."
    ),
    ("snapshot_event_inside.pickle", "cuda:0"): (
        "Right: large images without gradients, of which fewer at a time will do."
    ),
    ("three_gpus_expandable_oom.pickle", "cuda:0"): (
        "Right, but not what ended the program: that was the next device, for an uneven split."
    ),
    ("three_gpus_expandable_oom.pickle", "cuda:1"): (
        "Right: six layers keep 78 of 78 GiB. Splitting the graphs evenly comes first, as"
        " another finding says."
    ),
    ("three_gpus_expandable_oom.pickle", "cuda:2"): "Right, as on the other devices.",
    ("windows_unaligned.pickle", "cuda:0"): "Right: there are no events.",
}
"""By file and device, a sentence or two."""

"""A Trainer of Hugging Face with a tiny model that is made from its configuration."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from tests.laboratory.programs.base import Program


class TrainerProgram(Program):
    """A GPT-2 that a Trainer trains."""

    name = "huggingface-trainer"
    variants = (
        "checkpoint", "smaller-batch:2", "accumulate:2", "bf16-activations", "fused-optimizer",
        "sgd-for-adam",
    )  # fmt: skip

    def build(self) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.set_seed(0)
        config = transformers.GPT2Config(
            vocab_size=512, n_positions=128, n_embd=128, n_layer=4, n_head=4, use_cache=False
        )
        model = transformers.GPT2LMHeadModel(config)
        if self.on("checkpoint"):
            model.gradient_checkpointing_enable({"use_reentrant": False})
        self.folder = tempfile.TemporaryDirectory()
        size = 4 // self.number("smaller-batch") // self.number("accumulate")
        settings = transformers.TrainingArguments(
            output_dir=self.folder.name,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=self.number("accumulate"),
            bf16=self.on("bf16-activations"),
            optim=self._optimizer(),
            max_steps=100,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
        )
        rows = [{"ids": torch.randint(512, (128,))} for _ in range(64)]
        self.trainer = transformers.Trainer(
            model, settings, train_dataset=rows, data_collator=self._collate
        )
        self.modules = [model]
        self.watch.note("input", *(row["ids"] for row in rows))

    def _optimizer(self) -> str:
        if self.on("sgd-for-adam"):
            return "sgd"
        return "adamw_torch_fused" if self.on("fused-optimizer") else "adamw_torch"

    def _collate(self, rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        ids = torch.stack([row["ids"] for row in rows])
        self.watch.note("input", ids)
        return {"input_ids": ids, "labels": ids}

    def run(self, steps: int, begins: Callable[[int], None]) -> None:
        import transformers

        program = self

        class Steps(transformers.TrainerCallback):
            def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
                program.optimizers = [named["optimizer"]]
                begins(state.global_step)

        self.trainer.args.max_steps = steps
        self.trainer.add_callback(Steps())
        self.trainer.train()


PROGRAMS = (TrainerProgram,)

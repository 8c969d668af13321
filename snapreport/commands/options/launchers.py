"""Launchers, such as torchrun: record the programs that they start, not the launchers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from snapreport.ground.errors import InputError

_LAUNCHERS = {
    "torchrun": ("torchrun",),
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": ("python", "-m", "torch.distributed.launch"),
    "accelerate": ("accelerate",),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate",),
    "deepspeed": ("deepspeed", "--no_local_rank"),
    "deepspeed.launcher.runner": ("deepspeed", "--no_local_rank"),
}
"""How each launcher is called, by its module or file name; most take a module to run with ``-m``.

DeepSpeed takes it with ``--module``, and puts ``--local_rank=0`` after the module's name unless
given ``--no_local_rank``; programs find it in ``LOCAL_RANK`` as well.
"""
_MODULE = ("-m", "--module")


def refuse_launcher(program: str, module: bool, arguments: Sequence[str]) -> None:
    """Refuse to record a launcher, which would record nothing of the training.

    Raises:
        InputError: it is a launcher; the message has the command that records what it starts.
    """
    name = program if module else Path(program).name
    called = _LAUNCHERS.get(name)
    if called is None:
        return
    before = sys.argv[: len(sys.argv) - 1 - len(arguments)]
    own = before[before.index("record") + 1 :] if "record" in before else []
    options = [option for option in own if option not in _MODULE]
    start = _place(arguments)
    given = [each for each in arguments[:start] if each not in (*_MODULE, *called)]
    names_module = any(each in _MODULE for each in arguments[:start])
    run = ["--module" if "deepspeed" in called else "-m", "snapreport", "record", *options]
    if names_module and arguments[start:]:
        run.append("-m")
    trains = [*called, *given, *run, *(arguments[start:] or ("train.py",))]
    raise InputError(
        f"{name} starts other processes, and recording it sees none of them. Record those instead:"
        f" {shlex.join(trains)}"
    )


def _place(arguments: Sequence[str]) -> int:
    """Return the index of the launched program: a Python file, or the name after ``-m``.

    If no argument looks like a program, return the number of arguments.
    """
    for k, each in enumerate(arguments):
        if each in _MODULE:
            return k + 1
        if each.endswith(".py"):
            return k
    return len(arguments)

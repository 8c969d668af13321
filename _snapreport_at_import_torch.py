"""What PyTorch loads at the end of ``import torch``, wherever snapreport is installed.

A module of its own, with a name that no program has: a user's own ``snapreport.py`` beside a script
would otherwise be loaded in our place, and ``import torch`` would fail.
"""

import contextlib
import os
import sys


def begin() -> None:
    """Record this process, if the environment says so; never raise into the program."""
    if not (os.environ.get("SNAPREPORT") or os.environ.get("SNAPREPORT_OOM")):
        return
    try:
        from snapreport.api.any_process import AnyProcess

        AnyProcess.from_environment().begin()
    except Exception as error:
        with contextlib.suppress(Exception):  # it may be closed or missing
            sys.stderr.write(f"snapreport: this process is not recorded: {error}\n")

"""Suggestions for how to record again, so that the next recording shows more."""

from __future__ import annotations

from snapreport.ground.units import format_count
from snapreport.model.diagnoses import Suggestion
from snapreport.model.history import History
from snapreport.model.trust import Loss

_STEPS = 10


def record_again(text: str, change: str = "") -> Suggestion:
    """Return a suggestion about the recording itself, which frees no memory."""
    return Suggestion("record-again", text, change)


RECORD = record_again(
    "Start recording before the model is built. Write the file after the work, or in the except"
    " block of an out-of-memory error.",
    "torch.cuda.memory._record_memory_history()  # before the model is built\n"
    'torch.cuda.memory._dump_snapshot("snap.pickle")  # after the work',
)
RECORD_WITH_US = record_again(
    "Start recording before the model is built.",
    'with snapreport.record("out/"):  # before the model is built\n    ...',
)
"""The same for recordings made with snapreport, which may have no CUDA."""
AT_FAILURE = record_again(
    "Let PyTorch write the file at the moment of the failure, before anything is freed.",
    'save = lambda *_: torch.cuda.memory._dump_snapshot("oom.pickle")\n'
    "torch._C._cuda_attach_out_of_memory_observer(save)  # beside _record_memory_history()",
)


def how_to_record(tables: History) -> Suggestion:
    """Return how to record again, with the recorder that was used."""
    return RECORD if tables.recorder is None else RECORD_WITH_US


def record_stacks(text: str) -> Suggestion:
    """Return how to record all call stacks; ``text`` says which are missing."""
    return record_again(
        text,
        'torch.cuda.memory._record_memory_history(context="all", stacks="all")  # the defaults\n'
        'torch.cuda.memory._dump_snapshot("snap.pickle")  # after the work',
    )


def larger_ring(loss: Loss) -> Suggestion:
    """Return how to keep every event, or at least enough steps."""
    text = "Leave max_entries out: PyTorch then keeps every event."
    if not loss.full:
        text = (
            "Leave max_entries out, and do not stop recording in between: PyTorch then keeps every"
            " event."
        )
    if loss.events_per_step is None:
        return record_again(text, RECORD.change)
    entries = _round_up(loss.events_per_step * _STEPS)
    text += (
        f" Or make the ring larger: a step ({loss.step_name}) has about"
        f" {format_count(loss.events_per_step)} events here, so {_STEPS} of them need"
        f" max_entries={entries:_}."
    )
    code = RECORD.change.replace("history()", f"history(max_entries={entries:_})")
    return record_again(text, code)


def _round_up(count: int) -> int:
    """Round up to one or two digits and zeros: a number that one would type."""
    unit = int(10 ** max(len(str(count)) - 2, 0))
    return -(-count // unit) * unit

"""Chooses the recorder for this machine; all running recordings share one CUDA history."""

from __future__ import annotations

import logging
import sys
import threading

from snapreport.ground.errors import RecordingError
from snapreport.recorders import system
from snapreport.recorders.cuda import CudaRecorder
from snapreport.recorders.recorder import Options, Recorder

_LOG = logging.getLogger(__name__)

_lock = threading.RLock()
_cuda: list[CudaRecorder] = []
"""The running CUDA recorder, once for each recording that uses it."""


def join_recorder(options: Options) -> tuple[Recorder, bool]:
    """Return a running recorder, and whether it was already on: its snapshots then begin earlier.

    Args:
        options: ignored if a recording is already running.

    Raises:
        RecordingError: this PyTorch cannot record here.
    """
    if not system.cuda_is_there():
        return _start_cpu(options), False
    with _lock:
        joined = bool(_cuda)
        recorder = _cuda[0] if joined else _start_cuda(options)
        _cuda.append(recorder)
    return recorder, joined or recorder.joined


def leave_recorder(recorder: Recorder) -> None:
    """Stop a recorder when nobody uses it any more."""
    with _lock:
        if isinstance(recorder, CudaRecorder):
            if recorder in _cuda:
                _cuda.remove(recorder)
            if recorder in _cuda:
                return
        recorder.stop()


def forget_recorders() -> None:
    """In a forked child, forget the recorders that are running: they are the parent's."""
    global _lock
    _lock = threading.RLock()  # the parent's may be held by a thread that is not in the child
    _cuda.clear()
    cpu = sys.modules.get("snapreport.recorders.cpu")
    if cpu is not None:
        cpu.forget_other_threads()


def _start_cuda(options: Options) -> CudaRecorder:
    backend = system.allocator_backend()
    if backend != "native":
        raise RecordingError(
            f"PyTorch's {backend} allocator keeps no memory history; remove backend from"
            " PYTORCH_CUDA_ALLOC_CONF and record again."
        )
    recorder = CudaRecorder(options)
    recorder.start()
    return recorder


def _start_cpu(options: Options) -> Recorder:
    from snapreport.recorders.cpu import CpuRecorder

    other = system.other_accelerator()
    if other is not None:
        _LOG.warning("Memory of %s devices cannot be recorded; only the CPU's memory is.", other)
    recorder = CpuRecorder(options)
    recorder.start()
    return recorder

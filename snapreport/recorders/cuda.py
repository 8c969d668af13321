"""Records CUDA memory through PyTorch's own history."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.recorders.recorder import Options, temporary_environment

_LOG = logging.getLogger(__name__)

_Observer = Callable[[int, int, int, int], None]
"""Called with the device and, in bytes, the request, the device's total and its free memory."""

_SYMBOLS = {"TORCH_SYMBOLIZE_MODE": "fast", "TORCH_DISABLE_ADDR2LINE": "1"}
"""Make PyTorch look up the names of C++ frames in this process. By default PyTorch up to 2.14 calls
addr2line, which takes minutes with some builds of Python; where it is not installed, as in slim
containers, the whole snapshot fails with ``ValueError: stoi``. They are read once, at the first
use; the second is for PyTorch before 2.4, which lacks the first."""
_observers: list[_Observer] = []


class CudaRecorder:
    """Switches PyTorch's history on, or joins it if it is already on; see ``Recorder``."""

    kind = "cuda"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._started = self._running = False
        self._anomalies: tuple[bool, bool] | None = None
        """Whether anomaly mode was on and looked for NaN, before we switched it on."""
        self.joined = False
        """Whether history was already on: its settings are then kept, and it stays on."""

    @property
    def timeline(self) -> object:
        """What its stages are recorded on."""
        return self

    def start(self) -> None:
        """Start recording, or join a history that is already on.

        Raises:
            RecordingError: this build of PyTorch has no history, or cannot keep one.
        """
        import torch

        try:
            torch.cuda.init()
            self.joined = _history_is_on()
            if not self.joined:
                _switch_on(torch.cuda.memory._record_memory_history, self._options)
                if self._options.forward_frames:
                    self._note_forward(True)
        except (AttributeError, RuntimeError, TypeError, ValueError, AssertionError) as error:
            why = str(error).strip().split("\n", 1)[0] or type(error).__name__
            raise RecordingError(f"PyTorch cannot record CUDA memory: {why}") from error
        self._started = self._running = True

    def snapshot(self) -> dict[str, Any]:
        """Return PyTorch's snapshot of all devices.

        Raises:
            RecordingError: the recording was never started.
        """
        import torch

        if not self._started:
            raise RecordingError("Nothing has been recorded yet; call start() first.")
        if self._running and not _history_is_on():
            _LOG.warning(
                "The program switched PyTorch's memory history off during the recording;"
                " what was recorded before that is lost."
            )
        with temporary_environment(_SYMBOLS):
            found: dict[str, Any] = torch.cuda.memory._snapshot()
        return found

    def stop(self) -> None:
        """Switch the history off, unless it was on before."""
        import torch

        if self._running:
            self._running = False
            if not self.joined:
                torch.cuda.memory._record_memory_history(None)
                self._note_forward(False)

    def _note_forward(self, on: bool) -> None:
        """Switch autograd's anomaly mode on, which keeps a call stack with each of its nodes."""
        import torch

        if not on:
            if self._anomalies is not None:
                torch.set_anomaly_enabled(*self._anomalies)
        elif torch_version() < (2, 12):
            _LOG.warning("This PyTorch does not note lines of forward: that needs 2.12 or newer.")
        else:
            self._anomalies = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
            torch.set_anomaly_enabled(True, self._anomalies[0] and self._anomalies[1])

    def mark(self, name: str) -> None:
        """Add an annotation that starts and ends now."""
        with self.stage(name):
            pass

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Annotate the time of the body, on the thread's current device."""
        import torch

        with torch.profiler.record_function(name):
            yield

    def devices(self) -> list[dict[str, Any]]:
        """Return name, capacity, free bytes and counters of each device that is in use."""
        import torch

        found = []
        for ordinal in range(torch.cuda.device_count()):
            about: dict[str, Any] = {"device": f"cuda:{ordinal}"}
            # Each on its own: this version of PyTorch may lack some.
            with contextlib.suppress(Exception):
                properties = torch.cuda.get_device_properties(ordinal)
                about["name"] = str(properties.name)
                about["capacity"] = int(properties.total_memory)
            with contextlib.suppress(Exception):
                stats = torch.cuda.memory_stats(ordinal)
                about["stats"] = {
                    name: value for name, value in stats.items() if value and _is_kept(name)
                }
            # Asking an unused device for its free memory creates a context of some 400 MB there:
            # each of eight ranks would leave one on the first device before choosing its own.
            with contextlib.suppress(Exception):
                if about.get("stats") or torch._C._cuda_hasPrimaryContext(ordinal):
                    free, total = torch.cuda.mem_get_info(ordinal)
                    about["free"], about["total"] = int(free), int(total)
            found.append(about)
        return found


recorder_class: type[CudaRecorder] = CudaRecorder
"""What records CUDA memory; a forecast puts its own in as long as it runs."""


def _is_kept(counter: str) -> bool:
    """Leave out most of the counters of each private pool: there may be hundreds of pools."""
    of_pool = counter.startswith("reserved_bytes_by_private_pools.")
    return not of_pool or counter.endswith((".all.current", ".all.peak"))


def _history_is_on() -> bool:
    """Say whether PyTorch keeps a history now, whoever switched it on."""
    import torch

    return bool(torch._C._cuda_isHistoryEnabled())


def _switch_on(record: Callable[..., None], options: Options) -> None:
    """Call ``_record_memory_history`` with the arguments that this version has."""
    context = options.context
    if context == "all" and _loses_exceptions():
        context = "alloc"
        _say_once(
            "This version of PyTorch breaks programs that use activation checkpointing when the"
            " call stacks of frees are recorded, so only allocations get call stacks."
        )
    wanted: dict[str, Any] = {
        "enabled": "all",
        "context": None if context == "none" else context,
        "stacks": options.stacks,
        "max_entries": sys.maxsize if options.max_entries is None else options.max_entries,
        # Other threads, such as the autograd engine's, may also enter stages.
        "global_record_annotations": True,
        # Otherwise the events of an earlier recording would come first.
        "clear_history": True,
    }
    if options.compile_context:
        wanted["compile_context"] = True
    if options.pinned:
        wanted["record_pinned_host_memory"] = True
    if options.skip_actions:
        wanted["skip_actions"] = list(options.skip_actions)
    known = inspect.signature(record).parameters
    for name in sorted(set(wanted) - set(known)):
        del wanted[name]
        if name in ("compile_context", "record_pinned_host_memory", "skip_actions"):
            _LOG.warning("This PyTorch has no %s; recording continues without it.", name)
    record(**wanted)


@cache
def _say_once(text: str) -> None:
    _LOG.warning(text)


def _loses_exceptions() -> bool:
    """Say whether frees must not record their call stacks.

    Some versions of PyTorch lose an exception where a free's call stack is taken while it unwinds
    ``backward``, as the one does by which a checkpoint that is not reentrant stops early: the
    program then ends in ``SystemError: ... returned NULL without setting an exception``. Seen with
    2.11; source: pytorch#175196.
    """
    return (2, 10) <= torch_version() < (2, 12)


def torch_version() -> tuple[int, int]:
    """Return PyTorch's version; zeros where it is none that we know."""
    import torch

    numbers = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


@contextmanager
def observe_oom(observer: _Observer) -> Iterator[None]:
    """During the body, call ``observer`` whenever a request fails, before the exception unwinds.

    It runs on the failing thread, and must not raise: that would replace the exception.
    """
    _observers.append(observer)
    try:
        _attach()
        yield
    finally:
        _observers.remove(observer)


_attached: set[int] = set()
"""Ids of the processes with our observer, which PyTorch cannot detach."""
_lock = threading.Lock()


def _attach() -> None:
    import torch

    with _lock:
        if os.getpid() in _attached:
            return
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            _LOG.warning(
                "This PyTorch does not report failed requests as they happen; memory is read"
                " after the failure."
            )
            return
        attach(_notify)
        _attached.add(os.getpid())


def _notify(device: int, size: int, total: int, free: int) -> None:
    for observer in tuple(_observers):
        try:
            observer(device, size, total, free)
        except Exception:
            _LOG.exception("Handling an out of memory error failed")

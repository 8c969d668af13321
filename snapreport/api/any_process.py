"""Records whatever process imports PyTorch where ``SNAPREPORT`` or ``SNAPREPORT_OOM`` is set.

PyTorch itself calls ``_snapreport_at_import_torch.begin()`` at the end of ``import torch``, which
loads this module where one of the variables is set. Nothing of it ever raises into the program.

A process with a GPU is recorded from when it first uses CUDA, and a process that never does is not:
neither launchers nor the workers that load data need a context on the card for this.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapreport.api.recording import Recording

ALL, ONLY_OOM, OPTIONS = "SNAPREPORT", "SNAPREPORT_OOM", "SNAPREPORT_OPTIONS"

LAUNCHERS = frozenset((
    *("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed"),
    *("accelerate.commands.launch", "accelerate.commands.accelerate_cli"),
    "deepspeed.launcher.runner",
))  # fmt: skip
"""Programs that start those to record, by their file or module."""
_COMPILER = "compile_worker"
"""A part of the names of processes that ``torch.compile`` starts."""
_WORKER_OF_RAY = "default_worker.py"
_MOST_RANKS = 1 << 20
_KEPT_FOR_OOM = 100_000
"""Events kept where only a failure is waited for: the last steps, in some 100 MB of host memory."""


class AnyProcess:
    """The recording of a process that did not ask for it."""

    def __init__(
        self,
        folder: str,
        *,
        only_oom: bool,
        steps: tuple[int, int] | None,
        arguments: dict[str, Any],
    ) -> None:
        """Take what the environment says.

        Args:
            folder: as for ``snapreport.record()``.
            only_oom: leave files only if a request for memory fails.
            steps: the first and the last step to record, counted from 1; None for all.
            arguments: others of ``snapreport.record()``.
        """
        self._folder, self._only_oom, self._steps = Path(folder).absolute(), only_oom, steps
        self._arguments = arguments
        self._recording: Recording | None = None
        self._on_card = False
        self._ender = 0
        self._optimizer: Any = None
        self._done = 0

    @classmethod
    def from_environment(cls) -> AnyProcess:
        """Read the variables.

        Raises:
            ValueError: one of the options is none.
        """
        only_oom = os.environ.get(ONLY_OOM, "")
        arguments = read_options(os.environ.get(OPTIONS, ""))
        steps = arguments.pop("steps", None)
        if only_oom:
            arguments.setdefault("max_entries", _KEPT_FOR_OOM)
        folder = only_oom or os.environ[ALL]
        return cls(folder, only_oom=bool(only_oom), steps=steps, arguments=arguments)

    def begin(self) -> None:
        """Start to record, or wait for what is to be recorded."""
        from snapreport.recorders import system

        self._on_card = system.has_card()
        if not self._on_card and (self._only_oom or _is_helper()):
            return  # the CPU's memory is recorded by a profiler, which nothing is to pay for
        if not self._on_card and threading.current_thread() is not threading.main_thread():
            _say("this process is not recorded: PyTorch was imported outside the main thread")
            return
        self._end_well()
        if self._steps is not None:
            system.after_each_step(self._count)
        if self._steps is None or self._steps[0] <= 1:
            if self._on_card:
                system.at_first_use_of_cuda(self.start)
            else:
                self.start()

    def start(self) -> None:
        """Record from now on."""
        try:
            from snapreport.api.recording import ambient

            self._recording = ambient(self._folder, only_oom=self._only_oom, **self._arguments)
            self._recording.start()
            if self._on_card:
                self._listen()
            else:
                from snapreport.recorders.cpu import give_way

                give_way(self._finish)
        except Exception as error:
            _say(f"this process is not recorded: {error}")

    def _finish(self) -> None:
        """End this recording, and write it, while the process goes on."""
        try:
            if self._recording is not None and self._recording.on:
                self._recording.stop()
        except Exception as error:
            _say(f"this process was recorded, but nothing could be written: {error}")

    def stop(self, error: BaseException | None) -> None:
        """Write all that was recorded, as the process ends."""
        try:
            if self._recording is not None:
                from snapreport.api.recording import stop_all

                stop_all(error)
        except Exception as failure:
            _say(f"this process was recorded, but nothing could be written: {failure}")

    def _count(self, optimizer: Any, *_: Any) -> None:
        """Count a step: each of the first optimizer that makes one."""
        assert self._steps is not None
        if self._optimizer is None or self._optimizer() is None:  # that of a warm-up may be gone
            import weakref

            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is not optimizer:
            return
        self._done += 1
        if self._done == self._steps[0] - 1:
            self.start()
        elif self._done == self._steps[1]:
            self._finish()

    # How a process ends

    def _end_well(self) -> None:
        """Let every end of the process come by here first that Python code can hear of."""
        from multiprocessing import util

        from snapreport.ground import processes

        leave, before = os._exit, threading.excepthook

        def exit_at_once(status: int) -> None:
            try:
                self.stop(None)
            finally:
                leave(status)

        def hook(args: Any) -> None:
            if self._recording is not None and args.exc_value is not None:
                self._recording.note_failure(args.exc_value)
            before(args)

        os._exit = exit_at_once  # type: ignore[assignment]
        threading.excepthook = hook
        # The first process of a container does not end by signals that it does not handle.
        if threading.current_thread() is threading.main_thread() and os.getpid() != 1:
            processes.answer_signals(self._signalled)
        if not self._on_card:
            util.register_after_fork(self, AnyProcess._in_fork)
            self._hear_of_errors()

    def _signalled(self, number: int) -> None:
        """Write what was recorded, and end as the signal would have ended the process."""
        from snapreport.api.recording import wait_for_writing
        from snapreport.ground.processes import SignalExit

        error = SignalExit(number)
        if self._ender == threading.get_ident():
            return  # one more signal, while this thread is writing for the first
        if wait_for_writing(error.end_as_by_default):
            self._ender = threading.get_ident()
            try:
                self.stop(error)
            finally:
                error.end_as_by_default()

    def _listen(self) -> None:
        """Hear signals in a thread, too: the main one may wait for other ranks in a long call.

        With a context on the card the process has other threads anyway.
        """
        import signal

        here = threading.current_thread() is threading.main_thread()
        if os.name != "posix" or not here:
            return
        heard, told = os.pipe()
        os.set_blocking(told, False)
        before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        if before != -1:  # an event loop has its own
            signal.set_wakeup_fd(before)
            return
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()

    def _hear(self, pipe: int) -> None:
        from snapreport.ground.processes import ENDING, is_ours

        while number := os.read(pipe, 1):
            if number[0] in ENDING and is_ours(number[0]):
                self._signalled(number[0])

    def _hear_of_errors(self) -> None:
        """Write what failed on the CPU at once where a host keeps an error from ending the program.

        A kernel of a notebook has only seconds at its end, and a worker of Ray has none.
        """
        shell = sys.modules.get("IPython")
        shell = None if shell is None else shell.get_ipython()
        if shell is not None:
            shell.events.register("post_run_cell", lambda cell: self._keep(cell.error_in_exec))
        ray = sys.modules.get("ray.exceptions")
        if ray is not None and Path(_program()).name == _WORKER_OF_RAY:
            make = ray.RayTaskError.__init__

            def make_and_keep(made: Any, *args: Any, **kwargs: Any) -> None:
                make(made, *args, **kwargs)
                self._keep(getattr(made, "cause", None))  # the task's own error

            ray.RayTaskError.__init__ = make_and_keep

    def _keep(self, error: BaseException | None) -> None:
        try:
            if error is not None and self._recording is not None:
                self._recording.keep_failure(error)
        except Exception as failure:
            _say(f"what failed could not be written: {failure}")

    def _in_fork(self) -> None:
        """See to it that a forked worker that fails leaves its memory of the CPU, too.

        Only then: to read the profiler takes as long as for all that the parent did before.
        """
        from multiprocessing import util

        forked_us = time.time_ns() // 1000

        def ended() -> None:
            from snapreport.api.recording import ambient
            from snapreport.recorders.system import has_failed

            error = sys.exc_info()[1]
            if not has_failed(error):
                return
            try:
                made = ambient(self._folder, forked_us=forked_us, **self._arguments)
                made.start().stop(error)
            except Exception as failure:
                _say(f"this process failed, but nothing could be written: {failure}")

        util.Finalize(None, ended, exitpriority=100)


def read_options(text: str) -> dict[str, Any]:
    """Read options such as ``ranks=0,4-7 steps=10-12 stacks=python``.

    Returns:
        arguments of ``snapreport.record()``, and ``steps``, the first and the last.

    Raises:
        ValueError: one is not known, or has no such value.
    """
    import shlex

    found: dict[str, Any] = {}
    for each in shlex.split(text):
        name, equal, value = each.partition("=")
        name = name.replace("-", "_")
        if name not in _READERS:
            raise ValueError(f"{OPTIONS} has no {name}; it takes {', '.join(_READERS)}")
        try:
            found[name] = _READERS[name](value if equal else "yes")
        except (ValueError, KeyError):
            raise ValueError(f"{OPTIONS}: {each} cannot be read") from None
    return found


def _numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, last = _range(part)
        if last >= _MOST_RANKS:
            raise ValueError
        found += range(first, last + 1)
    return tuple(found)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    ends = int(first), int(last if dash else first)
    if ends[1] < ends[0]:
        raise ValueError
    return ends


def _yes(text: str) -> bool:
    return {"yes": True, "1": True, "true": True, "no": False, "0": False, "false": False}[text]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


_READERS: dict[str, Any] = {
    "ranks": _numbers, "steps": _range, "max_entries": int, "stacks": str, "context": str,
    "skip_actions": _words, "formats": _words, "title": str, "notes": str, "compress": _yes,
    "compile_context": _yes, "pinned": _yes, "forward_frames": _yes,
}  # fmt: skip


def _is_helper() -> bool:
    """Say whether this process only starts others, or compiles for them."""
    program = _program()
    return Path(program).name in LAUNCHERS or _COMPILER in program


def _program() -> str:
    """Return the file or module that Python runs; empty for none."""
    given = iter(getattr(sys, "orig_argv", sys.argv)[1:])
    for each in given:
        if each in ("-X", "-W", "--check-hash-based-pycs"):
            next(given, None)
        elif each == "-m" or not each.startswith("-"):
            return next(given, "") if each == "-m" else each
        elif each == "-c":
            break
    return ""


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"snapreport: {text}\n")
        sys.stderr.flush()
    except Exception:  # it may be closed or missing, or a signal has interrupted a line on it
        return

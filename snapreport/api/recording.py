"""Record the running program: from one line around its code to the report.

Nothing here may harm the program: errors before its code begins are raised, later ones are logged
as warnings, and the program's own exception always propagates.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import logging
import multiprocessing.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast, final

from snapreport.api.loading import PathLike, Snapshot, load
from snapreport.api.making import save_bundle, save_report
from snapreport.ground.errors import OutputError, RecordingError, SnapreportError
from snapreport.ground.files import check_folder
from snapreport.ground.processes import signals_held
from snapreport.ground.safe_text import titled_table
from snapreport.recorders.recorder import ACTIONS, CONTEXTS, STACKS, Options, Recorder
from snapreport.recorders.session import Schedule, Session, Settings, Taken, forget_recorders
from snapreport.recorders.system import (
    announce,
    best_stacks,
    program_name,
    recorded_line,
    require_torch,
)

_LOG = logging.getLogger(__name__)

FORMATS = ("pickle", "zip", "html", "md")
"""The files that a recording can write: the snapshot, the bundle, and the two reports."""

MAX_ENTRIES = 1_000_000
"""Events kept by default: some hours of training, in at most a few GB of the host's memory."""

_STEMS = {"pickle": "snapshot", "zip": "snap", "html": "report", "md": "report"}

_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.RLock()
_active: list[tuple[Recording, Session]] = []
"""The running recordings of this process, of all threads, in order of starting."""
_writing = threading.RLock()
_writer = 0
"""The thread that is writing a recording, which holds the lock."""
_after_writing: list[Callable[[], None]] = []
"""Called by that thread when it has written."""
_workers: set[int] = set()
"""The processes, such as multiprocessing workers, that finish their recordings when they end."""


@contextmanager
def _written() -> Iterator[None]:
    """Hold the lock while this thread writes; a signal in between is answered afterwards."""
    global _writer
    with _writing:
        before, _writer = _writer, threading.get_ident()
        try:
            yield
        finally:
            _writer = before
    if not before:
        for each in tuple(_after_writing):
            each()


def wait_for_writing(later: Callable[[], None]) -> bool:
    """Let no other thread write a recording from now on: the process is about to end.

    Args:
        later: called in place of waiting, where this thread itself writes and was interrupted by a
            signal, as soon as it has written.

    Returns:
        whether nothing is being written now.
    """
    if _writer == threading.get_ident():
        _after_writing.append(later)
        return False
    _writing.acquire()
    return True


@final
class Recording:
    """A recording, to use as a context manager, as a decorator, or with ``start()``.

    ``files`` has the last recording's files by format: ``files["html"]`` is the report. Files of
    a schedule have names such as ``html.step10``.
    """

    def __init__(self, settings: Settings, formats: Sequence[str] = FORMATS) -> None:
        """Wrap settings; ``record()`` is the usual way to get one."""
        self._settings = settings
        self._formats = tuple(formats)
        self.folder = settings.folder
        """The folder of the last recording that began; before that, the one given to it."""
        self.files: dict[str, Path] = {}
        self._early: dict[str, Path] = {}
        """Those made of a failed request while the program went on."""
        self.words = ""
        """A line with the report's path and its worst finding; empty before it is written."""
        self._headline = ""

    @property
    def best(self) -> Path | None:
        """The file to look at first; None before anything is written."""
        kinds = ("html", "md", "zip", "pickle")
        return next((self.files[kind] for kind in kinds if kind in self.files), None)

    @property
    def on(self) -> bool:
        """Whether it is running now, in this process."""
        return self._session() is not None

    def start(self) -> Recording:
        """Start to record; if that is interrupted, nothing was begun.

        Raises:
            RecordingError: nothing can be recorded here.
            OutputError: the folder cannot be created or written to.
        """
        require_torch()
        session = Session(self._settings)
        try:
            with signals_held():
                session.open()
                with _lock:
                    _active.append((self, session))
        except BaseException:
            self._abandon(session)
            raise
        self.folder = session.folder
        _stop_at_end_of_worker()
        return self

    def abandon(self) -> None:
        """End the recording, and leave no file or folder of it behind."""
        session = self._session()
        if session is not None:
            self._abandon(session)

    def stop(self, error: BaseException | None = None) -> dict[str, Path]:
        """End the recording, write its files, and return their paths by format.

        Args:
            error: the exception that ended the program's code; it gets a note with the report's
                path.

        Raises:
            RecordingError: it is not running.
        """
        with _written():
            return self._stop(error)

    def _stop(self, error: BaseException | None) -> dict[str, Path]:
        session = self._session()
        if session is None:
            raise RecordingError("No recording is running; start one first.")
        with _lock:
            _active[:] = [each for each in _active if each[1] is not session]
        self.files, self.words, self._headline = {}, "", ""
        for taken in session.close(error):
            self._finish(taken, session)
        for kind, path in self._early.items():  # what was made at the failure is made anew by now
            if kind in self.files and path not in self.files.values():
                path.unlink(missing_ok=True)
        self.folder = session.folder  # known by now if not before
        best = self.best or next(iter(self.files.values()), None)
        if best is None:
            return self.files
        if isinstance(error, Exception) and hasattr(error, "add_note"):  # Python 3.10 has none
            error.add_note(f"snapreport: what held the memory is in {best}")
        self.words = recorded_line(best, self._headline)
        if not self._settings.quiet:
            self.tell(error)
        return self.files

    def tell(self, error: BaseException | None = None) -> None:
        """Log ``words`` and print them on stderr, as ``stop()`` does unless it is quiet.

        Args:
            error: what ended the program's code; if given, every rank does so, not only the first.
        """
        if self.words:
            speaker = min(self._settings.ranks or (0,))
            announce(self.words, self._settings.folder, isinstance(error, Exception), speaker)

    def mark(self, name: str) -> None:
        """Name this moment."""
        mark(name)

    def step(self) -> None:
        """Count a step of a loop, and take a snapshot if the schedule says so."""
        session = self._session()
        if session is not None:
            session.step()

    def note_failure(self, error: BaseException) -> None:
        """Note an error that did not end the program, such as that of a thread."""
        session = self._session()
        if session is not None:
            session.note_failure(error)

    def keep_failure(self, error: BaseException) -> None:
        """Write files of a failed request for the CPU's memory, as is done for a card's."""
        session = self._session()
        if session is not None and session.keep_failure(error):
            self._report_failure()

    def snapshot(self, name: str) -> Path | None:
        """Take a snapshot now, ``snapshot.NAME.pickle``; its reports are made at the end.

        Returns:
            its path; None if nothing is being recorded, or if writing failed, which is logged.

        Raises:
            ValueError: the name cannot be part of a file's name.
        """
        if not name or not all(char.isalnum() or char in "-_" for char in name):
            raise ValueError(f"name is {name!r}; take letters, digits, - and _")
        session = self._session()
        return None if session is None else session.take(name)

    def _session(self) -> Session | None:
        """The newest session of this recording: a decorated function may call itself."""
        with _lock:
            return next((s for each, s in reversed(_active) if each is self), None)

    def _abandon(self, session: Session) -> None:
        with _lock:
            _active[:] = [each for each in _active if each[1] is not session]
        session.abandon()

    def _finish(self, taken: Taken, session: Session) -> None:
        """Make the reports of one snapshot; failures are logged."""
        suffix = "" if taken.part == "end" else f".{taken.part}"
        made: dict[str, Path] = {"pickle": taken.path}
        try:
            if set(self._formats) - {"pickle"}:
                try:
                    self._convert(taken, session.folder, made)
                except OutputError as error:
                    session.move(error)
                    self._convert(taken, session.folder, made)
            if "pickle" not in self._formats:
                del made["pickle"]
                taken.path.unlink()
        except (SnapreportError, OSError, MemoryError) as error:
            _LOG.warning("%s was recorded, but no report was made: %s", taken.path, error)
        except Exception:
            _LOG.warning(
                "%s was recorded, but no report was made; try snapreport render %s",
                taken.path,
                taken.path,
                exc_info=True,
            )
        for kind, path in made.items():
            self.files.setdefault(kind + suffix, path)

    def _report_failure(self) -> None:
        """Make the reports of a failed request at once: the process may be killed after it."""
        session = self._session()
        if session is not None and session.survived is not None and not self._early:
            made: dict[str, Path] = {}
            try:
                self._convert(session.survived, session.folder, made)
            except (SnapreportError, OSError, MemoryError) as error:
                _LOG.warning("No report was made of the failed request yet: %s", error)
            self._early = made

    def _convert(self, taken: Taken, folder: Path, made: dict[str, Path]) -> None:
        snapshot = load(taken.path)
        self._headline = self._headline or _headline(snapshot)
        # The page first: whoever ends the process may not wait for all of them.
        for kind in ("html", "md", "zip"):
            if kind not in self._formats:
                continue
            target = folder / f"{_STEMS[kind]}{taken.label}.{kind}"
            if kind == "zip":
                save_bundle(snapshot, target, force=True)
            else:
                save_report(snapshot.findings(allocator=False), target, kind, force=True)
            made[kind] = target

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.on:  # stop() may have been called in the body
            self.stop(error)

    def __call__(self, function: _Function) -> _Function:
        """Record each call of a function; a coroutine or generator until it is done.

        Raises:
            TypeError: it is an asynchronous generator, which cannot be recorded.
        """
        settings, formats = self._settings, self._formats
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def recorded_coroutine(*args: Any, **kwargs: Any) -> Any:
                with Recording(settings, formats):
                    return await function(*args, **kwargs)

            return cast("_Function", recorded_coroutine)
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def recorded_generator(*args: Any, **kwargs: Any) -> Any:
                with Recording(settings, formats):
                    return (yield from function(*args, **kwargs))

            return cast("_Function", recorded_generator)
        if inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__name__} is an asynchronous generator;"
                " put `with snapreport.record(...):` around the loop that uses it"
            )

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with Recording(settings, formats):
                return function(*args, **kwargs)

        return cast("_Function", recorded)

    def __repr__(self) -> str:
        state = "on" if self.on else ", ".join(map(str, self.files.values())) or "not on"
        return f"<Recording into {self.folder}: {state}>"

    def _repr_html_(self) -> str:
        return titled_table(self)


def _headline(snapshot: Snapshot) -> str:
    """Return the title of the worst finding on the device that a report opens with."""
    found = snapshot.device().diagnosis.findings
    return found[0].title if found else ""


def record(
    path: PathLike,
    *,
    stacks: str | None = None,
    context: str | None = "all",
    max_entries: int | None = MAX_ENTRIES,
    compile_context: bool = False,
    pinned: bool = False,
    forward_frames: bool = False,
    skip_actions: Sequence[str] = (),
    formats: Sequence[str] = FORMATS,
    on_oom: bool | Callable[[Path], None] = True,
    title: str | None = None,
    notes: str = "",
    modules: Any = None,
    optimizers: Any = None,
    compress: bool = False,
    ranks: int | Collection[int] | None = None,
    schedule: Schedule | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Recording:
    """Record the memory of a ``with`` block or a decorated function.

    With a CUDA device this uses PyTorch's own memory history, without one PyTorch's profiler, for
    the CPU's memory. Every recording has a folder of its own in ``path``: ``1``, ``2`` and so on;
    ``latest`` is the newest. When the recording ends, even by an exception or an out-of-memory
    error, the folder has ``snapshot.pickle``, ``snap.zip``, ``report.html`` and ``report.md``. The
    processes of one run share the folder, each with its rank in the file names.

    Inside another recording, ours or PyTorch's, it joins that one: the outer settings stay, the
    outer recording goes on afterwards, and this one's files begin where its block begins.

    Args:
        path: the folder for the numbered ones; created if missing.
        stacks: ``python``, or ``all`` with C++ frames, without which the work of ``backward`` has
            no names; by default ``all`` if PyTorch can.
        context: which call stacks are kept: those of ``all`` events, of allocations (``alloc``),
            of live memory (``state``), or ``none``.
        max_entries: how many of the newest events to keep per device; None for no limit. An event
            takes up to a few kB of the host's memory.
        compile_context: name the compiled region of each event.
        pinned: record pinned host memory too, if PyTorch can.
        forward_frames: name the line of forward that memory of backward belongs to. PyTorch 2.12 or
            newer notes it in autograd's anomaly mode, which makes the processor's part of a step
            1.5 to 3 times as long.
        skip_actions: kinds of events to leave out, if PyTorch can, so that more steps fit into
            ``max_entries``: ``free_requested`` (memory then counts as allocated until it can be
            used again) and ``snapshot``.
        formats: which of ``FORMATS`` to write.
        on_oom: write a snapshot when a request for memory fails; or a function to call with its
            path.
        title: of the reports; by default the program's name.
        notes: Markdown to show at the top of the reports.
        modules: a module, several, or a mapping of names to modules: their parameters, gradients
            and buffers that are live at the end then get exact roles instead of inferred ones.
        optimizers: an optimizer or several: the same for their state.
        compress: write ``snapshot.pickle.zst``.
        ranks: record only these of several processes.
        schedule: also take snapshots at steps of a loop; call ``step()`` after each step.
        force: remove the newest recording so far, once this one has its files.
        quiet: do not say on stderr or in the log where the report is.

    Raises:
        OutputError: ``path`` has the extension of a file.
        ValueError, TypeError: an argument is invalid.
    """
    check_folder(Path(path))
    wanted_context = "none" if context is None else context
    if stacks is not None and stacks not in STACKS:
        raise ValueError(f"stacks is {stacks!r}, not one of {', '.join(STACKS)}")
    if wanted_context not in CONTEXTS:
        raise ValueError(f"context is {context!r}, not one of {', '.join(CONTEXTS)}")
    if max_entries is not None and max_entries < 2:
        raise ValueError("max_entries must be 2 or more")
    if isinstance(formats, str):
        formats = (formats,)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats must name some of {', '.join(FORMATS)}, not {unknown or 'none'}")
    if isinstance(skip_actions, str):
        skip_actions = (skip_actions,)
    unknown = [name for name in skip_actions if name not in ACTIONS]
    if unknown:
        raise ValueError(f"skip_actions may name {', '.join(ACTIONS)}, not {unknown}")
    settings = Settings(
        folder=Path(os.path.abspath(path)),  # noqa: PTH100  (the program may change its folder)
        options=Options(
            stacks or best_stacks(),
            wanted_context,
            max_entries,
            compile_context,
            pinned,
            forward_frames,
            tuple(skip_actions),
        ),
        on_oom=on_oom,
        title=title or program_name(),
        notes=notes,
        modules=modules,
        optimizers=optimizers,
        compress=compress,
        ranks=(ranks,) if isinstance(ranks, int) else ranks,
        schedule=schedule,
        force=force,
        quiet=quiet,
    )
    return Recording(settings, formats)


def ambient(
    path: PathLike, *, only_oom: bool = False, forked_us: int | None = None, **arguments: Any
) -> Recording:
    """Return a recording for a process that did not ask for it.

    It leaves nothing where nothing was allocated, and what cannot be written into the folder goes
    into the system's one for temporary files.

    Args:
        path: as for ``record()``, as are the arguments.
        only_oom: leave files only if a request for memory fails.
        forked_us: when this process was forked from one that was recorded like this on the CPU.
    """
    wanted = record(path, **arguments)
    user = os.getuid() if hasattr(os, "getuid") else "user"
    elsewhere = Path(tempfile.gettempdir(), f"snapreport-{user}")
    settings = replace(
        wanted._settings,
        only_oom=only_oom,
        forked_us=forked_us,
        elsewhere=elsewhere,
        on_oom=lambda _: made._report_failure(),
    )
    made = Recording(settings, wanted._formats)
    return made


def start(path: PathLike, **arguments: Any) -> Recording:
    """Record until ``stop()`` or the end of the program; arguments as for ``record()``.

    Raises:
        SnapreportError: as ``Recording.start()``.
    """
    return record(path, **arguments).start()


def stop() -> dict[str, Path]:
    """End the recording that was started last, and return the paths of its files by format.

    Raises:
        RecordingError: no recording is running.
    """
    with _lock:
        newest = _active[-1][0] if _active else None
    if newest is None:
        raise RecordingError("No recording is running; start one first.")
    return newest.stop()


def mark(name: str) -> None:
    """Name this moment in every running recording; does nothing without one."""
    name = str(name)
    for recorder in _recorders():
        recorder.mark(name)
    with _lock:
        for _, session in _active:
            session.mark(name)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Annotate the body as a stage in every running recording; does nothing without one."""
    with ExitStack() as stages:
        for recorder in _recorders():
            stages.enter_context(recorder.stage(str(name)))
        yield


def schedule(*, skip: int = 0, every: int = 1, count: int | None = None) -> Schedule:
    """Return a schedule of snapshots over a loop's steps, counted by ``Recording.step()``.

    Args:
        skip: how many steps to skip first.
        every: take a snapshot after the first of every so many steps that follow.
        count: how many snapshots to take in total; None for no limit.

    Raises:
        ValueError: a number is negative, or ``every`` is 0.
    """
    if skip < 0 or every < 1 or (count is not None and count < 0):
        raise ValueError("skip and count must be 0 or more, and every must be 1 or more")
    return Schedule(skip, every, count)


def _recorders() -> list[Recorder]:
    """Return a recorder for each timeline that is being recorded."""
    with _lock:
        running = [s.recorder for _, s in _active if s.recorder is not None]
    return list({id(each.timeline): each for each in running}.values())


def _stop_at_exit() -> None:
    """Finish recordings that were not stopped, with the exception that ended the program."""
    # In a notebook or shell last_value is the last cell's error, which may be long ago.
    is_program = "IPython" not in sys.modules and not hasattr(sys, "ps1")
    stop_all(sys.exc_info()[1] or (getattr(sys, "last_value", None) if is_program else None))


def stop_all(error: BaseException | None) -> None:
    """Finish the recordings of this process, with the exception that ends the program."""
    while True:
        with _lock:
            if not _active:
                return
            recording, session = _active[-1]
        if session.recorder is None:
            with _lock:
                _active.pop()
            continue
        recording.stop(error)


def _stop_at_end_of_worker() -> None:
    """Finish a multiprocessing worker's recordings at its end: a forked worker runs no atexit."""
    of_parent = multiprocessing.parent_process() is not None
    # One that spawn has just started does not know its parent while it imports the main module.
    starting = getattr(multiprocessing.current_process(), "_inheriting", False)
    if (of_parent or starting) and os.getpid() not in _workers:
        _workers.add(os.getpid())
        multiprocessing.util.Finalize(None, _stop_at_exit, exitpriority=100)


def _forget_in_child() -> None:
    global _lock, _writing, _writer
    _writing, _writer = threading.RLock(), 0
    _lock = threading.RLock()  # the parent's may be held by a thread that the child does not have
    _active.clear()
    forget_recorders()


atexit.register(_stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)

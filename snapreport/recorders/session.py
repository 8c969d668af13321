"""One recording from start to end, and the snapshots that it writes to a folder."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO, cast

from snapreport.ground.errors import OutputError, RecordingError, SnapreportError
from snapreport.ground.files import write_atomically
from snapreport.ground.processes import collector_off
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes
from snapreport.ground.version import __version__
from snapreport.model.snapshot import recorder_info
from snapreport.names.personal_data import hide_in_recording, known_here
from snapreport.recorders import cuda, system
from snapreport.recorders.cuda import CudaRecorder, observe_oom
from snapreport.recorders.finishing import (
    cut_before,
    cut_own_frames,
    distinct_frames,
    hide_in_texts,
    note_line_texts,
)
from snapreport.recorders.recorder import Options, Recorder
from snapreport.recorders.system import Place, claim

_LOG = logging.getLogger(__name__)

_OOM_SHARE = 0.1
"""At most this share of the program's time is spent on snapshots of requests whose failure it
survives."""
_OOM_FREE = 3
"""So many such snapshots are taken whatever their cost: many programs empty the cache and retry."""


@dataclass(frozen=True)
class Schedule:
    """The steps of a loop after which a snapshot is taken."""

    skip: int
    every: int
    count: int | None

    def takes(self, step: int) -> bool:
        """Say whether a snapshot is taken after this step; the first step is 0."""
        turn, rest = divmod(step - self.skip, self.every)
        return turn >= 0 and rest == 0 and (self.count is None or turn < self.count)


@dataclass(frozen=True)
class Settings:
    """What to record, and where to; ``recording.record()`` explains each field."""

    folder: Path
    options: Options = field(default_factory=Options)
    on_oom: bool | Callable[[Path], None] = True
    title: str | None = None
    notes: str = ""
    modules: Any = None
    optimizers: Any = None
    compress: bool = False
    ranks: Collection[int] | None = None
    schedule: Schedule | None = None
    force: bool = False
    quiet: bool = False
    only_oom: bool = False
    """Leave files only if a request for memory fails."""
    forked_us: int | None = None
    """When this process was forked from one that recorded the CPU's memory, in microseconds since
    1970: what it does since then is recorded. To read it takes as long as all of the parent's."""
    elsewhere: Path | None = None
    """The process did not ask for this recording: so it leaves nothing where nothing was allocated,
    makes no folder before it has something to write, and takes this one where that fails."""


@dataclass(frozen=True)
class Taken:
    """A snapshot on disk."""

    path: Path
    label: str
    """Added to the name of every file made from it, such as ``.step5``."""
    part: str
    """``end``, ``step5``, or ``oom`` for the last failed request that the program survived."""


class Session:
    """A running recording.

    Errors are raised only before the program's code runs; later ones are logged.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pid = os.getpid()
        self._recorder: Recorder | None = None
        self._place: Place | None = None
        self._joined = False
        self._marks: list[dict[str, Any]] = []
        self._taken: list[Taken] = []
        self._before: list[dict[str, Any]] = []
        self._oom: Taken | None = None
        """That of the last failed request."""
        self.survived: Taken | None = None
        """The last one on disk of a failed request."""
        self._failure: dict[str, Any] | None = None
        self._failing = threading.Lock()
        self._next_oom = 0.0
        self._failed = 0
        self._started_us = 0
        self._children_s = 0.0
        self._steps = 0
        self._cleanup = contextlib.ExitStack()
        self._cleanup.callback(self._leave_place)

    def open(self) -> None:
        """Start recording; on a rank that is not recorded this and all later calls do nothing.

        PyTorch has been imported.

        Raises:
            RecordingError: it cannot be recorded here.
            OutputError: the folder cannot be made or written to.
        """
        if not self._chosen():
            return
        if self._settings.elsewhere is None:
            self._claim(self._settings.folder)
        try:
            if self._settings.forked_us is None:
                self._recorder, self._joined = _join_recorder(self._settings.options)
            else:
                self._recorder, self._joined = _inherit_recorder(self._settings.options), True
            self._cleanup.callback(_leave_recorder, self._recorder)
            if self._settings.on_oom and self._recorder.kind != "cpu":
                self._cleanup.enter_context(observe_oom(self._failed_request))
            self._before = self._recorder.devices()
        except BaseException:
            self._cleanup.close()
            raise
        self._started_us = self._settings.forked_us or _now_us()
        self._children_s = system.children_seconds()

    def _leave_place(self) -> None:
        if self._place is not None:
            self._place.close()

    def _claim(self, folder: Path) -> None:
        self._leave_place()
        self._place = claim(folder, self._settings.force)

    def _claim_somewhere(self) -> None:
        try:
            self._claim(self._settings.folder)
        except OutputError as error:
            self.move(error)

    def move(self, error: OutputError) -> None:
        """Go on elsewhere, as the folder cannot be written to.

        Raises:
            OutputError: the given one, if there is nowhere else.
        """
        elsewhere = self._settings.elsewhere
        if elsewhere is None or self.folder.parent == elsewhere:
            raise error
        try:
            elsewhere.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise error from None
        if hasattr(os, "getuid") and elsewhere.lstat().st_uid != os.getuid():
            raise error  # anyone may make such a folder, or a link, where all have their files
        self._claim(elsewhere)
        _LOG.warning("%s The recording goes into %s.", error, self.folder)

    @property
    def folder(self) -> Path:
        """Where the files go: known once there is one, on a rank that is recorded."""
        return self._settings.folder if self._place is None else self._place.folder

    @property
    def recorder(self) -> Recorder | None:
        """The recorder while it runs in this process, on a rank that is recorded."""
        return self._recorder if os.getpid() == self._pid else None

    def mark(self, name: str) -> None:
        """Record a named mark at this moment."""
        self._marks.append({"name": name, "time_us": _now_us()})

    def step(self) -> None:
        """Count a step of the program's loop, and take the snapshot that is due."""
        schedule, step = self._settings.schedule, self._steps
        self._steps += 1
        if schedule is not None and schedule.takes(step):
            self.take(f"step{step}")

    def take(self, part: str) -> Path | None:
        """Write a snapshot of what was recorded so far; None if that fails, which is logged."""
        with contextlib.ExitStack() as problems:
            problems.enter_context(_logged("The snapshot could not be written"))
            if self.recorder is None:
                return None
            parts = {each.part for each in self._taken}
            names = (f"{part}-{n}" if n > 1 else part for n in itertools.count(1))
            taken = self._write(next(name for name in names if name not in parts), None)
            self._taken.append(taken)
            return taken.path
        return None

    def note_failure(self, error: BaseException) -> None:
        """Note that a request for memory failed while the program goes on; the first one stays.

        The error itself is not kept: it would hold memory.
        """
        if self._failure is None:
            with _logged("What failed could not be noted"):
                failure = system.describe(error)
                if system.out_of_memory(error) or failure["cpu_request"] is not None:
                    self._failure = failure

    def keep_failure(self, error: BaseException) -> bool:
        """Write a snapshot of a failed request for the CPU's memory that the program survived.

        Returns:
            whether it was written: not if something else failed; failing to write is logged.
        """
        with _logged("The snapshot of an out of memory error could not be written"):
            failure = system.describe(error)
            if failure["cpu_request"] is not None and self.recorder is not None:
                self.survived = self._write("oom", failure)
                return True
        return False

    def close(self, error: BaseException | None) -> list[Taken]:
        """End the recording, and return every snapshot that was taken, the last one first.

        Args:
            error: what ended the program's code, None if it ran to its end.
        """
        recorder = self.recorder
        if recorder is None:
            return []
        try:
            with _logged("The recording could not be written"):
                if self._chosen():
                    if recorder.kind == "cpu":
                        # It is read when it is off; a snapshot before would start it once more,
                        # only to record how the snapshot is written.
                        _leave_recorder(recorder)
                    last = self._last(error)
                    self._taken = [*last, *self._taken]
                    if self.survived is not None and self.survived.path.exists():
                        self._taken.append(self.survived)
        finally:
            self._recorder = None
            with _logged("The recording could not be stopped"):
                self._cleanup.close()
        return self._taken

    def abandon(self) -> None:
        """End the recording, and leave nothing of it behind."""
        self._recorder = None
        self._cleanup.close()

    def _last(self, error: BaseException | None) -> list[Taken]:
        """Return the last snapshot, that of the failed request if it ended the program; if any."""
        if self._oom is not None and (self._settings.only_oom or system.out_of_memory(error)):
            path = self._path("")
            self._oom.path.replace(path)
            return [Taken(path, self._label(""), "end")]
        if self._settings.only_oom:
            return []
        failed = error if system.has_failed(error) else None
        failure = self._failure if failed is None else system.describe(failed)
        with contextlib.suppress(_NothingAllocatedError):
            return [self._write("", failure)]
        return []

    def _failed_request(self, device: int, size: int, total: int, free: int) -> None:
        """Write a snapshot while the failing thread waits, still holding all its memory."""
        if self.recorder is None or not self._failing.acquire(blocking=False):
            return
        try:
            self._failed += 1
            if self._failed > _OOM_FREE and time.monotonic() < self._next_oom:
                self._oom = None  # the one on disk is no longer the last
                return
            began = time.monotonic()
            with _logged("The snapshot of an out of memory error could not be written"):
                failure = {
                    "type": "torch.OutOfMemoryError",
                    "message": f"tried to allocate {format_bytes(size)} on cuda:{device}, with"
                    f" {format_bytes(free)} of {format_bytes(total)} free",
                }
                self._oom = None
                self._oom = self.survived = self._write("oom", failure)
                if callable(self._settings.on_oom):
                    self._settings.on_oom(self._oom.path)
            took = time.monotonic() - began
            self._next_oom = time.monotonic() + took * (1 / _OOM_SHARE - 1)
        finally:
            self._failing.release()

    def _write(self, part: str, failure: dict[str, Any] | None) -> Taken:
        assert self._recorder is not None
        with collector_off():  # it would walk millions of new dicts again and again
            snapshot = self._recorder.snapshot()
            if self._settings.elsewhere is not None:
                if not (any(snapshot["segments"]) or any(map(len, snapshot["device_traces"]))):
                    raise _NothingAllocatedError
                if self._place is None:
                    self._claim_somewhere()
            if self._joined:
                cut_before(snapshot, self._started_us)
            cut_own_frames(snapshot)
            frames = list(distinct_frames(snapshot))
            with _logged("The program's source lines could not be added"):
                note_line_texts(frames, known_here(), self._started_us / 1e6)
            hide_in_texts(snapshot, frames, known_here())
            own = snapshot.get("snapreport")
            snapshot["snapreport"] = self._metadata(self._recorder, failure, own)
            path = self._path(part)
            try:
                _dump(snapshot, path, self._settings.compress)
            except OutputError as error:
                self.move(error)
                path = self._path(part)
                _dump(snapshot, path, self._settings.compress)
        if self._place is not None:
            with _logged("The link to the latest recording could not be updated"):
                self._place.filled()
        return Taken(path, self._label(part), part or "end")

    def _metadata(
        self, recorder: Recorder, failure: dict[str, Any] | None, own: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the metadata of a snapshot, including what the recorder itself noted."""
        own = own or {}
        settings = self._settings
        rank, world_size = system.rank_of_process()
        storages: list[dict[str, Any]] = []
        with _logged("The tensors of modules and optimizers could not be listed"):
            storages = find_storages(settings.modules, settings.optimizers)
        named = {(row["device"], row["address"]) for row in storages}
        storages += [
            row for row in own.get("storages", ()) if (row["device"], row["address"]) not in named
        ]
        if failure is not None and self._steps:
            failure = {**failure, "step": self._steps}
        noted = {
            "format": 1,
            "made_by": __version__,
            "recorder": own.get("recorder", recorder.kind),
            "command": system.command_line(),
            "title": settings.title,
            "notes": settings.notes,
            "started_us": self._started_us,
            "ended_us": _now_us(),
            **system.versions(),
            "devices": _join_devices(self._before, recorder.devices()),
            "storages": storages,
            "marks": list(self._marks),
            "failure": failure,
            "rank": rank,
            "world_size": world_size,
            **system.place_in_run(),
            "joined": self._joined,
            "children_s": int(system.children_seconds() - self._children_s),
            "forecast": own.get("forecast"),
        }
        info = recorder_info(noted)
        assert info is not None
        # Plain values only: a NumPy number or a subclass of str would make a pickle that the
        # restricted reader refuses. User and machine names are known only here, so they are
        # hidden before anything is written.
        return hide_in_recording(info, known_here()).as_plain()

    def _chosen(self) -> bool:
        """Say whether this process's rank is to be recorded; it may not be known before the end."""
        ranks = self._settings.ranks
        return ranks is None or system.rank_of_process()[0] in ranks

    def _label(self, part: str) -> str:
        process = system.process_label()
        return "".join(f".{name}" for name in (process, part) if name)

    def _path(self, part: str) -> Path:
        ending = ".pickle.zst" if self._settings.compress else ".pickle"
        return self.folder / f"snapshot{self._label(part)}{ending}"


class _NothingAllocatedError(SnapreportError):
    """A recording that nobody asked for in this process has nothing to show."""


_PROTOCOL = 4
"""What PyTorch wrote until 2026, and the newest that older viewers read."""


def _dump(snapshot: dict[str, Any], path: Path, compress: bool = False) -> None:
    """Write a snapshot as a pickle, completely or not at all; an existing file is replaced.

    The pickle is written as it is made, and is never in memory as a whole.

    Raises:
        OutputError: it cannot be written.
    """
    with write_atomically(path, force=True) as out:
        if not compress:
            pickle.Pickler(out, _PROTOCOL).dump(snapshot)
            return
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed:
            pickle.Pickler(cast("BinaryIO", packed), _PROTOCOL).dump(snapshot)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log any exception of the body, and go on."""
    try:
        yield
    except (SnapreportError, OSError) as error:
        _LOG.warning("%s: %s", what, error)
    except Exception:
        _LOG.warning("%s", what, exc_info=True)


def _join_devices(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return one row per device, with the values that change both before and after."""
    old = {about["device"]: about for about in before}
    joined = []
    for about in after:
        row = {key: value for key, value in about.items() if key in ("device", "name", "capacity")}
        for key in ("free", "total", "stats"):
            for when, reading in (("before", old.get(about["device"], {})), ("after", about)):
                if key in reading:
                    row[f"{key}_{when}"] = reading[key]
        joined.append(row)
    return joined


def _now_us() -> int:
    return time.time_ns() // 1000


# The recorder for this machine; all running recordings share one CUDA history.

_lock = threading.RLock()
_cuda: list[CudaRecorder] = []
"""The running CUDA recorder, once for each recording that uses it."""


def _join_recorder(options: Options) -> tuple[Recorder, bool]:
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


def _inherit_recorder(options: Options) -> Recorder:
    from snapreport.recorders.cpu import CpuRecorder

    recorder = CpuRecorder(options)
    if not recorder.inherit():
        raise RecordingError("Nothing was recorded when this process was forked.")
    return recorder


def _leave_recorder(recorder: Recorder) -> None:
    """Stop a recorder when nobody uses it any more."""
    with _lock:
        if isinstance(recorder, CudaRecorder):
            if recorder in _cuda:
                _cuda.remove(recorder)
            if recorder in _cuda:
                return
        recorder.stop()


def forget_recorders() -> None:
    """In a forked child, forget the running recorders, which belong to the parent."""
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
    recorder = cuda.recorder_class(options)
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


# Where the memory of parameters, gradients, buffers and optimizer states lies.

_MOST = 1_000_000


def find_storages(modules: Any, optimizers: Any) -> list[dict[str, Any]]:
    """Return the storages of modules and optimizers, each address once.

    Args:
        modules: a module, several, or a mapping from names to modules; None for none.
        optimizers: an optimizer, several, or a mapping from names to optimizers; None for none.

    Returns:
        dicts with ``device`` (``cuda:0``, ``cpu:0``), ``address``, ``size`` in bytes, ``kind``
        (``parameter``, ``gradient``, ``buffer`` or ``optimizer state``) and ``name``. What has
        no storage of its own (meta or fake tensors) is left out.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for kind, name, tensor in _tensors(modules, optimizers):
        for part in _local(tensor):
            row = _storage(part)
            if row is not None and len(found) < _MOST:
                # The first name stays: a parameter before the state that shares its storage.
                found.setdefault(
                    (row["device"], row["address"]), {**row, "kind": kind, "name": name}
                )
    return list(found.values())


def _tensors(modules: Any, optimizers: Any) -> Iterator[tuple[str, str, Any]]:
    names: dict[int, str] = {}
    chosen = list(_named(modules))
    for prefix, module in chosen:
        for name, parameter in module.named_parameters():
            names.setdefault(id(parameter), prefix + name)
            yield "parameter", prefix + name, parameter
    for prefix, module in chosen:
        for name, parameter in module.named_parameters():
            yield "gradient", prefix + name, parameter.grad
        for name, buffer in module.named_buffers():
            yield "buffer", prefix + name, buffer
    for prefix, optimizer in _named(optimizers):
        for group in optimizer.param_groups:
            for place, parameter in enumerate(group["params"]):
                name = names.get(id(parameter), f"{prefix}{place}")
                yield "parameter", name, parameter
                yield "gradient", name, parameter.grad
        for parameter, state in list(optimizer.state.items()):
            name = names.get(id(parameter), f"{prefix}{type(optimizer).__name__}")
            if isinstance(state, Mapping):
                for key, value in state.items():
                    yield "optimizer state", f"{name}.{key}", value


def _named(given: Any) -> Iterator[tuple[str, Any]]:
    """Yield objects with a prefix for their names, which is empty for a single one."""
    if given is None:
        return
    if isinstance(given, Mapping):
        yield from ((f"{name}.", value) for name, value in given.items())
    elif isinstance(given, Iterable) and not hasattr(given, "named_parameters"):
        several = list(given)
        for i, value in enumerate(several):
            yield (f"{i}." if len(several) > 1 else ""), value
    else:
        yield "", given


def _local(tensor: Any) -> Iterator[Any]:
    """Yield the plain tensors that a tensor stands for: shards and subclasses wrap others."""
    if tensor is None or not hasattr(tensor, "untyped_storage"):
        return
    shard = getattr(tensor, "_local_tensor", None)
    if shard is not None:
        yield from _local(shard)
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _local(getattr(tensor, name))
    else:
        yield tensor


def _storage(tensor: Any) -> dict[str, Any] | None:
    try:
        storage = tensor.untyped_storage()
        device, address, size = tensor.device, storage.data_ptr(), storage.nbytes()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None  # sparse, fake, or without memory
    if not address or not size:
        return None
    return {"device": f"{device.type}:{device.index or 0}", "address": address, "size": size}

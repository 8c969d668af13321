"""Where the files of a recording go: a numbered folder of its own, and ``latest``.

    train.memory/1/   train.memory/2/   train.memory/latest -> 2

Only ``os.mkdir`` and files that must not exist yet decide which process gets a folder: both are
exclusive on every system, and on file systems that the machines of one run share.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from snapreport.ground.errors import OutputError, OutputExistsError
from snapreport.ground.files import write_atomically
from snapreport.ground.latest_recording import (
    LATEST,
    LATEST_FILE,
    NUMBER,
    WRITTEN,
    latest_number,
)
from snapreport.recorders import system

_RUNS = ".runs"
"""The folder whose files say which numbered folder the processes of a run share."""
# One of these is the same for all processes of a run, on all machines, and differs between runs.
_RUN_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID")
_RUN_PARTS = ("SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_NO_ID = ("", "none")
"""An unset id; ``none`` is torchrun's."""


@dataclass(frozen=True)
class Place:
    """The folder of one recording; the ranks of a run share it."""

    parent: Path
    number: int
    replaces: int
    """The recording that this one replaces; 0 for none."""
    made: tuple[Path, ...]
    """The parent and those above it, innermost first, that this process made for the recording."""
    token: Path | None
    """This process's mark that it records here, where the processes of a run share the folder."""

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.parent / str(self.number)

    def filled(self) -> None:
        """Note that there are files now: point ``latest`` here, unless a newer recording has it."""
        if latest_number(self.parent) < self.number:
            _point(self.parent, self.number)
        if self.replaces:
            _remove(self.parent / str(self.replaces))

    def close(self) -> None:
        """Remove what was made for this recording if nothing was written to it.

        In a run this is for the last of its processes to do.
        """
        with suppress(OSError):
            if self.token is not None:
                if any(self.folder.iterdir()):
                    return
                self.token.unlink()
                shared = self.token.with_suffix("")
                if any(self.token.parent.glob(f"{shared.name}.*")):
                    return
                shared.unlink()
            self.folder.rmdir()
            if self.token is not None:
                self.token.parent.rmdir()
            for folder in self.made:
                folder.rmdir()


def claim(parent: Path, force: bool) -> Place:
    """Make a folder that no other recording has; the processes of a run share one.

    Args:
        parent: made if missing.
        force: remove the recording that is the newest now, once this one has files.

    Raises:
        OutputError: it cannot be made, is a file, or cannot be written to.
    """
    made = _make(parent)
    newest = latest_number(parent) if force else 0
    token = None
    try:
        run = _run_id()
        if run is None:
            number = _new_number(parent)
        else:
            number, token = _number_in_run(parent, run)
    except OSError as error:
        raise _cannot_be_made(parent, error) from error
    # For a late rank the newest recording is this one, with the files of another rank.
    return Place(parent, number, newest if newest < number else 0, made, token)


def _make(folder: Path) -> tuple[Path, ...]:
    """Make a folder, and return those that were missing, innermost first."""
    try:
        missing = tuple(takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder} is a file; name a folder for the recording.") from None
    except OSError as error:
        raise _cannot_be_made(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{folder} cannot be written to; name another folder.")
    return missing


def _cannot_be_made(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"{folder} cannot be made: {error.strerror}; name another folder.")


def _new_number(parent: Path) -> int:
    taken = (int(each.name) for each in parent.iterdir() if NUMBER.fullmatch(each.name))
    for number in count(max(taken, default=0) + 1):
        with suppress(FileExistsError):
            (parent / str(number)).mkdir()
            return number
    raise AssertionError


def _number_in_run(parent: Path, run: str) -> tuple[int, Path]:
    """Return the number of the folder that the ranks of a run share for their next recording.

    Also the file that says that this process records there.

    The first recordings of all ranks share a folder, and so do the second ones. A rank that has
    already recorded into it, as after the program restarted its workers, takes the next folder.
    """
    runs = parent / _RUNS
    runs.mkdir(exist_ok=True)
    process = system.process_label()
    for turn in count(1):
        shared = runs / f"{run}-{turn}"
        token = shared.with_name(f"{shared.name}.{process}")
        with suppress(FileExistsError):
            token.touch(exist_ok=False)
            break
    number = 0
    if not shared.exists():
        number = _new_number(parent)
        try:
            with write_atomically(shared, force=False) as out:
                out.write(str(number).encode())
        except OutputExistsError:  # another rank has just made it
            (parent / str(number)).rmdir()
    number = int(shared.read_text(encoding="ascii"))
    (parent / str(number)).mkdir(exist_ok=True)
    return number, token


def _run_id() -> str | None:
    """Return an id that all processes of this run share and no other run has.

    None for a single process. If no launcher gave a run on several machines an id, the processes
    of each machine count as a run of their own.
    """
    if system.rank_of_process()[1] == 1 and multiprocessing.parent_process() is None:
        return None
    known = {name: os.environ.get(name, "") for name in (*_RUN_IDS, *_RUN_PARTS)}
    parts = [*known.values(), os.environ.get("TORCHELASTIC_RESTART_COUNT", "")]
    alone = os.environ.get("LOCAL_WORLD_SIZE") == known["WORLD_SIZE"]
    started = multiprocessing.parent_process() is not None
    if alone or started or all(known[name] in _NO_ID for name in _RUN_IDS):
        # The process that started all of them on this machine.
        parts += [os.uname().nodename if hasattr(os, "uname") else "", *_parent()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _parent() -> list[str]:
    """Return the id of the process that started this one and, where known, when that started."""
    parent = os.getppid()
    with suppress(OSError, IndexError):
        # Source: proc_pid_stat(5): the 22nd field. The 2nd, the name, may have blanks.
        fields = Path(f"/proc/{parent}/stat").read_text(encoding="latin-1").rpartition(")")[2]
        return [str(parent), fields.split()[19]]
    return [str(parent)]


def _point(parent: Path, number: int) -> None:
    """Make ``latest`` a link to a folder; where links are not possible, ``latest.txt`` names it."""
    link = parent / LATEST
    beside = parent / f".{LATEST}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        if link.is_symlink() or not link.exists():  # never replace a real file
            beside.symlink_to(str(number), target_is_directory=True)
            beside.replace(link)
            return
    except (OSError, NotImplementedError):
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    with write_atomically(parent / LATEST_FILE, force=True) as out:
        out.write(f"{number}\n".encode())


def _remove(folder: Path) -> None:
    """Remove the files of a recording, and its folder if nothing else is in it."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)
        folder.rmdir()

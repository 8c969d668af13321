"""Announces a finished recording in one line: where the report is, and what it found."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from pathlib import Path

from snapreport.ground.safe_text import visible
from snapreport.recorders.system import rank_of_process

_LOG = logging.getLogger("snapreport.recording")
_MOST = 3
"""How many recordings into one folder are announced: a function in a loop would fill stderr."""

_announced: Counter[Path] = Counter()
"""How many recordings this process has announced, by folder."""


def recorded_line(best: Path, headline: str) -> str:
    """Return the line: ``snapreport recorded out/1/report.html (1.2 GiB allocated …)``."""
    try:
        shown = best.relative_to(Path.cwd())
    except (OSError, ValueError):
        shown = best
    return visible(f"snapreport recorded {shown}" + (f" ({headline})" if headline else ""))


def announce(line: str, parent: Path, failed: bool, speaker: int) -> None:
    """Log the line, and write it to stderr unless the log shows it there.

    ``logging.getLogger("snapreport").setLevel("WARNING")`` silences it.

    Args:
        line: as ``recorded_line()`` returns it.
        parent: the folder that the recording went into.
        failed: whether an exception ended the recording; then every rank announces it.
        speaker: the rank that announces it for all if nothing failed.
    """
    _LOG.info("%s", line)
    _announced[parent] += 1
    later = _announced[parent] > _MOST and not _interactive()
    if failed or not (later or rank_of_process()[0] != speaker):
        if _silenced() or _logged_to_stderr() or sys.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):  # stderr may be closed
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _interactive() -> bool:
    return "IPython" in sys.modules or hasattr(sys, "ps1")


def _silenced() -> bool:
    """Say whether our loggers are set above INFO; the root's level is only a default."""
    logger: logging.Logger | None = _LOG
    while logger is not None and logger.name != "root":
        if logger.disabled or logger.level > logging.INFO:
            return True
        logger = logger.parent
    return False


def _logged_to_stderr() -> bool:
    """Say whether a handler of the log has just written the line to stderr."""
    if not _LOG.isEnabledFor(logging.INFO):
        return False
    logger: logging.Logger | None = _LOG
    while logger is not None:
        for handler in logger.handlers:
            stream = getattr(handler, "stream", None)
            if handler.level <= logging.INFO and stream in (sys.stderr, sys.__stderr__):
                return True
        logger = logger.parent if logger.propagate else None
    return False

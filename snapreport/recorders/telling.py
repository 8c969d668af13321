"""The one line that a finished recording says: where the report is, and what it found."""

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
"""So many recordings into one folder are told on stderr; a function in a loop would fill it."""

_told: Counter[Path] = Counter()
"""How many recordings this process has told, by folder."""


def recorded_words(best: Path, headline: str) -> str:
    """Return the line: ``snapreport recorded out/1/report.html (1.2 GiB allocated …)``."""
    try:
        shown = best.relative_to(Path.cwd())
    except (OSError, ValueError):
        shown = best
    return visible(f"snapreport recorded {shown}" + (f" ({headline})" if headline else ""))


def tell(words: str, parent: Path, failed: bool, speaker: int) -> None:
    """Log the line, and write it to stderr where the log does not show it there.

    ``logging.getLogger("snapreport").setLevel("WARNING")`` silences it.

    Args:
        words: the line.
        parent: the folder that the recording went into.
        failed: whether an exception ended it; then every rank says so.
        speaker: the rank that speaks for all where nothing failed.
    """
    _LOG.info("%s", words)
    _told[parent] += 1
    later = _told[parent] > _MOST and not _interactive()
    if failed or not (later or rank_of_process()[0] != speaker):
        if _silenced() or _logged_on_terminal() or sys.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):  # it may be closed
            sys.stderr.write(words + "\n")
            sys.stderr.flush()


def _interactive() -> bool:
    return "IPython" in sys.modules or hasattr(sys, "ps1")


def _silenced() -> bool:
    """Whether somebody chose a level for our messages above this one; the root's is a default."""
    logger: logging.Logger | None = _LOG
    while logger is not None and logger.name != "root":
        if logger.disabled or logger.level > logging.INFO:
            return True
        logger = logger.parent
    return False


def _logged_on_terminal() -> bool:
    """Whether a handler of the log has just written the line to where stderr goes."""
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

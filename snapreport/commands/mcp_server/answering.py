"""Answers questions about the open recordings of a process, or its open run.

Only such a process imports this, so that the server starts quickly.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from snapreport.commands.mcp_server.finding_answers import (
    findings_reply,
    open_reply,
    summary_reply,
    what_if_reply,
)
from snapreport.commands.mcp_server.moment_answers import diff_reply, moment_reply, query_reply
from snapreport.commands.mcp_server.opened import KeptRecording, KeptRun
from snapreport.commands.mcp_server.questions import ANSWERING, FileBelow, Question
from snapreport.commands.mcp_server.reply import USUAL, Reply, digest_of, fit_page, read_cursor
from snapreport.commands.mcp_server.run_answers import run_reply
from snapreport.ground.progress import Progress
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.forecasts import headline_of

_OF_ONE: Mapping[str, Callable[[KeptRecording, Mapping[str, Any]], Reply]] = {
    "open": open_reply,
    "summary": summary_reply,
    "findings": findings_reply,
    "at": moment_reply,
    "whatif": what_if_reply,
    "query": query_reply,
}
_BEFORE: Mapping[str, Callable[[KeptRecording], object]] = {
    **dict.fromkeys(("open", "summary", "findings"), attrgetter("findings")),
    "query": attrgetter("database"),
}
"""What an answer needs and is computed once: like opening a file, it takes as long as it takes."""
_PAGING = ("cursor", "max_tokens")
_REPLIES = 4
"""How many answers are kept, so that their next pages need no work."""


class Desk:
    """Answers questions about one file or run, and compares a file with another."""

    def __init__(self, names: NamesWanted) -> None:
        """Start with nothing open.

        Args:
            names: how the names in files are treated.
        """
        self._names = names
        self._open: OrderedDict[FileBelow, KeptRecording] = OrderedDict()
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._whole: KeptRun | None = None

    def answer(self, question: Question, progress: Progress) -> dict[str, Any]:
        """Return a page of the answer, as plain JSON.

        Raises:
            SnapreportError: the question cannot be answered; the message says why.
        """
        asked = {key: each for key, each in question.arguments.items() if key not in _PAGING}
        run = None
        if question.tool == "run":
            progress("Looking for files", None)
            run = self._run(question)
            about = run.look()
        else:
            about = [(each.shown, each.size, each.changed_ns) for each in question.files]
        digest = digest_of(question.tool, asked, about)
        place = read_cursor(question.arguments.get("cursor"), digest)
        reply = self._replies.pop(digest, None)
        if reply is None and run is not None:
            loaded = run.load(asked.get("layout"), progress)
            progress(ANSWERING, None)
            reply = run_reply(run.place.shown, loaded, run.skipped(), asked)
        elif reply is None:
            recordings = [self._recording(each, progress) for each in question.files]
            for recording in recordings:
                recording.progress = progress
                if question.tool in _BEFORE:
                    _BEFORE[question.tool](recording)
            progress(ANSWERING, None)
            if question.tool == "diff":
                new, base = recordings
                reply = diff_reply(base, new, asked)
            else:
                reply = _OF_ONE[question.tool](recordings[0], asked)
            forecasts = (headline_of(each.snapshot.history.recorder) for each in recordings)
            if said := next(filter(None, forecasts), ""):
                reply = replace(reply, about={"forecast": said, **reply.about})
        self._replies[digest] = reply
        if len(self._replies) > _REPLIES:
            self._replies.popitem(last=False)
        return fit_page(reply, place, question.arguments.get("max_tokens", USUAL))

    def _run(self, question: Question) -> KeptRun:
        (place,) = question.files
        if self._whole is None or self._whole.place != place:
            self._whole = KeptRun(place, question.roots, self._names)
        return self._whole

    def _recording(self, file: FileBelow, progress: Progress) -> KeptRecording:
        """Return an open recording; the least recently used one is closed to make room."""
        if file not in self._open:
            while len(self._open) > 1:
                self._open.popitem(last=False)
            self._open[file] = KeptRecording(file, self._names, progress)
        self._open.move_to_end(file)
        return self._open[file]

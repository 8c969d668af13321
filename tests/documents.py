"""Answers written by each writer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TypeVar

from snapreport.api.comparison import write_diff
from snapreport.api.making import report_writer
from snapreport.diagnosis.compare.diff_types import Diff
from snapreport.diagnosis.compare.gate import Verdict
from snapreport.model.findings import Findings
from snapreport.reporters.comparison import VERDICT_ROWS, diff_document, verdict_document
from snapreport.reporters.document import Document
from snapreport.reporters.json_report import write_summary_json
from snapreport.reporters.markdown import write_markdown
from snapreport.reporters.summary import TERMINAL, summary_document
from snapreport.reporters.text import Page

_Room = TypeVar("_Room")


def diff_as(diff: Diff, kind: str, most: int | None = 10) -> str:
    """Write a comparison as ``txt``, ``md`` or ``html``."""
    if kind == "txt":
        return text_of(diff_document(diff, most))
    out = BytesIO()
    write_diff(diff, out, kind)
    return out.getvalue().decode()


def verdict_as(verdict: Verdict, kind: str, most: int = 5) -> str:
    """Write a verdict as ``txt`` or ``md``."""
    if kind == "txt":
        return text_of(verdict_document(verdict, most))
    return markdown_of(partial(verdict_document, verdict), VERDICT_ROWS)


def report_as(findings: Findings, kind: str, width: int = 100) -> str:
    """Write what was found in a recording as ``txt``, ``md``, ``html`` or ``json``."""
    if kind == "txt":
        return text_of(summary_document(findings, TERMINAL), width)
    out = BytesIO()
    (write_summary_json if kind == "json" else report_writer(kind))(findings, out)
    return out.getvalue().decode()


def text_of(document: Document, width: int = 100) -> str:
    """Write a document for a terminal."""
    page = Page(width)
    page.write(document)
    return page.render().decode()


def markdown_of(build: Callable[[_Room], Document], rooms: tuple[_Room, ...]) -> str:
    """Write a document as Markdown."""
    out = BytesIO()
    write_markdown(build, rooms, out)
    return out.getvalue().decode()

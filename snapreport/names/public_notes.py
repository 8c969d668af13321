"""Remove what should not be public from what snapreport noted while recording."""

from __future__ import annotations

from dataclasses import replace

from snapreport.model.recorder_notes import RecorderInfo
from snapreport.names.personal_data import Known, hide_command, hide_private

_BY_HAND = ("URL", "e-mail address")
"""Kinds of parts that stay in titles and notes: somebody put them there to be read."""


def hide_in_recording(noted: RecorderInfo, known: Known) -> RecorderInfo:
    """Return what was noted with stand-ins for its private parts.

    Args:
        noted: command line, title, notes, marks, names of tensors, and the error.
        known: whose names are private, whatever they are part of.
    """
    hidden = noted.with_texts(lambda text: hide_private(text, known))
    return replace(
        hidden,
        command=tuple(hide_command(noted.command, known)),
        title=None if noted.title is None else hide_private(noted.title, known, _BY_HAND),
        notes=hide_private(noted.notes, known, _BY_HAND),
    )

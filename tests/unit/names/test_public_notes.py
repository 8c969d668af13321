"""What was recorded, without its private parts."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from snapreport.model.snapshot import recorder_info
from snapreport.names import personal_data
from snapreport.names.personal_data import NOBODY, Known, hide_private


def test_a_text_that_many_rows_share_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def hide(text: str, known: Known, keep: Collection[str] = ()) -> str:
        searched.append(text)
        return hide_private(text, known, keep)

    row = {"device": "cpu", "kind": "parameter", "address": 1, "size": 1, "name": "/home/jdoe/w"}
    noted = recorder_info({"format": 1, "storages": [row] * 9})
    assert noted is not None
    monkeypatch.setattr(personal_data, "hide_private", hide)
    hidden = personal_data.hide_in_recording(noted, NOBODY)
    assert [each.name for each in hidden.storages] == ["~/w"] * 9
    assert searched.count("/home/jdoe/w") == 1

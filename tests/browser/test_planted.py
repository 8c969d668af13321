"""Planted faults, found by a newcomer who has a mouse and what is on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dev.benchmarks.page_planted import WAYS, Answer
from tests.browser.conftest import Opener
from tests.browser.newcomer import VIEWPORT, Newcomer
from tests.corpus import findings_of
from tests.planted import PLANTED, Planted

pytestmark = pytest.mark.browser(webgl=False)


@pytest.mark.parametrize("make", PLANTED, ids=lambda make: make.__name__)
def test_a_newcomer_finds_a_planted_fault_in_few_clicks(
    open_page: Opener, tmp_path: Path, make: Callable[[], Planted]
) -> None:
    planted = make()
    opened = open_page(findings_of(planted.write(tmp_path)), viewport=VIEWPORT)
    reader, way = Newcomer(opened.page), WAYS[planted.name]
    assert way.find(reader) == Answer.true(planted)
    assert reader.actions <= way.clicks
    opened.check()

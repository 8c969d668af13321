"""Fixtures for recording: a GPU that is none."""

from __future__ import annotations

import pytest

from tests.recording.fake_torch import FakeGpu, install


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A simulated GPU of 1 GiB, behind a stand-in for torch."""
    return install(monkeypatch, FakeGpu())

"""The pytest plugin: a marker and a fixture that hold tests to a memory budget.

pytest loads it in every project where snapreport is installed. So it imports nothing heavy, and
hooks into tests only if one of them has the marker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from snapreport.recorders.hosts.pytest_marker import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapreport.recorders.hosts.pytest_budget import Measured


_MARKER_HELP = (
    f"{MARKER}(max_peak=..., ...): record the memory of the test, and fail it if it is over the"
    " budget; the arguments are those of snapreport.check()"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gpu-memory``."""
    parser.getgroup("snapreport").addoption(
        "--gpu-memory",
        metavar="FOLDER",
        dest="gpu_memory",
        default=None,
        help="keep snapshots and reports of tests whose memory is recorded in FOLDER, even of tests"
        " that pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for ``--strict-markers`` and ``--markers``."""
    config.addinivalue_line("markers", _MARKER_HELP)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hook into tests from here on, if one of them has the marker."""
    plugins = session.config.pluginmanager
    name = "snapreport-budget"
    if not plugins.has_plugin(name) and any(
        item.get_closest_marker(MARKER) is not None for item in session.items
    ):
        from snapreport.recorders.hosts.pytest_budget import MarkedTests

        plugins.register(MarkedTests(), name)


@pytest.fixture
def gpu_memory(request: pytest.FixtureRequest) -> Callable[..., Measured]:
    """Return a function that gives a ``with`` block its own budget."""
    from snapreport.recorders.hosts.pytest_budget import Measured

    return partial(Measured, request.node)

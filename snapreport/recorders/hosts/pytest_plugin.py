"""The pytest plugin: a marker and a fixture that hold tests to a memory budget.

pytest loads it in every project where snapreport is installed. So it imports only what pytest has
loaded already, takes the rest from snapreport at its first use, and hooks into tests only if one of
them has the marker.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, final

import pytest

import snapreport

_MARKER = "gpu_memory"
"""The name of the marker, and of the fixture and the option."""
_CARD = "a100-80"
"""The card of a forecast where a test names none."""
_SITES = 5
_FAILURES = (Exception, pytest.fail.Exception)
_NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception)


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
    text = (
        f"{_MARKER}(max_peak=..., ...): record the memory of the test, and fail it if it is over"
        " the budget; the arguments are those of snapreport.check(), and forecast=CARD or True"
        " to run it for a card that is not there"
    )
    config.addinivalue_line("markers", text)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hook into tests from here on, if one of them has the marker."""
    plugins = session.config.pluginmanager
    name = "snapreport-budget"
    marks = [mark for item in session.items for mark in item.iter_markers(_MARKER)]
    if marks and not plugins.has_plugin(name):
        plugins.register(_MarkedTests(), name)
        if any(mark.kwargs.get("forecast") for mark in marks):
            from snapreport.recorders.forecast.forecasting import count_a_card

            with suppress(
                snapreport.SnapreportError
            ):  # the test that is forecast says what is wrong
                count_a_card()


@pytest.fixture
def gpu_memory(request: pytest.FixtureRequest) -> Callable[..., Measured]:
    """Return a function that gives a ``with`` block its own budget."""
    return partial(Measured, request.node)


@final
class Measured:
    """A context manager that records a part of a test, and fails it if it is over its budget.

    After the block, ``snapshot`` is what was recorded, and ``files`` what was written.
    """

    def __init__(self, item: pytest.Item, /, **budget: Any) -> None:
        """Wrap a test and its budget.

        Args:
            item: the test.
            budget: by the names of ``snapreport.check()``: ``max_peak``, ``max_reserved``,
                ``stages`` and so on; without one the block is recorded and not checked. With
                ``forecast``, a card's name or True, it runs for a card that is not there: that
                one, the one of ``fits``, or an A100 of 80 GB.
        """
        wanted = budget.pop("forecast", None)
        self._card = str(budget.get("fits", _CARD)) if wanted is True else wanted or None
        self._undo = ExitStack()
        # A test may run out of memory on purpose: findings fail it only if the budget says so.
        self._budget = {"fail_on": ["none"], **budget}
        self._item = item
        self._keep = item.config.getoption("gpu_memory") is not None
        self._recording: snapreport.Recording | None = None
        self._snapshot: snapreport.Snapshot | None = None
        self.files: dict[str, Path] = {}

    @property
    def snapshot(self) -> snapreport.Snapshot:
        """What was recorded.

        Raises:
            RuntimeError: the block has not ended, or nothing could be written.
        """
        if self._snapshot is None:
            raise RuntimeError(
                "there is a snapshot only after the with block, and only if one was written"
            )
        return self._snapshot

    @property
    def peak(self) -> int:
        """The most allocated bytes, of the device that a report opens with."""
        return self.snapshot.device().peak.allocated

    def __enter__(self) -> Measured:
        __tracebackhide__ = True
        try:
            _refuse_unknown(self._budget)
            self._recording = self._started()
        except snapreport.SnapreportError as error:
            self._undo.close()
            raise _failure(error) from None
        return self

    def _started(self) -> snapreport.Recording:
        folder = _folder(self._item)
        given: dict[str, Any] = {
            "formats": ["pickle"], "title": self._item.nodeid, "quiet": True,
        }  # fmt: skip
        if self._card is None:
            return snapreport.record(folder, **given).start()
        running = snapreport.forecast(folder, card=self._card, steps=0, **given)
        return self._undo.enter_context(running)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        with self._undo:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Stop, and check what was recorded unless the test failed itself."""
        __tracebackhide__ = True
        assert self._recording is not None
        failed = isinstance(error, _FAILURES) and not isinstance(error, _NO_FAILURES)
        self.files = dict(self._recording.stop(error if failed else None))
        if "pickle" in self.files:
            try:
                self._snapshot = snapreport.load(self.files["pickle"])
            except snapreport.SnapreportError as problem:
                if error is None:
                    raise _failure(problem) from None
                return
        if error is not None:
            if failed:
                self._report()
            return
        if self._snapshot is None:
            raise _failure("no snapshot was written; the log says why.")
        self._check(self._snapshot)

    def _check(self, snapshot: snapreport.Snapshot) -> None:
        __tracebackhide__ = True
        try:
            verdict = snapreport.check(snapshot, **self._budget)
        except snapreport.SnapreportError as error:
            raise _failure(error) from None
        if not verdict.passed:
            self._report()
            raise _failure("\n".join(self._words(verdict)))
        if self._keep:
            self._report()

    def _words(self, verdict: snapreport.Verdict) -> Iterator[str]:
        """Yield what failed and, for a size, what held the memory."""
        from snapreport.ground.units import format_bytes

        yield f"{self._item.name} does not meet its budget."
        yield from (f"  {line}" for line in verdict.failures)
        failed = next((each for each in verdict.checks if not each.passed), None)
        if failed is not None and failed.sites:
            yield "What held it:"
            for site in failed.sites[:_SITES]:
                place = f"{site.filename}:{site.line}" if site.line else site.filename
                yield f"  {format_bytes(site.bytes):>9}  {site.name}  {place}".rstrip()
        yield f"Report: {self.files.get('html', self.files['pickle'])}"

    def _report(self) -> None:
        """Make the page, and name it where pytest shows a test's output."""
        from snapreport.ground.units import format_bytes

        if self._snapshot is None:
            return
        pickle = self.files["pickle"]
        page = pickle.with_name(pickle.name.replace("snapshot", "report", 1)).with_suffix(".html")
        try:
            snapreport.render(pickle, page, title=self._item.nodeid, force=True)
            self.files["html"] = page
        except snapreport.SnapreportError as error:
            self._item.add_report_section("call", _MARKER, f"No report was made: {error}")
            return
        self._item.add_report_section(
            "call", _MARKER, f"Peak {format_bytes(self.peak)}; what held it is in {page}"
        )


class _MarkedTests:
    """The plugin that records tests with the marker, without their fixtures."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test, recorded if it is marked."""
        # The marker of the test wins over those of its class and module, name by name.
        marks = list(item.iter_markers(_MARKER))
        if not marks:
            return (yield)
        if any(mark.args for mark in marks):
            raise _failure("give the budget by name, such as max_peak='2GiB'.")
        budget = {name: size for mark in reversed(marks) for name, size in mark.kwargs.items()}
        with Measured(item, **budget):
            return (yield)


def _failure(message: object) -> BaseException:
    """Return an exception that fails a test without a traceback, which would only show our code."""
    return pytest.fail.Exception(f"{_MARKER}: {message}", pytrace=False)


_LONGEST = 100
"""Most characters of a test's name in the name of its folder."""


def _folder(item: pytest.Item) -> Path:
    """Return where the files of a test go: below ``--gpu-memory``, else pytest's own folder."""
    name = re.sub(r"[^\w.-]+", "_", item.nodeid).strip("_")
    if len(name) > _LONGEST:
        digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
        name = f"{name[: _LONGEST - 9]}-{digest}"
    chosen = item.config.getoption("gpu_memory")
    if chosen is not None:
        return Path(item.config.invocation_params.dir, chosen, name)
    # Not by its fixture, which tests of unittest do not have.
    factory: pytest.TempPathFactory | None = getattr(item.config, "_tmp_path_factory", None)
    base = Path(tempfile.mkdtemp()) if factory is None else factory.getbasetemp()
    return base / _MARKER / name


def _refuse_unknown(budget: Mapping[str, Any]) -> None:
    """Refuse a budget that check() would refuse, before the test runs.

    Raises:
        BudgetError: a name is unknown, or its value is not a size.
    """
    from snapreport.diagnosis.compare.gate import KEYS, Budget
    from snapreport.ground.errors import BudgetError

    known = (*KEYS, "budget", "rules")
    for name in budget:
        if name not in known:
            raise BudgetError(f"there is no {name!r}; there are {', '.join(known)}.")
    Budget.of({name: budget[name] for name in KEYS if name in budget}, _MARKER)

"""Which engine is meant, and what is said where it cannot be used."""

from __future__ import annotations

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapreport.api.runs.tasks import Engine, jobs_for, open_engine, parse_engine
from snapreport.ground.errors import EngineError


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("local", Engine("local")),
        ("dask", Engine("dask")),
        (" dask ", Engine("dask")),
        ("dask=tcp://10.0.0.5:8786", Engine("dask", "tcp://10.0.0.5:8786")),
    ],
)
def test_an_engine_is_a_kind_and_perhaps_an_address(text: str, engine: Engine) -> None:
    assert parse_engine(text) == engine


@pytest.mark.parametrize("text", ["", "spark", "ray", "local=here", "dask=", "=tcp://a:1", "Dask"])
def test_another_word_is_no_engine(text: str) -> None:
    with pytest.raises(EngineError, match=r"is not an engine; choose local, dask or dask=tcp://"):
        parse_engine(text)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = r"needs Dask, which is not installed: pip install distributed"
    with pytest.raises(EngineError, match=said), open_engine(parse_engine("dask"), 1, None):
        pass


def test_an_address_where_nothing_answers_is_told_at_once() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        engine = Engine("dask", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
        with (
            pytest.raises(EngineError, match=r"^no .* answers at .*: Connection refused\.$"),
            open_engine(engine, 1, None),
        ):
            pass


def test_a_cluster_that_is_there_knows_how_much_it_can_do() -> None:
    files = [Path("a.pickle"), Path("b.pickle")]
    assert jobs_for(Engine("dask", "tcp://a:1"), files, None) is None
    assert jobs_for(Engine("dask", "tcp://a:1"), files, 1) == 1
    assert jobs_for(Engine("local"), files, 8) == 2
    assert jobs_for(Engine("dask"), files, None) in (1, 2)
    with ThreadPoolExecutor(1) as executor:
        assert jobs_for(executor, files, None) is None


def test_a_cluster_that_is_started_leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dask tells its workers by it to have one thread, which is for no program started later."""
    pytest.importorskip("distributed")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)

    def environment() -> dict[str, str]:  # without what Dask notes whenever it is imported
        return {k: v for k, v in os.environ.items() if not k.startswith("__DASK")}

    before = environment()
    with open_engine(Engine("dask"), 1, None) as opened:
        asked = opened.executor.submit(os.getenv, "OPENBLAS_NUM_THREADS")
        assert asked.result(timeout=60) == "1"
    assert environment() == before

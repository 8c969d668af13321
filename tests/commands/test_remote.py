"""Every command reads from an object store and writes into one; what goes wrong is one line."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.ground import processes
from tests.commands.conftest import Run

Put = Callable[[str, bytes], str]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 server on this machine, with one bucket."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    yield f"http://127.0.0.1:{started._server.port}"
    started.stop()


class Store:
    """A bucket, seen from within the server: to ask it takes longer than what a test is about."""

    def __init__(self, server: str) -> None:
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        self._backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        if "fleet" not in self._backend.buckets:
            self._backend.create_bucket("fleet", "us-east-1")

    def put(self, name: str, content: bytes) -> str:
        self._backend.put_object("fleet", name, content)
        return f"s3://fleet/{name}"

    def get(self, name: str) -> bytes:
        return bytes(self._backend.get_object("fleet", name).value)

    def names(self) -> list[str]:
        return list(self._backend.buckets["fleet"].keys)


@pytest.fixture
def store(server: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    import fsspec

    # After `run`, which forks workers: they would not know of the store. These are started anew.
    monkeypatch.setattr(processes, "get_context", get_context)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    yield Store(server)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_a_run_in_a_store_gives_the_same_bytes(
    run: Run, store: Store, samples: Path, folder: Path
) -> None:
    names = ["two_streams", "three_devices"]
    for place, name in enumerate(names):
        store.put(f"run/rank{place}/{name}.pickle", (samples / f"{name}.pickle").read_bytes())
    done = run("convert", "s3://fleet/run", "-o", "s3://fleet/bundles/", "--jobs", "1")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [f"s3://fleet/bundles/{name}.zip" for name in names]
    for name in names:
        run("convert", samples / f"{name}.pickle", "-o", f"{name}.zip")
        assert store.get(f"bundles/{name}.zip") == (folder / f"{name}.zip").read_bytes()
    done = run("render", "s3://fleet/bundles/two_streams.zip", "-o", "s3://fleet/page.html")
    assert done.stdout == "s3://fleet/page.html\n"
    run("render", "two_streams.zip", "-o", "page.html")
    assert store.get("page.html") == (folder / "page.html").read_bytes()
    assert b"s3://" not in store.get("page.html")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> tuple[Path, Path]:
    """A snapshot and its bundle."""
    source = tmp_path_factory.mktemp("in") / "training_step.pickle"
    source.write_bytes((samples / source.name).read_bytes())
    return source, snapreport.convert(source, source.with_suffix(".zip"))


@pytest.mark.parametrize(
    "command",
    [
        ["summary", "IN"],
        ["live", "IN"],
        ["stages", "IN"],
        ["whatif", "IN", "--without", "forward"],
        ["plan", "IN", "--fit", "1GiB"],
        ["diff", "IN", "BUNDLE"],
        ["check", "IN", "--max-peak", "100GiB"],
        ["query", "BUNDLE", "SELECT count(*) FROM allocs"],
        ["strings", "BUNDLE"],
        ["export", "csv", "BUNDLE", "-o", "OUT.csv"],
        ["diff", "IN", "BUNDLE", "-o", "OUT.html"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_command_says_the_same_of_a_store(
    run: Run, store: Store, training: tuple[Path, Path], folder: Path, command: list[str]
) -> None:
    source, bundle = training
    there = {
        "IN": store.put("in/training_step.pickle", source.read_bytes()),
        "BUNDLE": store.put("in/training_step.zip", bundle.read_bytes()),
        "OUT.csv": "s3://fleet/out/table.csv",
        "OUT.html": "s3://fleet/out/page.html",
    }
    here = {"IN": source, "BUNDLE": bundle, "OUT.csv": "table.csv", "OUT.html": "page.html"}
    result = run(*(there.get(word, word) for word in command), *_force(command))
    expected = run(*(here.get(word, word) for word in command), *_force(command))
    assert (result.exit_code, expected.exit_code) == (0, 0), result.stderr
    written = [word for word in command if word.startswith("OUT")]
    if written:
        assert result.stdout == f"{there[written[0]]}\n"
        name = str(there[written[0]]).rpartition("/")[2]
        assert store.get(f"out/{name}") == (folder / name).read_bytes()
    else:
        assert result.stdout == expected.stdout


def _force(command: list[str]) -> list[str]:
    return ["--force"] if any(word.startswith("OUT") for word in command) else []


@pytest.mark.parametrize(
    ("source", "settings", "said"),
    [
        ("s3://nowhere/a.pickle", {}, "s3://nowhere/a.pickle does not exist; check the path."),
        ("s3://fleet/none.zip", {}, "s3://fleet/none.zip does not exist; check the path."),
        (
            "s3://fleet/none.zip",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "s3://fleet/none.zip cannot be read: Unable to locate credentials.",
        ),
        (
            "s3://fleet/none.zip",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "s3://fleet/none.zip cannot be read: Could not connect to the endpoint URL",
        ),
        (
            "gs://fleet/none.zip",
            {},
            "gs://fleet/none.zip needs packages that are not installed: pip install fsspec gcsfs",
        ),
        ("nosuch://a/b.zip", {}, "nosuch://a/b.zip is in no kind of store that fsspec knows."),
    ],
)
def test_what_goes_wrong_with_a_store_is_one_line(
    run: Run,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    settings: dict[str, str],
    said: str,
) -> None:
    for name, value in settings.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    result = run("summary", source)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {said}")
    assert "very-secret" not in line


def test_an_object_that_is_there_is_kept(run: Run, store: Store, snapshot: Path) -> None:
    target = store.put("kept/a.zip", b"mine")
    result = run("convert", snapshot, "-o", target)
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: s3://fleet/kept/a.zip already exists; pass --force to replace it.\n",
    )
    assert store.get("kept/a.zip") == b"mine"
    assert run("convert", snapshot, "-o", target, "--force").exit_code == 0
    assert store.get("kept/a.zip")[:2] == b"PK"


def test_a_missing_bucket_takes_no_output(run: Run, store: Store, snapshot: Path) -> None:
    result = run("convert", snapshot, "-o", "s3://nowhere/a.zip")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: s3://nowhere/a.zip cannot be written: there is no such bucket or folder;"
        " choose another place with -o.\n"
    )


def test_nothing_is_left_of_what_could_not_be_made(
    run: Run, store: Store, broken: Callable[[str], Path]
) -> None:
    source = store.put("broken.pickle", broken("truncated-pickle").read_bytes())
    result = run("convert", source, "-o", "s3://fleet/half/a.zip")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: s3://fleet/broken.pickle ")
    assert not [name for name in store.names() if name.startswith("half")]


def test_a_thousand_objects_are_one_listing(
    run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which S3 answers a thousand at a time."""
    from s3fs import S3FileSystem

    from snapreport.api.runs.inputs import find_inputs
    from snapreport.ground.stores import as_path

    for n in range(1024):
        store.put(f"many/it_{n % 4}/rank{n}.pickle", b"x")
    asked: list[tuple[str, dict[str, Any]]] = []
    call = S3FileSystem._call_s3

    async def counted(self: Any, method: str, *more: Any, **settings: Any) -> Any:
        asked.append((method, settings))
        return await call(self, method, *more, **settings)

    pages = []
    listed = S3FileSystem._iterdir

    async def iterdir(self: Any, *more: Any, **settings: Any) -> Any:
        pages.append(settings)
        async for each in listed(self, *more, **settings):
            yield each

    monkeypatch.setattr(S3FileSystem, "_call_s3", counted)
    monkeypatch.setattr(S3FileSystem, "_iterdir", iterdir)
    found = find_inputs([as_path("s3://fleet/many/")], bundles=True)
    assert len(found.files) == 1024
    assert found.files[1].name == "rank4.pickle"
    assert len(pages) == 1
    assert len(asked) < 5, "whether it is a folder"
    asked.clear()
    assert found.files[0].stat().st_size == 1  # known from the listing
    assert len(pages) == 1
    assert asked == []

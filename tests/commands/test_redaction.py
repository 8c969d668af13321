"""``--redact`` with every command and format: no name from the input is in what is written."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import pickle
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.api.loading import Snapshot
from snapreport.commands import cli
from snapreport.commands.mcp_server.guidance import TOOLS
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.names import redaction
from snapreport.names.redaction import StandIns, redact_name
from snapreport.reporters.exports import EXPORTS
from tests.builders import assert_same_history
from tests.commands.conftest import Run
from tests.mcp.desks import DeskBelow
from tests.mcp.test_answers import CALLS
from tests.mcp.test_whole_runs import RunDesk
from tests.unit.names.test_redaction import SECRETS, secretive

NAME = "zebra-annika.rank3"
SALTED = ("--redact-functions", "--salt", "pepper, 16 or more")


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Derive the keys of salts in a moment; tests/unit/names takes as long as users have to."""
    monkeypatch.setattr(redaction, "_ROUNDS", 1)
    redaction._key_of.cache_clear()
    yield
    redaction._key_of.cache_clear()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "gnuhost" / f"{NAME}.pickle"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(secretive()))
    return path


@pytest.fixture
def kept(secret: Path, run: Run) -> Path:
    """A bundle with every name in it."""
    path = secret.with_suffix(".zip")
    assert run("convert", secret, "--keep-paths", "-o", path).exit_code == 0
    return path


def whole(path: Path) -> bytes:
    """Return the names and every byte of what was written, unpacked wherever it is packed."""
    if path.is_dir():
        return b"\n".join(each.name.encode() + whole(each) for each in sorted(path.iterdir()))
    data = path.read_bytes()
    found = [path.name.encode(), data]
    found += [zlib.decompress(base64.b64decode(text), 31) for text in PACKED.findall(data)]
    if data[:2] == b"PK":
        with zipfile.ZipFile(path) as archive:
            found += [repr(archive.infolist()).encode(), *map(archive.read, archive.namelist())]
    if data[:2] == b"\x1f\x8b":
        found.append(gzip.decompress(data))
    if data[:4] == b"PAR1":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(io.BytesIO(data))
        found.append(repr((table.schema, table.schema.metadata, table.to_pylist())).encode())
    return b"\n".join(found)


PACKED = re.compile(rb'id="(?:payload|app)">([^<]*)<')


def secrets_in(path: Path) -> list[str]:
    data = whole(path).lower()
    return [word for word in SECRETS if word.encode() in data]


def test_the_commands_that_redact_are_those_below() -> None:
    redacting = {
        name
        for name, command in cli.commands.items()
        if any("--redact" in option.opts for option in command.params)
    }
    assert redacting == {"convert", "render", "export", "mcp"}


@pytest.mark.parametrize("given", ["secret", "kept"])
@pytest.mark.parametrize("kind", EXPORTS)
def test_no_name_is_in_an_export(
    run: Run, folder: Path, kind: str, given: str, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue(given)
    before = set(os.listdir(folder))
    result = run("export", kind, source, "--redact-functions")
    assert result.exit_code == 0, result.stderr
    (name,) = set(os.listdir(folder)) - before
    assert re.fullmatch(rf"[a-p]{{8}}-[a-p]{{8}}\.rank3{re.escape(EXPORTS[kind])}", name)
    assert secrets_in(folder / name) == []
    # Else nothing would be found whatever redaction did.
    run("export", kind, source, "--keep-paths", "-o", folder / "zebra")
    assert "zebra" in secrets_in(folder / "zebra")


@pytest.mark.parametrize(
    "command", [("convert",), ("render",), ("render", "--format", "md"), ("render", "--fit", "9MB")]
)
def test_no_name_is_in_a_bundle_or_report(
    run: Run, folder: Path, secret: Path, command: tuple[str, ...]
) -> None:
    result = run(*command, secret, "--redact-functions")
    assert result.exit_code == 0, result.stderr
    (name,) = os.listdir(folder)
    assert result.stdout == f"{name}\n"
    assert secrets_in(folder) == []


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("convert -o out", 2),
        ("render --pages all -o out", 3),
        ("render -o out/run.md", 1),
        ("render -o out/run.zip", 1),
    ],
)
def test_no_name_is_in_what_is_made_of_several_files(
    run: Run, folder: Path, secret: Path, command: str, written: int
) -> None:
    other = secret.parent / "okapi" / "zebra-annika.rank4.pickle"
    other.parent.mkdir()
    other.write_bytes(secret.read_bytes())
    broken = secret.with_name("margay.pickle")
    broken.write_bytes(b"\x80\x04 of annika on gnuhost")
    (folder / "out").mkdir()
    name, *options = command.split()
    result = run(name, secret, other, broken, "--redact-functions", "--jobs", "1", *options)
    assert result.exit_code == 1
    assert str(broken) in result.stderr  # which is for whoever ran it
    assert sum(path.is_file() for path in (folder / "out").rglob("*")) == written
    assert secrets_in(folder / "out") == []


@pytest.mark.parametrize(
    ("beside", "stem"),
    [
        (None, r"rank([34])"),
        # Which says no rank, so that pages are named after their files.
        ("margay.pickle", r"[a-p]{8}-[a-p]{8}\.rank([34])"),
    ],
)
def test_a_run_s_page_links_to_those_of_its_ranks_by_their_stand_ins(
    run: Run, folder: Path, secret: Path, beside: str | None, stem: str
) -> None:
    files = [secret, secret.with_name("zebra-annika.rank4.pickle")]
    files[1].write_bytes(secret.read_bytes())
    if beside:
        files.append(secret.with_name(beside))
        files[2].write_bytes(b"\x80\x04 of annika on gnuhost")
    options = ("-o", "out", "--pages", "all", "--redact", "--jobs", "1", "-q")
    assert run("render", *files, *options).exit_code == (1 if beside else 0)
    out = folder / "out"
    page = (out / "run.html").read_text("utf-8")
    links = set(re.findall(r'href="([^"#]+\.html)', page))
    assert links == {f"ranks/{name}" for name in os.listdir(out / "ranks")}
    found = [re.fullmatch(rf"ranks/{stem}\.html", link) for link in links]
    assert sorted(match[1] for match in found if match) == ["3", "4"]
    for link in links:
        title = Path(link).stem if beside else Path(link).stem.replace("rank", "rank ")
        assert f"<title>{title} " in (out / link).read_text("utf-8")
    assert secrets_in(out) == ["tapir", "lemur"]  # functions, which stay


def test_no_name_is_in_an_answer_of_mcp(secret: Path) -> None:
    names = NamesWanted(redact=True, redact_functions=True, salt="pepper, 16 or more")
    desk = DeskBelow(secret.parent, names)
    (listed,) = desk.files.list()
    calls = [*CALLS, ("diff", {"base": listed.shown})]
    assert {tool.name for tool in TOOLS} == {"run", *(tool for tool, _ in calls)}
    said = [desk.ask(tool, listed.shown, **arguments) for tool, arguments in calls]
    (secret.parent / "zebra-annika.rank4.pickle").write_bytes(secret.read_bytes())
    said += [RunDesk(secret.parent, names).ask(".", **more) for more in ({}, {"rank": 3})]
    text = (listed.shown + str(said)).lower()
    assert [word for word in SECRETS if word in text] == []


def test_a_redacted_raw_snapshot_is_that_of_the_redacted_bundle(
    run: Run, folder: Path, secret: Path
) -> None:
    assert run("convert", secret, *SALTED, "-o", "r.zip").exit_code == 0
    before = snapreport.load("r.zip", keep_paths=True)
    for kind in ("pickle", "json"):
        assert run("export", kind, secret, *SALTED, "-o", f"raw.{kind}").exit_code == 0
        again = snapreport.load(f"raw.{kind}", keep_paths=True)
        assert names_of(again) == names_of(before)
        assert_same_history(again.devices[0].allocations, before.devices[0].allocations)  # type: ignore[arg-type]
        found = snapreport.diff(before, again).sites
        assert {(c.match, c.base_bytes - c.new_bytes) for c in found} == {("exact", 0)}
        # What is made of it later has the same names, so that it can be compared.
        later = snapreport.load(f"raw.{kind}", redact_functions=True, salt="pepper, 16 or more")
        assert len(set(names_of(later)[0])) == len(set(names_of(before)[0]))


def names_of(snapshot: Snapshot) -> tuple[list[str], ...]:
    """Return the names of frames in the order of their tables, and the other texts."""
    frames, device = snapshot.history.stacks.frames, snapshot.devices[0]
    return (
        sorted(zip(frames.names, frames.filenames, strict=True)),  # type: ignore[arg-type]
        sorted(snapshot.history.strings),
        sorted(set(device.stages.name)),
        sorted(set(device.other.action)),
        sorted(map(str, snapshot.history.settings)),
    )


def test_raw_snapshots_say_that_they_are_rebuilt(run: Run, secret: Path) -> None:
    result = run("export", "json", secret, *SALTED, "-o", "raw.json")
    assert "Rebuilt, because it is redacted" in result.stderr
    assert "potto" not in orjson.loads(Path("raw.json").read_bytes())


@pytest.mark.parametrize(
    ("option", "status"), [(("--salt", "x"), 2), (("--keep-paths", "--redact"), 2)]
)
def test_exports_refuse_what_contradicts_itself(
    run: Run, secret: Path, folder: Path, option: tuple[str, ...], status: int
) -> None:
    assert run("export", "json", secret, *option).exit_code == status
    assert os.listdir(folder) == []


@pytest.mark.parametrize("ending", ["html", "md"])
def test_title_and_notes_are_the_user_s_own_and_checked(
    run: Run, secret: Path, folder: Path, ending: str
) -> None:
    notes = secret.with_name("notes.md")
    notes.write_text("Ask carla@example.org, or see /home/carla/runs.\n", encoding="utf-8")
    own = ("--title", "Runs of https://ci.example.org/7", "--notes", notes)
    result = run("render", secret, "--redact-functions", *own, "-o", f"r.{ending}")
    assert result.exit_code == 0, result.stderr
    assert secrets_in(folder) == []
    checked = run("strings", "--check", f"r.{ending}")
    assert checked.exit_code == 3
    for leak in (
        "e-mail address: carla@example.org",
        "home directory: /home/carla",
        "URL: https://ci.example.org/7",
    ):
        assert leak in checked.stdout
    without = run("render", secret, "--redact-functions", "-o", f"s.{ending}")
    assert without.exit_code == 0
    assert run("strings", "--check", f"s.{ending}").exit_code == 0


def test_a_written_name_keeps_what_tells_ranks_apart() -> None:
    names = StandIns("pepper, 16 or more")
    assert redact_name("snapshot_rank_12", names) == "snapshot_rank_12"
    assert re.fullmatch(r"[a-p]{8}-[a-p]{8}_gpu7", redact_name("okapi-quagga_gpu7", names))
    assert redact_name("okapi", names) == redact_name("okapi", StandIns("pepper, 16 or more"))
    assert redact_name("okapi", names) != redact_name("okapi", StandIns("another that is as long"))


@pytest.mark.parametrize(
    "command", [("convert",), ("render",), ("export", "csv")], ids=lambda words: words[0]
)
def test_a_salt_that_is_found_by_trying_is_refused(
    run: Run, folder: Path, secret: Path, command: tuple[str, ...]
) -> None:
    for salt in ("", "hunter2", "15 letters long"):
        result = run(*command, secret, "--redact", "--salt", salt)
        assert result.exit_code == 2
        assert "--salt has fewer than 16 characters" in result.stderr
        assert "openssl rand -hex 16" in " ".join(result.stderr.split())
        assert os.listdir(folder) == []
        with pytest.raises(ValueError, match="the salt has fewer than 16 characters"):
            snapreport.load(secret, redact=True, salt=salt)


@pytest.mark.parametrize("command", ["convert", "render", "render --format md", "export csv"])
def test_the_key_of_a_salt_is_derived_once_in_a_run(
    run: Run, folder: Path, secret: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive, derived = hashlib.pbkdf2_hmac, []

    def count(*arguments: Any) -> bytes:
        derived.append(arguments)
        return derive(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count)
    for salt in (f"first for {command}", f"second for {command}"):
        derived.clear()
        result = run(*command.split(), secret, "--redact", "--salt", salt, "--force")
        assert result.exit_code == 0, result.stderr
        assert [salt.encode() in arguments for arguments in derived] == [True]

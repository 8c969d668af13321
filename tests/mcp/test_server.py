"""The server with the SDK's own client: list, call, errors, progress, cancelling, many at once."""

from __future__ import annotations

import os
import pickle
import signal
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from snapreport.commands.mcp_server import keeping
from snapreport.commands.mcp_server.guidance import BY_NAME
from snapreport.commands.mcp_server.keeping import FileKeepers
from snapreport.commands.mcp_server.protocol import make_server
from snapreport.commands.mcp_server.questions import ANSWERING, RootedFiles
from snapreport.commands.mcp_server.reply import USUAL, as_text, count_tokens
from tests import ready_workers
from tests.mcp.desks import PLAIN, connected, run, text_of

STEP = {"file": "training_step.pickle"}
FOR_EVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_lists_and_calls(samples: Path, mode: str) -> None:
    async def work() -> None:
        async with connected(samples, mode=mode) as (client, _):
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == list(BY_NAME)
            assert len(tools) <= 8
            for tool in tools:
                jsonschema.Draft202012Validator.check_schema(tool.input_schema)
                jsonschema.Draft202012Validator.check_schema(tool.output_schema or {})
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint
            listed = await client.call_tool("open", {})
            assert "training_step.pickle" in str(listed.structured_content)
            opened = await client.call_tool("open", STEP)
            assert not opened.is_error
            assert text_of(opened) == as_text(opened.structured_content)

    run(work)


def test_resources_and_prompts_are_there(samples: Path) -> None:
    async def work() -> None:
        async with connected(samples) as (client, _):
            for each in (await client.list_resources()).resources:
                (content,) = (await client.read_resource(each.uri)).contents
                assert isinstance(content, TextResourceContents)
                assert len(content.text) > 200
                assert content.mime_type == each.mime_type
            for prompt in (await client.list_prompts()).prompts:
                names = [each.name for each in prompt.arguments or []]
                got = await client.get_prompt(prompt.name, dict.fromkeys(names, 'a "b" {c}.pickle'))
                assert isinstance(got.messages[0].content, TextContent)
                assert '"a \\"b\\" {c}.pickle"' in got.messages[0].content.text
            for wrong in ("snapreport://nothing", "file:///etc/passwd"):
                with pytest.raises(MCPError):
                    await client.read_resource(wrong)
            with pytest.raises(MCPError, match="needs base and new"):
                await client.get_prompt("compare_two_runs", {})
            with pytest.raises(MCPError, match="no prompt"):
                await client.get_prompt("nothing", {})

    run(work)


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("open", {"file": "../README.md"}, "not a file below the roots"),
    ("open", {"file": 7}, "file: 7 is not of type 'string'"),
    ("open", {"file": "README.md"}, "README.md"),
    ("at", {**STEP, "event": 10**9}, "event"),
    ("at", {**STEP, "event": 1, "stage": "x"}, "a moment has only one name"),
    ("at", {**STEP, "alloc": "nonsense"}, "is not an address"),
    ("at", {**STEP, "by": "nonsense"}, "is not one of"),
    ("at", {**STEP, "evnt": 1}, "It takes file, device, event"),
    ("at", {**STEP, "max_tokens": 10**6}, "maximum of 20000"),
    ("summary", {**STEP, "device": "cuda:9"}, "no device"),
    ("whatif", {**STEP, "card": "nonsense"}, "nonsense"),
    ("whatif", {**STEP, "settings": ["nonsense:1"]}, "nonsense"),
    ("whatif", {**STEP, "without": ["/(/"]}, "pattern"),
    ("query", {**STEP}, "'sql' is a required property"),
    ("query", {**STEP, "sql": "SELECT nonsense"}, "nonsense"),
    ("query", {**STEP, "sql": "-- nothing"}, "no statement"),
    ("query", {**STEP, "sql": "SELECT 1; SELECT 2"}, "more than one statement"),
    ("query", {**STEP, "sql": "DELETE FROM frames"}, "delete from"),
    ("query", {**STEP, "sql": "DROP TABLE frames"}, "can only read"),
    ("query", {**STEP, "sql": "ATTACH '/tmp/x.db' AS x"}, "attach"),
    ("query", {**STEP, "sql": "SELECT load_extension('x')"}, "load_extension"),
    ("query", {**STEP, "sql": "SELECT readfile('/etc/passwd')"}, "readfile"),
    ("query", {**STEP, "sql": "PRAGMA writable_schema = 1"}, "pragma"),
    ("query", {**STEP, "sql": "VACUUM INTO '/tmp/x.db'"}, "attach"),
)


def test_what_cannot_be_answered_is_told_and_the_server_goes_on(samples: Path) -> None:
    async def work() -> None:
        async with connected(samples) as (client, _):
            for tool, arguments, said in WRONG:
                result = await client.call_tool(tool, arguments)
                assert result.is_error, (tool, arguments)
                assert said.lower() in text_of(result).lower(), (tool, arguments)
                assert "Traceback" not in text_of(result)
            with pytest.raises(MCPError, match="no tool 'nonsense'"):
                await client.call_tool("nonsense", {})
            assert not (await client.call_tool("open", STEP)).is_error

    run(work)


def test_a_text_is_taken_for_a_list_of_one(samples: Path) -> None:
    pairs: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("whatif", {"without": "train"}, {"without": ["train"]}),
        ("whatif", {"settings": "recorded"}, {"settings": ["recorded"]}),
        (
            "at",
            {"include": "model.py", "exclude": "x"},
            {"include": ["model.py"], "exclude": ["x"]},
        ),
    )

    async def work() -> None:
        async with connected(samples) as (client, _):
            for tool, text, texts in pairs:
                one = await client.call_tool(tool, {**STEP, **text})
                assert not one.is_error, text_of(one)
                assert text_of(one) == text_of(await client.call_tool(tool, {**STEP, **texts}))

    run(work)


def test_a_broken_file_is_told_by_the_name_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "text.pickle").write_text("no pickle")
    (tmp_path / "evil.pickle").write_bytes(b"cos\nsystem\n(S'touch x'\ntR.")
    (tmp_path / "empty.zip").write_bytes(b"PK\x05\x06" + bytes(18))

    async def work() -> None:
        async with connected(tmp_path) as (client, _):
            for path in sorted(tmp_path.iterdir()):
                result = await client.call_tool("open", {"file": path.name})
                assert result.is_error
                assert path.name in text_of(result)
                assert "/proc" not in text_of(result)
                assert str(tmp_path) not in text_of(result)

    run(work)


def test_a_giant_answer_comes_in_pages(samples: Path) -> None:
    sql = "SELECT a.id, b.id, hex(randomblob(1)) FROM allocations a, allocations b, frames"
    long = "SELECT replace(printf('%01000d', 7), '0', 'word ') AS x FROM frames, frames"

    async def work() -> None:
        async with connected(samples) as (client, _):
            for asked in (sql.replace(", hex(randomblob(1))", ""), long):
                result = await client.call_tool("query", {**STEP, "sql": asked})
                assert not result.is_error, text_of(result)
                assert count_tokens(text_of(result)) <= USUAL
                assert result.structured_content["left"] > 0

    run(work)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_work_that_is_cancelled_ends_at_once_and_others_go_on(samples: Path) -> None:
    async def work() -> None:
        async with connected(samples, mode="legacy") as (client, keepers):
            await client.call_tool("open", STEP)
            await client.call_tool("open", {"file": "two_streams.pickle"})
            (busy, other) = keepers.processes()
            with anyio.move_on_after(0.5) as scope:
                await client.call_tool("query", {**STEP, "sql": FOR_EVER})
            assert scope.cancelled_caught
            with anyio.fail_after(5):
                while alive(busy):
                    await anyio.sleep(0.02)
            assert alive(other)
            again = await client.call_tool("query", {**STEP, "sql": "SELECT 1"})
            assert again.structured_content["tables"][0]["rows"] == [[1]]

    run(work)


def test_a_query_that_runs_for_ever_is_ended(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SQLite itself; and where one step of it takes for ever, with its process."""
    from snapreport.commands.mcp_server import keeping

    monkeypatch.setattr(keeping, "QUERY_SECONDS", 0.3)
    monkeypatch.setattr(keeping, "_GRACE", 0.2)

    async def work() -> None:
        async with connected(samples) as (client, _):
            await client.call_tool("open", STEP)
            result = await client.call_tool("query", {**STEP, "sql": FOR_EVER})
            assert result.is_error
            assert "took longer than" in text_of(result)
            assert not (await client.call_tool("open", STEP)).is_error

    run(work)


def test_a_pattern_that_takes_for_ever_blocks_its_file_only_for_the_time_limit(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from snapreport.commands.mcp_server import keeping

    monkeypatch.setattr(keeping, "QUERY_SECONDS", 0.3)
    monkeypatch.setattr(keeping, "_GRACE", 0.2)
    slow = {**STEP, "without": ["/(.|.|.)*$^/"]}

    async def work() -> None:
        async with connected(samples) as (client, _):
            await client.call_tool("open", STEP)
            with anyio.fail_after(60):  # fails only where it would never end
                result = await client.call_tool("whatif", slow)
            assert result.is_error
            assert "took longer than" in text_of(result)
            assert not (await client.call_tool("open", STEP)).is_error

    run(work)


def test_progress_is_reported_and_rises(samples: Path) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def work() -> None:
        async with connected(samples, mode="legacy") as (client, _):
            await client.call_tool("open", STEP, progress_callback=note)

    run(work)
    assert told
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert all(message for _, message in told)


def test_long_work_is_reported_again_and_again_until_it_ends(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "QUERY_SECONDS", 0.5)
    monkeypatch.setattr(keeping, "_GRACE", 0.0)
    monkeypatch.setattr(keeping, "_ALIVE", 0.01)
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def work() -> None:
        async with connected(samples, mode="legacy") as (client, _):
            asked = {**STEP, "sql": FOR_EVER}
            assert (await client.call_tool("query", asked, progress_callback=note)).is_error
            count = len(told)
            await anyio.sleep(0.1)
            assert len(told) == count

    run(work)
    assert [message for _, message in told].count(ANSWERING) > 3


def test_the_modules_that_processes_load_before_exist() -> None:
    for name in (*keeping.READ_BEFORE, *ready_workers.READ_BEFORE):
        assert find_spec(f"snapreport.{name}") is not None, name


def test_two_clients_and_two_files_at_once(samples: Path) -> None:
    """Answers are those of one client alone, whoever else asks meanwhile."""
    files = ("training_step.pickle", "two_streams.pickle")
    calls = [(tool, {"file": file}) for tool in ("open", "at", "whatif") for file in files]
    calls.append(("diff", {"base": files[0], "new": files[1]}))

    async def work() -> None:
        async with connected(samples) as (client, _):
            alone = [(await client.call_tool(*call)).structured_content for call in calls]
        keepers = FileKeepers(PLAIN)
        found: dict[tuple[int, int], Any] = {}
        try:
            server = make_server(RootedFiles([samples], PLAIN), keepers)

            async def ask(number: int) -> None:
                from mcp.client.client import Client

                async with Client(server) as client, anyio.create_task_group() as tasks:
                    for place, call in enumerate(calls):
                        tasks.start_soon(note, client, number, place, call)

            async def note(client: Any, number: int, place: int, call: Any) -> None:
                found[number, place] = (await client.call_tool(*call)).structured_content

            async with anyio.create_task_group() as tasks:
                for number in range(2):
                    tasks.start_soon(ask, number)
        finally:
            keepers.close()
        for (_, place), content in found.items():
            assert content == alone[place]
        assert len(found) == 2 * len(calls)

    run(work)


def test_few_files_are_open_at_once_and_the_last_stay(samples: Path) -> None:
    names = ["training_step.pickle", "two_streams.pickle", "state_only.pickle"]

    async def work() -> None:
        async with connected(samples, files=2) as (client, keepers):
            for name in (*names, names[1]):
                await client.call_tool("summary", {"file": name})
            assert keepers.open_files == [names[2], names[1]]
            assert len(keepers.processes()) == 2
        async with connected(samples, memory=1) as (client, keepers):
            for name in names[:2]:
                assert not (await client.call_tool("summary", {"file": name})).is_error
            assert keepers.open_files == []

    run(work)


def test_a_file_that_changes_is_opened_anew(samples: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.pickle"
    file.write_bytes((samples / "training_step.pickle").read_bytes())

    async def work() -> None:
        async with connected(tmp_path) as (client, _):
            before = (await client.call_tool("open", {"file": "a.pickle"})).structured_content
            time.sleep(0.01)
            file.write_bytes((samples / "two_streams.pickle").read_bytes())
            after = (await client.call_tool("open", {"file": "a.pickle"})).structured_content
            assert before["peak"] != after["peak"]

    run(work)


def test_a_process_that_was_ended_from_outside_is_started_again(samples: Path) -> None:
    async def work() -> None:
        async with connected(samples) as (client, keepers):
            await client.call_tool("open", STEP)
            (process,) = keepers.processes()
            os.kill(process, signal.SIGKILL)
            await anyio.sleep(0.1)
            assert not (await client.call_tool("at", STEP)).is_error

    run(work)


def test_nothing_is_written(samples: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.pickle").write_bytes((samples / "training_step.pickle").read_bytes())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    async def work() -> None:
        async with connected(root) as (client, _):
            for tool in ("open", "at", "whatif"):
                await client.call_tool(tool, {"file": "a.pickle"})
            await client.call_tool("query", {"file": "a.pickle", "sql": "SELECT 1"})

    run(work)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_hostile_stage_is_asked_for_by_its_quoted_name(tmp_path: Path) -> None:
    from tests.mcp.test_strange_texts import order_in_every_place

    (tmp_path / "a.pickle").write_bytes(pickle.dumps(order_in_every_place()))

    async def work() -> None:
        async with connected(tmp_path) as (client, _):
            found = await client.call_tool("summary", {"file": "a.pickle", "part": "stages"})
            stage = found.structured_content["tables"][0]["rows"][0][0]
            at = await client.call_tool("at", {"file": "a.pickle", "stage": stage})
            assert not at.is_error, text_of(at)

    run(work)

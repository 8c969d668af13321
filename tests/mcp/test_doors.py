"""The command itself: a client over standard input and output, and over HTTP with a token."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import orjson
import pytest
from click.testing import CliRunner
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from snapreport.commands import cli
from snapreport.commands.mcp_server import protocol
from snapreport.commands.mcp_server.protocol import PATH
from tests.commands.conftest import Run
from tests.mcp.desks import PLAIN
from tests.mcp.desks import run as run_work

COMMAND = [sys.executable, "-m", "snapreport", "mcp"]
TOKEN = "a-token-that-nobody-guesses"
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_a_client_starts_the_command_and_asks(samples: Path) -> None:
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--root", str(samples)], env=dict(os.environ)
    )

    async def work() -> None:
        async with Client(server, mode="legacy") as client:
            result = await client.call_tool("open", {"file": "out_of_memory.pickle.gz"})
            assert result.structured_content["answer"].startswith("The program ran out of memory")
            wrong = await client.call_tool("open", {"file": "../pyproject.toml"})
            assert wrong.is_error

    run_work(work)


def test_a_server_that_waits_for_input_ends_when_it_is_told_to(samples: Path) -> None:
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }  # fmt: skip
    # Started anew: a fork ends whatever thread still waits for input.
    with subprocess.Popen(
        [*COMMAND, "--root", str(samples)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps(hello) + b"\n")
        process.stdin.flush()
        answer = orjson.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "snapreport"
        process.terminate()
        assert process.wait(30) == 143  # 128 + SIGTERM


@contextlib.contextmanager
def http_server(root: Path) -> Iterator[tuple[str, str]]:
    """Start a server; give its address and what it said."""
    with subprocess.Popen(
        [*COMMAND, "--root", str(root), "--http", "0"],
        env={**os.environ, "SNAPREPORT_MCP_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            yield said.split()[-1], said
        finally:
            process.terminate()
            assert process.wait(30) == 143
            assert "Traceback" not in process.stderr.read()


def test_http_takes_those_with_the_token_from_this_machine(samples: Path) -> None:
    with http_server(samples) as (url, said):
        assert TOKEN not in said
        assert url.startswith("http://127.0.0.1:")
        good = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
        }
        port = url.split(":")[2].split("/")[0]
        attacks: list[tuple[int, dict[str, str]]] = [
            (401, {"Authorization": ""}),
            (401, {"Authorization": "Bearer wrong"}),
            (401, {"Authorization": f"Basic {TOKEN}"}),
            (401, {"Authorization": f"Bearer {TOKEN}x"}),
            (421, {"Host": "attack.example"}),
            (421, {"Host": f"attack.example:{port}"}),
            (421, {"Host": "127.0.0.1:1"}),
            (421, {"Host": f"127.0.0.1.attack.example:{port}"}),
            (403, {"Origin": "http://attack.example"}),
            (403, {"Origin": "null"}),
            (403, {"Origin": f"http://127.0.0.1.attack.example:{port}"}),
        ]
        with httpx2.Client() as client:
            for status, headers in attacks:
                found = client.post(url, json=HELLO, headers={**good, **headers})
                assert found.status_code == status, headers
                assert "tools" not in found.text
            large = client.post(url, content=b"x" * 2**21, headers=good)
            assert large.status_code in (400, 413)
            assert client.get(url.replace(PATH, "/"), headers=good).status_code == 404

        async def work() -> None:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
                Client(streamable_http_client(url, http_client=http)) as one,
                Client(streamable_http_client(url, http_client=http), mode="legacy") as other,
            ):
                for client in (one, other):
                    result = await client.call_tool("open", {"file": "two_streams.pickle"})
                    assert not result.is_error

        run_work(work)


def test_a_token_is_made_and_told_where_none_is_given(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_serving(self: object, sockets: list[socket.socket]) -> None:
        for each in sockets:
            each.close()

    monkeypatch.setattr("uvicorn.Server.serve", no_serving)
    monkeypatch.setattr(protocol, "make_ready", lambda: None)
    said: list[list[str]] = [[], []]
    with ThreadPoolExecutor(1) as beside:  # where tests of pages have no event loop
        for told in said:
            serve = functools.partial(protocol.serve, port=0, token=None, say=told.append)
            beside.submit(serve, [samples], PLAIN).result()
    tokens = [told[1].removeprefix("Token: ") for told in said]
    assert min(map(len, tokens)) > 30
    assert tokens[0] != tokens[1]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, list(words), prog_name="snapreport")


def test_what_is_wrong_with_the_command_is_told_in_a_line(
    run: Run, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Missing option '--root'" in run("mcp").stderr
    missing = run("mcp", "--root", "nothing")
    assert missing.exit_code == 1
    assert missing.stderr == "Error: nothing does not exist; a root is a folder that does.\n"
    monkeypatch.setenv("SNAPREPORT_MCP_TOKEN", "short")
    assert "short enough to guess" in run("mcp", "--root", str(samples), "--http", "0").stderr
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    without = run("mcp", "--root", str(samples))
    assert without.exit_code == 1
    assert without.stderr == "Error: This needs the official SDK; run pip install 'mcp>=2,<3'.\n"

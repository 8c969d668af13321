"""Run an MCP server and write down the tokens of each reply to a tool call, a line each.

``python -m dev.evals.counted LOG COMMAND...``: stands between client and server on standard
streams.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from snapreport.commands.mcp_server.reply import count_tokens


def main(arguments: Sequence[str]) -> int:
    """Pass lines both ways until the client or the server ends."""
    log, *command = arguments
    calls: set[object] = set()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        back = threading.Thread(target=_replies, args=(server.stdout, calls, Path(log)))
        back.start()
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                calls.add(message["id"])
            server.stdin.write(line)
            server.stdin.flush()
        server.stdin.close()
        back.join()
    return server.returncode


def _replies(stream: IO[bytes], calls: set[object], log: Path) -> None:
    for line in stream:
        message = json.loads(line)
        if message.get("id") in calls and "method" not in message:
            parts = message.get("result", {}).get("content", [])
            text = "".join(part.get("text", "") for part in parts)
            with log.open("a") as file:
                file.write(f"{count_tokens(text)}\n")
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

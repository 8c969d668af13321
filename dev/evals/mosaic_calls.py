"""Mosaic's tools, run from a checkout that is given by path, each call in a process of its own.

Nothing of Mosaic is part of this project. Its interpreter is ``.venv/bin/python`` of the checkout,
where there is one, and has what Mosaic requires.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import zstandard

PATIENCE = 120.0
"""Seconds for a call."""

_TOOL = (
    "import json, sys; from mosaic.mcp import server;"
    " print(getattr(server, sys.argv[1])(**json.loads(sys.argv[2])))"
)
_DEVICE_PEAK = (
    "import sys; from mosaic.libmosaic.analyzer.memory_abstract import MemoryAbstract;"
    " read = MemoryAbstract(memory_snapshot_file=sys.argv[1]); read.load_memory_snapshot();"
    " found = read.memory_snapshot; found.stat_memory_usage_range(device_idx=int(sys.argv[2]));"
    " print(found.max_memory_usage)"
)


class MosaicError(Exception):
    """A call ended with an error, or took too long; the message says which."""


class Mosaic:
    """A checkout."""

    def __init__(self, checkout: Path, scratch: Path, patience: float = PATIENCE) -> None:
        """Name a checkout.

        Args:
            checkout: with ``mosaic/mcp/server.py`` in it.
            scratch: an empty folder for what is unpacked, and what Mosaic writes.
            patience: seconds for a call.

        Raises:
            MosaicError: it is none.
        """
        if not (checkout / "mosaic" / "mcp" / "server.py").is_file():
            raise MosaicError(f"{checkout} holds no mosaic/mcp/server.py.")
        own = checkout.absolute() / ".venv" / "bin" / "python"
        self._python = str(own) if own.exists() else sys.executable
        self._environment = {**os.environ, "PYTHONPATH": str(checkout.absolute())}
        self._scratch, self._patience = scratch, patience
        self._done: dict[tuple[str, ...], tuple[str, str] | MosaicError] = {}

    def tool(self, name: str, path: Path, **arguments: Any) -> dict[str, Any]:
        """Call a tool of Mosaic's MCP server; return its reply.

        Raises:
            MosaicError: it failed, or says so.
        """
        given = json.dumps({"snapshot_path": str(self._plain(path)), **arguments})
        reply: dict[str, Any] = json.loads(self._run("-c", _TOOL, name, given)[0])
        if reply.get("status") != "ok":
            error = reply.get("error") or {}
            raise MosaicError(f"{name}: {error.get('type')}: {error.get('message')}")
        return reply

    def command(self, name: str, path: Path, *arguments: str) -> str:
        """Run a command of Mosaic's; return what it logs.

        Raises:
            MosaicError: it failed.
        """
        module = f"mosaic.cmd.{name}"
        return self._run("-m", module, "--snapshot", str(self._plain(path)), *arguments)[1]

    def snapshot(self, path: Path) -> dict[str, Any]:
        """Return the snapshot that Mosaic writes as JSON.

        Raises:
            MosaicError: it failed.
        """
        written = self._scratch / f"{_stem(path)}.written.json"
        if not written.exists():
            self.command("get_json_snapshot", path, "--output_file", str(written))
        found: dict[str, Any] = json.loads(written.read_bytes())
        return found

    def device_peak(self, path: Path, device: int) -> str:
        """Return the peak of one device by Mosaic's library, which has no tool for that.

        Raises:
            MosaicError: it failed.
        """
        return self._run("-c", _DEVICE_PEAK, str(self._plain(path)), str(device))[0].strip()

    def _run(self, *arguments: str) -> tuple[str, str]:
        if arguments not in self._done:
            self._done[arguments] = self._run_anew(arguments)
        done = self._done[arguments]
        if isinstance(done, MosaicError):
            raise done
        return done

    def _run_anew(self, arguments: tuple[str, ...]) -> tuple[str, str] | MosaicError:
        try:
            done = subprocess.run(
                [self._python, *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=self._patience,
                cwd=self._scratch,
                env=self._environment,
            )
        except subprocess.TimeoutExpired:
            return MosaicError(f"no answer in {self._patience:g} s")
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            return MosaicError(lines[-1])
        return done.stdout, done.stderr

    def _plain(self, path: Path) -> Path:
        """Return the file, unpacked if need be: Mosaic reads no packed ones."""
        if path.suffix not in (".gz", ".zst"):
            return path.absolute()
        plain = self._scratch / _stem(path)
        if not plain.exists():
            data = path.read_bytes()
            if path.suffix == ".gz":
                plain.write_bytes(gzip.decompress(data))
            else:
                plain.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(data))
        return plain


def _stem(path: Path) -> str:
    """Return a name that tells files of one name in several folders apart."""
    inner = path.name.removesuffix(path.suffix) if path.suffix in (".gz", ".zst") else path.name
    return f"{path.absolute().parent.name}.{inner}"

"""Fuzz one target in this process: python -m dev.fuzz.one TARGET and the options of libFuzzer."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["snapreport"]):
    from dev.fuzz.targets import run

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, lambda data: run(name, data))
    atheris.Fuzz()

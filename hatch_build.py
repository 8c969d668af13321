"""Compile the native library into the wheel, with the C compiler there is or the one of ziglang."""

from __future__ import annotations

import importlib.util
import platform
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("snapreport", "ground", "native")


def compiling(root: str) -> ModuleType:
    """Return the package's module that compiles; the package needs more than a build has."""
    path = Path(root, FOLDER, "compiling.py")
    spec = importlib.util.spec_from_file_location("compiling", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CompileHook(BuildHookInterface[Any]):
    """Puts the library beside its sources: wheels and editable installs take it there."""

    def dependencies(self) -> list[str]:
        """Ask for a compiler where there is none."""
        module = compiling(self.root)
        return [] if module.find_compiler() else [module.ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, or end the build in one line."""
        module = compiling(self.root)
        try:
            library: Path = module.compile_library(Path(self.root, FOLDER))
        except module.CompileError as error:
            self.app.abort(f"snapreport's native library cannot be made: {error}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"
        build_data["artifacts"].append(f"/{library.relative_to(self.root).as_posix()}")


def _platform() -> str:
    """Return the platform's part of a wheel's tag; compilers make one kind of machine's code."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    return name.replace("-", "_").replace(".", "_")

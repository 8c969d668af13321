"""Compile the native library into the wheel, with the C compiler there is or the one of ziglang.

For this machine; or for the platform that ``SNAPREPORT_PLATFORM`` names by its tag, with ziglang.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement

FOLDER = Path("snapreport", "ground", "native")
PLATFORM = "SNAPREPORT_PLATFORM"


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
    """Puts the library beside its sources, where wheels and editable installs take it.

    One for another platform goes into the wheel alone: a checkout keeps its own.
    """

    def dependencies(self) -> list[str]:
        """Ask for a compiler where there is none."""
        module = compiling(self.root)
        target = module.PLATFORMS.get(os.environ.get(PLATFORM))
        return [] if module.find_compiler(target) else [module.ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or end the build in one line."""
        module = compiling(self.root)
        wanted = os.environ.get(PLATFORM)
        target = module.PLATFORMS.get(wanted)
        if wanted and target is None:
            self.app.abort(f"{PLATFORM} must be one of {', '.join(module.PLATFORMS)}: {wanted}")
        self._made = tempfile.TemporaryDirectory()
        into = Path(self._made.name) if target else None
        try:
            library: Path = module.compile_library(Path(self.root, FOLDER), target, into)
        except module.CompileError as error:
            self.app.abort(f"snapreport's native library cannot be made: {error}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wanted or _platform()}"
        place = (FOLDER / library.name).as_posix()
        if target:
            build_data["force_include"][str(library)] = place
        else:
            build_data["artifacts"].append(f"/{place}")
        if version == "standard":
            bill = Path(self._made.name, "snapreport.cdx.json")
            bill.write_text(self._bill_of_materials(library, module.ZIG if target else None))
            build_data["sbom_files"].append(str(bill))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what only the build needed."""
        self._made.cleanup()

    def _bill_of_materials(self, library: Path, compiler: str | None) -> str:
        """Return what the wheel has that was compiled, and what it needs beside it, as CycloneDX.

        Source: PEP 770; the specification of CycloneDX 1.7.
        """
        core = self.metadata.core
        ours = f"pkg:pypi/{core.name}@{self.metadata.version}"
        contained = {
            "type": "file",
            "bom-ref": library.name,
            "name": (FOLDER / library.name).as_posix(),
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}
            ],
        }
        needed = [_component(Requirement(each)) for each in core.dependencies]
        metadata: dict[str, Any] = {
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": core.name,
                "version": self.metadata.version,
                "description": core.description,
                "licenses": [{"expression": core.license_expression}],
                "purl": ours,
            }
        }
        if compiler:
            tool = {"type": "application", "name": compiler}
            tool["version"] = importlib.metadata.version(compiler)
            metadata["tools"] = {"components": [tool]}
        refs = [each["bom-ref"] for each in (contained, *needed)]
        whole = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.7",
            "version": 1,
            "metadata": metadata,
            "components": [contained, *needed],
            "dependencies": [
                {"ref": ours, "dependsOn": refs},
                *({"ref": each} for each in refs),
            ],
        }
        return json.dumps(whole, indent=2) + "\n"


def _component(needed: Requirement) -> dict[str, Any]:
    """Return a dependency, which is not in the wheel, and of which several versions will do.

    Source: the specification of version ranges, vers.
    """
    bounds = sorted(needed.specifier, key=lambda each: each.operator, reverse=True)
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{needed.name}",
        "name": needed.name,
        "versionRange": "vers:pypi/" + "|".join(map(str, bounds)),
        "isExternal": True,
        "scope": "optional" if needed.marker else "required",
        "purl": f"pkg:pypi/{needed.name}",
    }


def _platform() -> str:
    """Return the platform's part of a wheel's tag; compilers make one kind of machine's code."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    return name.replace("-", "_").replace(".", "_")

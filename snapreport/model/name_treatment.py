"""What was done to the names in a history: paths as recorded, shortened, or taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KEPT, SHORT, REDACTED = "kept", "short", "redacted"
_DONE = (KEPT, SHORT, REDACTED)


@dataclass(frozen=True)
class NamesDone:
    """How the names of a history were treated; bundles keep it in the row ``names`` of ``meta``."""

    done: str = KEPT
    """``kept``: as in the file. ``short``: file names without what lies before their package,
    Python or the project, and homes as ``~``. ``redacted``: only what everyone knows is left."""
    project: str = ""
    """The folder that short names of the project's files begin with; empty where there is none."""
    packages: tuple[str, ...] = ()
    """The folders that short names of packages' files begin with, in order."""
    functions: bool = False
    """Functions of the project are redacted, too."""

    def as_plain(self) -> dict[str, Any]:
        """Return it as a bundle stores it."""
        return {
            "done": self.done,
            "project": self.project,
            "packages": list(self.packages),
            "functions": self.functions,
        }


AS_RECORDED = NamesDone()


def names_done(value: Any) -> NamesDone:
    """Read what a bundle states; a bundle that states nothing has its names as recorded.

    Raises:
        ValueError: it is not from ``as_plain()``.
    """
    if value is None:
        return AS_RECORDED
    if isinstance(value, dict):
        done, project = value.get("done"), value.get("project")
        packages, functions = value.get("packages"), value.get("functions")
        if (
            done in _DONE
            and isinstance(project, str)
            and isinstance(packages, list)
            and all(isinstance(package, str) for package in packages)
            and isinstance(functions, bool)
        ):
            return NamesDone(str(done), project, tuple(packages), functions)
    raise ValueError("what was done to its names is not understood")


@dataclass(frozen=True)
class NamesWanted:
    """How ``load()`` should treat the names in a file; by default they are shortened."""

    keep_paths: bool = False
    redact: bool = False
    redact_functions: bool = False
    """Redacts everything else, too."""
    salt: str | None = None

    def __post_init__(self) -> None:
        """Check that they go together.

        Raises:
            ValueError: paths cannot be kept in what is redacted.
        """
        if self.keep_paths and self.redacted:
            raise ValueError("keep_paths and redact contradict each other")

    @property
    def redacted(self) -> bool:
        """Whether anything is."""
        return self.redact or self.redact_functions


SHORT_SALT = (
    "has fewer than 16 characters, so others could try all of them and then guess names; make one"
    " with `openssl rand -hex 16`, and keep it to yourself"
)
"""Why a short salt is refused."""


def is_short_salt(salt: str) -> bool:
    """Say whether a salt could be found by trying; an empty one means an unset variable."""
    return len(salt) < 16
